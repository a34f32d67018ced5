//! `allow-if-owner`: the author of a binding must own every file of the repository.

use std::collections::BTreeSet;

use bailiwick_fleet::admission::code_owners::{CodeOwners, Grammar};
use bailiwick_fleet::admission::conditions::role_binding_conditions;
use bailiwick_fleet::admission::native;
use bailiwick_fleet::admission::ownership::APPLIED_BY;
use bailiwick_fleet::admission::review::Scope;
use bailiwick_fleet::admission::{Decision, OwnerFacts, Review, TeamMembers};
use bailiwick_resources::{
    AgentRoleBinding, ApprovalReason, Kind, Object, Reason, Resource as _, Standing, TrustTier,
};
use serde_json::json;

use super::world::World;

const BINDING: &str = "fixer-reads";

fn read(grammar: Grammar, text: &str) -> OwnerFacts {
    let paths = ["CODEOWNERS", "docs/a.md", "src/a.rs"].map(str::to_owned);
    let file = CodeOwners::parse(grammar, text).unwrap();
    OwnerFacts::Read(file.group(&paths).unwrap())
}

fn github(text: &str) -> Option<OwnerFacts> {
    Some(read(Grammar::Github, text))
}

fn applied_by(world: &mut World, kind: Kind, name: &str, person: &str) {
    let object = world.objects.get_mut(&(kind, name.to_owned())).unwrap();
    object.metadata.annotations.insert(APPLIED_BY.to_owned(), person.to_owned());
}

/// A binding that escalates, applied by Ada, an owner of the repository.
fn world() -> World {
    let mut world = World::good();
    for (field, value) in [
        ("/scope", json!({ "kind": "repository", "name": "web" })),
        ("/roleRef", json!({ "kind": "RoleTemplate", "name": "secret-grant-admin" })),
        ("/escalationPolicy", json!("allow-if-owner")),
    ] {
        world.set(Kind::AgentRoleBinding, BINDING, field, value);
    }
    world.remove(Kind::RoleBinding, BINDING);
    applied_by(&mut world, Kind::AgentRoleBinding, BINDING, "ada");
    world.set(Kind::Repository, "web", "/accounts", json!({ "ada": ["ada-l", "ada@acme.test"] }));
    world.owners = github("* @ada-l @bob\n");
    world
}

/// Why the binding is refused; `None` if the run is admitted without approval.
fn refusal(world: &World) -> Option<String> {
    let review: Review = world.review();
    let entry = &review.required_roles[0].entry;
    assert_eq!(world.admit().is_ok(), !entry.is_denied(), "{entry:?}");
    if !entry.is_denied() {
        assert_eq!(review.decision, Decision::Allowed, "{:?}", review.reasons);
        return None;
    }
    assert_eq!(review.decision, Decision::Denied);
    assert_eq!(entry.why.code, Reason::EscalationDenied);
    Some(entry.why.message.clone())
}

fn assert_refused(world: &World, why: &str) {
    let found = refusal(world).unwrap();
    assert!(found.contains(why), "{found} has no {why}");
}

#[test]
fn binding_of_an_owner_is_allowed_in_each_grammar() {
    for owners in [
        read(Grammar::Github, "* @ADA-L\n"),
        read(Grammar::Github, "* ada@acme.test @acme/core\n"),
        read(Grammar::Github, "* @bob\n*.md @ada-l\n/src/ @ada-l\nCODEOWNERS @bob @ada-l\n"),
        read(Grammar::Gitea, "docs/.* @bob\n.* @ada-l\n"),
        read(Grammar::Gitea, "!docs/.* ada-l\ndocs/.* Ada-L\n"),
    ] {
        let mut world = world();
        world.owners = Some(owners.clone());
        assert_eq!(refusal(&world), None, "{owners:?}");
    }
}

