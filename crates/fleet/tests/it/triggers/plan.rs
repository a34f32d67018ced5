//! Plans of rules: complete records, stable names, and the faults of the public attempt.

use std::collections::BTreeSet;

use bailiwick_fleet::triggers::{
    Intent, PlannedExecution, SourceEvent, delivery_name, evaluate, required_lookups,
};
use bailiwick_resources::{
    EventSource, ExecutionDecision, ForgeKind, Metadata, Moment, Resource, TrustTier, WorkItemKind,
    is_object_name,
};
use serde_json::json;

use super::{OTHER_SHA, SHA, failed_check, now, pull_request, read, rule, seen, sent};

fn plan(
    events: &[SourceEvent],
    change: impl FnOnce(&mut serde_json::Value),
) -> Vec<PlannedExecution> {
    evaluate(events, &[rule(change)], &seen(), Intent::Deliver, now())
}

#[test]
fn execution_records_every_field() {
    let plans = plan(&[failed_check()], |spec| {
        spec["match"] = json!({ "conclusion": ["failure"], "branches": { "include": ["main"] } });
        spec["approvalPolicy"] = json!({ "requireFor": ["write-back"] });
        spec["runnerPool"] = "big".into();
    });
    let [planned] = plans.as_slice() else { panic!("{plans:?}") };
    let execution = &planned.execution;
    assert_eq!((execution.trigger_rule.as_str(), execution.rule_generation), ("on-failure", 3));
    assert_eq!((execution.source, execution.event_uid.as_str()), (EventSource::Ci, "d-1"));
    assert_eq!(execution.source_refs.check.as_deref(), Some("build"));
    assert_eq!(execution.source_refs.webhook_delivery.as_deref(), Some("whd-1"));
    assert_eq!(execution.trust_tier, TrustTier::Trusted);
    assert_eq!(execution.decision, ExecutionDecision::Created);
    assert_eq!(execution.matched, ["source: ci", "conclusion: `failure`", "branches: `main`"]);
    assert!(execution.dedupe_key.as_ref().unwrap().ends_with(SHA));
    assert_eq!(execution.approval_decision.as_deref(), Some("a person must approve write-back"));
    assert_eq!(execution.at, now());
    let run = planned.run.as_ref().unwrap();
    assert_eq!(execution.dispatch_run.as_ref(), Some(&run.name));
    assert!(run.name.starts_with("adr-") && run.name.len() == 30, "{}", run.name);
    assert!(is_object_name(&run.name) && is_object_name(&planned.name));
    let spec = &run.spec;
    assert_eq!((spec.repository.as_str(), spec.sha.as_str()), ("acme/app", SHA));
    assert_eq!(spec.reference, "refs/heads/main");
    assert_eq!(spec.branch.as_deref(), Some("main"));
    assert_eq!((spec.agent_stack.as_str(), spec.task_kind.as_str()), ("mender", "diagnose"));
    assert_eq!((spec.runner_pool.as_str(), spec.trust_tier), ("big", TrustTier::Trusted));
    assert_eq!(spec.source_refs.trigger_execution.as_ref(), Some(&planned.name));
    assert_eq!(spec.trigger_rule.as_deref(), Some("on-failure"));
    assert!(spec.task.starts_with("Find out why «data 1» failed at 1111"));
    assert!(spec.concurrency_group.is_some());
    assert_eq!(spec.faults(), []);
    assert_eq!(run.forced_untrusted, None);
}

#[test]
fn whole_match_block_is_read() {
    let none = plan(&[failed_check()], |spec| spec["match"] = json!({ "check": ["lint"] }));
    assert_eq!(none, [], "an event that does not match leaves no record");
    let some = plan(&[failed_check()], |spec| spec["match"] = json!({ "check": ["build"] }));
    assert!(some[0].run.is_some());
    let other = plan(&[failed_check()], |spec| spec["sources"] = json!(["push"]));
    assert_eq!(other, []);
}

#[test]
fn invalid_matcher_starts_nothing_and_gives_its_reason() {
    let plans = plan(&[failed_check()], |spec| {
        spec["match"] = json!({ "payload": [{ "jsonPath": "$[" }] });
    });
    assert_eq!(plans[0].run, None);
    assert!(plans[0].execution.reason.starts_with("InvalidJsonPath"));
}

