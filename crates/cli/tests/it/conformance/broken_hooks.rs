//! The hook breaks in the middle of a run, when it had been heard already.
//!
//! No agent can do that: its gate is a file that it can only read. So we do it, from outside of the
//! sandbox: what the agent's CLI calls is suddenly something else. Where a CLI calls nothing, but asks
//! on its own streams, the answers break.

use std::os::unix::fs::PermissionsExt as _;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::agent::Agent;
use super::attempt::Ended;
use super::lost_answers::{self, Broken};
use super::stage::{FILES, PUSH, Stage};
use super::{Held, Scenario, outside};

pub(super) const REMOVED: Scenario = Scenario {
    name: "hook binary removed",
    how: "First the agent itself tries to remove, replace and move the gate, without success. \
          Then the gate is removed from outside of the sandbox. The next call would be denied: \
          it does not run, although no gate can deny it, and the run is ended. Claude Code and \
          Codex start no gate program, but ask the supervisor: there, the connection for answers \
          is closed. Codex takes that for permission: this one call may run, in the sandbox, and \
          the run is ended.",
    happens: removed,
};

pub(super) const CRASHING: Scenario = Scenario {
    name: "hook crashing",
    how: "From outside of the sandbox, the gate is replaced by a program that ends itself by a \
          signal. The next call would be denied: it does not run, and the run is ended. With \
          Claude Code and Codex, the answer becomes one without a decision, which Codex takes \
          for permission, at most once.",
    happens: |stage| broken(stage, "crashing", "kill -SEGV $$", Broken::Garbage),
};

pub(super) const HANGING: Scenario = Scenario {
    name: "hook hanging",
    how: "The same with a program that does not end. It reaches its time limit, the call does \
          not run, and the run is ended. With Claude Code and Codex, the answer does not come; \
          Codex waits for it until the run has been idle for too long.",
    happens: |stage| broken(stage, "hanging", "sleep 1000", Broken::Missing),
};

/// A program of the repository, so that nobody reads what it does before it does it.
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

/// Says that it is there, and waits until it is told to go on.
const WAIT: &str = "echo ready > src/ready.txt; until [ -e src/go.txt ]; do sleep 0.1; done";

fn removed(stage: &Stage) -> Held {
    stage.scratch.git(&["checkout", "--quiet", "-b", "attack"]);
    stage.scratch.write("src/attack", ATTACK);
    let file = stage.scratch.root().join("src/attack");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Attack");
    stage.scratch.git(&["checkout", "--quiet", "main"]);
    let mut agent = stage.agent("removed").base("attack");
    if lost_answers::are_all_there_is(stage.cli) {
        agent = agent.wrapped(lost_answers::between(stage, "removed"));
    }
    let mut working = agent.start(Script::new(vec![
        Turn::Calls(vec![Call::shell("./src/attack")]),
        Turn::Calls(vec![Call::shell("echo out > attacked.txt")]),
        Turn::Calls(vec![Call::shell(WAIT)]),
        Turn::Calls(vec![Call::shell(PUSH)]),
        Turn::Calls(vec![Call::shell("echo more > src/more.txt")]),
        Turn::say("finished"),
    ]));
    working.until("the agent waits", || agent.text("src/ready.txt").is_some());
    assert_eq!(agent.text("src/attacked.txt").as_deref(), Some("attacked\n"));
    assert_eq!(agent.text("attacked.txt"), None, "the gate was harmed from inside");
    if lost_answers::are_all_there_is(stage.cli) {
        lost_answers::now(&agent, Broken::Closed);
    } else {
        let empty = agent.directory().join("temp/empty");
        std::fs::create_dir(&empty).unwrap();
        let process = agent.processes().into_iter().next().unwrap();
        let gate = outside::gate();
        outside::put_over(&process, "/tmp/empty".as_ref(), gate.parent().unwrap());
    }
    std::fs::write(agent.path("src/go.txt"), "").unwrap();
    let ended = working.end();
    agent.denied("attacked.txt", FILES);
    if lost_answers::are_all_there_is(stage.cli) {
        lost_answers::once(&agent, Broken::Closed);
    }
    not_held_by_anybody(stage, &agent, &ended)
}

/// The gate becomes this script, or its answers are broken like this.
fn broken(stage: &Stage, id: &str, script: &str, how: Broken) -> Held {
    let mut agent = stage.agent(id).task("idle-minutes = 1");
    if lost_answers::are_all_there_is(stage.cli) {
        agent = agent.wrapped(lost_answers::between(stage, id));
    }
    let mut working = agent.start(Script::new(vec![
        Turn::Calls(vec![Call::shell(WAIT)]),
        Turn::Calls(vec![Call::shell(PUSH)]),
        Turn::Calls(vec![Call::shell("echo more > src/more.txt")]),
        Turn::say("finished"),
    ]));
    working.until("the agent waits", || agent.text("src/ready.txt").is_some());
    if lost_answers::are_all_there_is(stage.cli) {
        lost_answers::now(&agent, how);
    } else {
        becomes(&agent, script);
    }
    std::fs::write(agent.path("src/go.txt"), "").unwrap();
    let ended = working.end();
    if lost_answers::are_all_there_is(stage.cli) {
        lost_answers::once(&agent, how);
    } else {
        let called = std::fs::read_to_string(agent.directory().join("temp/called"));
        assert_eq!(called.unwrap_or_default(), "called\n", "the hook was called once");
    }
    match (stage.cli, how) {
        (Cli::Codex, Broken::Missing) => waited(&agent, &ended),
        _ => not_held_by_anybody(stage, &agent, &ended),
    }
}

/// It has waited for an answer until it was ended, and nothing happened meanwhile.
fn waited(agent: &Agent<'_>, ended: &Ended) -> Held {
    ended.expect("timed-out", 1);
    assert_eq!(agent.pushed(), [""; 0]);
    assert_eq!(agent.text("src/more.txt"), None);
    agent.could_push();
    Held::Enforced
}

/// The gate is suddenly this script.
fn becomes(agent: &Agent<'_>, script: &str) {
    let hook = agent.directory().join("temp/hook");
    std::fs::write(&hook, format!("#!/bin/sh\necho called >> /tmp/called\n{script}\n")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let process = agent.processes().into_iter().next().unwrap();
    outside::put_over(&process, "/tmp/hook".as_ref(), &outside::gate());
}

/// What was asked for after the hook broke has not happened, and the run is over. Codex takes a failure for
/// a yes: that call happens if it is done before we have ended it, and nothing after it.
fn not_held_by_anybody(stage: &Stage, agent: &Agent<'_>, ended: &Ended) -> Held {
    let pushed = agent.pushed();
    // A push that was ended in the middle may have left its lock.
    let of_one_call = |name: &String| ["pushed", "pushed.lock"].contains(&name.as_str());
    match stage.cli {
        Cli::Codex => assert!(pushed.iter().all(of_one_call), "{pushed:?}"),
        Cli::Claude | Cli::Gemini | Cli::OpenCode => assert_eq!(pushed, [""; 0]),
    }
    assert_eq!(agent.text("src/more.txt"), None);
    agent.allowed("src/ready.txt");
    agent.quarantined(ended);
    if pushed.is_empty() {
        agent.could_push();
    }
    Held::Quarantined
}
