//! Runs on the command line: start, cancel, retry and fork.

use serde_json::{Value, json};

use super::{Place, Serving};

fn start_run(place: &Place) -> String {
    let output = place.json(&["runs", "start", "app", "fixer", "--task", "Mend it."]);
    assert_eq!(output["phase"], "queued", "{output}");
    output["run"].as_str().unwrap().to_owned()
}

fn run(place: &Place, name: &str) -> Value {
    place.json(&["get", "run", name])
}

/// Starts a run, and cancels it before it runs.
fn start_and_cancel(place: &Place) -> String {
    let name = start_run(place);
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
    let name = start_and_cancel(&place);
    let ended = run(&place, &name);
    let reason = ended["status"]["terminalReason"].as_str().unwrap();
    assert!(reason.contains("not needed"), "{reason}");
    assert_eq!(ended["spec"]["sourceEvent"]["source"], "manual");
    place.run(&["runs", "cancel", &name]).expect_code(2);
    let refused = place.run(&["wait", &format!("run/{name}"), "--for", "phase=succeeded"]);
    assert!(refused.expect_code(2).err.contains("cancelled"));
    place.run(&["runs", "start", "app", "none", "--task", "x"]).expect_code(2);
    place.run(&["runs", "cancel", "adr-none"]).expect_code(2);
    let explained = place.run(&["explain", &format!("run/{name}")]).expect_code(0);
    assert!(explained.out.contains("it was cancelled"), "{}", explained.out);
    assert!(explained.err.contains("runs retry"), "{}", explained.err);
}

#[test]
fn runs_retry_makes_another_attempt_with_the_same_context() {
    let place = Place::ready();
    let name = start_run(&place);
    let early = place.run(&["runs", "retry", &name]).expect_code(2);
    assert!(early.err.contains("cancel it first"), "{}", early.err);
    place.run(&["runs", "cancel", &name]).expect_code(0);
    let serving = Serving::start(&place);
    place.run(&["wait", &format!("run/{name}"), "--for", "phase=cancelled"]).expect_code(0);
    drop(serving);
    let output = place.json(&["runs", "retry", &name]);
    assert_eq!((&output["run"], &output["phase"]), (&json!(name), &json!("queued")));
    let again = run(&place, &name);
    assert_eq!(again["status"]["attempts"].as_array().unwrap().len(), 2);
    let attempts = place.json(&["get", "attempts", "--field", &format!("run={name}")]);
    assert_eq!(attempts[1]["spec"]["attemptReason"], "retry");
    let digest = |number: usize| attempts[number]["spec"]["contextBundleDigest"].clone();
    assert_eq!(digest(0), digest(1));
}

#[test]
fn runs_fork_starts_a_similar_run() {
    let place = Place::ready();
    let name = start_run(&place);
    let output = place.json(&["runs", "fork", &name, "-m", "Try it otherwise."]);
    let other = output["run"].as_str().unwrap();
    assert_ne!(other, name);
    assert_eq!(run(&place, other)["spec"]["task"], "Try it otherwise.");
    assert_eq!(run(&place, other)["spec"]["agentStack"], "fixer");
    assert_eq!(place.json(&["get", "runs"]).as_array().unwrap().len(), 2);
    let queued = place.run(&["explain", &format!("run/{other}")]).expect_code(0);
    assert!(queued.out.contains("it waits for its turn in the pool inside"), "{}", queued.out);
}

/// Refreshing with a rule is tested in the control plane.
#[test]
fn runs_refresh_context_needs_a_reason_and_changed_sources() {
    let place = Place::ready();
    let name = start_run(&place);
    let refused = place.run(&["runs", "refresh-context", &name]).expect_code(2);
    assert!(refused.err.contains("say why"), "{}", refused.err);
    let arguments = ["runs", "refresh-context", &name, "--reason", "the issue was edited"];
    let refused = place.run(&arguments).expect_code(2);
    assert!(refused.err.contains("nothing that it reads has changed"), "{}", refused.err);
}