#[test]
fn same_event_has_the_same_plan_each_time() {
    let events = [failed_check()];
    let rules = [rule(|_| {})];
    let first = evaluate(&events, &rules, &seen(), Intent::Deliver, now());
    let later = now().plus_millis(86_400_000);
    let second = evaluate(&events, &rules, &seen(), Intent::Deliver, later);
    assert_eq!(first[0].name, second[0].name, "the time of the evaluation does not matter");
    assert_eq!(first[0].run.as_ref().unwrap().name, second[0].run.as_ref().unwrap().name);
    assert_eq!(
        required_lookups(&events, &rules).executions,
        BTreeSet::from([first[0].name.clone()])
    );
    let mut recorded = seen();
    recorded.recorded.insert(first[0].name.clone());
    let third = evaluate(&events, &rules, &recorded, Intent::Deliver, later);
    assert_eq!(third, [], "a recorded execution is not planned again");
}

#[test]
fn other_event_rule_generation_or_namespace_has_another_name() {
    let name = |event: SourceEvent, change: &dyn Fn(&mut Metadata)| {
        let mut rule = rule(|_| {});
        change(&mut rule.metadata);
        evaluate(&[event], &[rule], &seen(), Intent::Deliver, now()).swap_remove(0).name
    };
    let mut other = failed_check();
    other.uid = "d-2".to_owned();
    let mut commit = failed_check();
    commit.sha = Some(OTHER_SHA.to_owned());
    let names = [
        name(failed_check(), &|_| {}),
        name(other, &|_| {}),
        name(commit, &|_| {}),
        name(failed_check(), &|metadata| metadata.generation = 4),
        name(failed_check(), &|metadata| metadata.name = "another".to_owned()),
        name(failed_check(), &|metadata| metadata.namespace = "another".to_owned()),
    ];
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
}

#[test]
fn events_of_the_same_millisecond_have_distinct_runs() {
    let mut names = BTreeSet::new();
    for number in 0..200 {
        let mut event = failed_check();
        event.uid = format!("d-{number}");
        let plans = plan(&[event], |_| {});
        names.insert(plans[0].run.as_ref().unwrap().name.clone());
        names.insert(plans[0].name.clone());
    }
    assert_eq!(names.len(), 400);
}

