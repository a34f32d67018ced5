//! The workspaces of runs, and the conditions about them.

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
    Plane, agent, all, caller, declare, fleet, in_state, only_run, reconcile, request, set_state,
    start_plane, work,
};

/// A fleet whose agents have worktrees, with one active run.
async fn with_active_run(dispatch_request: DispatchRequest) -> Plane {
    let plane = start_plane(|_| {}).await;
    plane.world.has_worktrees.store(true, Ordering::Relaxed);
    plane.api.dispatch(&caller("ada"), "default", dispatch_request).await.unwrap();
    reconcile(&plane).await;
    plane
}

async fn workspace(plane: &Plane) -> Object<AgentWorkspace> {
    let mut found = all::<AgentWorkspace>(plane).await;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The current status and reason of this condition of the run.
async fn condition(plane: &Plane, kind: ConditionType) -> (Standing, Reason) {
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let run = only_run(plane).await;
    let one = run.status.conditions.iter().find(|one| one.kind == kind).unwrap();
    (one.status, one.reason)
}

async fn resolved(plane: &Plane) -> (Standing, Reason) {
    condition(plane, ConditionType::WorkspaceResolved).await
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
async fn run_names_its_workspace() {
    let plane = with_active_run(request("r")).await;
    let first = workspace(&plane).await;
    assert_eq!(only_run(&plane).await.status.workspace.as_deref(), Some(first.name()));
    assert_eq!(resolved(&plane).await, READY);
    // A retry has another workspace; a continued conversation stays in its workspace.
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    pause(&plane, true).await;
    act(&plane, RunVerb::Retry).await;
    assert_eq!(only_run(&plane).await.status.workspace, None);
    assert_eq!(resolved(&plane).await.1, Reason::WorkspacePending);
    pause(&plane, false).await;
    reconcile(&plane).await;
    let second = only_run(&plane).await.status.workspace.unwrap();
    assert_ne!(second, first.name());
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    act(&plane, RunVerb::Continue).await;
    assert_eq!(only_run(&plane).await.status.workspace, Some(second));
}

/// Links have the time of the last activity: when the run was linked, and when it ended.
#[tokio::test]
async fn links_have_the_time_of_the_last_activity() {
    let mut dispatch_request = request("r");
    dispatch_request.source_refs.issue = Some(7);
    let plane = with_active_run(dispatch_request).await;
    let last_activity = async || {
        let workspaces = all::<WorkItemWorkspaceLink>(&plane).await;
        let sessions = all::<WorkItemSessionLink>(&plane).await;
        assert_eq!((workspaces.len(), sessions.len()), (1, 1));
        [workspaces[0].status.last_activity_at, sessions[0].status.last_activity_at]
    };
    let joined = last_activity().await;
    assert!(joined.iter().all(Option::is_some), "{joined:?}");
    reconcile(&plane).await;
    assert_eq!(last_activity().await, joined, "nothing has happened since");
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let ended = last_activity().await;
    for (then, now) in joined.iter().zip(&ended) {
        assert!(now.unwrap() >= then.unwrap().plus_millis(60_000), "{joined:?} {ended:?}");
    }
}

#[tokio::test]
async fn session_of_a_fork_names_its_original_session() {
    let plane = with_active_run(request("r")).await;
    let first = all::<AgentSession>(&plane).await.remove(0);
    assert_eq!(first.spec.forked_from, None);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    act(&plane, RunVerb::Fork).await;
    reconcile(&plane).await;
    let mut sessions = all::<AgentSession>(&plane).await;
    sessions.retain(|session| session.name() != first.name());
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].spec.forked_from.as_deref(), Some(first.name()));
}

#[tokio::test]
async fn run_whose_files_were_deleted_has_the_condition() {
    let plane = with_active_run(request("r")).await;
    assert_eq!(resolved(&plane).await, READY);
    plane.world.has_worktrees.store(false, Ordering::Relaxed);
    assert_eq!(resolved(&plane).await, MISSING);
    plane.world.has_worktrees.store(true, Ordering::Relaxed);
    assert_eq!(resolved(&plane).await, READY);
    let (kind, namespace) = (Kind::AgentWorkspace, "default".to_owned());
    let name = workspace(&plane).await.name().to_owned();
    let deletion = Write::Delete { kind, namespace, name, version: 0 };
    plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    assert_eq!(
        resolved(&plane).await,
        MISSING,
        "without its workspace, the place of the files is unknown"
    );
}

/// A queued run can lose its files before it continues, even after it was checked.
#[tokio::test]
async fn queued_run_whose_workspace_was_archived_has_the_condition() {
    let plane = with_active_run(request("r")).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    pause(&plane, true).await;
    act(&plane, RunVerb::Continue).await;
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
    assert_eq!(resolved(&plane).await, READY);
    let mut archived = workspace(&plane).await;
    archived.status.state = WorkspaceState::Archived;
    let write = Write::Status(AnyObject::of(&archived).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    assert_eq!(resolved(&plane).await, MISSING);
}

#[tokio::test]
async fn run_that_continues_in_a_rebase_with_conflicts_has_the_condition() {
    let plane = with_active_run(request("r")).await;
    plane.world.git.lock().unwrap().conflicting_files = vec!["src/a.rs".to_owned()];
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    act(&plane, RunVerb::Continue).await;
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    assert_eq!(resolved(&plane).await, (Standing::False, Reason::RebaseBlocked));
}

#[tokio::test]
async fn untrusted_work_must_have_its_own_workspace() {
    let mut dispatch_request = request("r");
    dispatch_request.sha = Some("a".repeat(40));
    let plane = with_active_run(dispatch_request).await;
    assert_eq!(only_run(&plane).await.spec.trust_tier, TrustTier::Untrusted);
    assert_eq!(resolved(&plane).await, READY, "the workspace is its own");
    let mut shared = workspace(&plane).await;
    shared.status.runs.push("adr-another".to_owned());
    let write = Write::Status(AnyObject::of(&shared).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let isolated = (Standing::False, Reason::IsolatedWorkspaceRequired);
    assert_eq!(resolved(&plane).await, isolated);
}

#[tokio::test]
async fn run_whose_texts_cannot_be_redacted_has_the_condition() {
    let plane = with_active_run(request("r")).await;
    *plane.world.redaction_error.lock().unwrap() = Some("the list cannot be read".to_owned());
    let work = FinishedWork { report: Some("Done.".to_owned()), ..work() };
    let done = Launched { work: Some(work), ..in_state(LaunchedState::Verified) };
    set_state(&plane, &agent(&plane), done);
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    let context = condition(&plane, ConditionType::ContextAssembled).await;
    assert_eq!(context, (Standing::False, Reason::RedactionFailed));
    let indexed = condition(&plane, ConditionType::ArtifactsIndexed).await;
    assert_eq!(indexed, (Standing::False, Reason::UploadFailed));
}
