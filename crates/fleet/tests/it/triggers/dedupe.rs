//! Which events are duplicates, and for how long. Fault: a new commit was a duplicate forever.

use bailiwick_fleet::admission::admit::dispatcher;
use bailiwick_fleet::triggers::dedupe::{key, signature};
use bailiwick_fleet::triggers::{EventContext, Intent, RecentExecution, SourceEvent, evaluate};
use bailiwick_resources::{
    AgentTriggerRule, ExecutionDecision, ForgeKind, Metadata, Moment, Object, TrustTier,
};
use serde_json::json;

use super::{OTHER_SHA, SHA, failed_check, now, read, rule, seen, sent};

fn decide(
    event: &SourceEvent,
    rule: &Object<AgentTriggerRule>,
    seen: &EventContext,
    at: Moment,
) -> ExecutionDecision {
    let events = [event.clone()];
    evaluate(&events, std::slice::from_ref(rule), seen, Intent::Deliver, at)[0].execution.decision
}

/// The same event arrived before, at `now`, with this decision.
fn context_after(
    decision: ExecutionDecision,
    event: &SourceEvent,
    rule: &Object<AgentTriggerRule>,
) -> EventContext {
    let key = key(rule, event).unwrap();
    let earlier = RecentExecution {
        name: "ate-earlier".to_owned(),
        rule: format!("{}/{}", rule.metadata.namespace, rule.name()),
        event_uid: event.uid.clone(),
        dedupe_key: Some(key.key),
        trust_tier: event.trust_tier,
        polled: event.uid.starts_with("poll/"),
        decision,
        at: now(),
        run: Some("adr-earlier".to_owned()),
    };
    EventContext { recent: vec![earlier], ..seen() }
}

/// The same failure in another delivery.
fn redelivered() -> SourceEvent {
    SourceEvent { uid: "d-2".to_owned(), ..failed_check() }
}

#[test]
fn same_failure_is_a_duplicate_within_its_window() {
    let rule = rule(|_| {});
    let seen = context_after(ExecutionDecision::Created, &failed_check(), &rule);
    let plans =
        evaluate(&[redelivered()], std::slice::from_ref(&rule), &seen, Intent::Deliver, now());
    let execution = &plans[0].execution;
    assert_eq!(execution.decision, ExecutionDecision::Deduplicated);
    assert_eq!(execution.duplicate_of.as_deref(), Some("ate-earlier"));
    assert_eq!(execution.dispatch_run.as_deref(), Some("adr-earlier"));
    let later = now().plus_millis(24 * 3_600_000);
    assert_eq!(decide(&redelivered(), &rule, &seen, later), ExecutionDecision::Created);
    let just_before = Moment::from_millis(later.millis() - 1);
    assert_eq!(decide(&redelivered(), &rule, &seen, just_before), ExecutionDecision::Deduplicated);
}

#[test]
fn same_event_id_is_always_a_duplicate() {
    let rule = rule(|spec| {
        spec["dedupePolicy"] = json!({ "key": "{{ event.branch }}", "window": "1m" });
    });
    let event_id = format!("{}/check/7", failed_check().repository.to_lowercase());
    let first = SourceEvent { uid: event_id, ..failed_check() };
    let seen = context_after(ExecutionDecision::Created, &first, &rule);
    let much_later = now().plus_millis(400 * 24 * 3_600_000);
    let same = SourceEvent { sha: Some(OTHER_SHA.to_owned()), ..first };
    assert_eq!(decide(&same, &rule, &seen, much_later), ExecutionDecision::Deduplicated);
    assert_eq!(
        decide(&redelivered(), &rule, &seen, much_later),
        ExecutionDecision::Created,
        "positive control"
    );
    // The id of a delivery does not identify an event.
    let seen_delivery = context_after(ExecutionDecision::Created, &failed_check(), &rule);
    let delivered = SourceEvent { sha: Some(OTHER_SHA.to_owned()), ..failed_check() };
    assert_eq!(decide(&delivered, &rule, &seen_delivery, much_later), ExecutionDecision::Created);
    let mut other_rule = rule.clone();
    other_rule.metadata.name = "another".to_owned();
    assert_eq!(decide(&same, &other_rule, &seen, now()), ExecutionDecision::Created);
}

