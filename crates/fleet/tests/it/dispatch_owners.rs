//! A role binding with `allow-if-owner`, from its application to the launch of a run.

use bailiwick_fleet::admission::code_owners::{CodeOwners, Grammar};
use bailiwick_fleet::admission::{OwnerFacts, TeamMembers};
use bailiwick_fleet::ports::{
    ActionError, Fleet as _, ForgeError, LaunchedState, PermissionDecision, PermissionQuestion,
    World as _,
};
use bailiwick_fleet::resources::apply;
use bailiwick_resources::{AgentDispatchRun, Kind, RunPhase};
use serde_json::json;

use crate::dispatch::{
    Plane, SHA, agent, all, caller, document, in_state, only_run, reconcile, request, set_state,
    start_plane,
};

/// A repository with the accounts of two people, and a stack that needs a binding.
async fn plane() -> Plane {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["accounts"] = json!({ "ada": ["ada-l"], "bob": ["bob-b"] });
        }
        if object.kind == Kind::AgentStack {
            let refs =
                json!({ "roleBindings": ["approves"], "secretGrants": [], "configGrants": [] });
            object.spec["permissionRefs"] = refs;
        }
    })
    .await;
    set_code_owners(&plane, ".* @ada-l\n");
    plane
}

/// Sets CODEOWNERS on the default branch.
fn set_code_owners(plane: &Plane, text: &str) {
    let file = CodeOwners::parse(Grammar::Gitea, text).unwrap();
    let files = file.group(&["src/a.rs".to_owned(), "CODEOWNERS".to_owned()]).unwrap();
    plane.world.owners.lock().unwrap().insert(SHA.to_owned(), OwnerFacts::Read(files));
}

/// Applies the binding as the given person.
async fn apply_binding(plane: &Plane, person: &str, role: &str) {
    let binding = document(
        Kind::AgentRoleBinding,
        "approves",
        json!({
            "subject": { "kind": "agent-stack", "name": "fixer" },
            "scope": { "kind": "repository", "name": "acme/app" },
            "roleRef": { "kind": "RoleTemplate", "name": role },
            "escalationPolicy": "allow-if-owner",
        }),
    );
    apply(plane.store.as_ref(), &[binding], person, plane.world.now(), false).await.unwrap();
}

async fn review(plane: &Plane) -> PermissionDecision {
    let question = PermissionQuestion {
        agent_stack: "fixer".to_owned(),
        repository: "acme/app".to_owned(),
        reference: None,
        source: None,
        task_kind: None,
        runner_pool: None,
        actor: None,
    };
    let answer = plane.api.review_permissions(&caller("ada"), "default", question).await;
    answer.unwrap().decision
}

#[tokio::test]
async fn run_starts_with_the_binding_of_an_owner_only() {
    let plane = plane().await;
    apply_binding(&plane, "bob", "agent-approver").await;
    assert_eq!(review(&plane).await, PermissionDecision::Denied);
    // The person who starts the run does not matter.
    let refused = plane.api.dispatch(&caller("ada"), "default", request("a")).await.unwrap_err();
    let ActionError::Denied { reasons, .. } = &refused else { panic!("{refused:?}") };
    let why = reasons.iter().find(|one| one.code == "EscalationDenied").unwrap();
    assert!(why.message.contains("`bob` applied"), "{}", why.message);
    assert!(all::<AgentDispatchRun>(&plane).await.is_empty());
    apply_binding(&plane, "ada", "secret-grant-admin").await;
    assert_eq!(review(&plane).await, PermissionDecision::Allowed);
    plane.api.dispatch(&caller("bob"), "default", request("b")).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn queued_run_does_not_start_after_its_author_lost_ownership() {
    let plane = plane().await;
    apply_binding(&plane, "ada", "agent-approver").await;
    for id in ["a", "b"] {
        plane.api.dispatch(&caller("bob"), "default", request(id)).await.unwrap();
    }
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1, "the pool has a capacity of one");
    set_code_owners(&plane, ".* @bob-b\n");
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    for _ in 0..6 {
        plane.advance().await;
    }
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    let runs = all::<AgentDispatchRun>(&plane).await;
    let reasons = runs.iter().filter_map(|run| run.status.terminal_reason.clone());
    let refused: Vec<String> = reasons.filter(|why| why.contains("PermissionsChanged")).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("belongs to @bob-b"), "{refused:?}");
}

#[tokio::test]
async fn codeowners_of_the_default_branch_counts_for_every_branch() {
    let plane = plane().await;
    let file = CodeOwners::parse(Grammar::Gitea, ".* @bob-b\n").unwrap();
    let files = OwnerFacts::Read(file.group(&["CODEOWNERS".to_owned()]).unwrap());
    let (branch, commit) = ("refs/heads/bobs".to_owned(), "b".repeat(40));
    plane.world.owners.lock().unwrap().insert(commit.clone(), files);
    plane.world.tips.lock().unwrap().insert(branch.clone(), commit.clone());
    let on_branch = |id: &str| {
        let mut on_branch = request(id);
        on_branch.reference = Some(branch.clone());
        on_branch
    };
    apply_binding(&plane, "bob", "agent-approver").await;
    let refused = plane.api.dispatch(&caller("ada"), "default", on_branch("a")).await.unwrap_err();
    assert!(matches!(refused, ActionError::Denied { .. }), "{refused:?}");
    apply_binding(&plane, "ada", "secret-grant-admin").await;
    plane.api.dispatch(&caller("ada"), "default", on_branch("b")).await.unwrap();
    assert_eq!(only_run(&plane).await.spec.sha, commit, "the run uses the commit of the branch");
    // A commit named by a person is not trusted, and ownership does not help.
    let mut named = on_branch("c");
    named.sha = Some("c".repeat(40));
    let refused = plane.api.dispatch(&caller("ada"), "default", named).await.unwrap_err();
    let ActionError::Denied { reasons, .. } = &refused else { panic!("{refused:?}") };
    let untrusted = |why: &str| why.contains("counts only for trusted work");
    assert!(reasons.iter().any(|one| untrusted(&one.message)), "{reasons:?}");
}