#[test]
fn author_must_own_every_file() {
    let mut world = world();
    for (text, why) in [
        ("* @bob\n", "`ada` applied AgentRoleBinding `fixer-reads` and does not own"),
        ("* @ada-l\n/docs/ @bob\n", "`docs/a.md`, which belongs to @bob"),
        ("* @ada-l\n/docs/\n", "`docs/a.md`, which belongs to nobody"),
        ("/src/ @ada-l\n", "belongs to nobody"),
        ("* @acme/core\n", "@acme/core (its members are unknown)"),
        ("* @ada\n", "belongs to @ada"),
        ("* other@acme.test\n", "belongs to other@acme.test"),
        ("# empty\n", "belongs to nobody"),
    ] {
        world.owners = github(text);
        assert_refused(&world, why);
    }
    world.owners = Some(read(Grammar::Gitea, "(ada @ada-l\ndocs/.* @ada-l\n"));
    assert_refused(&world, "belongs to nobody");
    world.owners = github("* @ada-l\n");
    assert_eq!(refusal(&world), None);
}

#[test]
fn team_member_owns_the_files_of_the_team() {
    let mut world = world();
    let known = |members: &[&str]| {
        TeamMembers::Known(members.iter().map(|member| (*member).to_owned()).collect())
    };
    world.owners = github("* @Acme/Core\n/docs/ @bob @acme/docs\n");
    world.teams.insert("acme/docs".to_owned(), known(&["Ada-L"]));
    for (core, why) in [
        (known(&["bob", "ada"]), "which belongs to @acme/core:"),
        (known(&[]), "which belongs to @acme/core:"),
        (
            TeamMembers::Unreadable("the token needs `read:org`".to_owned()),
            "@acme/core (its members cannot be read: the token needs `read:org`)",
        ),
    ] {
        world.teams.insert("acme/core".to_owned(), core);
        assert_refused(&world, why);
    }
    world.teams.insert("acme/core".to_owned(), known(&["bob", "ADA-l"]));
    assert_eq!(refusal(&world), None);
    world.owners = github("* @other/core\n");
    assert_refused(&world, "@other/core (its members are unknown)");
}

#[test]
fn unknown_owners_authors_and_accounts_are_refused() {
    let mut world = world();
    world.owners = Some(OwnerFacts::Unusable("the default branch has no CODEOWNERS".to_owned()));
    assert_refused(&world, "the default branch has no CODEOWNERS");
    world.owners = Some(OwnerFacts::Read(Vec::new()));
    assert_refused(&world, "the repository has no files");
    world.owners = None;
    assert_refused(&world, "CODEOWNERS was not read");
    let mut world = self::world();
    applied_by(&mut world, Kind::AgentRoleBinding, BINDING, "bob");
    assert_refused(&world, "`bob` applied AgentRoleBinding `fixer-reads` and has no forge account");
    applied_by(&mut world, Kind::AgentRoleBinding, BINDING, "");
    assert_refused(&world, "it is not known who applied AgentRoleBinding `fixer-reads`");
}

#[test]
fn ownership_does_not_help_untrusted_work() {
    let mut world = world();
    world.fork();
    world.set(Kind::AgentServiceAccount, "fixer", "/allowedRunnerPools", json!(["untrusted"]));
    assert_refused(&world, "counts only for trusted work");
    let mut world = self::world();
    world.set(Kind::Repository, "web", "/trustTier", json!("untrusted"));
    let entry = world.review().required_roles[0].entry.clone();
    assert!(entry.why.message.contains("counts only for trusted work"), "{entry:?}");
    assert_eq!(world.situation.trust_tier, TrustTier::Trusted);
}

