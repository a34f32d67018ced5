//! Attempts on workers, with the real `serve` and real `worker` processes, each with its own directory.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use super::postgres::on_postgres;
use super::scripted::{place_with_script_at, run_to_success, shell_script, worktree_file};
use super::{Place, Serving};

/// A place whose pool runs on workers.
fn with_workers(place: Place, script: &Value) -> Place {
    place_with_script_at(place, &[], script, |kind, spec| {
        if kind == "RunnerPool" {
            spec["runsOn"] = json!("workers");
            spec["capacity"] = json!(2);
        }
    })
}

/// The same, with a check command that other workers run.
fn with_checks_on_workers(place: Place, command: &str) -> Place {
    let script = shell_script("sleep 3; date +%N > src/when.txt; echo done > src/done.txt");
    place_with_script_at(place, &[], &script, |kind, spec| match kind {
        "RunnerPool" => {
            spec["runsOn"] = json!("workers");
            spec["checksOn"] = json!("workers");
            spec["capacity"] = json!(2);
        }
        "AgentStack" => spec["verificationCommands"] = json!([command]),
        _ => {}
    })
}

/// A server with a short lease of workers.
fn serve(place: &Place) -> Serving {
    let serving = Serving::with(&place.scratch, "127.0.0.1:0", &["--worker-lease", "8s"]);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    serving
}

/// A running `bailiwick worker`, stopped on drop.
struct WorkerProcess {
    child: Child,
    name: String,
    directory: PathBuf,
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A machine for a worker, without files of the server.
struct Machine(Scratch);

impl Machine {
    fn new() -> Self {
        Self(Scratch::bare())
    }

    fn command(&self, serving: &Serving, token: &str, more: &[&str]) -> std::process::Command {
        std::fs::write(self.0.place().join("token"), token).unwrap();
        let mut command = self.0.command(crate::BAILIWICK);
        let server = format!("http://{}", serving.address);
        command.current_dir(self.0.place());
        command.args(["worker", "--server", &server, "--pool", "inside"]);
        command.args(["--join-token-file", "token", "--directory", "own"]).args(more);
        command
    }

    fn start(&self, place: &Place, serving: &Serving, more: &[&str]) -> WorkerProcess {
        self.start_with(&new_token(place), serving, more)
    }

