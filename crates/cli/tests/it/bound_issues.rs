//! Runs that are bound to an issue: what a killed run records there, and how claims exclude other machines.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use crate::BAILIWICK;

const WRITE: &str =
    "[[agent.script]]\ndo = \"write\"\npath = \"src/made.txt\"\ntext = \"made\\n\"\n";

struct Place {
    scratch: Scratch,
}

impl Place {
    /// A repository with issue #1.
    fn new(settings: &str) -> Self {
        let scratch = Scratch::repository();
        scratch.write("src/kept.txt", "kept\n");
        scratch.write(".bailiwick/settings.toml", settings);
        scratch.commit("Begin");
        let place = Self { scratch };
        place.run(&["memory", "new", "Parser", "--budget", "1000"]).expect_code(0);
        place
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.scratch.run(BAILIWICK, arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err))
    }

    /// Commits a task whose scripted agent runs these steps.
    fn task(&self, id: &str, steps: &str) -> String {
        let text = format!(
            "[task]\nrole = \"developer\"\nagent-id = \"{id}\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
             files-denylist = []\n[verification]\ncommands = [\"test -d src\"]\n[body]\ntext = \"Do it.\"\n[agent]\n\
             cli = \"script\"\n{steps}"
        );
        let path = format!("{id}.toml");
        self.scratch.write(&path, &text);
        self.scratch.commit(&format!("Add the task of {id}"));
        path
    }

    /// The state directory of another machine, with its own database, for the same repository.
    fn machine(&self, name: &str) -> PathBuf {
        let state = self.scratch.place().join(name);
        std::fs::create_dir_all(&state).unwrap();
        state
    }

    fn on(&self, state: &Path, arguments: &[&str]) -> Ran {
        let mut command = self.scratch.command(BAILIWICK);
        let ran = command.env("BAILIWICK_STATE", state).args(arguments).output().unwrap();
        Ran::from(ran)
    }

    /// The runs whose results the issue has.
    fn results(&self) -> Vec<String> {
        let log = self.json(&["memory", "log", "#1"]);
        let entries = log.as_array().unwrap().iter();
        let results = entries.filter(|entry| entry["detail"]["type"] == "subagent_result");
        let run = |entry: &Value| {
            let invocation = entry["detail"]["invocation_id"].as_str().unwrap();
            invocation.split('/').next().unwrap().to_owned()
        };
        let mut runs: Vec<String> = results.map(run).collect();
        runs.sort();
        runs
    }
}

/// A `PATH` with a git that kills its caller before or after the n-th change of an issue.
fn killing_git(place: &Scratch, kill_at: u32, is_after: bool) -> String {
    let directory = place.place().join(format!("git-{kill_at}-{is_after}"));
    std::fs::create_dir_all(&directory).unwrap();
    let count = directory.join("count");
    std::fs::write(&count, "0").unwrap();
    let path = std::env::var("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|one| one.join("git")).find(|one| one.is_file());
    let (real, count) = (real.unwrap().display().to_string(), count.display());
    let change = if is_after { format!("{real} \"$@\"") } else { "true".to_owned() };
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in\n*\" update-ref \"*refs/bailiwick/issues/*)\n  n=$(($(cat {count}) + 1))\n  \
         echo $n > {count}\n  if [ $n = {kill_at} ]; then\n    {change}\n    kill -9 $PPID\n    exit 1\n  fi;;\nesac\n\
         exec {real} \"$@\"\n"
    );
    let file = directory.join("git");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", directory.display())
}

#[test]
fn result_is_recorded_once_if_the_run_is_killed_while_recording() {
    let place = Place::new("");
    let mut kill_count = 0;
    for (number, (at, is_after)) in
        [(1, false), (1, true), (2, false), (2, true), (3, true)].into_iter().enumerate()
    {
        let id = format!("killed-{number}");
        let task = place.task(&id, WRITE);
        let path = killing_git(&place.scratch, at, is_after);
        let mut command = place.scratch.command(BAILIWICK);
        command.env("PATH", path).args(["run", &task, "--issue", "#1"]);
        kill_count += usize::from(Ran::from(command.output().unwrap()).code == -1);
    }
    // Each run completes the steps of the killed one first, so the kills hit different steps.
    assert!(kill_count >= 4, "{kill_count}");
    let task = place.task("last", WRITE);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    let worktrees = place.scratch.state().join("worktrees");
    let listed = std::fs::read_dir(worktrees).unwrap().flatten();
    let run_ids = listed.filter(|place| place.path().join("src/made.txt").exists());
    let mut run_ids: Vec<String> =
        run_ids.map(|place| place.file_name().into_string().unwrap()).collect();
    run_ids.sort();
    assert!(run_ids.len() >= 3, "{run_ids:?}");
    assert_eq!(place.results(), run_ids);
    place.run(&["memory", "verify", "#1"]).expect_code(0);
    for run in &run_ids {
        assert!(!place.scratch.state().join("runs").join(run).join("issue-exit.json").exists());
    }
}

