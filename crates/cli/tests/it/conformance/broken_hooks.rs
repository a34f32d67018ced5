//! The hook breaks in the middle of a run, after it has worked.
//!
//! No agent can do that, because it can only read its gate. So the test does it, from outside of the
//! sandbox: it replaces the program that the agent's CLI calls. If a CLI calls no program, but uses its
//! own streams, the test breaks the answers.

use std::os::unix::fs::PermissionsExt as _;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::agent::Agent;
use super::attempt::Ended;
use super::lost_answers::{self, Fault};
use super::stage::{FILES, PUSH, Stage};
use super::{Outcome, Scenario, outside};

pub(super) const REMOVED: Scenario = Scenario {
    name: "hook binary removed",
    how: "First the agent itself tries to remove, replace and move the gate, without success. \
          Then the gate is removed from outside of the sandbox. The next call would be denied: \
          it does not run, although no gate can deny it, and the run is ended. Claude Code and \
          Codex start no gate program, but ask the supervisor: there, the connection for answers \
          is closed. Codex takes that for permission: this one call may run, in the sandbox, and \
          the run is ended.",
    run_scenario: remove_hook,
};

pub(super) const CRASHING: Scenario = Scenario {
    name: "hook crashing",
    how: "From outside of the sandbox, the gate is replaced by a program that ends itself by a \
          signal. The next call would be denied: it does not run, and the run is ended. With \
          Claude Code and Codex, the answer becomes one without a decision, which Codex takes \
          for permission, at most once.",
    run_scenario: |stage| break_hook(stage, "crashing", "kill -SEGV $$", Fault::Garbage),
};

pub(super) const HANGING: Scenario = Scenario {
    name: "hook hanging",
    how: "The same with a program that does not end. It reaches its time limit, the call does \
          not run, and the run is ended. With Claude Code and Codex, the answer does not come; \
          Codex waits for it until the run has been idle for too long.",
    run_scenario: |stage| break_hook(stage, "hanging", "sleep 1000", Fault::Missing),
};

/// A program of the repository, so that the gate cannot see its commands in the text of a call.
const ATTACK: &str = r#"#!/bin/sh
rm -rf /run/bailiwick/bailiwick /run/bailiwick/gate/gate.sock /run/bailiwick
mv /run/bailiwick /tmp/away
mv /run/bailiwick/bailiwick /tmp/away
cp /bin/true /run/bailiwick/bailiwick
ln -sf /bin/true /run/bailiwick/bailiwick
mount --bind /bin/true /run/bailiwick/bailiwick
umount -l /run/bailiwick/bailiwick
chmod 000 /run/bailiwick/bailiwick /run/bailiwick/gate/gate.sock
echo attacked > src/attacked.txt
"#;

/// Writes `ready.txt`, and waits for `go.txt`.
const WAIT: &str = "echo ready > src/ready.txt; until [ -e src/go.txt ]; do sleep 0.1; done";

fn remove_hook(stage: &Stage) -> Outcome {
    stage.scratch.git(&["checkout", "--quiet", "-b", "attack"]);
    stage.scratch.write("src/attack", ATTACK);
    let file = stage.scratch.root().join("src/attack");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Attack");
    stage.scratch.git(&["checkout", "--quiet", "main"]);
    let mut agent = stage.agent("removed").base("attack");
    if lost_answers::uses_answers_only(stage.cli) {
        agent = agent.wrapped(lost_answers::wrap_cli(stage, "removed"));
    }
    let mut working = agent.start(Script::new(vec![
        Turn::Calls(vec![Call::shell("./src/attack")]),
        Turn::Calls(vec![Call::shell("echo out > attacked.txt")]),
        Turn::Calls(vec![Call::shell(WAIT)]),
        Turn::Calls(vec![Call::shell(PUSH)]),
        Turn::Calls(vec![Call::shell("echo more > src/more.txt")]),
        Turn::say("finished"),
    ]));
    working.wait_until("the agent waits", || agent.text("src/ready.txt").is_some());
    assert_eq!(agent.text("src/attacked.txt").as_deref(), Some("attacked\n"));
    assert_eq!(agent.text("attacked.txt"), None, "the gate was changed from inside the sandbox");
    if lost_answers::uses_answers_only(stage.cli) {
        lost_answers::start_fault(&agent, Fault::Closed);
    } else {
        let empty = agent.directory().join("temp/empty");
        std::fs::create_dir(&empty).unwrap();
        let process = agent.processes().into_iter().next().unwrap();
        let gate = outside::gate();
        outside::bind_mount_over(&process, "/tmp/empty".as_ref(), gate.parent().unwrap());
    }
    std::fs::write(agent.path("src/go.txt"), "").unwrap();
    let ended = working.end();
    agent.expect_denied("attacked.txt", FILES);
    if lost_answers::uses_answers_only(stage.cli) {
        lost_answers::expect_one_fault(&agent, Fault::Closed);
    }
    expect_quarantine(stage, &agent, &ended)
}