#[tokio::test]
async fn forge_outage_delays_a_run_and_does_not_refuse_it() {
    let plane = plane().await;
    apply_binding(&plane, "ada", "agent-approver").await;
    plane.api.dispatch(&caller("bob"), "default", request("a")).await.unwrap();
    *plane.world.unreachable.lock().unwrap() = Some("no answer".to_owned());
    for _ in 0..3 {
        plane.advance().await;
    }
    assert!(plane.engine.launched.lock().unwrap().is_empty());
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
    *plane.world.unreachable.lock().unwrap() = None;
    // Failing objects back off before they are retried.
    let later = plane.world.now().millis() + 120_000;
    plane.world.clock.store(later, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..6 {
        plane.advance().await;
    }
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
}

/// Sets the response of the forge to a request for the members of a team.
fn set_team(plane: &Plane, name: &str, members: Result<&[&str], ForgeError>) {
    let known = |members: &[&str]| {
        TeamMembers::Known(members.iter().map(|member| (*member).to_owned()).collect())
    };
    plane.world.forge.teams.lock().unwrap().insert(name.to_owned(), members.map(known));
}

#[tokio::test]
async fn team_member_is_an_owner_and_each_team_is_requested_once() {
    let plane = plane().await;
    apply_binding(&plane, "ada", "agent-approver").await;
    let requested = || std::mem::take(&mut *plane.world.forge.requested_teams.lock().unwrap());
    assert_eq!(review(&plane).await, PermissionDecision::Allowed);
    assert_eq!(requested(), Vec::<String>::new(), "an owner by account needs no team");
    set_code_owners(&plane, ".* @acme/core\nsrc/.* @acme/core @acme/rust\n");
    set_team(&plane, "core", Ok(&["bob-b"]));
    assert_eq!(review(&plane).await, PermissionDecision::Denied);
    assert_eq!(requested(), ["core", "rust"]);
    set_team(&plane, "core", Ok(&["bob-b", "ada-l"]));
    assert_eq!(review(&plane).await, PermissionDecision::Allowed);
    plane.api.dispatch(&caller("bob"), "default", request("a")).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn unreadable_teams_are_not_owners_and_the_reason_names_them() {
    let plane = plane().await;
    apply_binding(&plane, "ada", "agent-approver").await;
    set_team(&plane, "core", Ok(&["ada-l"]));
    let why = async |text: &str| {
        set_code_owners(&plane, text);
        let refused = plane.api.dispatch(&caller("ada"), "default", request("a")).await;
        let Err(ActionError::Denied { reasons, .. }) = refused else { panic!("{refused:?}") };
        let why = reasons.into_iter().find(|one| one.code == "EscalationDenied");
        why.unwrap().message
    };
    let hidden = why(".* @acme/hidden\n").await;
    assert!(hidden.contains("@acme/hidden (its members cannot be read: no such team)"), "{hidden}");
    let other = why(".* @other/core\n").await;
    assert!(other.contains("@other/core (its members cannot be read: only teams of"), "{other}");
    set_team(&plane, "core", Err(ForgeError::Refused("too many pages".to_owned())));
    let refused = why(".* @acme/core\n").await;
    assert!(refused.contains("too many pages"), "{refused}");
    let names: Vec<String> = (10..40).map(|number| format!("@acme/team-{number}")).collect();
    plane.world.forge.requested_teams.lock().unwrap().clear();
    let many = why(&format!(".* {}\n", names.join(" "))).await;
    assert!(many.contains("only 20 teams of CODEOWNERS are asked for"), "{many}");
    assert_eq!(plane.world.forge.requested_teams.lock().unwrap().len(), 20);
}

#[tokio::test]
async fn run_waits_for_a_forge_that_cannot_list_the_team_members() {
    let plane = plane().await;
    set_code_owners(&plane, ".* @acme/core\n");
    set_team(&plane, "core", Ok(&["ada-l"]));
    apply_binding(&plane, "ada", "agent-approver").await;
    plane.api.dispatch(&caller("bob"), "default", request("a")).await.unwrap();
    set_team(&plane, "core", Err(ForgeError::Unavailable("no answer".to_owned())));
    for _ in 0..3 {
        plane.advance().await;
    }
    assert!(plane.engine.launched.lock().unwrap().is_empty());
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
    set_team(&plane, "core", Ok(&["ada-l"]));
    let later = plane.world.now().millis() + 120_000;
    plane.world.clock.store(later, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..6 {
        plane.advance().await;
    }
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
}