#[test]
fn agent_cannot_change_its_issue_or_read_the_signing_key() {
    let place = Place::new("");
    let key = place.scratch.place().join("config/bailiwick/memory.key");
    assert!(key.is_file());
    let script = format!(
        "git update-ref refs/bailiwick/issues/1 HEAD; git update-ref -d refs/bailiwick/issues/1\n\
         cat {} > src/key.txt; echo ran > src/ran.txt\n",
        key.display()
    );
    let steps = format!(
        "[[agent.script]]\ndo = \"write\"\npath = \"src/try.sh\"\ntext = {}\n[[agent.script]]\ndo = \"shell\"\n\
         command = \"sh src/try.sh\"\n",
        Value::String(script)
    );
    let before = place.scratch.git(&["rev-parse", "refs/bailiwick/issues/1"]);
    let task = place.task("hostile", &steps);
    place.run(&["run", &task, "--issue", "#1", "--no-verify"]);
    let source = place.scratch.state().join("worktrees/hostile/src");
    assert_eq!(std::fs::read_to_string(source.join("ran.txt")).unwrap(), "ran\n");
    assert_eq!(std::fs::read_to_string(source.join("key.txt")).unwrap(), "");
    let range = format!("{}..refs/bailiwick/issues/1", before.trim());
    let messages = place.scratch.git(&["log", "--format=%s", &range]);
    assert!(messages.lines().count() >= 2, "{messages}");
    assert!(messages.lines().all(|message| message.contains("hmac-sha256:")), "{messages}");
    assert_eq!(place.results(), ["hostile"]);
}

#[test]
fn label_pauses_and_resumes_an_issue() {
    let place = Place::new("");
    place.run(&["memory", "label", "#1", "--add", "status::paused"]).expect_code(0);
    let task = place.task("one", WRITE);
    let refused = place.run(&["run", &task, "--issue", "#1"]).expect_code(2);
    assert!(refused.err.contains("`status::paused`"), "{}", refused.err);
    assert_eq!(place.results(), Vec::<String>::new());
    place.run(&["memory", "label", "#1", "--remove", "status::paused"]).expect_code(0);
    let task = place.task("two", WRITE);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    assert_eq!(place.results(), ["two"]);
}

/// Writes the table of claims as another machine would.
fn set_claims(place: &Place, table: &Value) {
    let tree = place.scratch.git(&["rev-parse", "refs/bailiwick/issues/1^{tree}"]);
    let commit = place.scratch.git(&["commit-tree", tree.trim(), "-m", &table.to_string()]);
    place.scratch.git(&["update-ref", "refs/bailiwick/claims", commit.trim()]);
}

#[test]
fn tokens_reserved_by_another_machine_are_not_reserved_twice() {
    let place = Place::new("");
    let reserve = |tokens: u64, until: &str| {
        let other = json!({
            "issue": 1, "agent": "other", "invocation": "other/1", "tokens": tokens,
            "reserved_at": "2026-01-01T00:00:00Z", "reserved_until": until,
        });
        set_claims(
            &place,
            &json!({ "version": 1, "next_fence": 1, "claims": [], "reservations": [other] }),
        );
    };
    reserve(1000, "2100-01-01T00:00:00Z");
    let task = place.task("one", WRITE);
    let refused = place.run(&["run", &task, "--issue", "#1"]).expect_code(2);
    assert!(refused.err.contains("other runs may still use 1000"), "{}", refused.err);
    // A run may use unreserved tokens, and releases its reservation.
    reserve(400, "2100-01-01T00:00:00Z");
    let task = place.task("two", WRITE);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    let reservations = claims(&place)["reservations"].clone();
    assert_eq!(
        (reservations[0]["agent"].as_str(), reservations.as_array().unwrap().len()),
        (Some("other"), 1)
    );
    // The reservation of a lost machine expires.
    reserve(1000, "2020-01-01T00:00:00Z");
    let task = place.task("three", WRITE);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    assert_eq!(place.results(), ["three", "two"]);
}

