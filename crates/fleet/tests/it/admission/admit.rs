//! The steps of admission: each step can refuse, and the result of admission is complete.

use bailiwick_fleet::admission::admit::{Placement, PoolUse, Step, WorkspaceDecision};
use bailiwick_fleet::admission::{Admission, admit};
use bailiwick_resources::{AgentTriggerRule, AnyObject, Kind, Object, Reason, RunPhase, Span};
use serde_json::json;

use super::world::{World, now, object};

fn refused(world: &World) -> (Step, Vec<Reason>) {
    let refused = world.admit().map(|admitted| admitted.run.status.phase).unwrap_err();
    (refused.step, refused.reasons.iter().map(|why| why.code).collect())
}

fn check(step: Step, reason: Reason, change: impl Fn(&mut World)) {
    let mut world = World::good();
    assert!(world.admit().is_ok());
    change(&mut world);
    let (found, reasons) = refused(&world);
    assert!(found == step && reasons.contains(&reason), "{found:?} {reasons:?}");
}

#[test]
fn admitted_objects_are_valid_and_the_same_each_time() {
    let world = World::good();
    let first = world.admit().unwrap();
    let second = world.admit().unwrap();
    assert_eq!(first.admitted_digest, second.admitted_digest);
    assert_eq!(first.compiled, second.compiled);
    for object in [
        AnyObject::of(&first.run).unwrap(),
        AnyObject::of(&first.attempt).unwrap(),
        AnyObject::of(&first.bundle_object).unwrap(),
    ] {
        assert_eq!(object.check().unwrap(), [], "{}", object.kind);
    }
    let attempt = &first.attempt;
    assert_eq!(attempt.spec.permission_snapshot_digest, first.review.digest().to_string());
    assert_eq!(attempt.spec.agent_stack_snapshot.digest, first.snapshot.digest);
    assert_eq!(attempt.status.runtime_identity.as_deref(), Some("default/fixer"));
    assert_eq!(first.run.spec.runner_pool, "trusted");
    assert_eq!(first.placement, Placement::Free);
    assert!(matches!(first.workspace, WorkspaceDecision::Fresh { isolated: false, .. }));
}

#[test]
fn each_step_can_refuse() {
    check(Step::ResolveSource, Reason::RepositoryMissing, |world| {
        world.remove(Kind::Repository, "web");
    });
    check(Step::ResolveSource, Reason::UntrustedRepository, |world| {
        world.set(Kind::Repository, "web", "/trustTier", json!("untrusted"));
    });
    check(Step::Snapshot, Reason::StackMissing, |world| {
        world.remove(Kind::AgentStack, "fixer");
    });
    check(Step::Validate, Reason::MissingSecretGrant, |world| {
        world.remove(Kind::AgentSecretGrant, "docs-key");
    });
    check(Step::AssembleContext, Reason::RedactionFailed, |world| {
        world.set(Kind::Repository, "web", "/policy/redact", json!(["("]));
    });
    check(Step::SelectWorkspace, Reason::WorkspaceMissing, |world| {
        world.remove(Kind::AgentWorkspacePolicy, "per-run");
    });
    check(Step::SelectRunner, Reason::ForbiddenRunner, |world| {
        world.remove(Kind::RunnerPool, "trusted");
    });
}

/// A paused pool is treated like a full pool: the run waits and is not refused.
#[test]
fn run_waits_if_its_pool_is_paused() {
    let mut world = World::good();
    world.set(Kind::RunnerPool, "trusted", "/paused", json!(true));
    let admitted = world.admit().unwrap();
    assert_eq!(admitted.run.status.phase, RunPhase::Queued);
    assert_eq!(admitted.placement, Placement::Wait { before: 0 });
}

#[test]
fn refusal_contains_the_missing_grants() {
    let mut world = World::good();
    world.remove(Kind::AgentSecretGrant, "docs-key");
    let refused = world.admit().map(|_| ()).unwrap_err();
    assert_eq!(refused.review.as_ref().unwrap().missing_grants.len(), 1);
    let text = serde_json::to_string(&refused).unwrap();
    assert!(text.contains("\"step\":\"validate\"") && text.contains("secret-grants"), "{text}");
}

#[test]
fn untrusted_run_goes_to_an_untrusted_pool_and_an_isolated_workspace() {
    let mut world = World::good();
    world.set_stack("/requiredSecretRefs", json!([]));
    world.set_stack("/permissionRefs/secretGrants", json!([]));
    world.set(Kind::AgentMcpServer, "docs", "/envFrom", json!([]));
    assert_eq!(world.admit().unwrap().pool.name(), "trusted");
    world.fork();
    let admitted = world.admit().unwrap();
    assert_eq!(admitted.pool.name(), "untrusted");
    assert!(matches!(admitted.workspace, WorkspaceDecision::Fresh { isolated: true, .. }));
    assert!(admitted.review.mounts().is_empty());
    world.remove(Kind::RunnerPool, "untrusted");
    let (step, reasons) = refused(&world);
    assert_eq!((step, reasons.as_slice()), (Step::SelectRunner, &[Reason::ForbiddenRunner][..]));
}

