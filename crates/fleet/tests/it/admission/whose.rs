//! Who owns an identity, where a binding applies, and what is unknown about teams.

use bailiwick_fleet::admission::review::Scope;
use bailiwick_fleet::admission::validations::Validation;
use bailiwick_fleet::admission::{Decision, Inventory, Review};
use bailiwick_fleet::ports::PersonRecord;
use bailiwick_resources::{ApprovalReason, EventSource, Kind, Moment, Reason, TrustTier};
use serde_json::{Value, json};

use super::world::{World, may_launch, object};

fn denied(review: &Review, about: &str) -> bool {
    let mut entries =
        review.identities.iter().chain(review.required_roles.iter().map(|role| &role.entry));
    entries.any(|entry| {
        entry.is_denied()
            && entry.why.about == about
            && entry.why.code == Reason::SubjectNotAuthorized
    })
}

#[test]
fn stack_cannot_run_as_the_identity_of_another_owner() {
    let about = "AgentServiceAccount/fixer";
    for (owner, allowed) in [
        (json!({ "kind": "agent-stack", "name": "fixer" }), true),
        (json!({ "kind": "agent-stack", "name": "releaser" }), false),
        (json!({ "kind": "repository", "name": "acme/web" }), true),
        (json!({ "kind": "repository", "name": "web" }), true),
        (json!({ "kind": "repository", "name": "acme/api" }), false),
        (json!({ "kind": "runner-pool", "name": "trusted" }), false),
        (json!({ "kind": "organization", "name": "acme" }), true),
    ] {
        let mut world = World::good();
        world.set(Kind::AgentServiceAccount, "fixer", "/owner", owner.clone());
        let review = world.review();
        assert_eq!(review.decision == Decision::Allowed, allowed, "{owner}");
        assert_eq!(denied(&review, about), !allowed, "{owner}");
    }
}

#[test]
fn pool_runs_only_as_its_own_runner_identity() {
    let about = "AgentServiceAccount/runner";
    for (owner, allowed) in [
        (json!({ "kind": "runner-pool", "name": "trusted" }), true),
        (json!({ "kind": "runner-pool", "name": "untrusted" }), false),
        (json!({ "kind": "agent-stack", "name": "fixer" }), false),
        (json!({ "kind": "organization", "name": "acme" }), true),
    ] {
        let mut world = World::good();
        world.set(Kind::AgentServiceAccount, "runner", "/owner", owner.clone());
        assert_eq!(denied(&world.review(), about), !allowed, "{owner}");
        assert_eq!(world.admit().is_ok(), allowed, "{owner}");
    }
}

#[test]
fn sub_agent_identity_must_belong_to_its_stack() {
    let mut world = World::good();
    world.set(Kind::AgentSubagent, "reviewer", "/runtimeIdentityOverride", json!("critic"));
    assert!(world.review().says(Reason::ServiceAccountMissing));
    let account = |owner: &str| {
        json!({
            "serviceAccountName": "fixer", "owner": { "kind": "agent-stack", "name": owner },
            "allowedRepositories": ["acme/*"], "allowedRunnerPools": ["trusted"],
        })
    };
    world.add(Kind::AgentServiceAccount, "critic", account("fixer"));
    assert_eq!(world.review().decision, Decision::Allowed, "{:?}", world.review().reasons);
    world.add(Kind::AgentServiceAccount, "critic", account("releaser"));
    assert!(denied(&world.review(), "AgentServiceAccount/critic"));
}

