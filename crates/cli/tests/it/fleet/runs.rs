//! Runs at the terminal: asked for, ended, tried again, forked.

use serde_json::{Value, json};

use super::{Place, Serving};

fn started(place: &Place) -> String {
    let said = place.json(&["runs", "start", "app", "fixer", "--task", "Mend it."]);
    assert_eq!(said["phase"], "queued", "{said}");
    said["run"].as_str().unwrap().to_owned()
}

fn run(place: &Place, name: &str) -> Value {
    place.json(&["get", "run", name])
}

/// One that was started and ended before anything worked on it.
fn cancelled(place: &Place) -> String {
    let name = started(place);
    place.run(&["runs", "cancel", &name, "--reason", "not needed"]).expect_code(0);
    let serving = Serving::start(place);
    let object = format!("run/{name}");
    place.run(&["wait", &object, "--for", "phase=cancelled"]).expect_code(0);
    drop(serving);
    name
}

#[test]
fn runs_start_and_runs_cancel_and_wait_for_the_end() {
    let place = Place::ready();
    let name = cancelled(&place);
    let ended = run(&place, &name);
    let why = ended["status"]["terminalReason"].as_str().unwrap();
    assert!(why.contains("not needed"), "{why}");
    assert_eq!(ended["spec"]["sourceEvent"]["source"], "manual");
    place.run(&["runs", "cancel", &name]).expect_code(2);
    let said = place.run(&["wait", &format!("run/{name}"), "--for", "phase=succeeded"]);
    assert!(said.expect_code(2).err.contains("cancelled"));
    place.run(&["runs", "start", "app", "none", "--task", "x"]).expect_code(2);
    place.run(&["runs", "cancel", "adr-none"]).expect_code(2);
    let explained = place.run(&["explain", &format!("run/{name}")]).expect_code(0);
    assert!(explained.out.contains("it was ended"), "{}", explained.out);
    assert!(explained.err.contains("runs retry"), "{}", explained.err);
}

#[test]
fn runs_retry_makes_another_attempt_with_all_it_had() {
    let place = Place::ready();
    let name = started(&place);
    let early = place.run(&["runs", "retry", &name]).expect_code(2);
    assert!(early.err.contains("cancel it first"), "{}", early.err);
    place.run(&["runs", "cancel", &name]).expect_code(0);
    let serving = Serving::start(&place);
    place.run(&["wait", &format!("run/{name}"), "--for", "phase=cancelled"]).expect_code(0);
    drop(serving);
    let said = place.json(&["runs", "retry", &name]);
    assert_eq!((&said["run"], &said["phase"]), (&json!(name), &json!("queued")));
    let again = run(&place, &name);
    assert_eq!(again["status"]["attempts"].as_array().unwrap().len(), 2);
    let attempts = place.json(&["get", "attempts", "--field", &format!("run={name}")]);
    assert_eq!(attempts[1]["spec"]["attemptReason"], "retry");
    let digest = |number: usize| attempts[number]["spec"]["contextBundleDigest"].clone();
    assert_eq!(digest(0), digest(1));
}

#[test]
fn runs_fork_starts_another_like_it() {
    let place = Place::ready();
    let name = started(&place);
    let said = place.json(&["runs", "fork", &name, "-m", "Try it otherwise."]);
    let other = said["run"].as_str().unwrap();
    assert_ne!(other, name);
    assert_eq!(run(&place, other)["spec"]["task"], "Try it otherwise.");
    assert_eq!(run(&place, other)["spec"]["agentStack"], "fixer");
    assert_eq!(place.json(&["get", "runs"]).as_array().unwrap().len(), 2);
    let queued = place.run(&["explain", &format!("run/{other}")]).expect_code(0);
    assert!(queued.out.contains("it waits for its turn in the pool inside"), "{}", queued.out);
}

/// The other way is shown where there is an agent that remembers: see the conformance of the fleet.
#[test]
fn runs_resume_and_runs_continue_need_a_conversation() {
    let place = Place::ready();
    let name = cancelled(&place);
    for arguments in [&["runs", "resume", &name][..], &["runs", "continue", &name, "-m", "Go on."]]
    {
        let said = place.run(arguments).expect_code(2);
        assert!(said.err.contains("retry it instead"), "{}", said.err);
    }
    let said = place.run(&["runs", "continue", &name]).expect_code(2);
    assert!(said.err.contains("say what the agent is to do"), "{}", said.err);
    assert_eq!(run(&place, &name)["status"]["attempts"].as_array().unwrap().len(), 1);
}
