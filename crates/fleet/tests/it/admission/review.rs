//! The permission review: which grant wins, what is missing, and what is never mounted.

use bailiwick_fleet::admission::review::{EntryDecision, GrantLevel, Severity};
use bailiwick_fleet::admission::{Decision, Review};
use bailiwick_resources::{
    AnyObject, ApprovalReason, EventSource, Kind, Reason, SecretMount, TrustTier,
};
use serde_json::json;

use super::world::World;

fn model(review: &Review) -> &bailiwick_fleet::admission::review::RequiredSecret {
    review.required_secrets.iter().find(|secret| secret.need.name == "model").unwrap()
}

fn grant(world: &mut World, name: &str, subject: serde_json::Value, more: serde_json::Value) {
    let mut spec = json!({
        "subject": subject,
        "secretRef": { "name": "model", "keys": ["api-key"] },
        "purpose": "model-provider-token",
        "allowedRepositories": ["acme/*"],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    world.add(Kind::AgentSecretGrant, name, spec);
}

#[test]
fn review_allows_a_run_with_all_grants() {
    let review = World::good().review();
    assert_eq!(review.decision, Decision::Allowed, "{:#?}", review.reasons);
    assert_eq!(review.runtime_identity.as_deref(), Some("default/fixer"));
    assert_eq!(review.runner_identity.as_deref(), Some("default/runner"));
    assert!(review.missing_grants.is_empty() && review.yaml_preview.is_empty());
    assert!(review.reasons.iter().all(|why| why.severity == Severity::Info));
    let text = serde_json::to_string(&review).unwrap();
    let parsed: Review = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed, review);
    assert_eq!(parsed.digest(), review.digest());
}

#[test]
fn nearest_grant_wins_and_an_explicit_denial_wins_over_all() {
    let mut world = World::good();
    world.remove(Kind::AgentSecretGrant, "fixer-model");
    world.set_stack("/permissionRefs/secretGrants", json!([]));
    world.situation.memberships = vec!["builders".into()];
    let user = json!({ "kind": "user", "name": "ada" });
    let mut levels = Vec::new();
    grant(&mut world, "d-team", json!({ "kind": "team", "name": "builders" }), json!({}));
    levels.push(model(&world.review()).entry.level);
    grant(&mut world, "c-user", user.clone(), json!({}));
    levels.push(model(&world.review()).entry.level);
    grant(&mut world, "b-stack", json!({ "kind": "agent-stack", "name": "fixer" }), json!({}));
    levels.push(model(&world.review()).entry.level);
    grant(
        &mut world,
        "z-subject",
        json!({ "kind": "service-account", "name": "fixer" }),
        json!({}),
    );
    levels.push(model(&world.review()).entry.level);
    let team = Some(GrantLevel::Team);
    assert_eq!(levels, [team, team, Some(GrantLevel::Stack), Some(GrantLevel::Subject)]);
    assert_eq!(world.review().decision, Decision::Allowed);
    grant(&mut world, "no", user, json!({ "deny": true, "allowedRepositories": [] }));
    let review = world.review();
    assert_eq!(review.decision, Decision::Denied);
    assert_eq!(model(&review).entry.decision, EntryDecision::Denied);
    assert!(model(&review).entry.why.message.contains("`no` forbids it"));
}

#[test]
fn denial_for_another_repository_does_not_apply() {
    let mut world = World::good();
    let stack = json!({ "kind": "agent-stack", "name": "fixer" });
    let elsewhere = json!({ "deny": true, "allowedRepositories": ["acme/api"] });
    grant(&mut world, "no", stack.clone(), elsewhere);
    assert_eq!(world.review().decision, Decision::Allowed);
    grant(&mut world, "no", stack, json!({ "deny": true, "allowedRepositories": ["acme/web"] }));
    assert_eq!(world.review().decision, Decision::Denied);
}

#[test]
fn missing_native_object_wins_over_a_grant() {
    let mut world = World::good();
    world.remove(Kind::Secret, "model");
    let review = world.review();
    assert_eq!(model(&review).entry.why.code, Reason::SecretMissing);
    assert!(review.missing_grants.is_empty(), "a grant would not help");
}

#[test]
fn unlistable_kind_is_denied() {
    for kind in [
        Kind::Secret,
        Kind::AgentSecretGrant,
        Kind::AgentConfigGrant,
        Kind::ConfigMap,
        Kind::ServiceAccount,
        Kind::RoleBinding,
        Kind::AgentServiceAccount,
        Kind::AgentRoleBinding,
    ] {
        let mut world = World::good();
        world.unlistable.insert(kind);
        let review = world.review();
        assert_eq!(review.decision, Decision::Denied, "{kind}");
        assert!(review.says(Reason::AccessReviewUnavailable), "{kind}: {:?}", review.reasons);
    }
}

#[test]
fn applying_the_preview_adds_the_missing_grants() {
    let mut world = World::good();
    world.remove(Kind::AgentSecretGrant, "docs-key");
    world.remove(Kind::AgentSecretGrant, "fixer-model");
    world.remove(Kind::AgentConfigGrant, "fixer-region");
    world.set_stack("/permissionRefs/secretGrants", json!([]));
    let review = world.review();
    assert_eq!(review.decision, Decision::Denied);
    assert_eq!(review.missing_grants.len(), 3);
    assert!(review.missing_grants.iter().all(|missing| missing.blocking));
    for (missing, yaml) in review.missing_grants.iter().zip(&review.yaml_preview) {
        let object: AnyObject = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!((object.kind, &object.metadata.name), (missing.kind, &missing.suggested_name));
        assert_eq!(object.check().unwrap(), [], "{yaml}");
        world.put(object);
    }
    let after = world.review();
    assert_eq!(after.decision, Decision::Allowed, "{:#?}", after.reasons);
    assert_ne!(after.digest(), review.digest());
}

#[test]
fn suggested_name_is_not_in_use() {
    let mut world = World::good();
    world.remove(Kind::AgentSecretGrant, "docs-key");
    let name = world.review().missing_grants[0].suggested_name.clone();
    world.add(
        Kind::AgentSecretGrant,
        &name,
        json!({
            "subject": { "kind": "user", "name": "x" },
            "secretRef": { "name": "other", "keys": ["k"] },
            "purpose": "cache",
        }),
    );
    let other = world.review().missing_grants[0].suggested_name.clone();
    assert_ne!(other, name);
    assert!(bailiwick_resources::is_object_name(&other), "{other}");
}

#[test]
fn never_mount_policy_mounts_nothing() {
    let mut world = World::good();
    let mounts = |world: &World| {
        let review = world.review();
        let mounts = review.mounts();
        mounts.iter().map(|(_, how, name)| (*how, name.clone())).collect::<Vec<_>>()
    };
    // The model token is passed by reference, which is the default; the server's key is not.
    assert_eq!(mounts(&world), [(SecretMount::Env, "DOCS_KEY".to_owned())]);
    world.set(Kind::AgentSecretGrant, "fixer-model", "/mountPolicy", json!("file"));
    assert!(mounts(&world).contains(&(SecretMount::File, "API_KEY".to_owned())));
    for name in ["fixer-model", "docs-key"] {
        let never = json!("never-mount-pass-by-reference");
        world.set(Kind::AgentSecretGrant, name, "/mountPolicy", never);
    }
    assert_eq!(mounts(&world), []);
    let review = world.review();
    assert_eq!(review.decision, Decision::Allowed);
    assert_eq!(model(&review).arrives, Some(SecretMount::NeverMountPassByReference));
    // A review that is denied mounts nothing either.
    world.set(Kind::AgentSecretGrant, "docs-key", "/mountPolicy", json!("env"));
    world.remove(Kind::AgentConfigGrant, "fixer-region");
    assert_eq!(mounts(&world), []);
}

#[test]
fn stack_uses_only_secrets_that_its_policy_names() {
    let mut world = World::good();
    world.set_stack("/secretPolicy/allowedSecretRefs", json!(["docs-key"]));
    let review = world.review();
    assert_eq!(model(&review).entry.why.code, Reason::SecretNotAllowedHere);
    assert_eq!(review.decision, Decision::Denied);
}

#[test]
fn missing_secret_of_a_tool_is_reported() {
    let mut world = World::good();
    let refs = json!([{ "name": "model", "keys": ["api-key"] }]);
    world.set(Kind::AgentToolProfile, "tools", "/requiredSecretRefs", refs);
    let review = world.review();
    assert!(review.says(Reason::ToolSecretNotGranted), "{:?}", review.reasons);
    grant(
        &mut world,
        "tool",
        json!({ "kind": "tool", "name": "tools" }),
        json!({ "purpose": "tool" }),
    );
    assert_eq!(world.review().decision, Decision::Allowed);
}

#[test]
fn grant_for_one_server_is_not_valid_for_another() {
    let mut world = World::good();
    let key = json!([{ "name": "KEY", "secretRef": { "name": "docs-key", "key": "key" } }]);
    world.add(
        Kind::AgentMcpServer,
        "other",
        json!({
            "transport": "stdio", "command": "x", "scope": "global", "envFrom": key,
        }),
    );
    world.set_stack("/mcpServerRefs", json!(["docs", "other"]));
    assert!(world.review().says(Reason::MissingSecretGrant));
}

#[test]
fn rule_can_require_approval_for_secret_access() {
    let mut world = World::good();
    world.approval_policy.require_for = vec![ApprovalReason::SecretAccess];
    let review = world.review();
    assert_eq!(review.decision, Decision::RequiresApproval);
    assert_eq!(review.approval_requirements.len(), 2);
    // Without a secret, no approval is needed.
    world.set_stack("/requiredSecretRefs", json!([]));
    world.set(Kind::AgentMcpServer, "docs", "/envFrom", json!([]));
    assert_eq!(world.review().decision, Decision::Allowed);
}

#[test]
fn secret_older_than_its_rotation_policy_is_a_stale_grant() {
    let mut world = World::good();
    world.set(
        Kind::AgentSecretGrant,
        "fixer-model",
        "/rotationPolicy",
        json!({ "maxAgeDays": 30 }),
    );
    assert_eq!(world.review().decision, Decision::Allowed);
    world.set(Kind::Secret, "model", "/keys/api-key/setAt", json!("2026-01-01T00:00:00Z"));
    let review = world.review();
    assert_eq!(model(&review).entry.decision, EntryDecision::StaleGrant);
    assert_eq!(review.decision, Decision::Denied);
}

#[test]
fn new_secret_version_changes_the_digest() {
    let mut world = World::good();
    let before = world.review().digest();
    world.set(Kind::Secret, "model", "/keys/api-key/version", json!(2));
    assert_ne!(world.review().digest(), before);
}

#[test]
fn identities_must_exist_and_allow_the_repository() {
    let mut world = World::good();
    world.set(Kind::AgentServiceAccount, "fixer", "/allowedRepositories", json!([]));
    assert!(world.review().says(Reason::SubjectNotAuthorized));
    let mut world = World::good();
    world.remove(Kind::AgentServiceAccount, "runner");
    assert!(world.review().says(Reason::ServiceAccountMissing), "the runner needs an identity too");
}

#[test]
fn fork_gets_a_secret_only_if_grant_and_stack_allow_it() {
    for (grant_allows, stack_allows, allowed) in
        [(false, false, false), (true, false, false), (false, true, false), (true, true, true)]
    {
        let mut world = World::good();
        world.fork();
        for name in ["fixer-model", "docs-key"] {
            world.set(Kind::AgentSecretGrant, name, "/allowUntrusted", json!(grant_allows));
        }
        world.set_stack("/secretPolicy/allowOnForks", json!(stack_allows));
        let review = world.review();
        assert_eq!(review.decision == Decision::Allowed, allowed, "{:?}", review.reasons);
        assert_eq!(review.mounts().is_empty(), !allowed);
        assert_eq!(review.says(Reason::PrivilegedSecretsOnFork), !allowed);
    }
}

#[test]
fn sources_refs_and_repositories_limit_config_grants_too() {
    let mut world = World::good();
    world.set(Kind::AgentConfigGrant, "fixer-region", "/allowedTriggerSources", json!(["ci"]));
    assert_eq!(world.review().decision, Decision::Allowed);
    world.situation.source = EventSource::Manual;
    let review = world.review();
    assert!(review.says(Reason::ConfigDenied));
    assert_eq!(review.invalid_grants, ["fixer-region"]);
    assert_eq!(world.situation.trust_tier, TrustTier::Trusted);
}