#[test]
fn binding_applies_only_within_its_scope() {
    let about = "AgentRoleBinding/fixer-reads";
    for (scope, applies) in [
        (json!({ "kind": "namespace", "name": "default" }), true),
        (json!({ "kind": "namespace", "name": "others" }), false),
        (json!({ "kind": "repository", "name": "acme/web" }), true),
        (json!({ "kind": "repository", "name": "web" }), true),
        (json!({ "kind": "repository", "name": "acme/api" }), false),
        (json!({ "kind": "organization", "name": "acme" }), true),
        (json!({ "kind": "organization", "name": "others" }), false),
    ] {
        let mut world = World::good();
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/scope", scope.clone());
        let review = world.review();
        assert_eq!(denied(&review, about), !applies, "{scope}");
        assert_eq!(world.admit().is_ok(), applies, "{scope}");
        // Without a repository, only the namespace is decided.
        let anywhere = world.review_in(Scope::Stack);
        assert_eq!(
            denied(&anywhere, about),
            scope["name"] == "others" && !applies && scope["kind"] == "namespace",
            "{scope}"
        );
    }
}

fn denial_for(subject: Value) -> Value {
    json!({
        "subject": subject, "secretRef": { "name": "model", "keys": ["api-key"] },
        "purpose": "model-provider-token", "deny": true,
    })
}

#[test]
fn denial_for_a_team_applies_to_every_possible_member() {
    for kind in ["team", "group"] {
        let mut world = World::good();
        assert_eq!(world.review().decision, Decision::Allowed);
        let team = json!({ "kind": kind, "name": "contractors" });
        world.add(Kind::AgentSecretGrant, "no", denial_for(team.clone()));
        assert_eq!(world.review().decision, Decision::Denied, "the members are unknown");
        world.situation.memberships = vec!["builders".into()];
        assert_eq!(world.review().decision, Decision::Allowed, "ada is known not to be a member");
        world.situation.memberships.push("contractors".into());
        assert_eq!(world.review().decision, Decision::Denied);
        // A denial for another stack does not apply.
        let mut world = World::good();
        let other = json!({ "kind": kind, "name": "contractors", "stackRef": "releaser" });
        world.add(Kind::AgentSecretGrant, "no", denial_for(other));
        assert_eq!(world.review().decision, Decision::Allowed);
        let mut grant = object(Kind::AgentSecretGrant, "yes", denial_for(team));
        grant.spec["deny"] = json!(false);
        assert_eq!(grant.check().unwrap(), []);
    }
}

#[test]
fn grant_for_a_team_is_for_its_members_only() {
    for kind in ["team", "group"] {
        let mut world = World::good();
        assert_eq!(world.review().decision, Decision::Allowed, "positive control");
        let team = json!({ "kind": kind, "name": "builders" });
        world.set(Kind::AgentSecretGrant, "fixer-model", "/subject", team);
        assert_eq!(world.review().decision, Decision::Denied, "the members are unknown");
        world.situation.memberships = vec!["others".into()];
        assert_eq!(world.review().decision, Decision::Denied);
        world.situation.memberships.push("builders".into());
        assert_eq!(world.review().decision, Decision::Allowed);
    }
}

#[test]
fn groups_apply_only_to_manual_runs_of_a_valid_sign_in() {
    let person = |name: &str, until: u64| PersonRecord {
        name: name.to_owned(),
        groups: vec!["builders".to_owned()],
        signed_in_at: Moment::from_millis(1),
        valid_until: Moment::from_millis(until),
    };
    let inventory = Inventory::default().with_people(vec![person("ada", 100), person("bob", 10)]);
    let memberships =
        |actor: &str, source| inventory.memberships(Some(actor), source, Moment::from_millis(50));
    assert_eq!(memberships("ada", EventSource::Manual), ["builders"]);
    assert!(memberships("bob", EventSource::Manual).is_empty(), "the sign-in has expired");
    assert!(memberships("eve", EventSource::Manual).is_empty());
    assert!(memberships("ada", EventSource::PrComment).is_empty(), "this is a forge account");
    assert!(inventory.memberships(None, EventSource::Manual, Moment::from_millis(50)).is_empty());
    assert!(inventory.has_members("builders") && !inventory.has_members("others"));
}

