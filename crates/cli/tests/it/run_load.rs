//! Runs under load: twenty at once on one repository and one database, and what one takes of the
//! machine's memory.

use std::process::{Child, Stdio};
use std::time::Duration;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use bailiwick_testkit::{Scratch, figure};
use serde_json::Value;

use crate::BAILIWICK;

const AT_ONCE: usize = 20;
/// What a run may take of the machine's memory: 40 MiB, of which the pages of the shipped program have
/// no more than 24. Those of a build for tests are larger than what is shipped; `benches/run.rs` holds
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

/// A repository with a task for a scripted agent that does these steps, and our program in a place of
/// its own.
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

/// The database is whole, and the events of each run, with those of the ledger, count from 1 without a
/// hole or a double.
pub(crate) fn integrity(scratch: &Scratch) {
    let look = "import sqlite3, sys\n\
                db = sqlite3.connect(sys.argv[1])\n\
                print(db.execute('PRAGMA integrity_check').fetchone()[0])\n\
                for (run,) in db.execute('SELECT DISTINCT run FROM events').fetchall():\n\
                \x20   rows = db.execute('SELECT number FROM events WHERE run = ? ORDER BY number', (run,))\n\
                \x20   numbers = [number for (number,) in rows]\n\
                \x20   if numbers != list(range(1, len(numbers) + 1)): print(run, numbers)\n";
    let mut python = scratch.command("python3");
    python.args(["-c", look]).arg(scratch.state().join("bailiwick.db"));
    let output = python.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "ok\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn twenty_runs_at_once_lose_nothing() {
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
    let mut kept = 0;
    for (id, output) in &ended {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{id}: {said}");
        let logged = scratch.run(&program, &["logs", id, "-o", "json"]).expect_code(0).out;
        let logged = events(&logged);
        kept += logged.len();
        complete(id, &logged);
        for line in ["I begin", "I end"] {
            assert_eq!(said.lines().filter(|one| *one == line).count(), 1, "{id}: {said}");
        }
        let made = scratch.state().join("worktrees").join(id).join("src/made.txt");
        assert_eq!(std::fs::read_to_string(made).unwrap(), "made\nmore\n");
    }
    let listed = scratch.run(&program, &["ps", "--all", "-o", "json"]).expect_code(0).out;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let done = listed.as_array().unwrap().iter().filter(|one| one["state"] == "done").count();
    assert_eq!((done, listed.as_array().unwrap().len()), (AT_ONCE, AT_ONCE), "{listed}");
    integrity(&scratch);
    scratch.git(&["fsck", "--strict"]);
    figure(&format!(
        "load: {AT_ONCE} runs of scripted agents at once, all completed, {kept} events kept, 0 lost or \
         doubled"
    ));
}

/// Every event that such a run has, each once and in order.
fn complete(id: &str, logged: &[Value]) {
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

/// One run of a real agent program with everything on, and what its supervisor took at most.
#[test]
fn a_run_has_less_than_16_mib_of_its_own() {
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
    let most = std::thread::spawn({
        let process = child.id();
        move || most_kib(process)
    });
    let output = child.wait_with_output().unwrap();
    let most = most.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ran: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&ran["ending"], &ran["tool_calls"]), (&"completed".into(), &20.into()), "{ran}");
    assert!(most > 1024, "the control: {most} KiB were seen");
    assert!(most < MAX_KIB, "{most} KiB");
    figure(&format!(
        "memory: the supervisor of a run of 20 calls had {:.1} MiB of its own at most, beside the pages of \
         its program (debug build)",
        most as f64 / 1024.0
    ));
}

/// The most that was resident of a process and no file, in KiB, as long as it runs.
fn most_kib(process: u32) -> u64 {
    let mut most = 0;
    // A process that has ended and is not waited for has no memory any more.
    while let Some(now) = resident(process) {
        most = most.max(now);
        std::thread::sleep(Duration::from_millis(5));
    }
    most
}

fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse().ok()
}