#[test]
fn author_of_the_role_must_be_an_owner_too() {
    let mut world = world();
    let rules = json!([{ "apiGroups": [], "resources": ["secrets"], "verbs": ["get"] }]);
    world.add(Kind::Role, "keys", json!({ "rules": rules, "cluster": false }));
    let role = json!({ "kind": "Role", "name": "keys" });
    world.set(Kind::AgentRoleBinding, BINDING, "/roleRef", role);
    assert_refused(&world, "it is not known who applied Role `keys`");
    applied_by(&mut world, Kind::Role, "keys", "mallory");
    assert_refused(&world, "`mallory` applied Role `keys` and has no forge account");
    applied_by(&mut world, Kind::Role, "keys", "ada");
    assert_eq!(refusal(&world), None);
}

#[test]
fn owner_gives_no_more_rights_than_an_approval() {
    let by_owner = world();
    let mut by_approval = world();
    let policy = json!("require-admin-approval");
    by_approval.set(Kind::AgentRoleBinding, BINDING, "/escalationPolicy", policy);
    let (owner, approval) = (by_owner.admit().unwrap(), by_approval.admit().unwrap());
    assert_eq!(owner.approvals.len(), 0);
    assert_eq!(approval.approvals.len(), 1);
    assert_eq!(owner.compiled.limits.0.len(), approval.compiled.limits.0.len());
    assert_eq!(owner.compiled.task, approval.compiled.task);
    // The platform gets no native binding from either.
    for world in [&by_owner, &by_approval] {
        let steps = native::plan(&world.inventory()).unwrap();
        let has_binding = steps.iter().any(|step| step.object().kind == Kind::RoleBinding);
        assert!(!has_binding, "{steps:?}");
    }
    // A cluster role has no owner, and a rule that requires an approval still does.
    let mut cluster = world();
    let role = json!({ "kind": "ClusterRole", "name": "keys" });
    cluster.add(Kind::Role, "keys", json!({ "rules": [], "cluster": true }));
    applied_by(&mut cluster, Kind::Role, "keys", "ada");
    cluster.set(Kind::AgentRoleBinding, BINDING, "/roleRef", role);
    assert_eq!(cluster.review().required_roles[0].entry.why.code, Reason::ClusterRoleDenied);
    let mut with_approval = world();
    with_approval.approval_policy.require_for = vec![ApprovalReason::Escalation];
    assert_eq!(with_approval.review().decision, Decision::RequiresApproval);
}

#[test]
fn binding_condition_says_that_owners_decide() {
    let mut world = world();
    let escalation = |world: &World| {
        let object = &world.objects[&(Kind::AgentRoleBinding, BINDING.to_owned())];
        let binding: Object<AgentRoleBinding> = object.typed().unwrap();
        let people = BTreeSet::new();
        role_binding_conditions(&binding, &world.inventory(), Some(&people), None)[3].clone()
    };
    let known = escalation(&world);
    assert_eq!(known.status, Standing::Unknown, "{}", known.message);
    assert!(known.message.contains("CODEOWNERS decides for each run"), "{}", known.message);
    assert_eq!(world.review_in(Scope::Stack).decision, Decision::Allowed);
    applied_by(&mut world, Kind::AgentRoleBinding, BINDING, "");
    let unknown = escalation(&world);
    assert_eq!(unknown.status, Standing::False);
    assert!(unknown.message.contains("it is not known who applied"), "{}", unknown.message);
    assert_eq!(world.review_in(Scope::Stack).decision, Decision::Denied);
}

#[test]
fn only_a_repository_binding_can_depend_on_owners() {
    for (scope, allowed) in [
        (json!({ "kind": "repository", "name": "web" }), true),
        (json!({ "kind": "namespace", "name": "default" }), false),
        (json!({ "kind": "organization", "name": "acme" }), false),
        (json!({ "kind": "cluster" }), false),
    ] {
        let mut world = world();
        world.set(Kind::AgentRoleBinding, BINDING, "/scope", scope.clone());
        let object = &world.objects[&(Kind::AgentRoleBinding, BINDING.to_owned())];
        let binding: Object<AgentRoleBinding> = object.typed().unwrap();
        assert_eq!(binding.spec.faults().is_empty(), allowed, "{scope}");
    }
}