#[test]
fn server_with_repositories_is_for_no_others_in_any_scope() {
    let failed_validations = |world: &World| match world.admit() {
        Ok(_) => Vec::new(),
        Err(refused) => refused.validations,
    };
    for scope in ["global", "repository", "stack"] {
        let mut world = World::good();
        world.set(Kind::AgentMcpServer, "docs", "/scope", json!(scope));
        world.set(Kind::AgentMcpServer, "docs", "/allowedAgentStacks", json!(["fixer"]));
        world.set(Kind::AgentMcpServer, "docs", "/allowedRepositories", json!(["acme/w*"]));
        assert_eq!(failed_validations(&world), [], "{scope}");
        world.set(Kind::AgentMcpServer, "docs", "/allowedRepositories", json!(["acme/api"]));
        assert_eq!(failed_validations(&world), [Validation::McpServers], "{scope}");
    }
    for scope in ["org", "dispatch"] {
        let mut world = World::good();
        world.set(Kind::AgentMcpServer, "docs", "/scope", json!(scope));
        assert_eq!(failed_validations(&world), [Validation::McpServers], "{scope}");
    }
}

/// An untrusted fork that needs no secrets.
fn bare_fork() -> World {
    let mut world = World::good();
    world.set_stack("/requiredSecretRefs", json!([]));
    world.set_stack("/permissionRefs/secretGrants", json!([]));
    world.set(Kind::AgentMcpServer, "docs", "/envFrom", json!([]));
    world.fork();
    world
}

#[test]
fn untrusted_work_gets_a_server_only_if_the_server_allows_it() {
    let mut world = bare_fork();
    assert!(world.admit().is_ok(), "{:?}", world.admit().err());
    world.set(Kind::AgentMcpServer, "docs", "/allowUntrusted", json!(false));
    assert_eq!(world.admit().unwrap_err().validations, [Validation::McpServers]);
    world.situation.trust_tier = TrustTier::Trusted;
    world.pool = "trusted".into();
    assert!(world.admit().is_ok());
}

#[test]
fn untrusted_work_reaches_a_host_only_if_the_repository_allows_it() {
    let mut world = bare_fork();
    let policy = json!({ "mode": "allowlist", "allowHosts": ["example.org"] });
    world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", policy);
    let refused = world.admit().unwrap_err();
    assert_eq!(refused.validations, [Validation::ToolProfile]);
    assert!(refused.reasons.iter().any(|why| why.message.contains("example.org")), "{refused:?}");
    world.set(Kind::Repository, "web", "/policy/untrustedNetwork", json!(true));
    assert!(world.admit().unwrap().compiled.task.contains("example.org"));
    // Trusted work does not need this permission.
    world.set(Kind::Repository, "web", "/policy", json!({}));
    world.situation.trust_tier = TrustTier::Trusted;
    assert!(world.admit().is_ok());
}

#[test]
fn rule_can_require_approval_for_network_access_and_role_use() {
    let mut world = World::good();
    let policy = json!({ "mode": "allowlist", "allowHosts": ["a.example", "b.example"] });
    world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", policy);
    assert!(may_launch(&world.admit().unwrap()));
    world.approval_policy.require_for =
        vec![ApprovalReason::NetworkExpanded, ApprovalReason::Escalation];
    let admitted = world.admit().unwrap();
    assert!(!may_launch(&admitted));
    let summary_of = |reason| {
        let all = admitted.approvals.iter();
        let mut matching = all.filter(|one| one.spec.policy_reasons == [reason]);
        let summary = matching.next().map(|one| one.spec.action.summary.clone());
        assert!(matching.next().is_none());
        summary.unwrap_or_default()
    };
    let network = summary_of(ApprovalReason::NetworkExpanded);
    assert!(network.contains("a.example") && network.contains("b.example"), "{network}");
    assert!(summary_of(ApprovalReason::Escalation).contains("fixer-reads"));
    // Without network access and without a role, no approval is needed.
    let closed = json!({ "mode": "deny" });
    world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", closed);
    world.set_stack("/permissionRefs/roleBindings", json!([]));
    assert!(may_launch(&world.admit().unwrap()));
}
