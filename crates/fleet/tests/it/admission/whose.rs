//! Whose an identity is, where a binding holds, and what is unknown of teams.

use bailiwick_fleet::admission::review::Scope;
use bailiwick_fleet::admission::validations::Validation;
use bailiwick_fleet::admission::{Decision, Inventory, Review};
use bailiwick_fleet::ports::PersonRecord;
use bailiwick_resources::{ApprovalReason, EventSource, Kind, Moment, Reason, TrustTier};
use serde_json::{Value, json};

use super::world::{World, object};

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
fn a_stack_runs_as_nobody_else() {
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
fn a_pool_runs_as_its_own_runners() {
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
fn a_sub_agent_acts_as_an_identity_that_is_its_stack_s() {
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
fn a_binding_holds_where_its_scope_is() {
    let about = "AgentRoleBinding/fixer-reads";
    for (scope, here) in [
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
        assert_eq!(denied(&review, about), !here, "{scope}");
        assert_eq!(world.admit().is_ok(), here, "{scope}");
        // Of the stack as such, only the namespace can be said.
        let anywhere = world.review_in(Scope::Anywhere);
        assert_eq!(
            denied(&anywhere, about),
            scope["name"] == "others" && !here && scope["kind"] == "namespace",
            "{scope}"
        );
    }
}

fn no_for(subject: Value) -> Value {
    json!({
        "subject": subject, "secretRef": { "name": "model", "keys": ["api-key"] },
        "purpose": "model-provider-token", "deny": true,
    })
}

#[test]
fn what_is_forbidden_to_a_team_is_forbidden_to_everyone_who_may_be_in_it() {
    for kind in ["team", "group"] {
        let mut world = World::good();
        assert_eq!(world.review().decision, Decision::Allowed);
        let team = json!({ "kind": kind, "name": "contractors" });
        world.add(Kind::AgentSecretGrant, "no", no_for(team.clone()));
        assert_eq!(world.review().decision, Decision::Denied, "nobody knows who is in it");
        world.situation.memberships = vec!["builders".into()];
        assert_eq!(world.review().decision, Decision::Allowed, "it is known: ada is not");
        world.situation.memberships.push("contractors".into());
        assert_eq!(world.review().decision, Decision::Denied);
        // It is for another stack.
        let mut world = World::good();
        let other = json!({ "kind": kind, "name": "contractors", "stackRef": "releaser" });
        world.add(Kind::AgentSecretGrant, "no", no_for(other));
        assert_eq!(world.review().decision, Decision::Allowed);
        let mut yes = object(Kind::AgentSecretGrant, "yes", no_for(team));
        yes.spec["deny"] = json!(false);
        assert_eq!(yes.check().unwrap(), []);
    }
}

#[test]
fn what_is_granted_to_a_team_is_for_its_members_only() {
    for kind in ["team", "group"] {
        let mut world = World::good();
        assert_eq!(world.review().decision, Decision::Allowed, "positive control");
        let team = json!({ "kind": kind, "name": "builders" });
        world.set(Kind::AgentSecretGrant, "fixer-model", "/subject", team);
        assert_eq!(world.review().decision, Decision::Denied, "nobody knows who is in it");
        world.situation.memberships = vec!["others".into()];
        assert_eq!(world.review().decision, Decision::Denied);
        world.situation.memberships.push("builders".into());
        assert_eq!(world.review().decision, Decision::Allowed);
    }
}

#[test]
fn only_people_who_signed_in_lately_and_asked_themselves_have_groups() {
    let person = |name: &str, until: u64| PersonRecord {
        name: name.to_owned(),
        groups: vec!["builders".to_owned()],
        signed_in_at: Moment::from_millis(1),
        valid_until: Moment::from_millis(until),
    };
    let inventory = Inventory::default().with_people(vec![person("ada", 100), person("bob", 10)]);
    let of =
        |actor: &str, source| inventory.memberships(Some(actor), source, Moment::from_millis(50));
    assert_eq!(of("ada", EventSource::Manual), ["builders"]);
    assert!(of("bob", EventSource::Manual).is_empty(), "the sign-in is over");
    assert!(of("eve", EventSource::Manual).is_empty());
    assert!(of("ada", EventSource::PrComment).is_empty(), "an account of the forge");
    assert!(inventory.memberships(None, EventSource::Manual, Moment::from_millis(50)).is_empty());
    assert!(inventory.has_members("builders") && !inventory.has_members("others"));
}

#[test]
fn a_server_that_names_repositories_is_for_no_others_whatever_its_scope() {
    let objects = |world: &World| match world.admit() {
        Ok(_) => Vec::new(),
        Err(refused) => refused.validations,
    };
    for scope in ["global", "repository", "stack"] {
        let mut world = World::good();
        world.set(Kind::AgentMcpServer, "docs", "/scope", json!(scope));
        world.set(Kind::AgentMcpServer, "docs", "/allowedAgentStacks", json!(["fixer"]));
        world.set(Kind::AgentMcpServer, "docs", "/allowedRepositories", json!(["acme/w*"]));
        assert_eq!(objects(&world), [], "{scope}");
        world.set(Kind::AgentMcpServer, "docs", "/allowedRepositories", json!(["acme/api"]));
        assert_eq!(objects(&world), [Validation::McpServers], "{scope}");
    }
    for scope in ["org", "dispatch"] {
        let mut world = World::good();
        world.set(Kind::AgentMcpServer, "docs", "/scope", json!(scope));
        assert_eq!(objects(&world), [Validation::McpServers], "{scope}");
    }
}

/// A fork that needs nothing secret.
fn bare_fork() -> World {
    let mut world = World::good();
    world.set_stack("/requiredSecretRefs", json!([]));
    world.set_stack("/permissionRefs/secretGrants", json!([]));
    world.set(Kind::AgentMcpServer, "docs", "/envFrom", json!([]));
    world.fork();
    world
}

#[test]
fn untrusted_work_has_a_server_only_if_the_server_is_for_it() {
    let mut world = bare_fork();
    assert!(world.admit().is_ok(), "{:?}", world.admit().err());
    world.set(Kind::AgentMcpServer, "docs", "/allowUntrusted", json!(false));
    assert_eq!(world.admit().unwrap_err().validations, [Validation::McpServers]);
    world.situation.trust_tier = TrustTier::Trusted;
    world.pool = "trusted".into();
    assert!(world.admit().is_ok());
}

#[test]
fn untrusted_work_reaches_a_host_only_if_the_repository_says_so() {
    let mut world = bare_fork();
    let policy = json!({ "mode": "allowlist", "allowHosts": ["example.org"] });
    world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", policy);
    let refused = world.admit().unwrap_err();
    assert_eq!(refused.validations, [Validation::ToolProfile]);
    assert!(refused.reasons.iter().any(|why| why.message.contains("example.org")), "{refused:?}");
    world.set(Kind::Repository, "web", "/policy/untrustedNetwork", json!(true));
    assert!(world.admit().unwrap().compiled.task.contains("example.org"));
    // Trusted work needs no such word.
    world.set(Kind::Repository, "web", "/policy", json!({}));
    world.situation.trust_tier = TrustTier::Trusted;
    assert!(world.admit().is_ok());
}

#[test]
fn a_rule_can_ask_for_a_person_before_the_network_or_a_role_is_used() {
    let mut world = World::good();
    let policy = json!({ "mode": "allowlist", "allowHosts": ["a.example", "b.example"] });
    world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", policy);
    assert!(world.admit().unwrap().may_launch());
    world.approval_policy.require_for =
        vec![ApprovalReason::NetworkExpanded, ApprovalReason::Escalation];
    let admitted = world.admit().unwrap();
    assert!(!admitted.may_launch());
    let asked = |reason| {
        let all = admitted.approvals.iter();
        let mut of_it = all.filter(|one| one.spec.policy_reasons == [reason]);
        let summary = of_it.next().map(|one| one.spec.action.summary.clone());
        assert!(of_it.next().is_none());
        summary.unwrap_or_default()
    };
    let network = asked(ApprovalReason::NetworkExpanded);
    assert!(network.contains("a.example") && network.contains("b.example"), "{network}");
    assert!(asked(ApprovalReason::Escalation).contains("fixer-reads"));
    // Where nothing is opened and no role is used, nobody is asked.
    let closed = json!({ "mode": "deny" });
    world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", closed);
    world.set_stack("/permissionRefs/roleBindings", json!([]));
    assert!(world.admit().unwrap().may_launch());
}
