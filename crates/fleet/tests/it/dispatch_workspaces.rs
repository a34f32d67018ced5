//! Where runs work: their workspaces are named, and what is wrong with them stands in their conditions.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    DispatchRequest, FinishedWork, Fleet as _, FleetStore as _, Launched, LaunchedState, RunVerb,
    RunVerbRequest, Target, World as _, Write,
};
use bailiwick_resources::{
    AgentSession, AgentWorkspace, AnyObject, ConditionType, Kind, Object, Reason, RunPhase,
    Standing, TrustTier, WorkItemSessionLink, WorkItemWorkspaceLink, WorkspaceState,
};
use serde_json::json;

use crate::dispatch::{
    Plane, agent, all, caller, declare, fleet, only_run, request, set, stand, standing, turn, work,
};

/// A fleet whose agents have worktrees, with one of them at work.
async fn at_work(wish: DispatchRequest) -> Plane {
    let plane = stand(|_| {}).await;
    plane.world.has_worktrees.store(true, Ordering::Relaxed);
    plane.api.dispatch(&caller("ada"), "default", wish).await.unwrap();
    turn(&plane).await;
    plane
}

async fn workspace(plane: &Plane) -> Object<AgentWorkspace> {
    let mut found = all::<AgentWorkspace>(plane).await;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// How the run stands now, of this condition.
async fn stated(plane: &Plane, kind: ConditionType) -> (Standing, Reason) {
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let run = only_run(plane).await;
    let one = run.status.conditions.iter().find(|one| one.kind == kind).unwrap();
    (one.status, one.reason)
}

async fn resolved(plane: &Plane) -> (Standing, Reason) {
    stated(plane, ConditionType::WorkspaceResolved).await
}

const READY: (Standing, Reason) = (Standing::True, Reason::WorkspaceReady);
const MISSING: (Standing, Reason) = (Standing::False, Reason::WorkspaceMissing);

async fn act(plane: &Plane, verb: RunVerb) {
    let name = only_run(plane).await.name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let request = RunVerbRequest { message: "Go on.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
}

async fn pause(plane: &Plane, paused: bool) {
    let mut pools = fleet(|object| object.spec["paused"] = json!(paused));
    pools.retain(|one| one.kind == Kind::RunnerPool);
    declare(plane, &pools).await;
}

#[tokio::test]
async fn a_run_names_the_workspace_that_it_works_in() {
    let plane = at_work(request("r")).await;
    let first = workspace(&plane).await;
    assert_eq!(only_run(&plane).await.status.workspace.as_deref(), Some(first.name()));
    assert_eq!(resolved(&plane).await, READY);
    // One that begins anew has another one; one that goes on stays where it is.
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    pause(&plane, true).await;
    act(&plane, RunVerb::Retry).await;
    assert_eq!(only_run(&plane).await.status.workspace, None);
    assert_eq!(resolved(&plane).await.1, Reason::WorkspacePending);
    pause(&plane, false).await;
    turn(&plane).await;
    let second = only_run(&plane).await.status.workspace.unwrap();
    assert_ne!(second, first.name());
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    act(&plane, RunVerb::Continue).await;
    assert_eq!(only_run(&plane).await.status.workspace, Some(second));
}

/// When something last happened stands on the links: when the run was joined, and when it ended.
#[tokio::test]
async fn links_say_when_something_last_happened() {
    let mut wish = request("r");
    wish.source_refs.issue = Some(7);
    let plane = at_work(wish).await;
    let seen = async || {
        let workspaces = all::<WorkItemWorkspaceLink>(&plane).await;
        let sessions = all::<WorkItemSessionLink>(&plane).await;
        assert_eq!((workspaces.len(), sessions.len()), (1, 1));
        [workspaces[0].status.last_activity_at, sessions[0].status.last_activity_at]
    };
    let joined = seen().await;
    assert!(joined.iter().all(Option::is_some), "{joined:?}");
    turn(&plane).await;
    assert_eq!(seen().await, joined, "nothing has happened since");
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    let ended = seen().await;
    for (then, now) in joined.iter().zip(&ended) {
        assert!(now.unwrap() >= then.unwrap().plus_millis(60_000), "{joined:?} {ended:?}");
    }
}

#[tokio::test]
async fn the_session_of_a_fork_says_which_it_was_forked_from() {
    let plane = at_work(request("r")).await;
    let first = all::<AgentSession>(&plane).await.remove(0);
    assert_eq!(first.spec.forked_from, None);
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    act(&plane, RunVerb::Fork).await;
    turn(&plane).await;
    let mut sessions = all::<AgentSession>(&plane).await;
    sessions.retain(|session| session.name() != first.name());
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].spec.forked_from.as_deref(), Some(first.name()));
}