fn with_store<T>(place: &Place, work: impl AsyncFnOnce(&bailiwick_store::Store) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = bailiwick_store::Location::file(place.scratch.state().join("bailiwick.db"));
    runtime.block_on(async {
        let store = bailiwick_store::Store::open(database).await.unwrap();
        work(&store).await
    })
}

#[test]
fn sub_agents_of_a_bound_run_are_charged_to_its_issue() {
    let place = Place::new("");
    let task = place.task("boss", WRITE);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    let remaining_budget = |place: &Place| {
        place.json(&["memory", "show", "#1"])["checkpoint"]["budget"]["remaining"].clone()
    };
    let before = remaining_budget(&place).as_i64().unwrap();
    // Its second attempt starts a helper, and is killed before it records its result.
    let helper = bailiwick_model::AgentId::parse("helper").unwrap();
    with_store(&place, async |store| {
        let boss = bailiwick_model::AgentId::parse("boss").unwrap();
        let attempt = store.attempts(Some(&boss)).await.unwrap().remove(0);
        let again = bailiwick_model::attempt::Attempt { number: 2, ..attempt.clone() };
        store.begin_attempt(&again).await.unwrap();
        store.update_attempt(&again).await.unwrap();
        let delegate = json!({
            "run": "helper", "parent": "boss", "depth": 1, "deepest": null, "agent_type": "worker",
            "agent_name": null, "note": null, "message": "Help with it.", "model": null,
            "reasoning_effort": null, "may_start": [], "reserved": {}, "given": {},
            "pending": false, "closed": true, "created_at": attempt.started_at,
        });
        store.save_delegate(&serde_json::from_value(delegate).unwrap()).await.unwrap();
        // The helper asked for an agent that it may not start.
        let asked = json!([
            { "agent_type": "before", "at": attempt.started_at - 1 },
            { "agent_type": "deployer", "at": attempt.started_at },
        ]);
        let directory = place.scratch.state().join("runs/helper");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("disallowed-agents.json"), asked.to_string()).unwrap();
        let used = bailiwick_model::attempt::Used { tokens: 70, ..attempt.used };
        let child = bailiwick_model::attempt::Attempt { run: helper, used, ..attempt };
        let number = store.begin_attempt(&child).await.unwrap();
        let child = bailiwick_model::attempt::Attempt { number, ..child };
        store.update_attempt(&child).await.unwrap();
    });
    let exit = json!({
        "issue": "#1", "agent": "developer", "run": "boss", "root": place.scratch.root(),
        "invocation": "boss/2", "depth": 0, "attempts": 1,
    });
    let pending = place.scratch.state().join("runs/boss/issue-exit.json");
    std::fs::write(&pending, exit.to_string()).unwrap();
    // The result of the killed attempt comes first, and stops the issue.
    let task = place.task("next", WRITE);
    let refused = place.run(&["run", &task, "--issue", "#1"]).expect_code(2);
    assert!(refused.err.contains("the issue is locked"), "{}", refused.err);
    assert!(!pending.exists());
    let labels = place.json(&["memory", "show", "#1"])["labels"].clone();
    assert_eq!(labels, json!(["quality::unchecked", "permission::violation"]));
    assert_eq!(remaining_budget(&place).as_i64().unwrap(), before - 70);
    let log = place.json(&["memory", "log", "#1"]);
    let mut entries = log.as_array().unwrap().iter();
    let result = entries.find(|entry| entry["detail"]["invocation_id"] == "boss/2").unwrap();
    let cascade = &result["detail"]["cascade_log"][0];
    assert_eq!((&cascade["agent"], &cascade["tokens"]), (&json!("worker"), &json!(70)));
}

