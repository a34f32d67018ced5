//! Attempts on workers, with the real `serve` and real `worker` processes, each with a directory of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use super::postgres::on_postgres;
use super::scripted::{made, play, ran, scripted_at};
use super::{Place, Serving};

/// A place whose pool runs on workers.
fn with_workers(place: Place, script: &Value) -> Place {
    scripted_at(place, &[], script, |kind, spec| {
        if kind == "RunnerPool" {
            spec["runsOn"] = json!("workers");
            spec["capacity"] = json!(2);
        }
    })
}

/// The same, with a command of its checks that other workers run.
fn with_checks_on_workers(place: Place, command: &str) -> Place {
    let script = play("sleep 3; date +%N > src/when.txt; echo done > src/done.txt");
    scripted_at(place, &[], &script, |kind, spec| match kind {
        "RunnerPool" => {
            spec["runsOn"] = json!("workers");
            spec["checksOn"] = json!("workers");
            spec["capacity"] = json!(2);
        }
        "AgentStack" => spec["verificationCommands"] = json!([command]),
        _ => {}
    })
}

/// A server for which silent workers are absent soon.
fn serve(place: &Place) -> Serving {
    let serving = Serving::with(&place.scratch, "127.0.0.1:0", &["--worker-lease", "8s"]);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    serving
}

/// `bailiwick worker`, until it is dropped.
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

/// A machine for workers: nothing of the server is there.
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

    /// Whether a worker has begun a command of a check.
    fn has_begun_a_check(&self) -> bool {
        let log = std::fs::read_to_string(self.0.place().join("worker.log")).unwrap();
        log.lines().any(|line| line.contains(".check-") && line.contains("begins"))
    }

    fn refused(&self, serving: &Serving, token: &str) -> Ran {
        Ran::from(self.command(serving, token, &[]).output().unwrap())
    }
}

fn new_token(place: &Place) -> String {
    place.run(&["workers", "token", "--pool", "inside"]).expect_code(0).out.trim().to_owned()
}

fn workers(place: &Place) -> Vec<Value> {
    place.json(&["workers", "list"]).as_array().unwrap().clone()
}

