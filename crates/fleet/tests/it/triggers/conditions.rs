//! The six conditions of a rule, each with the false examples of the contract.

use bailiwick_fleet::triggers::conditions::RepositoryFacts;
use bailiwick_fleet::triggers::{RuleFacts, StackFacts, conditions};
use bailiwick_resources::{
    ConditionType, Finding, ForgeKind, Kind, Reason, Standing, expected_conditions,
};
use serde_json::{Value, json};

use super::{failed_check, rule};

fn facts() -> RuleFacts {
    RuleFacts {
        repositories: vec![RepositoryFacts {
            full_name: "acme/app".to_owned(),
            forge: ForgeKind::Gitea,
            has_webhook_secret: true,
            known_workflows: Some(vec!["CI".to_owned()]),
            known_labels: Some(vec!["bug".to_owned()]),
        }],
        stack: StackFacts::Ready,
        sample: Some(failed_check()),
    }
}

fn find(
    kind: ConditionType,
    facts: &RuleFacts,
    change: impl FnOnce(&mut Value),
) -> (Standing, Reason) {
    let rule = rule(change);
    let found = conditions(rule.name(), &rule.spec, facts);
    let order: Vec<ConditionType> = found.iter().map(|finding| finding.kind).collect();
    assert_eq!(order, expected_conditions(Kind::AgentTriggerRule));
    let finding: &Finding = found.iter().find(|finding| finding.kind == kind).unwrap();
    assert!(!finding.message.is_empty());
    (finding.status, finding.reason)
}

fn is_false(reason: Reason) -> (Standing, Reason) {
    (Standing::False, reason)
}

fn is_true(reason: Reason) -> (Standing, Reason) {
    (Standing::True, reason)
}

#[test]
fn all_conditions_are_true_for_a_valid_rule() {
    let rule = rule(|spec| {
        spec["match"] = json!({ "workflow": ["C*"], "labels": ["bug"], "repository": ["acme/*"] });
        spec["dedupePolicy"] = json!({ "key": "{{ event.check }}", "window": "30m" });
        spec["concurrencyPolicy"] = json!({ "mode": "coalesce", "maxActivePerPullRequest": 1 });
    });
    for finding in conditions(rule.name(), &rule.spec, &facts()) {
        assert_eq!(finding.status, Standing::True, "{finding:?}");
    }
}

mod source_configured {
    use super::*;

    const KIND: ConditionType = ConditionType::SourceConfigured;

    #[test]
    fn webhook_missing_secret() {
        let mut facts = facts();
        facts.repositories[0].has_webhook_secret = false;
        assert_eq!(find(KIND, &facts, |_| {}), is_false(Reason::WebhookSecretMissing));
        // A source that does not use webhooks needs no secret.
        let manual = |spec: &mut Value| spec["sources"] = json!(["manual"]);
        assert_eq!(find(KIND, &facts, manual), is_true(Reason::SourcesReady));
    }

    #[test]
    fn unknown_ci_workflow() {
        let requires = |name: &str| {
            let name = name.to_owned();
            move |spec: &mut Value| spec["match"] = json!({ "workflow": [name] })
        };
        assert_eq!(find(KIND, &facts(), requires("Release")), is_false(Reason::UnknownCiWorkflow));
        assert_eq!(find(KIND, &facts(), requires("R*")), is_false(Reason::UnknownCiWorkflow));
        assert_eq!(find(KIND, &facts(), requires("CI")), is_true(Reason::SourcesReady));
        let mut unobserved = facts();
        unobserved.repositories[0].known_workflows = None;
        let unknown = (Standing::Unknown, Reason::NotYetObserved);
        assert_eq!(find(KIND, &unobserved, requires("CI")), unknown);
    }

    #[test]
    fn invalid_schedule() {
        let with_schedule = |cron: &str, repository: &str| {
            let schedule = json!({ "cron": cron, "repository": repository });
            move |spec: &mut Value| {
                spec["sources"] = json!(["schedule"]);
                spec["schedule"] = schedule;
            }
        };
        assert_eq!(
            find(KIND, &facts(), with_schedule("* * *", "acme/app")),
            is_false(Reason::InvalidSchedule)
        );
        assert_eq!(
            find(KIND, &facts(), with_schedule("0 3 * * *", "acme/app")),
            is_true(Reason::SourcesReady)
        );
        let missing = find(KIND, &facts(), with_schedule("0 3 * * *", "acme/gone"));
        assert_eq!(missing, is_false(Reason::RepositoryMissing));
    }

