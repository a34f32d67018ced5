//! The decision about the next event of a concurrency group.

use bailiwick_fleet::triggers::concurrency::{decide, group};
use bailiwick_fleet::triggers::{ActiveRun, GroupDecision, Intent, evaluate};
use bailiwick_resources::{ConcurrencyPolicy, ExecutionDecision};
use serde_json::json;

use super::{OTHER_SHA, failed_check, now, rule, seen};

fn policy(mode: &str, most: Option<u32>) -> ConcurrencyPolicy {
    serde_json::from_value(json!({ "mode": mode, "maxActive": most })).unwrap()
}

fn runs(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("adr-{number}")).collect()
}

#[test]
fn run_starts_below_the_limit() {
    for mode in ["coalesce", "queue", "cancel-previous", "reject"] {
        assert_eq!(decide(&policy(mode, Some(2)), &runs(1)), GroupDecision::Start, "{mode}");
        assert_eq!(decide(&policy(mode, None), &[]), GroupDecision::Start, "{mode}");
    }
    assert_eq!(decide(&policy("queue", None), &runs(50)), GroupDecision::Start, "no limit is set");
}

#[test]
fn each_mode_has_its_own_decision_when_the_group_is_full() {
    let full = runs(2);
    let run = "adr-2".to_owned();
    assert_eq!(decide(&policy("coalesce", Some(2)), &full), GroupDecision::Join { run });
    let behind = full.clone();
    assert_eq!(decide(&policy("queue", Some(2)), &full), GroupDecision::Queue { behind });
    let cancel = vec!["adr-1".to_owned()];
    assert_eq!(
        decide(&policy("cancel-previous", Some(2)), &full),
        GroupDecision::Replace { cancel }
    );
    let cancel = full.clone();
    assert_eq!(decide(&policy("cancel-previous", None), &full), GroupDecision::Replace { cancel });
    let active = full.clone();
    assert_eq!(decide(&policy("reject", Some(2)), &full), GroupDecision::Refuse { active });
}

#[test]
fn limit_of_zero_starts_nothing() {
    for mode in ["coalesce", "cancel-previous", "reject"] {
        let decision = decide(&policy(mode, Some(0)), &[]);
        assert_eq!(decision, GroupDecision::Refuse { active: vec![] }, "{mode}");
    }
}

#[test]
fn group_depends_on_the_rule_and_the_subject_of_the_event() {
    let rule = rule(|_| {});
    let group_of = |change: &dyn Fn(&mut bailiwick_fleet::triggers::SourceEvent)| {
        let mut event = failed_check();
        change(&mut event);
        group(&rule, &event).unwrap()
    };
    let groups = [
        group_of(&|_| {}),
        group_of(&|event| event.branch = Some("other".to_owned())),
        group_of(&|event| event.pull_request = Some(7)),
        group_of(&|event| event.pull_request = Some(8)),
        group_of(&|event| event.issue = Some(7)),
        group_of(&|event| event.tag = Some("v1".to_owned())),
        group_of(&|event| event.branch = None),
        group_of(&|event| event.repository = "acme/other".to_owned()),
    ];
    let distinct: std::collections::BTreeSet<&String> = groups.iter().collect();
    assert_eq!(distinct.len(), groups.len(), "{groups:?}");
    let sha = group_of(&|event| event.sha = Some(OTHER_SHA.to_owned()));
    assert_eq!(sha, groups[0], "another commit of the same branch is in the same group");
}

#[test]
fn plans_follow_the_concurrency_mode() {
    let with = |mode: &str, agent_has_ended: bool| {
        let rules =
            [rule(|spec| spec["concurrencyPolicy"] = json!({ "mode": mode, "maxActive": 1 }))];
        let group = group(&rules[0], &failed_check()).unwrap();
        let mut seen = seen();
        seen.active = vec![ActiveRun { name: "adr-old".to_owned(), group, agent_has_ended }];
        evaluate(&[failed_check()], &rules, &seen, Intent::Deliver, now()).swap_remove(0)
    };
    let plan = with("coalesce", false);
    assert_eq!(plan.execution.decision, ExecutionDecision::Coalesced);
    assert_eq!(plan.execution.dispatch_run.as_deref(), Some("adr-old"));
    assert_eq!(plan.run, None);
    let plan = with("queue", false);
    assert_eq!(plan.execution.decision, ExecutionDecision::Created);
    assert_eq!(plan.run.unwrap().queue_behind, ["adr-old"]);
    let plan = with("cancel-previous", false);
    assert_eq!(plan.execution.decision, ExecutionDecision::Created);
    assert_eq!(plan.cancel, ["adr-old"]);
    assert!(plan.run.is_some());
    let plan = with("reject", false);
    assert_eq!(plan.execution.decision, ExecutionDecision::Rejected);
    assert!(plan.run.is_none() && plan.cancel.is_empty());
    // A run whose agent has ended accepts no more events and delays none, but it can be cancelled.
    for mode in ["coalesce", "queue", "reject"] {
        let plan = with(mode, true);
        assert_eq!(plan.execution.decision, ExecutionDecision::Created, "{mode}");
        assert!(plan.run.unwrap().queue_behind.is_empty(), "{mode}");
    }
    assert_eq!(with("cancel-previous", true).cancel, ["adr-old"]);
}

#[test]
fn rules_that_share_a_group_share_its_limit() {
    let shared = |name: &str| {
        let mut rule = rule(|spec| {
            spec["concurrencyPolicy"] =
                json!({ "mode": "reject", "maxActive": 1, "group": "one-{{ event.branch }}" });
        });
        rule.metadata.name = name.to_owned();
        rule
    };
    let rules = [shared("first"), shared("second")];
    let plans = evaluate(&[failed_check()], &rules, &seen(), Intent::Deliver, now());
    assert!(plans[0].run.is_some());
    assert!(plans[1].run.is_none(), "{}", plans[1].execution.reason);

    let mut separate = [shared("first"), shared("second")];
    separate[1].metadata.namespace = "another".to_owned();
    let plans = evaluate(&[failed_check()], &separate, &seen(), Intent::Deliver, now());
    assert!(
        plans.iter().all(|plan| plan.run.is_some()),
        "groups of different namespaces are separate"
    );
}
