//! Every declared kind has conditions; a stack that cannot run anywhere is not ready.

use bailiwick_fleet::admission::conditions::{SkillProbe, context_label_conditions};
use bailiwick_fleet::ports::{FleetStore as _, Selection};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentContextLabel, AgentMcpServer, AnyObject, ConditionType, Kind, McpHealth, Object, Reason,
    Standing, expected_conditions,
};
use serde_json::{Value, json};

use crate::dispatch::{Plane, all, declare, document, fleet, start_plane};

/// The declared kinds. Kinds of the platform (service accounts, roles, secrets, config maps) have no status, and a
/// workspace has a state.
const DECLARED: &[Kind] = &[
    Kind::AgentStack,
    Kind::AgentSubagent,
    Kind::AgentToolProfile,
    Kind::AgentMcpServer,
    Kind::AgentSkill,
    Kind::AgentServiceAccount,
    Kind::AgentRoleBinding,
    Kind::AgentSecretGrant,
    Kind::AgentConfigGrant,
    Kind::AgentCapabilityRequirement,
    Kind::AgentTriggerRule,
    Kind::AgentContextLabel,
    Kind::AgentWorkspacePolicy,
    Kind::RunnerPool,
    Kind::Repository,
];

fn definitions() -> Vec<AnyObject> {
    vec![
        document(
            Kind::AgentSubagent,
            "reviewer",
            json!({ "rolePrompt": "You look.", "taskKinds": ["review"], "skillRefs": ["style"] }),
        ),
        document(
            Kind::AgentSkill,
            "style",
            json!({ "format": "inline", "sourceRef": { "inline": "Write plainly." } }),
        ),
        document(
            Kind::AgentMcpServer,
            "docs",
            json!({ "transport": "stdio", "command": "docs", "scope": "global", "lazy": true }),
        ),
        document(
            Kind::AgentContextLabel,
            "short",
            json!({ "promptFragment": "Be short.", "allowedSources": ["manual"] }),
        ),
        document(
            Kind::AgentWorkspacePolicy,
            "usual",
            json!({ "mode": "per-run", "retentionPolicy": { "keepFor": "7d" } }),
        ),
    ]
}

async fn conditions(
    plane: &Plane,
    kind: Kind,
    name: &str,
) -> Vec<(ConditionType, Standing, Reason)> {
    let all = plane.store.list(&Selection::of(kind)).await.unwrap().objects;
    let found = all.into_iter().find(|one| one.metadata.name == name).unwrap();
    let found_conditions = found.conditions();
    assert!(
        found_conditions.iter().all(|one| one.observed_generation == found.metadata.generation)
    );
    assert!(found_conditions.iter().all(|one| !one.message.is_empty()), "{found_conditions:?}");
    found_conditions.into_iter().map(|one| (one.kind, one.status, one.reason)).collect()
}

async fn ready(plane: &Plane, kind: Kind, name: &str) -> Standing {
    let all = conditions(plane, kind, name).await;
    all.iter().find(|one| one.0 == ConditionType::Ready).unwrap().1
}

#[test]
fn every_declared_kind_has_conditions() {
    for kind in DECLARED {
        assert!(!expected_conditions(*kind).is_empty(), "{kind} has none");
    }
}

#[tokio::test]
async fn definitions_become_ready_and_stay_unchanged() {
    let plane = start_plane(|_| {}).await;
    declare(&plane, &definitions()).await;
    for _ in 0..2 {
        assert_eq!(plane.reconcile_statuses().await.errors, []);
    }
    let repeated = plane.reconcile_statuses().await;
    assert_eq!((repeated.done, repeated.errors), (0, vec![]), "nothing is written twice");
    for (kind, name) in [
        (Kind::AgentSubagent, "reviewer"),
        (Kind::AgentToolProfile, "tools"),
        (Kind::AgentSkill, "style"),
        (Kind::AgentContextLabel, "short"),
        (Kind::AgentWorkspacePolicy, "usual"),
        (Kind::RunnerPool, "inside"),
    ] {
        let kinds: Vec<ConditionType> =
            conditions(&plane, kind, name).await.into_iter().map(|one| one.0).collect();
        assert_eq!(kinds, expected_conditions(kind));
        assert_eq!(ready(&plane, kind, name).await, Standing::True, "{kind}");
    }
    // No stack uses the server, so it was not probed.
    let server_conditions = conditions(&plane, Kind::AgentMcpServer, "docs").await;
    assert_eq!(server_conditions[0].1, Standing::Unknown, "{server_conditions:?}");
}

#[tokio::test]
async fn definition_that_names_something_missing_is_not_ready() {
    let plane = start_plane(|_| {}).await;
    let mut broken = definitions();
    broken.retain(|one| one.kind == Kind::AgentSubagent);
    broken[0].spec["skillRefs"] = json!(["gone"]);
    let mut pools = fleet(|object| {
        if object.kind == Kind::RunnerPool {
            object.spec["serviceAccountRef"] = json!("nobody");
        }
        if object.kind == Kind::AgentToolProfile {
            object.spec["requiredSecretRefs"] = json!([{ "name": "none", "keys": ["k"] }]);
        }
    });
    pools.retain(|one| matches!(one.kind, Kind::RunnerPool | Kind::AgentToolProfile));
    declare(&plane, &broken).await;
    declare(&plane, &pools).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    for (kind, name, reason) in [
        (Kind::AgentSubagent, "reviewer", Reason::SkillMissing),
        (Kind::RunnerPool, "inside", Reason::ServiceAccountMissing),
        (Kind::AgentToolProfile, "tools", Reason::SecretMissing),
    ] {
        let found = conditions(&plane, kind, name).await;
        assert_eq!((found[0].1, found[0].2), (Standing::False, reason), "{kind}");
        assert_eq!(ready(&plane, kind, name).await, Standing::False);
    }
}