#[test]
fn identity_that_cannot_use_the_untrusted_pool_is_refused() {
    let mut world = World::good();
    world.set(Kind::AgentServiceAccount, "fixer", "/allowedRunnerPools", json!(["trusted"]));
    assert!(world.admit().is_ok());
    world.fork();
    assert!(refused(&world).1.contains(&Reason::ServiceAccountCannotUseRunner));
}

#[test]
fn run_waits_if_its_pool_is_full() {
    let mut world = World::good();
    world.pools.insert("trusted".into(), PoolUse { active: 2, queued: 3 });
    let admitted = world.admit().unwrap();
    assert_eq!(admitted.placement, Placement::Wait { before: 3 });
    assert_eq!(admitted.run.status.phase, RunPhase::Queued);
    world.pools.insert("trusted".into(), PoolUse { active: 1, queued: 0 });
    assert_eq!(world.admit().unwrap().placement, Placement::Free);
}

#[test]
fn workspace_is_shared_per_work_item_only_if_the_policy_says_so() {
    let mut world = World::good();
    world.refs.work_item = Some("12".into());
    let chosen = |world: &World| world.admit().unwrap().workspace;
    assert!(matches!(chosen(&world), WorkspaceDecision::Fresh { isolated: false, .. }));
    world.set(Kind::AgentWorkspacePolicy, "per-run", "/mode", json!("per-work-item"));
    assert_eq!(chosen(&world), WorkspaceDecision::OfWorkItem);
    world.refs.work_item = None;
    world.refs.issue = Some(12);
    assert_eq!(chosen(&world), WorkspaceDecision::OfWorkItem);
    world.refs.issue = None;
    let without_item = chosen(&world);
    assert!(without_item.why().contains("no work item"), "{}", without_item.why());
}

#[test]
fn only_an_active_rule_is_admitted_and_it_narrows_the_stack() {
    let mut world = World::good();
    world.set_stack(
        "/writeBackPolicy",
        json!({
            "allowedTargets": ["branch-push", "pull-request-comment"],
            "modes": { "branch-push": "auto" },
        }),
    );
    let rule = |state: &str| -> Object<AgentTriggerRule> {
        let any = object(
            Kind::AgentTriggerRule,
            "ci",
            json!({
                "lifecycleState": state, "sources": ["ci"], "agentStack": "fixer", "taskKind": "repair",
                "approvalPolicy": { "requireFor": ["secret-access"], "expiresAfter": "2h" },
                "writeBackPolicy": {
                    "allowedTargets": ["branch-push"], "modes": { "branch-push": "always-approve" },
                },
            }),
        );
        any.typed().unwrap()
    };
    let inventory = world.inventory();
    let admitted = |rule: &Object<AgentTriggerRule>| {
        let mut request = world.request();
        request.rule = Some(rule);
        let situation = &world.situation;
        admit(&Admission {
            inventory: &inventory,
            namespace: "default",
            repository: "web",
            situation,
            request,
            facts: &world.facts,
            texts: world.texts.clone(),
            redaction: world.redaction.clone(),
            pools: &world.pools,
            ignored: None,
            now: now(),
        })
    };
    for (state, reason) in [
        ("draft", Reason::RuleDraft),
        ("paused", Reason::RulePaused),
        ("disabled", Reason::RuleDisabled),
        ("archived", Reason::RuleArchived),
    ] {
        let refused = admitted(&rule(state)).map(|_| ()).unwrap_err();
        assert_eq!((refused.step, refused.reasons[0].code), (Step::LoadRule, reason));
    }
    let admitted = admitted(&rule("active")).unwrap();
    assert_eq!(admitted.run.spec.trigger_rule.as_deref(), Some("ci"));
    let text = serde_json::to_value(&admitted.run.spec.write_back_policy).unwrap();
    assert_eq!(text["allowedTargets"], json!(["branch-push"]));
    assert_eq!(text["modes"], json!({ "branch-push": "always-approve" }));
    // The rule requires an approval for access to secrets, valid for two hours.
    assert_eq!(admitted.run.status.phase, RunPhase::WaitingForApproval);
    let two_hours: Span = "2h".parse().unwrap();
    let expires = admitted.approvals[0].spec.expires_at;
    assert_eq!(expires, now().plus_millis(two_hours.millis()));
}