#[test]
fn new_commit_is_never_a_duplicate_for_any_key() {
    for key in [None, Some("{{ event.check }}"), Some("{{ event.branch }}")] {
        let rule = rule(|spec| {
            if let Some(key) = key {
                spec["dedupePolicy"] = json!({ "key": key, "window": "30d" });
            }
        });
        let seen = context_after(ExecutionDecision::Created, &failed_check(), &rule);
        let mut event = redelivered();
        assert_eq!(decide(&event, &rule, &seen, now()), ExecutionDecision::Deduplicated, "{key:?}");
        event.sha = Some(OTHER_SHA.to_owned());
        assert_eq!(decide(&event, &rule, &seen, now()), ExecutionDecision::Created, "{key:?}");
    }
}

#[test]
fn only_events_with_a_run_make_duplicates() {
    let rule = rule(|_| {});
    for (decision, is_duplicate) in [
        (ExecutionDecision::Created, true),
        (ExecutionDecision::Coalesced, true),
        (ExecutionDecision::WaitingForApproval, true),
        (ExecutionDecision::Rejected, false),
        (ExecutionDecision::Deduplicated, false),
        (ExecutionDecision::Materialized, false),
    ] {
        let seen = context_after(decision, &failed_check(), &rule);
        let found = decide(&redelivered(), &rule, &seen, now()) == ExecutionDecision::Deduplicated;
        assert_eq!(found, is_duplicate, "{decision:?}");
    }
}

fn renamed(
    rule: &Object<AgentTriggerRule>,
    change: impl FnOnce(&mut Metadata),
) -> Object<AgentTriggerRule> {
    let mut rule = rule.clone();
    change(&mut rule.metadata);
    rule
}

#[test]
fn every_part_of_a_failure_changes_the_key() {
    let rule = rule(|_| {});
    let key_of = |change: &dyn Fn(&mut SourceEvent)| {
        let mut event = redelivered();
        change(&mut event);
        key(&rule, &event).unwrap().key
    };
    let text = |text: &str| Some(text.to_owned());
    let keys = [
        key_of(&|_| {}),
        key_of(&|event| event.repository = "acme/other".to_owned()),
        key_of(&|event| event.pull_request = Some(7)),
        key_of(&|event| event.pull_request = Some(8)),
        key_of(&|event| event.check = text("lint")),
        key_of(&|event| event.sha = text(OTHER_SHA)),
        key_of(&|event| event.job = text("test")),
        key_of(&|event| event.step = text("cargo test")),
        key_of(&|event| event.workflow = text("CI")),
        key_of(&|event| event.failure_log = text("error: a")),
        key_of(&|event| event.failure_log = text("error: b")),
        key(&renamed(&rule, |metadata| metadata.name = "another".to_owned()), &redelivered())
            .unwrap()
            .key,
        key(&renamed(&rule, |metadata| metadata.namespace = "b".to_owned()), &redelivered())
            .unwrap()
            .key,
    ];
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:#?}");
    assert_eq!(
        key_of(&|event| event.uid = "d-9".to_owned()),
        keys[0],
        "the delivery is not part of the key"
    );
}

#[test]
fn two_comments_are_never_duplicates() {
    let rule = rule(|spec| spec["sources"] = json!(["issue-comment"]));
    let mut first = failed_check();
    first.source = bailiwick_resources::EventSource::IssueComment;
    let second = SourceEvent { uid: "d-2".to_owned(), ..first.clone() };
    let key_of = |event: &SourceEvent| key(&rule, event).unwrap().key;
    assert_ne!(key_of(&first), key_of(&second));
    assert_eq!(key_of(&first), key_of(&first.clone()));
}