/// The worker that runs an attempt now.
fn busy(place: &Place) -> String {
    place.until("a worker with an attempt", || {
        let all = workers(place);
        let busy = all.iter().find(|worker| worker["running"] == 1);
        busy.map(|worker| worker["name"].as_str().unwrap().to_owned())
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
    let said = place.json(&["runs", "start", "app", "fixer", "--task", "Do it."]);
    said["run"].as_str().unwrap().to_owned()
}

fn ended(place: &Place, name: &str) -> Value {
    place.until("its end", || {
        let run = place.json(&["get", "run", name]);
        let phase = run["status"]["phase"].as_str().unwrap_or_default().to_owned();
        matches!(phase.as_str(), "succeeded" | "failed" | "cancelled").then_some(run)
    })
}

/// The cursors of the events of a run, as they are shown.
fn cursors(place: &Place, name: &str) -> Vec<u64> {
    let logs = place.run(&["runs", "logs", name, "-o", "json"]).expect_code(0).out;
    let all = serde_json::Deserializer::from_str(&logs).into_iter::<Value>().map(Result::unwrap);
    let all = all.flat_map(|one| one.as_array().cloned().unwrap_or_else(|| vec![one]));
    all.map(|event| event["cursor"].as_u64().unwrap()).collect()
}

fn runs_on_two_workers(place: Place) {
    let place = with_workers(place, &play("echo done > src/done.txt; cat src/kept.txt"));
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let token = new_token(&place);
    let first = one.start_with(&token, &serving, &["--label", "zone=a"]);
    let used = two.refused(&serving, &token).expect_code(2);
    assert!(used.err.contains("unknown, used, expired or for another pool"), "{}", used.err);
    let wrong = two.refused(&serving, "bwj_wrong").expect_code(2);
    assert!(wrong.err.contains("bailiwick workers token"), "{}", wrong.err);
    let second = two.start(&place, &serving, &[]);
    let listed = workers(&place);
    assert_eq!(listed.len(), 2, "{listed:#?}");
    let found = listed.iter().find(|worker| worker["name"] == first.name.as_str()).unwrap();
    assert_eq!((&found["labels"]["zone"], &found["state"]), (&json!("a"), &json!("active")));
    assert_eq!(found["capabilities"]["sandbox"], "full");
    assert!(found["capabilities"]["programs"]["script"].is_string(), "{found:#}");
    let mut ran_by = Vec::new();
    for _ in 0..2 {
        let (name, agent) = ran(&place);
        assert_eq!(made(&place, &agent, "src/done.txt"), "done\n");
        let logs = place.run(&["runs", "logs", &name]).expect_code(0).out;
        assert!(logs.contains("src/try.sh"), "{logs}");
        // It was checked here, on a tree that the server has computed.
        let notes = place.run(&["ledger", "show", &agent]).expect_code(0).out;
        assert!(notes.contains("verified"), "{notes}");
        let diff = place.run(&["diff", &agent]).expect_code(0).out;
        assert!(diff.contains("src/done.txt"), "{diff}");
        ran_by.push(agent);
    }
    // Neither has the credential of the forge, or the database; each has one of its own, and nothing of ended runs.
    for worker in [&first, &second] {
        let bytes = all_bytes(&worker.directory);
        assert!(contains(&bytes, "bwc_"), "the control: its own credential is there");
        assert!(!contains(&bytes, &place.forge.token()));
        for agent in &ran_by {
            place.until("a clean worker", || {
                let left = worker.directory.join("state/worktrees").join(agent);
                (!left.exists()).then_some(())
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
fn each_line_of_a_log_as_json_names_its_attempt() {
    let place = with_workers(Place::bare(), &play("echo done > src/done.txt"));
    let serving = serve(&place);
    let machine = Machine::new();
    let worker = machine.start(&place, &serving, &["--log-format", "json"]);
    let (_, agent) = ran(&place);
    drop(worker);
    let log = std::fs::read_to_string(machine.0.place().join("worker.log")).unwrap();
    let read = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
    let lines: Vec<Value> = log.lines().map(read).collect();
    let says = |line: &&Value, part: &str| {
        line["fields"]["said"].as_str().is_some_and(|said| said.contains(part))
    };
    let joined = lines.iter().find(|line| says(line, "of the pool inside")).unwrap();
    assert!(joined["span"].is_null(), "it is about no attempt: {joined}");
    let begun = lines.iter().find(|line| says(line, "begins")).unwrap();
    assert_eq!(begun["span"]["attempt"], agent.as_str(), "{log}");
    assert_eq!(begun["span"]["claim"], 1, "{log}");
}

#[test]
fn attempt_of_a_killed_worker_is_run_by_another_one_once() {
    let script = play("echo begun; sleep 3; echo done > src/done.txt");
    let place = with_workers(Place::bare(), &script);
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let first = one.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy(&place), first.name);
    place.until("its first events", || {
        let logs = place.run(&["runs", "logs", &name]).out;
        (!logs.trim().is_empty()).then_some(())
    });
    let second = two.start(&place, &serving, &[]);
    drop(first);
    let run = ended(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert_eq!(run["status"]["attempts"].as_array().unwrap().len(), 1, "{run:#}");
    let agent = run["status"]["attempts"][0].as_str().unwrap();
    assert_eq!(made(&place, agent, "src/done.txt"), "done\n");
    let by = place.run(&["ledger", "show", agent]).expect_code(0).out;
    assert!(by.contains(&second.name), "{by}");
    // The first one comes back: what it has is not wanted any more.
    let again = one.start_with("", &serving, &[]);
    place.until("an idle worker", || {
        let kept = std::fs::read_dir(again.directory.join("attempts")).unwrap().count();
        (kept == 0).then_some(())
    });
    assert_eq!(place.json(&["get", "run", &name])["status"], run["status"], "nothing changed");
}

#[test]
fn agent_works_on_while_the_server_is_away() {
    let script = play("echo begun; sleep 6; echo done > src/done.txt");
    let place = with_workers(Place::bare(), &script);
    let serving = serve(&place);
    let (machine, address) = (Machine::new(), serving.address.clone());
    let worker = machine.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy(&place), worker.name);
    drop(serving);
    // Longer than a lease, and than the agent works.
    std::thread::sleep(std::time::Duration::from_secs(12));
    let _serving = Serving::with(&place.scratch, &address, &["--worker-lease", "8s"]);
    let run = ended(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    // Every event has arrived, each once.
    let cursors = cursors(&place, &name);
    assert!(cursors.len() > 3 && cursors.is_sorted_by(|one, other| one < other), "{cursors:?}");
    let last = run["status"]["eventCursor"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(cursors.last(), Some(&last));
}

#[test]
fn run_that_no_worker_can_take_says_why() {
    let script = play("echo done > src/done.txt");
    let place = scripted_at(Place::bare(), &[], &script, |kind, spec| {
        if kind == "RunnerPool" {
            spec["runsOn"] = json!("workers");
            spec["workerLabels"] = json!({ "gpu": "yes" });
        }
    });
    let serving = serve(&place);
    let name = start_run(&place);
    let waits = |part: &str| {
        place.until("the reason", || {
            let run = place.json(&["get", "run", &name]);
            let all = run["status"]["conditions"].as_array()?.clone();
            let told = all.iter().find(|one| one["type"] == "RunnerAssigned")?;
            let message = told["message"].as_str().unwrap_or_default();
            (told["status"] == "False" && message.contains(part)).then_some(())
        });
    };
    waits("no worker has joined the pool `inside`; start one: bailiwick worker --pool inside");
    let (plain, gpu) = (Machine::new(), Machine::new());
    let worker = plain.start(&place, &serving, &[]);
    waits("has the label gpu=yes");
    let suitable = gpu.start(&place, &serving, &["--label", "gpu=yes"]);
    let run = ended(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    let agent = run["status"]["attempts"][0].as_str().unwrap();
    let by = place.run(&["ledger", "show", agent]).expect_code(0).out;
    assert!(by.contains(&suitable.name) && !by.contains(&worker.name), "{by}");
}

#[test]
fn drained_worker_ends_and_a_cancelled_attempt_stops() {
    let place = with_workers(Place::bare(), &play("echo begun; sleep 60"));
    let serving = serve(&place);
    let machine = Machine::new();
    let mut worker = machine.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy(&place), worker.name);
    place.run(&["workers", "drain", &worker.name]).expect_code(0);
    let next = start_run(&place);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(worker.child.try_wait().unwrap().is_none(), "its attempt has not ended");
    place.run(&["runs", "cancel", &name]).expect_code(0);
    let run = ended(&place, &name);
    assert_eq!(run["status"]["phase"], "cancelled", "{run:#}");
    assert!(worker.child.wait().unwrap().success());
    let waiting = place.json(&["get", "run", &next]);
    assert_eq!(waiting["status"]["phase"], "running", "nobody has begun it: {waiting:#}");
    place.run(&["runs", "cancel", &next]).expect_code(0);
    assert_eq!(ended(&place, &next)["status"]["phase"], "cancelled");
}

fn checks_run_on_the_other_worker(place: Place) {
    let place = with_checks_on_workers(place, "test -e src/done.txt");
    let serving = serve(&place);
    let (one, two) = (Machine::new(), Machine::new());
    let first = one.start(&place, &serving, &[]);
    // With one worker, which has run the attempt, the server runs the command.
    let (_, agent) = ran(&place);
    let by = place.run(&["ledger", "show", &agent]).expect_code(0).out;
    assert!(by.contains(&first.name) && by.contains("verified"), "{by}");
    assert!(!one.has_begun_a_check());
    place.run(&["workers", "cordon", &first.name]).expect_code(0);
    let second = two.start(&place, &serving, &[]);
    let name = start_run(&place);
    assert_eq!(busy(&place), second.name);
    place.run(&["workers", "uncordon", &first.name]).expect_code(0);
    let run = ended(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert!(one.has_begun_a_check(), "the other worker has run it");
    assert!(!two.has_begun_a_check(), "no worker checks the work that it has made");
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
    let run = ended(&place, &name);
    assert_eq!(run["status"]["phase"], "failed", "{run:#}");
    assert!(one.has_begun_a_check() != two.has_begun_a_check(), "one of them has run it");
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
    assert_eq!(busy(&place), first.name);
    let second = two.start(&place, &serving, &[]);
    place.until("a command on the second worker", || two.has_begun_a_check().then_some(()));
    drop(second);
    let run = ended(&place, &name);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert!(!one.has_begun_a_check());
}

/// A token for one attempt, as the operator makes it for the pod of a Job.
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
    let script = play("echo done > src/done.txt");
    let place = scripted_at(Place::bare(), &[], &script, |kind, spec| {
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
    place.until("an attempt in the queue", || {
        let attempts = place.with_store(async |store| store.job_attempts().await.unwrap());
        let shown = place.json(&["get", "run", run]);
        let own = shown["status"]["attempts"][0].as_str()?.to_owned();
        attempts.iter().any(|attempt| attempt.agent == own).then_some(own)
    })
}

fn runner_assigned(place: &Place, run: &str, reason: &str, part: &str) {
    place.until(reason, || {
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
    runner_assigned(&place, &first, "NoCapacity", "the operator has not started its Job yet");
    // The worker of a whole pool gets neither.
    let token = new_token(&place);
    let nothing = Machine::new();
    let ran = nothing.command(&serving, &token, &["--once", "--wait", "2s"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(64), "{ran:?}");
    let machine = Machine::new();
    let token = token_of_attempt(&place, &own);
    let ran = machine.command(&serving, &token, &["--once"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let run = ended(&place, &second);
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    assert_eq!(made(&place, &own, "src/done.txt"), "done\n");
    let waiting = place.with_store(async |store| store.queued_attempt(&other).await.unwrap());
    assert_eq!(waiting.unwrap().fence, 0, "the older attempt was not for that worker");
    // Its token is used up, and its credential gives it nothing else.
    let ran = Machine::new().command(&serving, &token, &["--once"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(66), "{ran:?}");
    let ran = machine.command(&serving, "", &["--once", "--wait", "2s"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(64), "{ran:?}");
}

#[test]
fn what_is_wrong_with_a_job_is_a_condition_of_the_run() {
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
    runner_assigned(&place, &run, "ImagePullFailed", "no such image");
    // A pod whose sandbox is too weak says what it lacks.
    let machine = Machine::new();
    let worker = machine.command(&serving, &token_of_attempt(&place, &agent), &["--once"]);
    let arguments: Vec<_> = worker.get_args().map(std::ffi::OsStr::to_owned).collect();
    let weak = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let mut command = machine.0.command("unshare");
    command.current_dir(machine.0.place()).args(["-Ur", "sh", "-c", weak]);
    let ran = command.arg(worker.get_program()).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(65), "{said}");
    assert!(said.contains("missing: user namespace"), "{said}");
    let weak = problem(1, PodProblem::SandboxInsufficient, "missing: user namespace");
    // Of two operators, one is too late.
    let late = place.with_store(async |store| store.give_up_job(&agent, 7, &weak).await.unwrap());
    assert!(!late);
    let ended_now =
        place.with_store(async |store| store.give_up_job(&agent, 0, &weak).await.unwrap());
    assert!(ended_now);
    let run_object = ended(&place, &run);
    assert_eq!(run_object["status"]["phase"], "failed", "{run_object:#}");
    runner_assigned(&place, &run, "SandboxInsufficient", "missing: user namespace");
}