/// The gate is replaced by this script, or its answers have this fault.
fn break_hook(stage: &Stage, id: &str, script: &str, fault: Fault) -> Outcome {
    let mut agent = stage.agent(id).task("idle-minutes = 1");
    if lost_answers::uses_answers_only(stage.cli) {
        agent = agent.wrapped(lost_answers::wrap_cli(stage, id));
    }
    let mut working = agent.start(Script::new(vec![
        Turn::Calls(vec![Call::shell(WAIT)]),
        Turn::Calls(vec![Call::shell(PUSH)]),
        Turn::Calls(vec![Call::shell("echo more > src/more.txt")]),
        Turn::say("finished"),
    ]));
    working.wait_until("the agent waits", || agent.text("src/ready.txt").is_some());
    if lost_answers::uses_answers_only(stage.cli) {
        lost_answers::start_fault(&agent, fault);
    } else {
        replace_gate(&agent, script);
    }
    std::fs::write(agent.path("src/go.txt"), "").unwrap();
    let ended = working.end();
    if lost_answers::uses_answers_only(stage.cli) {
        lost_answers::expect_one_fault(&agent, fault);
    } else {
        let called = std::fs::read_to_string(agent.directory().join("temp/called"));
        assert_eq!(called.unwrap_or_default(), "called\n", "the hook was called once");
    }
    match (stage.cli, fault) {
        (Cli::Codex, Fault::Missing) => expect_timeout(&agent, &ended),
        _ => expect_quarantine(stage, &agent, &ended),
    }
}

/// Asserts that the CLI waited for an answer until it was stopped, and ran nothing.
fn expect_timeout(agent: &Agent<'_>, ended: &Ended) -> Outcome {
    ended.expect("timed-out", 1);
    assert_eq!(agent.pushed(), [""; 0]);
    assert_eq!(agent.text("src/more.txt"), None);
    agent.expect_push_possible();
    Outcome::Enforced
}

/// Replaces the gate by this script.
fn replace_gate(agent: &Agent<'_>, script: &str) {
    let hook = agent.directory().join("temp/hook");
    std::fs::write(&hook, format!("#!/bin/sh\necho called >> /tmp/called\n{script}\n")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let process = agent.processes().into_iter().next().unwrap();
    outside::bind_mount_over(&process, "/tmp/hook".as_ref(), &outside::gate());
}

/// Asserts that no call after the fault had an effect, and that the run is quarantined. Codex takes a failure
/// for permission: its call may complete before the run is stopped, but no call after it.
fn expect_quarantine(stage: &Stage, agent: &Agent<'_>, ended: &Ended) -> Outcome {
    let pushed = agent.pushed();
    // A push that was stopped may leave its lock file.
    let is_of_one_push = |name: &String| ["pushed", "pushed.lock"].contains(&name.as_str());
    match stage.cli {
        Cli::Codex => assert!(pushed.iter().all(is_of_one_push), "{pushed:?}"),
        Cli::Claude | Cli::Gemini | Cli::OpenCode => assert_eq!(pushed, [""; 0]),
    }
    assert_eq!(agent.text("src/more.txt"), None);
    agent.expect_allowed("src/ready.txt");
    agent.expect_quarantined(ended);
    if pushed.is_empty() {
        agent.expect_push_possible();
    }
    Outcome::Quarantined
}