#[test]
fn failure_signature_ignores_times_and_line_numbers() {
    let log = |seconds: u32, line: u32| {
        format!(
            "2026-11-15T18:00:0{seconds}Z compiling\n\u{1b}[31merror\u{1b}[0m: no field at \
             src/a.rs:{line}:9\nfinished in {seconds}.{line} s\n"
        )
    };
    assert_eq!(signature(&log(1, 10)), signature(&log(7, 2345)));
    assert_ne!(signature(&log(1, 10)), signature("error: another one"));
    assert_ne!(signature("quiet end"), signature("another end"));
}

#[test]
fn replay_by_a_person_is_not_a_duplicate() {
    let rule = rule(|_| {});
    let seen = context_after(ExecutionDecision::Created, &failed_check(), &rule);
    let replayed = failed_check().replayed("request-1", "ada");
    let plans = evaluate(&[replayed], &[rule], &seen, Intent::Replay, now());
    assert_eq!(plans[0].execution.decision, ExecutionDecision::Created);
    // The person who replays an event has requested the run, so another person must approve it.
    let event = &plans[0].run.as_ref().unwrap().spec.source_event;
    assert_eq!(dispatcher(event), Some("ada"));
    assert_ne!(event.actor.as_deref(), Some("ada"));
}

#[test]
fn trusted_event_is_not_a_duplicate_of_an_untrusted_one() {
    let untrusted = || SourceEvent { trust_tier: TrustTier::Untrusted, ..redelivered() };
    for key in [None, Some("{{ event.check }}")] {
        let rule = rule(|spec| {
            if let Some(key) = key {
                spec["dedupePolicy"] = json!({ "key": key, "window": "1h" });
            }
        });
        let after_untrusted = context_after(ExecutionDecision::Created, &untrusted(), &rule);
        assert_eq!(
            decide(&redelivered(), &rule, &after_untrusted, now()),
            ExecutionDecision::Created
        );
        assert_eq!(
            decide(&untrusted(), &rule, &after_untrusted, now()),
            ExecutionDecision::Deduplicated
        );
        let after_trusted = context_after(ExecutionDecision::Created, &failed_check(), &rule);
        assert_eq!(
            decide(&untrusted(), &rule, &after_trusted, now()),
            ExecutionDecision::Deduplicated
        );
        // In an untrusted repository, all events have the same trust.
        let untrusted_repository =
            EventContext { repository_trust: TrustTier::Untrusted, ..after_untrusted };
        assert_eq!(
            decide(&redelivered(), &rule, &untrusted_repository, now()),
            ExecutionDecision::Deduplicated
        );
    }
}

/// A failure with these names; an empty name is missing.
fn failure(uid: &str, [workflow, job, check]: [&str; 3]) -> SourceEvent {
    let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    SourceEvent {
        uid: uid.to_owned(),
        workflow: name(workflow),
        job: name(job),
        check: name(check),
        ..failed_check()
    }
}

/// Whether two reports are one failure, in either order.
fn are_duplicates(first_report: &SourceEvent, second_report: &SourceEvent) -> bool {
    let rule = rule(|spec| spec["promptTemplate"] = json!("Mend it."));
    let [forward, backward] =
        [(first_report, second_report), (second_report, first_report)].map(|(first, second)| {
            let seen = context_after(ExecutionDecision::Created, first, &rule);
            decide(second, &rule, &seen, now())
        });
    assert_eq!(forward, backward, "{first_report:?} {second_report:?}");
    forward == ExecutionDecision::Deduplicated
}