/// Runs with a conversation are tested with real agents, in the conformance tests of the fleet.
#[test]
fn runs_resume_and_runs_continue_need_a_conversation() {
    let place = Place::ready();
    let name = start_and_cancel(&place);
    for arguments in [&["runs", "resume", &name][..], &["runs", "continue", &name, "-m", "Go on."]]
    {
        let refused = place.run(arguments).expect_code(2);
        assert!(refused.err.contains("retry it instead"), "{}", refused.err);
    }
    let refused = place.run(&["runs", "continue", &name]).expect_code(2);
    assert!(refused.err.contains("say what the agent is to do"), "{}", refused.err);
    assert_eq!(run(&place, &name)["status"]["attempts"].as_array().unwrap().len(), 1);
}

/// Adds an attempt of a run, with messages of its agent.
fn add_attempt_with_events(place: &Place, run: &str, number: u32, agent: &str, texts: &[&str]) {
    use bailiwick_fleet::ports::{FleetStore as _, Write};
    use bailiwick_model::event::{EventKind, ReportedBy};
    let attempts = place.json(&["get", "attempts", "--field", &format!("run={run}")]);
    let mut attempt: bailiwick_resources::AnyObject =
        serde_json::from_value(attempts[0].clone()).unwrap();
    attempt.spec["number"] = json!(number);
    let entered_at = format!("2026-01-0{number}T00:00:00Z");
    attempt.status["agentMuxRunId"] = json!(agent);
    attempt.status["queueEnteredAt"] = json!(entered_at);
    attempt.metadata.resource_version = 0;
    let write = match number {
        1 => Write::Status(attempt),
        _ => {
            attempt.metadata.name = format!("{agent}-attempt");
            Write::Create(attempt)
        }
    };
    let mut events: Vec<bailiwick_model::Event> = texts
        .iter()
        .map(|text| bailiwick_model::Event {
            number: 0,
            at: 1_800_000_000_000,
            reported_by: ReportedBy::Program,
            agent: None,
            what: EventKind::Text { text: (*text).to_owned() },
            raw: None,
        })
        .collect();
    place.with_store(async |store| {
        let now = bailiwick_resources::Moment::from_millis(1);
        store.commit(vec![write], now).await.unwrap();
        store.append_events(&agent.parse().unwrap(), &mut events).await.unwrap();
    });
}

#[test]
fn runs_logs_shows_all_attempts_or_one() {
    let place = Place::ready();
    let name = start_run(&place);
    let nothing = place.run(&["runs", "logs", &name]).expect_code(0);
    assert!(nothing.err.contains("nothing happened yet"), "{}", nothing.err);
    add_attempt_with_events(&place, &name, 1, "first", &["one", "two"]);
    add_attempt_with_events(&place, &name, 2, "second", &["three"]);
    let all = place.run(&["runs", "logs", &name]).expect_code(0).out;
    let words: Vec<&str> =
        all.split_whitespace().filter(|word| "one two three attempt 1 2".contains(word)).collect();
    assert_eq!(words, ["attempt", "1", "one", "two", "attempt", "2", "three"], "{all}");
    let events = place.json(&["runs", "logs", &name]);
    let second = events[1]["cursor"].to_string();
    let rest = place.json(&["runs", "logs", &name, "--after", &second]);
    assert_eq!(rest.as_array().unwrap(), &events.as_array().unwrap()[2..]);
    let one = place.json(&["runs", "logs", &name, "--attempt", "2"]);
    assert_eq!(one, rest);
    place.run(&["runs", "logs", &name, "--attempt", "3"]).expect_code(2);
    place.run(&["runs", "logs", "adr-none"]).expect_code(2);
}

#[test]
fn runs_start_records_its_sources_and_request_id_is_idempotent() {
    let place = Place::ready();
    let start = |extra: &[&str]| {
        let arguments = ["runs", "start", "app", "fixer", "--task", "Mend it.", "--issue", "7"];
        place.json(&[&arguments, extra].concat())
    };
    let first = start(&["--request-id", "mine", "--pull-request", "5"]);
    let again = start(&["--request-id", "mine", "--pull-request", "5"]);
    assert_eq!(first["run"], again["run"]);
    assert_ne!(start(&["--request-id", "another"])["run"], first["run"]);
    let refs = run(&place, first["run"].as_str().unwrap())["spec"]["sourceRefs"].clone();
    assert_eq!((&refs["issue"], &refs["pullRequest"]), (&json!(7), &json!(5)));
    let label = ["runs", "start", "app", "fixer", "--task", "x", "--label", "none"];
    let refused = place.run(&label).expect_code(2);
    assert!(refused.err.contains("none"), "{}", refused.err);
}