    #[test]
    fn repository_missing() {
        let other = |spec: &mut Value| spec["match"] = json!({ "repository": ["other/*"] });
        assert_eq!(find(KIND, &facts(), other), is_false(Reason::RepositoryMissing));
    }
}

mod matcher_valid {
    use super::*;

    const KIND: ConditionType = ConditionType::MatcherValid;

    fn with(matcher: Value) -> (Standing, Reason) {
        find(KIND, &facts(), |spec| spec["match"] = matcher)
    }

    #[test]
    fn invalid_json_path() {
        let found = with(json!({ "payload": [{ "jsonPath": "a.b" }] }));
        assert_eq!(found, is_false(Reason::InvalidJsonPath));
        let found = with(json!({ "payload": [{ "jsonPath": "$.a.b" }] }));
        assert_eq!(found, is_true(Reason::MatcherCompiled));
    }

    #[test]
    fn unknown_label_matcher() {
        assert_eq!(with(json!({ "labels": ["agent"] })), is_false(Reason::UnknownLabelMatcher));
        assert_eq!(with(json!({ "labels": ["Bug"] })), is_true(Reason::MatcherCompiled));
        assert_eq!(with(json!({ "labels": ["ag*"] })), is_true(Reason::MatcherCompiled));
    }

    #[test]
    fn unsupported_failure_signature() {
        let found = with(json!({ "failureSignature": ["(?<=x)y"] }));
        assert_eq!(found, is_false(Reason::UnsupportedFailureSignature));
        let found = with(json!({ "failureSignature": ["error\\[E\\d+\\]"] }));
        assert_eq!(found, is_true(Reason::MatcherCompiled));
    }
}

mod target_stack_ready {
    use super::*;

    const KIND: ConditionType = ConditionType::TargetStackReady;

    fn with(stack: StackFacts) -> (Standing, Reason) {
        find(KIND, &RuleFacts { stack, ..facts() }, |_| {})
    }

    #[test]
    fn stack_not_admitted() {
        let stack = StackFacts::NotReady("PolicyAdmitted is false".to_owned());
        assert_eq!(with(stack), is_false(Reason::StackNotAdmitted));
        assert_eq!(with(StackFacts::Missing), is_false(Reason::StackMissing));
        assert_eq!(with(StackFacts::Ready), is_true(Reason::StackReady));
    }

    #[test]
    fn capability_resolution_unknown() {
        let stack = StackFacts::Unknown("the adapter was not probed yet".to_owned());
        assert_eq!(with(stack), (Standing::Unknown, Reason::CapabilityResolutionUnknown));
    }
}

mod context_template_valid {
    use super::*;

    const KIND: ConditionType = ConditionType::ContextTemplateValid;

    fn with(template: &str) -> (Standing, Reason) {
        find(KIND, &facts(), |spec| spec["promptTemplate"] = template.into())
    }

    #[test]
    fn missing_payload_field() {
        assert_eq!(with("{{ payload.nothing }}"), is_false(Reason::MissingPayloadField));
        assert_eq!(with("{{ payload.check_run.name }}"), is_true(Reason::TemplateRendered));
        let without_sample = RuleFacts { sample: None, ..facts() };
        let template = |spec: &mut Value| spec["promptTemplate"] = "{{ payload.x }}".into();
        let unknown = (Standing::Unknown, Reason::NotYetObserved);
        assert_eq!(find(KIND, &without_sample, template), unknown);
        let plain = |spec: &mut Value| spec["promptTemplate"] = "Look.".into();
        assert_eq!(find(KIND, &without_sample, plain), is_true(Reason::TemplateRendered));
    }

    #[test]
    fn unsafe_raw_payload_injection() {
        assert_eq!(with("{{ payload.check_run.name|safe }}"), is_false(Reason::UnsafeRawPayload));
    }

