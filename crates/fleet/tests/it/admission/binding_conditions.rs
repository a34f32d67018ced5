//! The conditions of identities, bindings, grants and requirements: valid, and with one change each.

use std::collections::BTreeSet;

use bailiwick_fleet::admission::collect;
use bailiwick_fleet::admission::conditions::{
    AuthorFacts, config_grant_conditions, requirement_conditions, requirement_status,
    role_binding_conditions, secret_grant_conditions, service_account_conditions,
};
use bailiwick_resources::{
    ConditionType, Finding, Kind, Metadata, Object, Reason, Resource, ResourceRule, Standing,
    expected_conditions,
};
use serde_json::json;

use super::world::{World, now};

fn typed<R: Resource>(world: &World, name: &str) -> Object<R> {
    world.objects[&(R::KIND, name.to_owned())].typed().unwrap()
}

fn findings_of(world: &World, kind: Kind) -> Vec<Finding> {
    let inventory = world.inventory();
    let findings = if kind == Kind::AgentServiceAccount {
        service_account_conditions(&typed(world, "fixer"), &inventory)
    } else if kind == Kind::AgentRoleBinding {
        role_binding_conditions(&typed(world, "fixer-reads"), &inventory, None, None)
    } else if kind == Kind::AgentSecretGrant {
        secret_grant_conditions(&typed(world, "fixer-model"), &inventory, None, now())
    } else if kind == Kind::AgentConfigGrant {
        config_grant_conditions(&typed(world, "fixer-region"), &inventory, None)
    } else {
        let needs = collect(&World::good().frozen()).records;
        let (_, stack) = needs.into_iter().find(|(name, _)| name == "stack.fixer").unwrap();
        requirement_conditions(&stack, &inventory, "default", Some(&world.review()))
    };
    let kinds: Vec<ConditionType> = findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, expected_conditions(kind));
    findings
}

fn check(
    kind: Kind,
    condition: ConditionType,
    status: Standing,
    reason: Reason,
    change: impl Fn(&mut World),
) {
    let mut world = World::good();
    let before = findings_of(&world, kind);
    assert!(before.iter().all(|finding| finding.status == Standing::True), "{before:?}");
    change(&mut world);
    let after = findings_of(&world, kind);
    let finding = after.iter().find(|finding| finding.kind == condition).unwrap();
    assert_eq!((finding.status, finding.reason), (status, reason), "{finding:?}");
    assert_ne!(after.last().unwrap().status, Standing::True);
}

macro_rules! examples {
    ($($name:ident: $kind:ident $condition:ident $status:ident $reason:ident, $change:expr;)*) => {
        $(#[test]
        fn $name() {
            check(
                Kind::$kind, ConditionType::$condition, Standing::$status, Reason::$reason, $change,
            );
        })*
    };
}