#[test]
fn issue_that_was_moved_back_is_reported_until_it_is_restored() {
    let place = Place::new("");
    let name = "refs/bailiwick/issues/1";
    let old = place.scratch.git(&["rev-parse", name]);
    place.run(&["memory", "label", "#1", "--add", "status::paused"]).expect_code(0);
    let newest = place.scratch.git(&["rev-parse", name]);
    place.run(&["memory", "verify", "#1"]).expect_code(0);
    place.scratch.git(&["update-ref", name, old.trim()]);
    for _ in 0..2 {
        let reported = place.run(&["memory", "verify", "#1"]).expect_code(2);
        assert!(
            reported.out.contains(newest.trim()) && reported.out.contains("moved back"),
            "{}",
            reported.out
        );
    }
    place.scratch.git(&["update-ref", name, newest.trim()]);
    place.run(&["memory", "verify", "#1"]).expect_code(0);
}

#[test]
fn log_has_budgets_and_when_the_issue_was_closed() {
    let place = Place::new("");
    place.run(&["memory", "budget", "#1", "2000"]).expect_code(0);
    place.run(&["memory", "close", "#1"]).expect_code(0);
    place.run(&["memory", "reopen", "#1"]).expect_code(0);
    let log = place.run(&["memory", "log", "#1"]).expect_code(0).out;
    for expected in
        ["(budget 1000 tokens)", "(budget 2000 tokens)", "  closed\n", "  opened again\n"]
    {
        assert!(log.contains(expected), "{expected}: {log}");
    }
    let refused = place.run(&["memory", "budget", "#1", "9223372036854775808"]).expect_code(2);
    assert!(refused.err.contains("9223372036854775807"), "{}", refused.err);
    place.run(&["memory", "budget", "#1", "9223372036854775807"]).expect_code(0);
}

fn say_step(next: &str) -> String {
    let text = json!(format!("Done.\n\nnext_agent: {next}"));
    format!("allowed-subagents = [\"reviewer\"]\n[[agent.script]]\ndo = \"say\"\ntext = {text}\n")
}

#[test]
fn run_hands_its_issue_only_to_agents_that_its_task_allows() {
    let place = Place::new("");
    let next = || place.json(&["memory", "show", "#1"])["checkpoint"]["next_agent"].clone();
    let labels = || place.json(&["memory", "show", "#1"])["labels"].clone();
    place.run(&["memory", "label", "#1", "--add", "cascade::depth-1"]).expect_code(0);
    // This agent is not in `allowed-subagents`.
    let task = place.task("one", &say_step("deployer"));
    let ran = place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    assert!(ran.err.contains("its allowed-subagents are: reviewer"), "{}", ran.err);
    // It asked for something against a limit, so a person must look first.
    let stop = "permission::violation";
    let expected = json!(["cascade::depth-1", "quality::passed", stop]);
    assert_eq!((next(), labels()), (Value::Null, expected));
    assert_eq!(place.json(&["memory", "show", "#1"])["locked"], true);
    place.run(&["memory", "reopen", "#1"]).expect_code(0);
    place.run(&["memory", "label", "#1", "--remove", stop]).expect_code(0);
    let task = place.task("two", &say_step("reviewer"));
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    assert_eq!(next(), "reviewer");
    assert_eq!(labels(), json!(["cascade::depth-1", "quality::passed", "agent::reviewer"]));
    let shown = place.run(&["recover", "--from-forge", "#1"]).expect_code(0);
    assert!(shown.out.contains("next      reviewer"), "{}", shown.out);
    // The next run consumes the label, and its depth is one more.
    let task = place.task("three", &say_step("reviewer"));
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    assert_eq!(place.json(&["memory", "show", "#1"])["checkpoint"]["depth"], 1);
    // The label allows no deeper run: the next one locks the issue.
    let task = place.task("four", WRITE);
    let refused = place.run(&["run", &task, "--issue", "#1"]).expect_code(2);
    assert!(refused.err.contains("depth 2 is deeper than 1"), "{}", refused.err);
    let shown = place.json(&["memory", "show", "#1"]);
    assert_eq!(shown["locked"], true);
    assert!(labels().to_string().contains("cascade::depth-exceeded"), "{shown}");
    assert_eq!(place.results(), ["one", "three", "two"]);
}