#[test]
fn jobs_of_the_same_name_in_two_workflows_are_two_failures() {
    let named = failure("d-1", ["CI", "test", ""]);
    for (uid, workflow, is_duplicate) in [
        ("d-2", "CI", true),
        ("d-2", "Nightly", false),
        ("d-2", "nightly.yml", false),
        ("d-2", "ci.yml", true),
        ("d-2", ".github/workflows/ci.yaml@refs/heads/main", true),
        // A polled forge reports only the workflow file.
        ("poll/17/a/b", "nightly.yml", true),
        ("poll/17/a/b", "Nightly", false),
    ] {
        let other = failure(uid, [workflow, "test", ""]);
        assert_eq!(are_duplicates(&named, &other), is_duplicate, "{uid} {workflow}");
    }
}

#[test]
fn reports_without_a_common_name_are_two_failures() {
    let status = failure("d-1", ["", "", "ci/circleci"]);
    let run = failure("d-2", ["Lint", "", ""]);
    assert!(!are_duplicates(&status, &run));
    assert!(are_duplicates(&run, &failure("d-3", ["Lint", "clippy", ""])));
    assert!(!are_duplicates(&run, &failure("d-3", ["CI", "clippy", ""])));
    assert!(are_duplicates(
        &failure("d-3", ["CI", "clippy", ""]),
        &failure("d-4", ["", "", "clippy"])
    ));
}

/// The same failure with the number of its workflow run.
fn failure_in_run(uid: &str, names: [&str; 3], run: u64) -> SourceEvent {
    let (event, payload) = match names[1] {
        "" => ("workflow_run", json!({ "workflow_run": { "id": run } })),
        _ => ("workflow_job", json!({ "workflow_job": { "id": 1, "run_id": run } })),
    };
    let (event, payload) = (event.to_owned(), std::sync::Arc::new(payload));
    SourceEvent { event, payload, ..failure(uid, names) }
}

/// One forge's jobs do not name their workflow, and its runs do not name their jobs: two missing names are not equal.
#[test]
fn missing_names_are_not_equal() {
    let run = ["Lint", "", ""];
    let job = ["", "clippy", ""];
    assert!(
        !are_duplicates(&failure("d-1", run), &failure("d-2", job)),
        "nothing connects the two reports"
    );
    assert!(!are_duplicates(&failure("d-1", run), &failure_in_run("d-2", job, 7)));
    assert!(are_duplicates(&failure_in_run("d-1", run, 7), &failure_in_run("d-2", job, 7)));
    assert!(!are_duplicates(&failure_in_run("d-1", run, 7), &failure_in_run("d-2", job, 8)));
    // Two jobs of one name in two runs of unknown workflows are two failures.
    assert!(are_duplicates(&failure_in_run("d-1", job, 7), &failure_in_run("d-2", job, 7)));
    assert!(!are_duplicates(&failure_in_run("d-1", job, 7), &failure_in_run("d-2", job, 8)));
    assert!(are_duplicates(&failure_in_run("d-1", job, 7), &failure("d-2", ["", "", "clippy"])));
    // If the workflow is known, another run of it has the same failure.
    let whole = ["Lint", "clippy", ""];
    assert!(are_duplicates(&failure_in_run("d-1", whole, 7), &failure_in_run("d-2", whole, 8)));
    assert!(are_duplicates(&failure_in_run("d-1", whole, 7), &failure_in_run("d-2", run, 8)));
}

#[test]
fn two_check_suites_of_one_commit_are_two_failures() {
    let suite = |id: u64, app: &str| {
        let payload = sent(json!({ "action": "completed", "check_suite": {
            "id": id, "head_branch": "main", "head_sha": SHA, "conclusion": "failure",
            "app": { "name": app }, "pull_requests": [] } }));
        read(ForgeKind::Github, "check_suite", &payload).swap_remove(0)
    };
    let first = suite(1, "Builder");
    assert_eq!(first.check, None);
    let redelivered = SourceEvent { uid: "d-2".to_owned(), ..suite(1, "Builder") };
    assert!(are_duplicates(&first, &redelivered));
    assert!(!are_duplicates(&first, &SourceEvent { uid: "d-2".to_owned(), ..suite(2, "Other") }));
    assert!(!are_duplicates(&first, &failure("d-3", ["", "Builder", ""])));
}