#[test]
fn names_sort_by_time() {
    let name_at = |millis: u64| {
        let mut event = failed_check();
        event.at = Moment::from_millis(millis);
        plan(&[event], |_| {})[0].run.as_ref().unwrap().name.clone()
    };
    let times = [0, 1, 31, 32, 1_000, 1_794_765_600_000, 1_794_765_600_001, (1 << 48) - 1];
    let names: Vec<String> = times.into_iter().map(name_at).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn one_delivery_is_one_execution_of_a_rule() {
    let events = read(
        ForgeKind::Github,
        "check_run",
        &sent(json!({ "action": "completed", "check_run": { "name": "build", "head_sha": SHA,
            "conclusion": "failure", "check_suite": { "head_branch": "main" } } })),
    );
    assert_eq!(events.len(), 2);
    let plans = plan(&events, |spec| spec["sources"] = json!(["webhook", "ci"]));
    assert_eq!(plans.len(), 1);
    assert_eq!(plans[0].execution.source, EventSource::Ci, "the more specific source");
}

#[test]
fn fork_is_untrusted_for_every_rule() {
    let payload = sent(json!({ "action": "created", "pull_request": pull_request("mallory/app"),
        "comment": { "body": "x", "user": { "login": "alice" }, "author_association": "OWNER" } }));
    let events = read(ForgeKind::Github, "pull_request_review_comment", &payload);
    let plans = plan(&events, |spec| {
        spec["sources"] = json!(["pr-comment"]);
        spec["runnerPool"] = "trusted-pool".into();
        spec["promptTemplate"] = "Look.".into();
    });
    let run = plans[0].run.as_ref().unwrap();
    assert_eq!(plans[0].execution.trust_tier, TrustTier::Untrusted);
    assert_eq!(run.spec.trust_tier, TrustTier::Untrusted);
    assert!(run.forced_untrusted.as_ref().unwrap().contains("mallory/app"));
    assert_eq!(run.spec.reference, "refs/pull/7/head");
}

#[test]
fn untrusted_repository_makes_every_run_untrusted() {
    let mut world = seen();
    world.repository_trust = TrustTier::Untrusted;
    let plans = evaluate(&[failed_check()], &[rule(|_| {})], &world, Intent::Deliver, now());
    let run = plans[0].run.as_ref().unwrap();
    assert_eq!(run.spec.trust_tier, TrustTier::Untrusted);
    assert!(run.forced_untrusted.is_some());
}

#[test]
fn label_starts_a_run_only_if_the_rule_allows_it() {
    let payload = sent(json!({ "action": "labeled", "label": { "name": "agent" },
        "pull_request": pull_request("acme/app") }));
    let events = read(ForgeKind::Github, "pull_request", &payload);
    let with = |allowed: bool| {
        plan(&events, |spec| {
            spec["sources"] = json!(["label"]);
            spec["promptTemplate"] = "Look.".into();
            spec["allowLabelDispatch"] = allowed.into();
        })
    };
    let refused = with(false);
    assert_eq!(refused[0].run, None);
    assert!(refused[0].execution.reason.starts_with("LabelDispatchOff"));
    assert!(with(true)[0].run.is_some());
}

#[test]
fn comment_of_the_agent_account_starts_nothing() {
    let comment = |login: &str| {
        let payload = sent(json!({ "action": "created", "pull_request": pull_request("acme/app"),
            "comment": { "body": "done", "user": { "login": login },
                         "author_association": "OWNER" } }));
        let events = read(ForgeKind::Github, "pull_request_review_comment", &payload);
        plan(&events, |spec| {
            spec["sources"] = json!(["pr-comment"]);
            spec["promptTemplate"] = "Look.".into();
        })
        .swap_remove(0)
    };
    assert!(comment("alice").run.is_some(), "positive control");
    let own = comment("Bailiwick-Bot");
    assert_eq!(own.run, None);
    assert!(own.execution.reason.starts_with("OwnAccount"));
}

#[test]
fn event_without_a_commit_starts_nothing() {
    let mut event = failed_check();
    event.sha = None;
    let plans = plan(&[event], |_| {});
    assert_eq!(plans[0].run, None);
    assert!(plans[0].execution.reason.starts_with("CommitUnknown"));
}

#[test]
fn prompt_with_a_template_error_starts_nothing() {
    let plans = plan(&[failed_check()], |spec| {
        spec["promptTemplate"] = "{{ payload.nothing }}".into();
    });
    assert_eq!(plans[0].execution.decision, ExecutionDecision::Rejected);
    assert!(plans[0].execution.reason.starts_with("MissingPayloadField"));
}

#[test]
fn work_item_is_created_without_a_run_for_a_paused_rule() {
    let mut event = failed_check();
    event.pull_request = Some(7);
    let rules = [rule(|spec| spec["lifecycleState"] = "paused".into())];
    let plans = evaluate(&[event], &rules, &seen(), Intent::Materialize, now());
    assert_eq!(plans[0].execution.decision, ExecutionDecision::Materialized);
    assert_eq!(plans[0].run, None);
    assert_eq!(plans[0].execution.source_refs.work_item.as_deref(), Some("pull-request/7"));
}

#[test]
fn replay_for_a_paused_rule_is_refused_with_its_own_record() {
    let rules = [rule(|spec| spec["lifecycleState"] = "paused".into())];
    let replayed = failed_check().replayed("request-1", "ada");
    let plans = evaluate(&[replayed], &rules, &seen(), Intent::Replay, now());
    assert_eq!(plans[0].execution.decision, ExecutionDecision::Rejected);
    let first = evaluate(&[failed_check()], &rules, &seen(), Intent::Deliver, now());
    assert_ne!(plans[0].name, first[0].name);
}

#[test]
fn every_source_can_start_a_run() {
    for source in EventSource::ALL {
        let mut event = failed_check();
        event.source = source;
        event.actor = Some("alice".to_owned());
        let plans = plan(&[event], |spec| {
            spec["sources"] = json!([source.as_str()]);
            spec["allowLabelDispatch"] = true.into();
            if source == EventSource::Schedule {
                spec["schedule"] = json!({ "cron": "0 0 * * *", "repository": "acme/app" });
            }
        });
        let run = plans[0].run.as_ref();
        assert_eq!(run.map(|run| run.spec.source_event.source), Some(source));
    }
}

#[test]
fn delivery_has_one_name_in_its_repository() {
    let name = delivery_name("acme/app", "d-1");
    assert!(is_object_name(&name), "{name}");
    assert_eq!(
        name,
        delivery_name("ACME/App", "d-1"),
        "forges ignore the case of repository names"
    );
    assert_ne!(name, delivery_name("acme/app", "d-2"));
    assert_ne!(name, delivery_name("acme/other", "d-1"));
    assert!(is_object_name(&delivery_name("acme/app", "\u{0}../../x")));
}

#[test]
fn work_items_are_created_or_linked_as_the_rule_says() {
    let mut bare = failed_check();
    (bare.source_refs.check, bare.source_refs.pipeline) = (None, None);
    (bare.issue, bare.pull_request, bare.tag) = (None, None, None);
    let mut checked = bare.clone();
    checked.source_refs.check = Some("build".to_owned());
    let mut tagged = bare.clone();
    tagged.tag = Some("v1".to_owned());
    let planned = |event: &SourceEvent, mode: &str, intent: Intent| {
        let rules = [rule(|spec| spec["workItem"] = mode.into())];
        evaluate(std::slice::from_ref(event), &rules, &seen(), intent, now()).remove(0)
    };
    // For each event and mode: the work item of the run, if there is one.
    for (event, mode, item) in [
        (&bare, "link", None),
        (&bare, "none", None),
        (&checked, "link", Some("check/build")),
        (&checked, "create", Some("check/build")),
        (&checked, "none", None),
        (&tagged, "link", Some("release/v1")),
    ] {
        let run = planned(event, mode, Intent::Deliver).run.unwrap();
        assert_eq!(run.spec.source_refs.work_item.as_deref(), item, "{mode}");
        let plan = planned(event, mode, Intent::Materialize);
        let (decision, item) = match item {
            Some(item) => (ExecutionDecision::Materialized, Some(item)),
            None => (ExecutionDecision::Rejected, None),
        };
        assert_eq!(plan.execution.decision, decision, "{mode}: {}", plan.execution.reason);
        assert_eq!(plan.execution.source_refs.work_item.as_deref(), item, "{mode}");
        let why = plan.execution.reason.starts_with("NothingToMaterialize: ");
        assert_eq!(why, item.is_none(), "{}", plan.execution.reason);
    }
    // Without an item, a rule that creates work items creates a card, and its run has the same card.
    let plan = planned(&bare, "create", Intent::Deliver);
    let card = format!("card/{}", plan.name);
    assert_eq!(plan.execution.source_refs.work_item.as_ref(), Some(&card));
    let run = plan.run.unwrap();
    assert_eq!(run.spec.source_refs.work_item.as_ref(), Some(&card));
    let items = bailiwick_fleet::workspaces::work_items(&run.spec);
    let named: Vec<(WorkItemKind, &str)> =
        items.iter().map(|item| (item.kind, item.id.as_str())).collect();
    assert_eq!(named, [(WorkItemKind::Card, plan.name.as_str())]);
    let plan = planned(&bare, "create", Intent::Materialize);
    assert_eq!(plan.execution.decision, ExecutionDecision::Materialized);
    // An item that is named twice is one item.
    let mut both = run.spec;
    both.source_refs.issue = Some(7);
    both.source_refs.work_item = Some("issue/7".to_owned());
    let items = bailiwick_fleet::workspaces::work_items(&both);
    assert_eq!(items.len(), 1);
    assert_eq!((items[0].kind, items[0].id.as_str()), (WorkItemKind::Issue, "7"));
}
