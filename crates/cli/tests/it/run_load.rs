//! Runs under load: twenty at the same time on one repository and one database, and the memory that
//! one run uses.

use std::process::{Child, Stdio};
use std::time::Duration;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use bailiwick_testkit::{Scratch, figure};
use serde_json::Value;

use crate::BAILIWICK;

const AT_ONCE: usize = 20;
/// The memory limit of a run: 40 MiB, of which the pages of the shipped program have
/// no more than 24. Those of a test build are larger; `benches/run.rs` limits
/// the whole of a release build to 40.
const MAX_KIB: u64 = (40 - 24) * 1024;

const ROLE: &str = "[role]\nname = \"worker\"\ndescription = \"d\"\n[capabilities]\nrequired = [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n";
const TASK: &str = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n";

const STEPS: &str = r#"
[[agent.script]]
do = "say"
text = "I begin"
[[agent.script]]
do = "write"
path = "src/made.txt"
text = "made\n"
[[agent.script]]
do = "shell"
command = "echo more >> src/made.txt"
[[agent.script]]
do = "write"
path = "outside.txt"
text = "denied\n"
[[agent.script]]
do = "say"
text = "I end"
"#;

/// A repository with a task for a scripted agent that does these steps, and `bailiwick` in its own
/// directory.
pub(crate) fn repository(steps: &str) -> Scratch {
    let scratch = Scratch::repository();
    std::fs::create_dir(scratch.place().join("bin")).unwrap();
    let ours = scratch.place().join("bin/bailiwick");
    if std::fs::hard_link(BAILIWICK, &ours).is_err() {
        std::fs::copy(BAILIWICK, &ours).unwrap();
    }
    scratch.write(".bailiwick/roles/worker.toml", ROLE);
    scratch.write("task.toml", &format!("{TASK}[agent]\ncli = \"script\"\n{steps}"));
    scratch.write("src/a.txt", "a\n");
    scratch.commit("start");
    scratch
}

/// The events of `logs -o json`.
pub(crate) fn events(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The database is intact, and the events of each run, with those of the ledger, are numbered from 1 without a
/// gap or duplicate.
pub(crate) fn assert_database_is_intact(scratch: &Scratch) {
    let script = "import sqlite3, sys\n\
                db = sqlite3.connect(sys.argv[1])\n\
                print(db.execute('PRAGMA integrity_check').fetchone()[0])\n\
                for (run,) in db.execute('SELECT DISTINCT run FROM events').fetchall():\n\
                \x20   rows = db.execute('SELECT number FROM events WHERE run = ? ORDER BY number', (run,))\n\
                \x20   numbers = [number for (number,) in rows]\n\
                \x20   if numbers != list(range(1, len(numbers) + 1)): print(run, numbers)\n";
    let mut python = scratch.command("python3");
    python.args(["-c", script]).arg(scratch.state().join("bailiwick.db"));
    let output = python.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(printed, "ok\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn twenty_concurrent_runs_lose_no_event() {
    let scratch = repository(STEPS);
    let program = scratch.place().join("bin/bailiwick");
    let children: Vec<(String, Child)> = (0..AT_ONCE)
        .map(|number| {
            let id = format!("run-{number}");
            let mut command = scratch.command(&program);
            command.args(["run", "task.toml", "--no-verify", "--agent-id", &id]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            (id, command.spawn().unwrap())
        })
        .collect();
    let ended: Vec<_> =
        children.into_iter().map(|(id, child)| (id, child.wait_with_output().unwrap())).collect();
    let mut stored = 0;
    for (id, output) in &ended {
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{id}: {printed}");
        let logged = scratch.run(&program, &["logs", id, "-o", "json"]).expect_code(0).out;
        let logged = events(&logged);
        stored += logged.len();
        assert_events_are_complete(id, &logged);
        for line in ["I begin", "I end"] {
            assert_eq!(printed.lines().filter(|one| *one == line).count(), 1, "{id}: {printed}");
        }
        let file = scratch.state().join("worktrees").join(id).join("src/made.txt");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "made\nmore\n");
    }
    let listed = scratch.run(&program, &["ps", "--all", "-o", "json"]).expect_code(0).out;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let done = listed.as_array().unwrap().iter().filter(|one| one["state"] == "done").count();
    assert_eq!((done, listed.as_array().unwrap().len()), (AT_ONCE, AT_ONCE), "{listed}");
    assert_database_is_intact(&scratch);
    scratch.git(&["fsck", "--strict"]);
    figure(&format!(
        "load: {AT_ONCE} runs of scripted agents at once, all completed, {stored} events stored, 0 lost or \
         duplicated"
    ));
}

/// The run has every expected event, in order.
fn assert_events_are_complete(id: &str, logged: &[Value]) {
    let numbers: Vec<u64> = logged.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{id}: {numbers:?}");
    let count = |kind: &str| logged.iter().filter(|event| event["kind"] == kind).count();
    let counts = ["announced", "session", "text", "tool-call", "decision", "tool-result", "ended"]
        .map(|kind| (kind, count(kind)));
    let expected = [
        ("announced", 1),
        ("session", 1),
        ("text", 2),
        ("tool-call", 3),
        ("decision", 3),
        ("tool-result", 3),
        ("ended", 1),
    ];
    assert_eq!(counts, expected, "{id}");
    let denied = logged.iter().filter(|event| event["answer"] == "deny").count();
    assert_eq!(denied, 1, "{id}");
}

/// One run of a real agent program with all features on, and the peak memory of its supervisor.
#[test]
fn supervisor_uses_less_than_16_mib_of_its_own() {
    let calls =
        (0..20).map(|number| Turn::Calls(vec![Call::shell(format!("echo {number} > src/n"))]));
    let model = ScriptedModel::start(Script::new(calls.chain([Turn::say("finished")]).collect()));
    let scratch = repository(STEPS);
    scratch.write(
        "task.toml",
        &format!("{TASK}[agent]\ncli = \"claude-code\"\n[body]\ntext = \"count\"\n"),
    );
    let mut command = scratch.command(scratch.place().join("bin/bailiwick"));
    let program = Cli::Claude.program();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    command.env("ANTHROPIC_API_KEY", "a-dummy-key").env("ANTHROPIC_BASE_URL", model.base_url());
    command.args(["run", "task.toml", "--no-verify", "--agent-id", "one", "-o", "json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let peak = std::thread::spawn({
        let process = child.id();
        move || peak_kib(process)
    });
    let output = child.wait_with_output().unwrap();
    let peak = peak.join().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let ran: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&ran["ending"], &ran["tool_calls"]), (&"completed".into(), &20.into()), "{ran}");
    assert!(peak > 1024, "the control: the peak was {peak} KiB");
    assert!(peak < MAX_KIB, "{peak} KiB");
    figure(&format!(
        "memory: the supervisor of a run of 20 calls had {:.1} MiB of its own at its peak, beside the pages of \
         its program (debug build)",
        peak as f64 / 1024.0
    ));
}

/// The peak of a process's resident anonymous memory in KiB, until it ends.
fn peak_kib(process: u32) -> u64 {
    let mut peak = 0;
    // A zombie process has no memory.
    while let Some(now) = resident(process) {
        peak = peak.max(now);
        std::thread::sleep(Duration::from_millis(5));
    }
    peak
}

fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse().ok()
}