#[test]
fn refused_run_does_not_use_up_its_id() {
    let place = Place::new("");
    place.run(&["memory", "close", "#1"]).expect_code(0);
    let task = place.task("one", WRITE);
    let refused = place.run(&["run", &task, "--issue", "#1"]).expect_code(2);
    assert!(refused.err.contains("the issue is closed"), "{}", refused.err);
    place.run(&["memory", "reopen", "#1"]).expect_code(0);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    assert_eq!(place.results(), ["one"]);
}

#[test]
fn machine_with_an_empty_database_recovers_from_the_issue() {
    let place = Place::new("[claims]\n");
    let task = place.task("one", WRITE);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
    let failing = WRITE.replace("src/made.txt", "docs/outside.txt");
    let task = place.task("two", &failing);
    // Its claim overlaps, so it is refused and records nothing.
    place.run(&["run", &task, "--issue", "#1"]).expect_code(2);
    let recover = |state: &Path| {
        let ran = place.on(state, &["recover", "--from-forge", ".", "-o", "json"]).expect_code(0);
        serde_json::from_str::<Value>(&ran.out).unwrap()[0].clone()
    };
    let fresh = place.machine("fresh");
    let recovered = recover(&fresh);
    assert_eq!(recovered["new_runs"], 1);
    let work = &recovered["work"];
    assert_eq!(
        (&work["runs"][0]["id"], &work["runs"][0]["result"]),
        (&json!("one"), &json!("pass"))
    );
    assert_eq!(work["claims"][0]["agent"], "one");
    assert_eq!(work["next"]["kind"], "decide");
    // The machine that ran it gets the same state, and records nothing twice.
    let known = recover(&place.scratch.state());
    assert_eq!((&known["digest"], &known["new_runs"]), (&recovered["digest"], &json!(0)));
    assert_eq!(recover(&fresh)["new_runs"], 0);
    let listed = place.on(&fresh, &["ps", "--all"]).expect_code(0);
    assert!(listed.out.contains("one"), "{}", listed.out);
    // The id is in use; removing the run releases its claim.
    let refused = place.on(&fresh, &["run", "one.toml", "--issue", "#1"]).expect_code(2);
    assert!(refused.err.contains("one"), "{}", refused.err);
    assert_eq!(claimants(&place), ["one"]);
    place.on(&fresh, &["rm", "one", "--force"]).expect_code(0);
    assert_eq!(claimants(&place), Vec::<String>::new());
}

#[test]
fn tokens_and_claims_of_a_lost_machine_are_released_on_request() {
    let place = Place::new("");
    let lost = json!({
        "issue": 1, "agent": "lost", "invocation": "lost/1", "tokens": 1000,
        "reserved_at": "2026-01-01T00:00:00Z", "reserved_until": "2100-01-01T00:00:00Z",
    });
    let claim = json!({
        "fence": 1, "agent": "lost", "invocation": "lost-x", "issue": 1,
        "resources": [{ "type": "file", "key": "src/**" }],
        "claimed_at": "2026-01-01T00:00:00Z", "leased_until": "2100-01-01T00:00:00Z",
    });
    let table = json!({ "version": 1, "next_fence": 2, "claims": [claim], "reservations": [lost] });
    set_claims(&place, &table);
    let shown = place.run(&["recover", "--from-forge", "#1"]).expect_code(0);
    assert!(shown.out.contains("lost may use 1000 tokens"), "{}", shown.out);
    assert!(shown.out.contains("lost has"), "{}", shown.out);
    let shown = place.run(&["recover", "--from-forge", "#1", "--release-lost"]).expect_code(0);
    assert!(!shown.out.contains("lost"), "{}", shown.out);
    let task = place.task("one", WRITE);
    place.run(&["run", &task, "--issue", "#1"]).expect_code(0);
}

fn claims(place: &Place) -> Value {
    let text = place.scratch.git(&["log", "-1", "--format=%B", "refs/bailiwick/claims"]);
    serde_json::from_str(&text).unwrap()
}