    #[test]
    fn attachment_too_large() {
        let bundle = |bytes: u64| {
            move |spec: &mut Value| spec["contextBundleTemplate"] = json!({ "maxBytes": bytes })
        };
        assert_eq!(find(KIND, &facts(), bundle(768_001)), is_false(Reason::AttachmentTooLarge));
        assert_eq!(find(KIND, &facts(), bundle(768_000)), is_true(Reason::TemplateRendered));
    }

    #[test]
    fn template_with_a_syntax_error() {
        assert_eq!(with("{% if %}"), is_false(Reason::InvalidTemplate));
    }
}

mod dedupe_policy_valid {
    use super::*;

    const KIND: ConditionType = ConditionType::DedupePolicyValid;

    fn dedupe(key: &str, window: &str) -> (Standing, Reason) {
        find(KIND, &facts(), |spec| spec["dedupePolicy"] = json!({ "key": key, "window": window }))
    }

    fn concurrency(policy: Value) -> (Standing, Reason) {
        find(KIND, &facts(), |spec| spec["concurrencyPolicy"] = policy)
    }

    #[test]
    fn unbounded_key() {
        let unbounded = is_false(Reason::UnboundedDedupeKey);
        for key in [
            "{{ payload }}",
            "{{ event.body }}",
            "{{ event.uid }}",
            "{{ event.at }}",
            "{% for x in event.labels %}{{ x }}{% endfor %}",
            "constant",
        ] {
            assert_eq!(dedupe(key, "30m"), unbounded, "{key}");
        }
        assert_eq!(dedupe("{{ event.check }}", "0s"), unbounded);
        assert_eq!(dedupe("{{ event.check }}", "31d"), unbounded);
        let fine = is_true(Reason::DedupeKeysBounded);
        assert_eq!(dedupe("{{ event.check }}:{{ payload.check_run.id }}", "30d"), fine);
        let group = json!({ "mode": "reject", "group": "{{ event.body }}" });
        assert_eq!(concurrency(group), unbounded);
    }

    #[test]
    fn missing_coalescing_target() {
        let found = |sources: Value, group: Value| {
            find(KIND, &facts(), |spec| {
                spec["sources"] = sources;
                spec["concurrencyPolicy"] = json!({ "mode": "coalesce", "group": group });
            })
        };
        let missing = is_false(Reason::MissingCoalescingTarget);
        assert_eq!(found(json!(["ci", "webhook"]), Value::Null), missing);
        let named = json!("{{ event.repository }}");
        assert_eq!(found(json!(["webhook"]), named), is_true(Reason::DedupeKeysBounded));
        assert_eq!(found(json!(["ci"]), Value::Null), is_true(Reason::DedupeKeysBounded));
    }

    #[test]
    fn conflicting_concurrency_policy() {
        let conflict = is_false(Reason::ConflictingConcurrencyPolicy);
        assert_eq!(concurrency(json!({ "mode": "queue", "maxActive": 0 })), conflict);
        assert_eq!(
            concurrency(json!({ "mode": "queue", "group": "{{ event.branch }}" })),
            conflict
        );
        let by_commit = json!({ "mode": "cancel-previous", "group": "{{ event.sha }}" });
        assert_eq!(concurrency(by_commit), conflict);
        let fine = json!({ "mode": "cancel-previous", "group": "{{ event.branch }}" });
        assert_eq!(concurrency(fine), is_true(Reason::DedupeKeysBounded));
    }
}

mod lifecycle_active {
    use super::*;

    fn with(state: &str) -> (Standing, Reason) {
        let kind = ConditionType::LifecycleActive;
        find(kind, &facts(), |spec| spec["lifecycleState"] = state.into())
    }

    #[test]
    fn draft() {
        assert_eq!(with("draft"), is_false(Reason::RuleDraft));
    }

    #[test]
    fn paused() {
        assert_eq!(with("paused"), is_false(Reason::RulePaused));
    }

    #[test]
    fn disabled() {
        assert_eq!(with("disabled"), is_false(Reason::RuleDisabled));
    }

    #[test]
    fn archived() {
        assert_eq!(with("archived"), is_false(Reason::RuleArchived));
    }

    #[test]
    fn active() {
        assert_eq!(with("active"), is_true(Reason::RuleActive));
    }
}