#[tokio::test]
async fn skill_names_whether_it_is_missing_or_invalid() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["skillRefs"] = json!(["whole", "lost", "broken"]);
        }
    })
    .await;
    let found = SkillProbe::Found { digest: "d".repeat(64), text: "t".to_owned() };
    let invalid = SkillProbe::Invalid("it has no SKILL.md".to_owned());
    for (name, probe) in [("whole", found), ("lost", SkillProbe::Missing), ("broken", invalid)] {
        let path = format!("skills/{name}.md");
        let spec = json!({
            "name": name, "description": "d", "format": "file", "sourceRef": { "path": path },
        });
        declare(&plane, &[document(Kind::AgentSkill, name, spec)]).await;
        plane.world.skills.lock().unwrap().insert(name.to_owned(), probe);
    }
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    for (name, standing, reason) in [
        ("whole", Standing::True, Reason::SkillsFound),
        ("lost", Standing::False, Reason::SkillMissing),
        ("broken", Standing::False, Reason::InvalidSkillPackage),
    ] {
        let found = conditions(&plane, Kind::AgentSkill, name).await;
        assert_eq!((found[0].1, found[0].2), (standing, reason), "{name}");
    }
}

#[test]
fn label_that_awaits_its_review_is_not_ready() {
    let finding = |review: Value| {
        let mut spec = json!({ "promptFragment": "Be short.", "allowedSources": ["manual"] });
        for (name, value) in review.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        let label: Object<AgentContextLabel> =
            document(Kind::AgentContextLabel, "short", spec).typed().unwrap();
        let found = context_label_conditions(&label);
        (found[0].status, found[0].reason, found.last().unwrap().status)
    };
    let good = (Standing::True, Reason::ContextLabelsApproved, Standing::True);
    let unreviewed = (Standing::False, Reason::ContextLabelNotReviewed, Standing::False);
    let digest = Sha256Hex::of("Be short.").to_string();
    for (review, expected) in [
        (json!({}), good),
        (json!({ "requiresReview": true }), unreviewed),
        (json!({ "requiresReview": true, "reviewedBy": "bob" }), unreviewed),
        (json!({ "requiresReview": true, "reviewedBy": "bob", "reviewedDigest": "0" }), unreviewed),
        (json!({ "requiresReview": true, "reviewedBy": "bob", "reviewedDigest": digest }), good),
    ] {
        assert_eq!(finding(review.clone()), expected, "{review}");
    }
}

/// A stack and its identity with these additional fields.
async fn stack_with(stack: Value, account: Value) -> (Standing, Reason, Standing) {
    let plane = start_plane(|object| {
        let more = match (object.kind, object.metadata.name.as_str()) {
            (Kind::AgentStack, _) => &stack,
            (Kind::AgentServiceAccount, "fixer") => &account,
            _ => return,
        };
        for (name, value) in more.as_object().into_iter().flatten() {
            object.spec[name] = value.clone();
        }
    })
    .await;
    let found = conditions(&plane, Kind::AgentStack, "fixer").await;
    let identity =
        found.iter().find(|one| one.0 == ConditionType::RuntimeIdentityReady).copied().unwrap();
    let ready = found.iter().find(|one| one.0 == ConditionType::Ready).unwrap().1;
    (identity.1, identity.2, ready)
}

#[tokio::test]
async fn stack_that_can_use_no_runner_pool_is_not_ready() {
    let good = (Standing::True, Reason::ServiceAccountReady, Standing::True);
    assert_eq!(stack_with(json!({}), json!({})).await, good);
    assert_eq!(stack_with(json!({ "runnerPool": null }), json!({})).await, good);
    let refused = (Standing::False, Reason::ServiceAccountCannotUseRunner, Standing::False);
    let outside = json!({ "allowedRunnerPools": ["outside"] });
    assert_eq!(stack_with(json!({}), outside).await, refused);
    let no_pools = json!({ "allowedRunnerPools": [] });
    assert_eq!(stack_with(json!({ "runnerPool": null }), no_pools).await, refused);
    let missing_pool = (Standing::False, Reason::ForbiddenRunner, Standing::False);
    assert_eq!(stack_with(json!({ "runnerPool": "gone" }), json!({})).await, missing_pool);
}

#[tokio::test]
async fn server_is_denied_without_a_stack_and_disabled_if_it_denies_all() {
    for (more, expected) in [
        (json!({}), McpHealth::Unknown),
        (json!({ "allowedAgentStacks": ["another"] }), McpHealth::Denied),
        (json!({ "approvalPolicy": "deny" }), McpHealth::Disabled),
    ] {
        let plane = start_plane(|_| {}).await;
        let mut documents = definitions();
        documents.retain(|one| one.kind == Kind::AgentMcpServer);
        for (name, value) in more.as_object().into_iter().flatten() {
            documents[0].spec[name] = value.clone();
        }
        let mut stack = fleet(|object| {
            if object.kind == Kind::AgentStack {
                object.spec["mcpServerRefs"] = json!(["docs"]);
            }
        });
        stack.retain(|one| one.kind == Kind::AgentStack);
        documents.extend(stack);
        declare(&plane, &documents).await;
        assert_eq!(plane.reconcile_statuses().await.errors, []);
        let server = all::<AgentMcpServer>(&plane).await.remove(0);
        assert_eq!(server.status.health, expected, "{:?}", server.status);
        let refused = expected != McpHealth::Unknown;
        let found = conditions(&plane, Kind::AgentMcpServer, "docs").await;
        assert_eq!(found[0].2 == Reason::McpServerNotAllowed, refused, "{found:?}");
    }
}