fn claimants(place: &Place) -> Vec<String> {
    let claims = claims(place);
    let claims = claims["claims"].as_array().unwrap().iter();
    claims.map(|claim| claim["agent"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn machines_exclude_each_other_by_the_claims_of_an_issue() {
    let place = Place::new("[claims]\n");
    let (one, two) = (place.machine("one"), place.machine("two"));
    let start = |state: &Path, id: &str| {
        let task = place.task(id, &WRITE.replace("made.txt", &format!("{id}.txt")));
        place.on(state, &["run", &task, "--issue", "#1"])
    };
    start(&one, "a").expect_code(0);
    assert_eq!(claimants(&place), ["a"]);
    let refused = start(&two, "b").expect_code(2);
    assert!(refused.err.contains("`a` has file src/**"), "{}", refused.err);
    place.on(&two, &["reject", "b"]).expect_code(0);
    assert_eq!(claimants(&place), ["a"]);
    // Landing releases the claim.
    place.on(&one, &["land", "a"]).expect_code(0);
    assert_eq!(claimants(&place), Vec::<String>::new());
    start(&two, "c").expect_code(0);
    assert_eq!(claimants(&place), ["c"]);
    // After its lease has expired, the other machine gets the claim, and the old fence cannot land.
    let mut table = claims(&place);
    table["claims"][0]["leased_until"] = json!("2020-01-01T00:00:00Z");
    set_claims(&place, &table);
    start(&one, "d").expect_code(0);
    assert_eq!(claimants(&place), ["d"]);
    let refused = place.on(&two, &["land", "c"]).expect_code(2);
    assert!(refused.err.contains("somebody else has taken its paths since"), "{}", refused.err);
    // Rejecting releases a run's own claim only.
    place.on(&two, &["reject", "c"]).expect_code(0);
    assert_eq!(claimants(&place), ["d"]);
    place.on(&one, &["reject", "d"]).expect_code(0);
    assert_eq!(claimants(&place), Vec::<String>::new());
}

#[test]
fn modules_and_migrations_are_claimed_on_the_issue_and_shown_there() {
    let place = Place::new("[claims]\nmodules = [\"src/\"]\n");
    let (one, two) = (place.machine("one"), place.machine("two"));
    let start = |state: &Path, id: &str, files: &str, path: &str| {
        let task = place.task(id, &WRITE.replace("src/made.txt", path));
        let text = std::fs::read_to_string(place.scratch.root().join(&task)).unwrap();
        place.scratch.write(&task, &text.replace("\"src/**\"", files));
        place.scratch.commit("Change the files of a task");
        place.on(state, &["run", &task, "--issue", "#1"])
    };
    start(&one, "a", "\"src/part/**\"", "src/part/a.txt").expect_code(0);
    let refused = start(&two, "b", "\"src/other.txt\"", "src/other.txt").expect_code(2);
    assert!(refused.err.contains("`a` has module src/"), "{}", refused.err);
    let files = "\"db/{timestamp}_*.sql\", \"docs/c/**\"";
    start(&two, "c", files, "docs/c/made.txt").expect_code(0);
    // Another run with the same version is refused, even after its claim has ended.
    let mut table = claims(&place);
    let key = table["claims"][1]["resources"][0]["key"].as_str().unwrap().to_owned();
    let version = key.strip_prefix("db/").unwrap();
    assert_eq!(table["claims"][1]["resources"][0]["type"], "migration");
    assert!(version.len() == 14 && version.bytes().all(|b| b.is_ascii_digit()), "{version}");
    let shown = place.on(&one, &["memory", "show", "#1"]).expect_code(0);
    for expected in
        ["claim     a has module src/, file src/part/**", &format!("c has migration {key}")]
    {
        assert!(shown.out.contains(expected), "{expected}: {}", shown.out);
    }
    let shown = place.on(&one, &["memory", "show", "#1", "-o", "json"]).expect_code(0);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["claims"][1]["agent"], "c");
    place.on(&one, &["memory", "verify", "#1"]).expect_code(0);
    place.on(&two, &["land", "c"]).expect_code(0);
    assert_eq!(claims(&place)["versions"][version], table["claims"][1]["invocation"]);
    let fixed = format!("\"db/{version}_*.sql\", \"docs/d/**\"");
    let refused = start(&one, "d", &fixed, "docs/d/made.txt").expect_code(2);
    for expected in [version, "bailiwick respawn d"] {
        assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
    }
    // A manual change of the table is reported.
    table["claims"][1]["resources"][0] = json!({ "type": "file", "key": "src/x" });
    set_claims(&place, &table);
    let reported = place.on(&one, &["memory", "verify", "#1"]).expect_code(2);
    assert!(reported.out.contains("are both on"), "{}", reported.out);
}
