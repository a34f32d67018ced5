//! The report of `trigger test`: every planned action, and the reasons.

use bailiwick_fleet::triggers::{ActiveRun, RecentExecution, concurrency, dedupe, dry_run};
use bailiwick_resources::{ContextSource, ExecutionDecision, TrustTier};
use serde_json::json;

use super::{failed_check, now, rule, seen};

#[test]
fn report_shows_every_planned_action() {
    let rule = rule(|spec| {
        spec["lifecycleState"] = "draft".into();
        spec["match"] = json!({ "conclusion": ["failure"] });
        spec["contextBundleTemplate"] =
            json!({ "include": ["failing-job-log", "pull-request-summary", "event-payload"] });
        spec["writeBackPolicy"] = json!({ "allowedTargets": ["pull-request-comment"] });
    });
    let report = dry_run(&failed_check(), &rule, &seen(), now());
    assert!(report.source_agrees && report.matcher.matched);
    assert!(report.prompt.as_ref().unwrap().text.contains("\nbuild\n"));
    assert!(report.dedupe_key.is_some() && report.concurrency_group.is_some());
    assert_eq!(report.decision, Some(ExecutionDecision::Created));
    assert_eq!(report.lifecycle, "draft", "a draft can be tested");
    assert_eq!(report.trust_tier, TrustTier::Trusted);
    let known: Vec<(ContextSource, bool)> =
        report.context.iter().map(|plan| (plan.source, plan.available)).collect();
    assert_eq!(
        known,
        [
            (ContextSource::FailingJobLog, true),
            (ContextSource::PullRequestSummary, false),
            (ContextSource::EventPayload, true),
        ]
    );
    let actions = report.expected_actions.join("\n");
    assert!(actions.contains("make run adr-") && actions.contains("of stack mender"), "{actions}");
    assert!(actions.contains("may write back: pull-request-comment"), "{actions}");
    assert!(serde_json::to_value(&report).unwrap()["matcher"]["fields"].is_array());
}

#[test]
fn report_says_why_nothing_happens() {
    let quiet = rule(|spec| spec["match"] = json!({ "conclusion": ["success"] }));
    let report = dry_run(&failed_check(), &quiet, &seen(), now());
    assert_eq!((report.decision, report.expected_actions.len()), (None, 0));
    assert!(report.reason.contains("conclusion is `failure`, not `success`"), "{}", report.reason);

    let other = rule(|spec| spec["sources"] = json!(["push"]));
    let report = dry_run(&failed_check(), &other, &seen(), now());
    assert!(!report.source_agrees && report.reason.contains("does not have the source `ci`"));

    let broken = rule(|spec| spec["match"] = json!({ "job": ["["] }));
    let report = dry_run(&failed_check(), &broken, &seen(), now());
    assert!(report.matcher_faults[0].starts_with("InvalidGlob"));

    let template = rule(|spec| spec["promptTemplate"] = "{{ payload.x }}".into());
    let report = dry_run(&failed_check(), &template, &seen(), now());
    assert!(report.prompt_fault.unwrap().starts_with("MissingPayloadField"));
    assert_eq!(report.decision, Some(ExecutionDecision::Rejected));
}

#[test]
fn report_shows_duplicates_and_full_groups() {
    let rule = rule(|spec| spec["concurrencyPolicy"] = json!({ "mode": "cancel-previous" }));
    let event = failed_check();
    let key = dedupe::key(&rule, &event).unwrap().key;
    let mut world = seen();
    world.recent = vec![RecentExecution {
        name: "ate-1".to_owned(),
        rule: "default/on-failure".to_owned(),
        event_uid: "d-0".to_owned(),
        dedupe_key: Some(key),
        trust_tier: TrustTier::Trusted,
        polled: false,
        decision: ExecutionDecision::Created,
        at: now(),
        run: None,
    }];
    let report = dry_run(&event, &rule, &world, now());
    assert_eq!(report.duplicate_of.as_deref(), Some("ate-1"));
    assert_eq!(report.decision, Some(ExecutionDecision::Deduplicated));

    let group = concurrency::group(&rule, &event).unwrap();
    let mut world = seen();
    world.active = vec![ActiveRun { name: "adr-old".to_owned(), group, agent_has_ended: false }];
    let report = dry_run(&event, &rule, &world, now());
    assert!(report.expected_actions.contains(&"cancel run adr-old".to_owned()));
    assert_eq!(serde_json::to_value(&report.concurrency).unwrap()["decision"], "replace");
}