examples! {
    account_missing: AgentServiceAccount ServiceAccountSynced False ServiceAccountMissing, |world| {
        world.remove(Kind::ServiceAccount, "fixer");
    };
    account_drifted: AgentServiceAccount ServiceAccountSynced False ServiceAccountDrifted, |world| {
        world.set(Kind::ServiceAccount, "fixer", "/imagePullSecrets", json!(["x"]));
    };
    accounts_unlistable: AgentServiceAccount ServiceAccountSynced Unknown AccessReviewUnavailable, |world| {
        world.unlistable.insert(Kind::ServiceAccount);
    };
    projection_forbidden: AgentServiceAccount TokenProjectionAllowed False TokenProjectionForbidden, |world| {
        world.set(Kind::ServiceAccount, "fixer", "/forbidTokenProjection", json!(true));
    };
    token_without_an_audience: AgentServiceAccount TokenProjectionAllowed False TokenProjectionForbidden, |world| {
        world.set(Kind::AgentServiceAccount, "fixer", "/automountServiceAccountToken", json!(true));
    };
    token_lifetime_too_long: AgentServiceAccount TokenProjectionAllowed False TokenLifetimeOutOfBounds, |world| {
        world.set(Kind::AgentServiceAccount, "fixer", "/tokenExpirationSeconds", json!(1_000_000));
    };
    image_secret_missing: AgentServiceAccount ImagePullSecretsReady False ImagePullSecretMissing, |world| {
        world.set(Kind::AgentServiceAccount, "fixer", "/imagePullSecretRefs", json!(["registry"]));
    };
    role_missing: AgentRoleBinding RoleResolved False RoleMissing, |world| {
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/roleRef/name", json!("no-such"));
    };
    subject_missing: AgentRoleBinding SubjectsResolved False SubjectMissing, |world| {
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/subject/name", json!("nobody"));
    };
    people_not_yet_observed: AgentRoleBinding SubjectsResolved Unknown NotYetObserved, |world| {
        let user = json!({ "kind": "user", "name": "ada" });
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/subject", user);
    };
    native_binding_missing: AgentRoleBinding NativeBindingSynced False NativeBindingMissing, |world| {
        world.remove(Kind::RoleBinding, "fixer-reads");
    };
    native_binding_drifted: AgentRoleBinding NativeBindingSynced False NativeBindingDrifted, |world| {
        world.set(Kind::RoleBinding, "fixer-reads", "/roleRef/name", json!("agent-approver"));
    };
    escalation_denied: AgentRoleBinding EscalationAdmitted False EscalationDenied, |world| {
        let rules = json!([{ "resources": ["secrets"], "verbs": ["get"] }]);
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/resourceRules", rules);
    };
    escalation_needs_approval: AgentRoleBinding EscalationAdmitted False EscalationNeedsApproval, |world| {
        let rules = json!([{ "resources": ["*"], "verbs": ["get"] }]);
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/resourceRules", rules);
        let policy = json!("require-admin-approval");
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/escalationPolicy", policy);
    };
    secret_missing: AgentSecretGrant SecretExists False SecretMissing, |world| {
        world.remove(Kind::Secret, "model");
    };
    secrets_unlistable: AgentSecretGrant KeysExist Unknown AccessReviewUnavailable, |world| {
        world.unlistable.insert(Kind::Secret);
    };
    key_missing: AgentSecretGrant KeysExist False SecretKeyMissing, |world| {
        world.set(Kind::Secret, "model", "/keys", json!({}));
    };
    grantee_missing: AgentSecretGrant SubjectAuthorized False SubjectMissing, |world| {
        world.set(Kind::AgentSecretGrant, "fixer-model", "/subject/name", json!("nobody"));
    };
    grant_for_no_repository: AgentSecretGrant PolicyAdmitted False SecretNotAllowedHere, |world| {
        world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedRepositories", json!([]));
    };
    privileged_grant_to_forks: AgentSecretGrant PolicyAdmitted False PrivilegedSecretsOnFork, |world| {
        world.set(Kind::AgentSecretGrant, "fixer-model", "/purpose", json!("deployment"));
        world.set(Kind::AgentSecretGrant, "fixer-model", "/allowUntrusted", json!(true));
    };
    rotation_overdue: AgentSecretGrant PolicyAdmitted False RotationOverdue, |world| {
        let policy = json!({ "maxAgeDays": 1 });
        world.set(Kind::AgentSecretGrant, "fixer-model", "/rotationPolicy", policy);
        let set_at = json!("2025-01-01T00:00:00Z");
        world.set(Kind::Secret, "model", "/keys/api-key/setAt", set_at);
    };
    config_map_missing: AgentConfigGrant ConfigMapExists False ConfigMapMissing, |world| {
        world.remove(Kind::ConfigMap, "runner");
    };
    config_map_key_missing: AgentConfigGrant KeysExist False ConfigKeyMissing, |world| {
        world.set(Kind::ConfigMap, "runner", "/data", json!({}));
    };
    config_grantee_missing: AgentConfigGrant SubjectAuthorized False SubjectMissing, |world| {
        world.set(Kind::AgentConfigGrant, "fixer-region", "/subject/name", json!("nobody"));
    };
    config_grant_for_no_repository: AgentConfigGrant PolicyAdmitted False ConfigDenied, |world| {
        world.set(Kind::AgentConfigGrant, "fixer-region", "/allowedRepositories", json!([]));
    };
    grants_missing: AgentCapabilityRequirement GrantsResolved False PermissionRequirementsBlocked, |world| {
        world.remove(Kind::AgentConfigGrant, "fixer-region");
    };
    grants_unlistable: AgentCapabilityRequirement GrantsResolved Unknown AccessReviewUnavailable, |world| {
        world.unlistable.insert(Kind::AgentConfigGrant);
    };
}

#[test]
fn requirement_without_its_owner_is_false() {
    let world = World::good();
    let (_, mut record) = collect(&world.frozen()).records.remove(0);
    record.owner_ref.name = "gone".to_owned();
    let inventory = world.inventory();
    let found = requirement_conditions(&record, &inventory, "default", Some(&world.review()));
    assert_eq!((found[0].status, found[0].reason), (Standing::False, Reason::OwnerMissing));
    let unknown = requirement_conditions(&record, &inventory, "default", None);
    assert_eq!((unknown[1].status, unknown[1].reason), (Standing::Unknown, Reason::NotYetObserved));
}

