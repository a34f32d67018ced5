//! Which events are the same, and for how long. Fault: a new commit was a duplicate for ever.

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

/// The same event came before, with this end, at `now`.
fn after(
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

/// The same failure as another delivery would bring it.
fn again() -> SourceEvent {
    SourceEvent { uid: "d-2".to_owned(), ..failed_check() }
}

#[test]
fn the_same_failure_is_the_same_within_its_window() {
    let rule = rule(|_| {});
    let seen = after(ExecutionDecision::Created, &failed_check(), &rule);
    let plans = evaluate(&[again()], std::slice::from_ref(&rule), &seen, Intent::Deliver, now());
    let execution = &plans[0].execution;
    assert_eq!(execution.decision, ExecutionDecision::Deduplicated);
    assert_eq!(execution.duplicate_of.as_deref(), Some("ate-earlier"));
    assert_eq!(execution.dispatch_run.as_deref(), Some("adr-earlier"));
    let later = now().plus_millis(24 * 3_600_000);
    assert_eq!(decide(&again(), &rule, &seen, later), ExecutionDecision::Created);
    let just = Moment::from_millis(later.millis() - 1);
    assert_eq!(decide(&again(), &rule, &seen, just), ExecutionDecision::Deduplicated);
}

#[test]
fn the_same_event_is_the_same_for_ever_and_whatever_else_is_known_of_it() {
    let rule = rule(|spec| {
        spec["dedupePolicy"] = json!({ "key": "{{ event.branch }}", "window": "1m" });
    });
    let happened = format!("{}/check/7", failed_check().repository.to_lowercase());
    let first = SourceEvent { uid: happened, ..failed_check() };
    let seen = after(ExecutionDecision::Created, &first, &rule);
    let much_later = now().plus_millis(400 * 24 * 3_600_000);
    let same = SourceEvent { sha: Some(OTHER_SHA.to_owned()), ..first };
    assert_eq!(decide(&same, &rule, &seen, much_later), ExecutionDecision::Deduplicated);
    assert_eq!(decide(&again(), &rule, &seen, much_later), ExecutionDecision::Created, "control");
    // The id of a delivery does not say what happened.
    let seen_delivery = after(ExecutionDecision::Created, &failed_check(), &rule);
    let delivered = SourceEvent { sha: Some(OTHER_SHA.to_owned()), ..failed_check() };
    assert_eq!(decide(&delivered, &rule, &seen_delivery, much_later), ExecutionDecision::Created);
    let mut other_rule = rule.clone();
    other_rule.metadata.name = "another".to_owned();
    assert_eq!(decide(&same, &other_rule, &seen, now()), ExecutionDecision::Created);
}

#[test]
fn a_new_commit_is_never_a_duplicate_whatever_the_key() {
    for key in [None, Some("{{ event.check }}"), Some("{{ event.branch }}")] {
        let rule = rule(|spec| {
            if let Some(key) = key {
                spec["dedupePolicy"] = json!({ "key": key, "window": "30d" });
            }
        });
        let seen = after(ExecutionDecision::Created, &failed_check(), &rule);
        let mut event = again();
        assert_eq!(decide(&event, &rule, &seen, now()), ExecutionDecision::Deduplicated, "{key:?}");
        event.sha = Some(OTHER_SHA.to_owned());
        assert_eq!(decide(&event, &rule, &seen, now()), ExecutionDecision::Created, "{key:?}");
    }
}

#[test]
fn what_came_to_nothing_does_not_count() {
    let rule = rule(|_| {});
    for (decision, same) in [
        (ExecutionDecision::Created, true),
        (ExecutionDecision::Coalesced, true),
        (ExecutionDecision::WaitingForApproval, true),
        (ExecutionDecision::Rejected, false),
        (ExecutionDecision::Deduplicated, false),
        (ExecutionDecision::Materialized, false),
    ] {
        let seen = after(decision, &failed_check(), &rule);
        let found = decide(&again(), &rule, &seen, now()) == ExecutionDecision::Deduplicated;
        assert_eq!(found, same, "{decision:?}");
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
fn every_part_of_a_failure_makes_another_key() {
    let rule = rule(|_| {});
    let of = |change: &dyn Fn(&mut SourceEvent)| {
        let mut event = again();
        change(&mut event);
        key(&rule, &event).unwrap().key
    };
    let text = |text: &str| Some(text.to_owned());
    let keys = [
        of(&|_| {}),
        of(&|event| event.repository = "acme/other".to_owned()),
        of(&|event| event.pull_request = Some(7)),
        of(&|event| event.pull_request = Some(8)),
        of(&|event| event.check = text("lint")),
        of(&|event| event.sha = text(OTHER_SHA)),
        of(&|event| event.job = text("test")),
        of(&|event| event.step = text("cargo test")),
        of(&|event| event.workflow = text("CI")),
        of(&|event| event.failure_log = text("error: a")),
        of(&|event| event.failure_log = text("error: b")),
        key(&renamed(&rule, |metadata| metadata.name = "another".to_owned()), &again())
            .unwrap()
            .key,
        key(&renamed(&rule, |metadata| metadata.namespace = "b".to_owned()), &again()).unwrap().key,
    ];
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:#?}");
    assert_eq!(of(&|event| event.uid = "d-9".to_owned()), keys[0], "who delivered it is no part");
}

#[test]
fn a_comment_is_the_same_only_as_itself() {
    let rule = rule(|spec| spec["sources"] = json!(["issue-comment"]));
    let mut first = failed_check();
    first.source = bailiwick_resources::EventSource::IssueComment;
    let second = SourceEvent { uid: "d-2".to_owned(), ..first.clone() };
    let of = |event: &SourceEvent| key(&rule, event).unwrap().key;
    assert_ne!(of(&first), of(&second));
    assert_eq!(of(&first), of(&first.clone()));
}

#[test]
fn a_failure_is_recognised_in_spite_of_its_numbers() {
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
fn a_replay_by_a_person_is_not_held_back() {
    let rule = rule(|_| {});
    let seen = after(ExecutionDecision::Created, &failed_check(), &rule);
    let replayed = failed_check().replayed("request-1", "ada");
    let plans = evaluate(&[replayed], &[rule], &seen, Intent::Replay, now());
    assert_eq!(plans[0].execution.decision, ExecutionDecision::Created);
    // The person who replays an event has requested the run, so another person must approve it.
    let event = &plans[0].run.as_ref().unwrap().spec.source_event;
    assert_eq!(dispatcher(event), Some("ada"));
    assert_ne!(event.actor.as_deref(), Some("ada"));
}

#[test]
fn what_is_trusted_is_no_duplicate_of_what_is_not() {
    let untrusted = || SourceEvent { trust_tier: TrustTier::Untrusted, ..again() };
    for key in [None, Some("{{ event.check }}")] {
        let rule = rule(|spec| {
            if let Some(key) = key {
                spec["dedupePolicy"] = json!({ "key": key, "window": "1h" });
            }
        });
        let doubtful = after(ExecutionDecision::Created, &untrusted(), &rule);
        assert_eq!(decide(&again(), &rule, &doubtful, now()), ExecutionDecision::Created);
        assert_eq!(decide(&untrusted(), &rule, &doubtful, now()), ExecutionDecision::Deduplicated);
        let sure = after(ExecutionDecision::Created, &failed_check(), &rule);
        assert_eq!(decide(&untrusted(), &rule, &sure, now()), ExecutionDecision::Deduplicated);
        // In a repository that is not trusted itself, nothing is trusted more than anything else.
        let nowhere = EventContext { repository_trust: TrustTier::Untrusted, ..doubtful };
        assert_eq!(decide(&again(), &rule, &nowhere, now()), ExecutionDecision::Deduplicated);
    }
}

/// A failure of which workflow, job and check are told as is said here.
fn told(uid: &str, [workflow, job, check]: [&str; 3]) -> SourceEvent {
    let word = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    SourceEvent {
        uid: uid.to_owned(),
        workflow: word(workflow),
        job: word(job),
        check: word(check),
        ..failed_check()
    }
}

/// Whether two tellings are one failure, whichever comes first.
fn are_one(one: &SourceEvent, two: &SourceEvent) -> bool {
    let rule = rule(|spec| spec["promptTemplate"] = json!("Mend it."));
    let [there, back] = [(one, two), (two, one)].map(|(first, second)| {
        let seen = after(ExecutionDecision::Created, first, &rule);
        decide(second, &rule, &seen, now())
    });
    assert_eq!(there, back, "{one:?} {two:?}");
    there == ExecutionDecision::Deduplicated
}

#[test]
fn jobs_of_the_same_name_in_two_workflows_are_two_failures() {
    let named = told("d-1", ["CI", "test", ""]);
    for (uid, workflow, same) in [
        ("d-2", "CI", true),
        ("d-2", "Nightly", false),
        ("d-2", "nightly.yml", false),
        ("d-2", "ci.yml", true),
        ("d-2", ".github/workflows/ci.yaml@refs/heads/main", true),
        // A forge that is asked says nothing but the file.
        ("poll/17/a/b", "nightly.yml", true),
        ("poll/17/a/b", "Nightly", false),
    ] {
        let other = told(uid, [workflow, "test", ""]);
        assert_eq!(are_one(&named, &other), same, "{uid} {workflow}");
    }
}

#[test]
fn what_has_no_name_in_common_is_two_failures() {
    let status = told("d-1", ["", "", "ci/circleci"]);
    let run = told("d-2", ["Lint", "", ""]);
    assert!(!are_one(&status, &run));
    assert!(are_one(&run, &told("d-3", ["Lint", "clippy", ""])));
    assert!(!are_one(&run, &told("d-3", ["CI", "clippy", ""])));
    assert!(are_one(&told("d-3", ["CI", "clippy", ""]), &told("d-4", ["", "", "clippy"])));
}

/// The same, as it is told of a run of a workflow by its number.
fn numbered(uid: &str, names: [&str; 3], run: u64) -> SourceEvent {
    let (event, payload) = match names[1] {
        "" => ("workflow_run", json!({ "workflow_run": { "id": run } })),
        _ => ("workflow_job", json!({ "workflow_job": { "id": 1, "run_id": run } })),
    };
    let (event, payload) = (event.to_owned(), std::sync::Arc::new(payload));
    SourceEvent { event, payload, ..told(uid, names) }
}

/// One forge's jobs do not say their workflow, and its runs do not say their jobs: what is left out of one is
/// not what is left out of another.
#[test]
fn names_that_nobody_said_are_not_the_same() {
    let run = ["Lint", "", ""];
    let job = ["", "clippy", ""];
    assert!(!are_one(&told("d-1", run), &told("d-2", job)), "nothing says that they are one");
    assert!(!are_one(&told("d-1", run), &numbered("d-2", job, 7)));
    assert!(are_one(&numbered("d-1", run, 7), &numbered("d-2", job, 7)));
    assert!(!are_one(&numbered("d-1", run, 7), &numbered("d-2", job, 8)));
    // Nor are two jobs of one name in two runs of nobody knows which workflow.
    assert!(are_one(&numbered("d-1", job, 7), &numbered("d-2", job, 7)));
    assert!(!are_one(&numbered("d-1", job, 7), &numbered("d-2", job, 8)));
    assert!(are_one(&numbered("d-1", job, 7), &told("d-2", ["", "", "clippy"])));
    // Where the workflow is known, another run of it is the same failure.
    let whole = ["Lint", "clippy", ""];
    assert!(are_one(&numbered("d-1", whole, 7), &numbered("d-2", whole, 8)));
    assert!(are_one(&numbered("d-1", whole, 7), &numbered("d-2", run, 8)));
}

#[test]
fn two_suites_of_one_commit_are_two_failures() {
    let suite = |id: u64, app: &str| {
        let payload = sent(json!({ "action": "completed", "check_suite": {
            "id": id, "head_branch": "main", "head_sha": SHA, "conclusion": "failure",
            "app": { "name": app }, "pull_requests": [] } }));
        read(ForgeKind::Github, "check_suite", &payload).swap_remove(0)
    };
    let first = suite(1, "Builder");
    assert_eq!(first.check, None);
    let again = SourceEvent { uid: "d-2".to_owned(), ..suite(1, "Builder") };
    assert!(are_one(&first, &again));
    assert!(!are_one(&first, &SourceEvent { uid: "d-2".to_owned(), ..suite(2, "Other") }));
    assert!(!are_one(&first, &told("d-3", ["", "Builder", ""])));
}