    fn start_with(&self, token: &str, serving: &Serving, more: &[&str]) -> WorkerProcess {
        let log = std::fs::File::create(self.0.place().join("worker.log")).unwrap();
        let mut command = self.command(serving, token, more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let name = line.trim().strip_prefix("worker ").unwrap_or_else(|| {
            let log = std::fs::read_to_string(self.0.place().join("worker.log")).unwrap();
            panic!("it does not start: {line} {log}")
        });
        let name = name.to_owned();
        WorkerProcess { child, name, directory: self.0.place().join("own") }
    }

    /// Whether the worker has started a check command.
    fn has_started_a_check(&self) -> bool {
        let log = std::fs::read_to_string(self.0.place().join("worker.log")).unwrap();
        log.lines().any(|line| line.contains(".check-") && line.contains("begins"))
    }

    fn start_refused(&self, serving: &Serving, token: &str) -> Ran {
        Ran::from(self.command(serving, token, &[]).output().unwrap())
    }
}

fn new_token(place: &Place) -> String {
    place.run(&["workers", "token", "--pool", "inside"]).expect_code(0).out.trim().to_owned()
}

fn workers(place: &Place) -> Vec<Value> {
    place.json(&["workers", "list"]).as_array().unwrap().clone()
}

/// Waits for a worker with a running attempt. Returns its name.
fn busy_worker(place: &Place) -> String {
    place.wait_for("a worker with an attempt", || {
        let all = workers(place);
        let busy_worker = all.iter().find(|worker| worker["running"] == 1);
        busy_worker.map(|worker| worker["name"].as_str().unwrap().to_owned())
    })
}

/// The bytes of all files below a directory.
fn all_bytes(directory: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            bytes.extend(all_bytes(&path));
        } else {
            bytes.extend(std::fs::read(&path).unwrap_or_default());
        }
    }
    bytes
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn start_run(place: &Place) -> String {
    let output = place.json(&["runs", "start", "app", "fixer", "--task", "Do it."]);
    output["run"].as_str().unwrap().to_owned()
}

fn wait_for_end(place: &Place, name: &str) -> Value {
    place.wait_for("its end", || {
        let run = place.json(&["get", "run", name]);
        let phase = run["status"]["phase"].as_str().unwrap_or_default().to_owned();
        matches!(phase.as_str(), "succeeded" | "failed" | "cancelled").then_some(run)
    })
}

/// The cursors of the events of a run, in the printed order.
fn cursors(place: &Place, name: &str) -> Vec<u64> {
    let logs = place.run(&["runs", "logs", name, "-o", "json"]).expect_code(0).out;
    let all = serde_json::Deserializer::from_str(&logs).into_iter::<Value>().map(Result::unwrap);
    let all = all.flat_map(|one| one.as_array().cloned().unwrap_or_else(|| vec![one]));
    all.map(|event| event["cursor"].as_u64().unwrap()).collect()
}

fn runs_on_two_workers(place: Place) {
    let place = with_workers(place, &shell_script("echo done > src/done.txt; cat src/kept.txt"));
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let token = new_token(&place);
    let first = one.start_with(&token, &serving, &["--label", "zone=a"]);
    let used = two.start_refused(&serving, &token).expect_code(2);
    assert!(used.err.contains("unknown, used, expired or for another pool"), "{}", used.err);
    let wrong = two.start_refused(&serving, "bwj_wrong").expect_code(2);
    assert!(wrong.err.contains("bailiwick workers token"), "{}", wrong.err);
    let second = two.start(&place, &serving, &[]);
    let listed = workers(&place);
    assert_eq!(listed.len(), 2, "{listed:#?}");
    let found = listed.iter().find(|worker| worker["name"] == first.name.as_str()).unwrap();
    assert_eq!((&found["labels"]["zone"], &found["state"]), (&json!("a"), &json!("active")));
    assert_eq!(found["capabilities"]["sandbox"], "full");
    assert!(found["capabilities"]["programs"]["script"].is_string(), "{found:#}");
    let mut agents = Vec::new();
    for _ in 0..2 {
        let (name, agent) = run_to_success(&place);
        assert_eq!(worktree_file(&place, &agent, "src/done.txt"), "done\n");
        let logs = place.run(&["runs", "logs", &name]).expect_code(0).out;
        assert!(logs.contains("src/try.sh"), "{logs}");
        // The server verified it, on a tree that the server has computed.
        let notes = place.run(&["ledger", "show", &agent]).expect_code(0).out;
        assert!(notes.contains("verified"), "{notes}");
        let diff = place.run(&["diff", &agent]).expect_code(0).out;
        assert!(diff.contains("src/done.txt"), "{diff}");
        agents.push(agent);
    }
    // No worker has the credential of the forge. Each has its own credential, and no files of ended runs.
    for worker in [&first, &second] {
        let bytes = all_bytes(&worker.directory);
        assert!(contains(&bytes, "bwc_"), "positive control: its own credential is found");
        assert!(!contains(&bytes, &place.forge.token()));
        for agent in &agents {
            place.wait_for("a clean worker", || {
                let worktree = worker.directory.join("state/worktrees").join(agent);
                (!worktree.exists()).then_some(())
            });
        }
    }
}

#[test]
fn attempts_run_on_workers_and_their_work_is_checked_on_the_server() {
    runs_on_two_workers(Place::bare());
}

#[test]
fn attempts_run_on_workers_of_a_server_with_postgresql() {
    runs_on_two_workers(on_postgres());
}

#[test]
fn json_log_lines_name_their_attempt() {
    let place = with_workers(Place::bare(), &shell_script("echo done > src/done.txt"));
    let serving = serve(&place);
    let machine = Machine::new();
    let worker = machine.start(&place, &serving, &["--log-format", "json"]);
    let (_, agent) = run_to_success(&place);
    drop(worker);
    let log = std::fs::read_to_string(machine.0.place().join("worker.log")).unwrap();
    let read = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
    let lines: Vec<Value> = log.lines().map(read).collect();
    let contains = |line: &&Value, part: &str| {
        line["fields"]["said"].as_str().is_some_and(|message| message.contains(part))
    };
    let join_line = lines.iter().find(|line| contains(line, "of the pool inside")).unwrap();
    assert!(join_line["span"].is_null(), "the line names an attempt: {join_line}");
    let start_line = lines.iter().find(|line| contains(line, "begins")).unwrap();
    assert_eq!(start_line["span"]["attempt"], agent.as_str(), "{log}");
    assert_eq!(start_line["span"]["claim"], 1, "{log}");
}

#[test]
fn attempt_of_a_killed_worker_is_run_by_another_one_once() {
    let script = shell_script("echo begun; sleep 3; echo done > src/done.txt");
    let place = with_workers(Place::bare(), &script);
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let first = one.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy_worker(&place), first.name);
    place.wait_for("its first events", || {
        let logs = place.run(&["runs", "logs", &name]).out;
        (!logs.trim().is_empty()).then_some(())
    });
    let second = two.start(&place, &serving, &[]);
    drop(first);
    let run = wait_for_end(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert_eq!(run["status"]["attempts"].as_array().unwrap().len(), 1, "{run:#}");
    let agent = run["status"]["attempts"][0].as_str().unwrap();
    assert_eq!(worktree_file(&place, agent, "src/done.txt"), "done\n");
    let ledger = place.run(&["ledger", "show", agent]).expect_code(0).out;
    assert!(ledger.contains(&second.name), "{ledger}");
    // The first worker restarts, and deletes its outdated attempt.
    let restarted = one.start_with("", &serving, &[]);
    place.wait_for("an idle worker", || {
        let attempts = std::fs::read_dir(restarted.directory.join("attempts")).unwrap().count();
        (attempts == 0).then_some(())
    });
    assert_eq!(place.json(&["get", "run", &name])["status"], run["status"], "nothing changed");
}

#[test]
fn agent_continues_while_the_server_is_down() {
    let script = shell_script("echo begun; sleep 6; echo done > src/done.txt");
    let place = with_workers(Place::bare(), &script);
    let serving = serve(&place);
    let (machine, address) = (Machine::new(), serving.address.clone());
    let worker = machine.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy_worker(&place), worker.name);
    drop(serving);
    // Longer than a lease, and than the agent runs.
    std::thread::sleep(std::time::Duration::from_secs(12));
    let _serving = Serving::with(&place.scratch, &address, &["--worker-lease", "8s"]);
    let run = wait_for_end(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    // Every event has arrived exactly once.
    let cursors = cursors(&place, &name);
    assert!(cursors.len() > 3 && cursors.is_sorted_by(|one, other| one < other), "{cursors:?}");
    let last = run["status"]["eventCursor"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(cursors.last(), Some(&last));
}

#[test]
fn run_that_no_worker_can_run_has_a_reason() {
    let script = shell_script("echo done > src/done.txt");
    let place = place_with_script_at(Place::bare(), &[], &script, |kind, spec| {
        if kind == "RunnerPool" {
            spec["runsOn"] = json!("workers");
            spec["workerLabels"] = json!({ "gpu": "yes" });
        }
    });
    let serving = serve(&place);
    let name = start_run(&place);
    let wait_for_reason = |part: &str| {
        place.wait_for("the reason", || {
            let run = place.json(&["get", "run", &name]);
            let all = run["status"]["conditions"].as_array()?.clone();
            let condition = all.iter().find(|one| one["type"] == "RunnerAssigned")?;
            let message = condition["message"].as_str().unwrap_or_default();
            (condition["status"] == "False" && message.contains(part)).then_some(())
        });
    };
    wait_for_reason(
        "no worker has joined the pool `inside`; start one: bailiwick worker --pool inside",
    );
    let (unlabelled, gpu) = (Machine::new(), Machine::new());
    let worker = unlabelled.start(&place, &serving, &[]);
    wait_for_reason("has the label gpu=yes");
    let suitable = gpu.start(&place, &serving, &["--label", "gpu=yes"]);
    let run = wait_for_end(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    let agent = run["status"]["attempts"][0].as_str().unwrap();
    let ledger = place.run(&["ledger", "show", agent]).expect_code(0).out;
    assert!(ledger.contains(&suitable.name) && !ledger.contains(&worker.name), "{ledger}");
}

#[test]
fn drained_worker_ends_and_a_cancelled_attempt_stops() {
    let place = with_workers(Place::bare(), &shell_script("echo begun; sleep 60"));
    let serving = serve(&place);
    let machine = Machine::new();
    let mut worker = machine.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy_worker(&place), worker.name);
    place.run(&["workers", "drain", &worker.name]).expect_code(0);
    let next = start_run(&place);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(worker.child.try_wait().unwrap().is_none(), "its attempt has not ended");
    place.run(&["runs", "cancel", &name]).expect_code(0);
    let run = wait_for_end(&place, &name);
    assert_eq!(run["status"]["phase"], "cancelled", "{run:#}");
    assert!(worker.child.wait().unwrap().success());
    let waiting = place.json(&["get", "run", &next]);
    assert_eq!(
        waiting["status"]["phase"], "running",
        "the attempt waits in the queue: {waiting:#}"
    );
    place.run(&["runs", "cancel", &next]).expect_code(0);
    assert_eq!(wait_for_end(&place, &next)["status"]["phase"], "cancelled");
}

fn checks_run_on_the_other_worker(place: Place) {
    let place = with_checks_on_workers(place, "test -e src/done.txt");
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let first = one.start(&place, &serving, &[]);
    // If the only worker has run the attempt, the server runs the command.
    let (_, agent) = run_to_success(&place);
    let ledger = place.run(&["ledger", "show", &agent]).expect_code(0).out;
    assert!(ledger.contains(&first.name) && ledger.contains("verified"), "{ledger}");
    assert!(!one.has_started_a_check());
    place.run(&["workers", "cordon", &first.name]).expect_code(0);
    let second = two.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy_worker(&place), second.name);
    place.run(&["workers", "uncordon", &first.name]).expect_code(0);
    let run = wait_for_end(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert!(one.has_started_a_check(), "the other worker has not run the check");
    assert!(!two.has_started_a_check(), "the worker has checked its own work");
}

#[test]
fn commands_of_checks_run_on_another_worker_than_the_attempt() {
    checks_run_on_the_other_worker(Place::bare());
}

#[test]
fn commands_of_checks_run_on_another_worker_with_postgresql() {
    checks_run_on_the_other_worker(on_postgres());
}

#[test]
fn work_is_rejected_if_a_command_fails_on_a_worker() {
    let place = with_checks_on_workers(Place::bare(), "test -e src/absent.txt");
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let _workers = [one.start(&place, &serving, &[]), two.start(&place, &serving, &[])];
    let name = start_run(&place);
    let run = wait_for_end(&place, &name);
    assert_eq!(run["status"]["phase"], "failed", "{run:#}");
    assert!(
        one.has_started_a_check() != two.has_started_a_check(),
        "not exactly one worker has run the check"
    );
    let agent = run["status"]["attempts"][0].as_str().unwrap();
    let notes = place.run(&["ledger", "show", agent]).expect_code(0).out;
    assert!(notes.contains("verification-failed"), "{notes}");
    assert!(notes.contains("quality::commands-green"), "{notes}");
}

#[test]
fn server_runs_the_command_of_a_worker_that_disappears() {
    let place = with_checks_on_workers(Place::bare(), "sleep 4; test -e src/done.txt");
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let first = one.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy_worker(&place), first.name);
    let second = two.start(&place, &serving, &[]);
    place.wait_for("a command on the second worker", || two.has_started_a_check().then_some(()));
    drop(second);
    let run = wait_for_end(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert!(!one.has_started_a_check());
}

/// A token for one attempt, as the operator creates it for the pod of a Job.
fn token_of_attempt(place: &Place, agent: &str) -> String {
    let text = format!("bwj_for_{agent}");
    let token = bailiwick_fleet::workers::NewWorkerToken {
        digest: bailiwick_model::Sha256Hex::of(&text).to_string(),
        pool: "inside".to_owned(),
        created_by: "operator".to_owned(),
        valid_millis: 3_600_000,
        agent: Some(agent.to_owned()),
    };
    place.with_store(async |store| store.add_worker_token(&token).await.unwrap());
    text
}

/// A place whose pool runs in Kubernetes Jobs, and a server.
fn with_jobs() -> (Place, Serving) {
    let script = shell_script("echo done > src/done.txt");
    let place = place_with_script_at(Place::bare(), &[], &script, |kind, spec| {
        if kind == "RunnerPool" {
            spec["runsOn"] = json!("jobs");
            spec["capacity"] = json!(2);
        }
    });
    let serving = serve(&place);
    (place, serving)
}

/// The agent of the attempt of a run that waits for its Job.
fn waiting_attempt(place: &Place, run: &str) -> String {
    place.wait_for("an attempt in the queue", || {
        let attempts = place.with_store(async |store| store.job_attempts().await.unwrap());
        let run_object = place.json(&["get", "run", run]);
        let agent = run_object["status"]["attempts"][0].as_str()?.to_owned();
        attempts.iter().any(|attempt| attempt.agent == agent).then_some(agent)
    })
}

fn wait_for_runner_assigned(place: &Place, run: &str, reason: &str, part: &str) {
    place.wait_for(reason, || {
        let run = place.json(&["get", "run", run]);
        let all = run["status"]["conditions"].as_array()?.clone();
        let found = all.iter().find(|one| one["type"] == "RunnerAssigned")?;
        let message = found["message"].as_str().unwrap_or_default();
        (found["reason"] == reason && message.contains(part)).then_some(())
    });
}

#[test]
fn worker_of_a_job_runs_its_own_attempt_and_ends() {
    let (place, serving) = with_jobs();
    let (first, second) = (start_run(&place), start_run(&place));
    let (other, own) = (waiting_attempt(&place, &first), waiting_attempt(&place, &second));
    wait_for_runner_assigned(
        &place,
        &first,
        "NoCapacity",
        "the operator has not started its Job yet",
    );
    // A worker with a token of the pool gets neither attempt.
    let token = new_token(&place);
    let unassigned = Machine::new();
    let output =
        unassigned.command(&serving, &token, &["--once", "--wait", "2s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let machine = Machine::new();
    let token = token_of_attempt(&place, &own);
    let output = machine.command(&serving, &token, &["--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let run = wait_for_end(&place, &second);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert_eq!(worktree_file(&place, &own, "src/done.txt"), "done\n");
    let waiting = place.with_store(async |store| store.queued_attempt(&other).await.unwrap());
    assert_eq!(waiting.unwrap().fence, 0, "the older attempt was not for that worker");
    // Its token is used, and its credential gives access to nothing else.
    let output = Machine::new().command(&serving, &token, &["--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(66), "{output:?}");
    let output = machine.command(&serving, "", &["--once", "--wait", "2s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}

/// The cluster gives the worker a token of the identity. Its agent gets it as a file, and nothing else of the pod.
#[test]
fn agent_in_a_job_gets_the_token_of_its_identity_and_cannot_open_the_values_of_the_pod() {
    let token = "token-of-the-identity-of-fixer";
    let machine = Machine::new();
    let values = machine.0.place().join("values");
    std::fs::create_dir(&values).unwrap();
    std::fs::write(values.join("IDENTITY_TOKEN"), token).unwrap();
    let script = format!(
        "sha256sum < \"$IDENTITY_TOKEN_FILE\" > src/token.txt\necho \"[${{IDENTITY_TOKEN-none}}]\" > src/variable.txt\n\
         cat {}/IDENTITY_TOKEN && echo OPEN > src/values.txt || echo CLOSED > src/values.txt\n",
        values.display()
    );
    let script = shell_script(&script);
    let place = place_with_script_at(Place::bare(), &[], &script, |kind, spec| match kind {
        "RunnerPool" => {
            spec["runsOn"] = json!("jobs");
            spec["job"] = json!({ "deadline": "1h" });
        }
        "AgentServiceAccount" => {
            spec["automountServiceAccountToken"] = json!(true);
            spec["tokenAudience"] = json!("vault");
        }
        _ => {}
    });
    let serving = serve(&place);
    let run = start_run(&place);
    let agent = waiting_attempt(&place, &run);
    let grants = place.with_store(async |store| store.queued_attempt(&agent).await.unwrap());
    let identity = grants.unwrap().pod_grants.identity.unwrap();
    assert_eq!(identity.token.unwrap().audience, "vault");
    let join = token_of_attempt(&place, &agent);
    let output = machine.command(&serving, &join, &["--once", "--values", "values"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let run = wait_for_end(&place, &run);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    let digest = bailiwick_model::Sha256Hex::of(token).to_string();
    assert!(worktree_file(&place, &agent, "src/token.txt").starts_with(&digest));
    assert_eq!(worktree_file(&place, &agent, "src/variable.txt"), "[none]\n");
    assert_eq!(worktree_file(&place, &agent, "src/values.txt"), "CLOSED\n");
    // The control plane knows the name of the value, and never the value.
    let bytes = all_bytes(&place.scratch.state());
    assert!(contains(&bytes, "IDENTITY_TOKEN"), "positive control: its name is found");
    assert!(!contains(&bytes, token));
}

#[test]
fn worker_without_the_values_of_its_pod_fails_its_attempt_with_the_reason() {
    let script = shell_script("echo done > src/done.txt");
    let place = place_with_script_at(Place::bare(), &[], &script, |kind, spec| match kind {
        "RunnerPool" => {
            spec["runsOn"] = json!("jobs");
            spec["job"] = json!({ "deadline": "1h" });
        }
        "AgentServiceAccount" => {
            spec["automountServiceAccountToken"] = json!(true);
            spec["tokenAudience"] = json!("vault");
        }
        _ => {}
    });
    let serving = serve(&place);
    let run = start_run(&place);
    let agent = waiting_attempt(&place, &run);
    let join = token_of_attempt(&place, &agent);
    let output = Machine::new().command(&serving, &join, &["--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let run = wait_for_end(&place, &run);
    assert_eq!(run["status"]["phase"], "failed", "{run:#}");
    let text = run["status"].to_string();
    assert!(text.contains("no value IDENTITY_TOKEN of a pod"), "{run:#}");
}

#[test]
fn problem_of_a_job_is_a_condition_of_the_run() {
    use bailiwick_fleet::workers::JobRecord;
    use bailiwick_resources::PodProblem;
    let (place, serving) = with_jobs();
    let run = start_run(&place);
    let agent = waiting_attempt(&place, &run);
    let problem = |ended: u64, problem: PodProblem, detail: &str| JobRecord {
        ended,
        problem: Some(problem),
        detail: detail.to_owned(),
    };
    let image = problem(0, PodProblem::ImagePullFailed, "no such image");
    let recorded =
        place.with_store(async |store| store.record_job(&agent, 0, &image).await.unwrap());
    assert!(recorded);
    wait_for_runner_assigned(&place, &run, "ImagePullFailed", "no such image");
    // A pod with an insufficient sandbox reports what is missing.
    let machine = Machine::new();
    let worker = machine.command(&serving, &token_of_attempt(&place, &agent), &["--once"]);
    let arguments: Vec<_> = worker.get_args().map(std::ffi::OsStr::to_owned).collect();
    let weak = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let mut command = machine.0.command("unshare");
    command.current_dir(machine.0.place()).args(["-Ur", "sh", "-c", weak]);
    let output = command.arg(worker.get_program()).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(65), "{errors}");
    assert!(errors.contains("missing: user namespace"), "{errors}");
    let weak = problem(1, PodProblem::SandboxInsufficient, "missing: user namespace");
    // The update of an outdated operator is refused.
    let is_late_accepted =
        place.with_store(async |store| store.give_up_job(&agent, 7, &weak).await.unwrap());
    assert!(!is_late_accepted);
    let is_accepted =
        place.with_store(async |store| store.give_up_job(&agent, 0, &weak).await.unwrap());
    assert!(is_accepted);
    let run_object = wait_for_end(&place, &run);
    assert_eq!(run_object["status"]["phase"], "failed", "{run_object:#}");
    wait_for_runner_assigned(&place, &run, "SandboxInsufficient", "missing: user namespace");
}