#[test]
fn every_required_identity_capability_is_checked() {
    let mut world = World::good();
    let finding_for = |world: &World, words: &[&str]| {
        let (_, mut record) = collect(&world.frozen()).records.remove(0);
        record.required_service_account_capabilities =
            words.iter().map(|word| (*word).to_owned()).collect();
        let review = world.review();
        requirement_conditions(&record, &world.inventory(), "default", Some(&review)).remove(1)
    };
    let all = ["run-in-pool", "receive-token", "start-mcp-servers", "act-as/fixer"];
    let valid = finding_for(&world, &all);
    assert_eq!(valid.status, Standing::True, "{}", valid.message);
    for word in ["act-as/nobody", "fly"] {
        let invalid = finding_for(&world, &[word]);
        assert_eq!(invalid.status, Standing::False, "{word}");
        assert!(invalid.message.contains(word), "{}", invalid.message);
    }
    world.set(Kind::AgentServiceAccount, "fixer", "/allowedRunnerPools", json!(["elsewhere"]));
    let invalid = finding_for(&world, &["run-in-pool"]);
    assert!(invalid.message.contains("run-in-pool: "), "{}", invalid.message);
    assert_eq!(finding_for(&world, &["receive-token"]).status, Standing::True);
    world.set(Kind::ServiceAccount, "fixer", "/forbidTokenProjection", json!(true));
    let invalid = finding_for(&world, &["receive-token"]);
    assert!(invalid.message.contains("receive-token: "), "{}", invalid.message);
    world.unlistable.insert(Kind::AgentServiceAccount);
    assert_eq!(finding_for(&world, &["run-in-pool"]).status, Standing::Unknown);
}

#[test]
fn requirement_lists_only_its_own_missing_grants() {
    let mut world = World::good();
    world.remove(Kind::AgentSecretGrant, "docs-key");
    world.remove(Kind::AgentConfigGrant, "fixer-region");
    let review = world.review();
    assert_eq!(review.missing_grants.len(), 2);
    let records = collect(&world.frozen()).records;
    let status = |name: &str| {
        let (_, record) = records.iter().find(|(known, _)| known == name).unwrap();
        let object = Object::new(Metadata::named(name), record.clone());
        requirement_status(&object, &world.inventory(), Some(&review), now())
    };
    let kinds =
        |name: &str| status(name).missing_grants.iter().map(|grant| grant.kind).collect::<Vec<_>>();
    assert_eq!(kinds("mcp.docs"), [Kind::AgentSecretGrant]);
    assert_eq!(kinds("stack.fixer"), [Kind::AgentConfigGrant]);
}

#[test]
fn missing_grants_with_the_same_reason_are_distinguished() {
    let mut world = World::good();
    world.remove(Kind::AgentSecretGrant, "docs-key");
    world.remove(Kind::AgentConfigGrant, "fixer-region");
    let mut review = world.review();
    let same = "a grant is missing".to_owned();
    review.missing_grants.iter_mut().for_each(|grant| grant.reason.clone_from(&same));
    review.required_secrets.iter_mut().for_each(|one| one.entry.why.message.clone_from(&same));
    review.required_configs.iter_mut().for_each(|one| one.entry.why.message.clone_from(&same));
    let records = collect(&world.frozen()).records;
    for (name, expected) in
        [("mcp.docs", &review.missing_grants[0]), ("stack.fixer", &review.missing_grants[1])]
    {
        let (_, record) = records.iter().find(|(known, _)| known == name).unwrap();
        let object = Object::new(Metadata::named(name), record.clone());
        let status = requirement_status(&object, &world.inventory(), Some(&review), now());
        assert_eq!(status.missing_grants, std::slice::from_ref(expected));
    }
}

#[test]
fn author_cannot_escalate_without_the_rights_or_an_approval() {
    let mut world = World::good();
    world.set(
        Kind::AgentRoleBinding,
        "fixer-reads",
        "/escalationPolicy",
        json!("require-admin-approval"),
    );
    let binding = typed(&world, "fixer-reads");
    let people = BTreeSet::new();
    let escalation = |author: &AuthorFacts| {
        role_binding_conditions(&binding, &world.inventory(), Some(&people), Some(author))[3]
            .clone()
    };
    let all = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let mut author = AuthorFacts::default();
    assert_eq!(escalation(&author).reason, Reason::EscalationNeedsApproval);
    author.approved = true;
    assert_eq!(escalation(&author).status, Standing::True);
    author.approved = false;
    author.rules =
        vec![ResourceRule { api_groups: all(&["*"]), resources: all(&["*"]), verbs: all(&["*"]) }];
    assert_eq!(escalation(&author).status, Standing::True);
}