#[tokio::test]
async fn a_run_whose_files_are_gone_says_so() {
    let plane = at_work(request("r")).await;
    assert_eq!(resolved(&plane).await, READY);
    plane.world.has_worktrees.store(false, Ordering::Relaxed);
    assert_eq!(resolved(&plane).await, MISSING);
    plane.world.has_worktrees.store(true, Ordering::Relaxed);
    assert_eq!(resolved(&plane).await, READY);
    let (kind, namespace) = (Kind::AgentWorkspace, "default".to_owned());
    let name = workspace(&plane).await.name().to_owned();
    let gone = Write::Delete { kind, namespace, name, version: 0 };
    plane.store.commit(vec![gone], plane.world.now()).await.unwrap();
    assert_eq!(resolved(&plane).await, MISSING, "nor does anybody know where they are");
}

/// One that waits to go on may lose its files meanwhile, however often it was looked at before.
#[tokio::test]
async fn a_run_that_waits_to_go_on_says_when_its_workspace_is_put_away() {
    let plane = at_work(request("r")).await;
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    pause(&plane, true).await;
    act(&plane, RunVerb::Continue).await;
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
    assert_eq!(resolved(&plane).await, READY);
    let mut away = workspace(&plane).await;
    away.status.state = WorkspaceState::Archived;
    let write = Write::Status(AnyObject::of(&away).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    assert_eq!(resolved(&plane).await, MISSING);
}

#[tokio::test]
async fn a_run_that_goes_on_in_a_rebase_with_conflicts_says_so() {
    let plane = at_work(request("r")).await;
    plane.world.git.lock().unwrap().conflicting_files = vec!["src/a.rs".to_owned()];
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    act(&plane, RunVerb::Continue).await;
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    assert_eq!(resolved(&plane).await, (Standing::False, Reason::RebaseBlocked));
}

#[tokio::test]
async fn work_that_is_not_trusted_has_its_workspace_for_itself() {
    let mut wish = request("r");
    wish.sha = Some("a".repeat(40));
    let plane = at_work(wish).await;
    assert_eq!(only_run(&plane).await.spec.trust_tier, TrustTier::Untrusted);
    assert_eq!(resolved(&plane).await, READY, "it is its own");
    let mut shared = workspace(&plane).await;
    shared.status.runs.push("adr-another".to_owned());
    let write = Write::Status(AnyObject::of(&shared).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let isolated = (Standing::False, Reason::IsolatedWorkspaceRequired);
    assert_eq!(resolved(&plane).await, isolated);
}

#[tokio::test]
async fn a_run_whose_words_cannot_be_cleaned_says_so() {
    let plane = at_work(request("r")).await;
    *plane.world.unredacted.lock().unwrap() = Some("the list cannot be read".to_owned());
    let work = FinishedWork { report: Some("Done.".to_owned()), ..work() };
    let done = Launched { work: Some(work), ..standing(LaunchedState::Verified) };
    set(&plane, &agent(&plane), done);
    turn(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    let context = stated(&plane, ConditionType::ContextAssembled).await;
    assert_eq!(context, (Standing::False, Reason::RedactionFailed));
    let kept = stated(&plane, ConditionType::ArtifactsIndexed).await;
    assert_eq!(kept, (Standing::False, Reason::UploadFailed));
}
