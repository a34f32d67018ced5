//! A later run of a work item takes over the workspace of the earlier run, or says why not.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    DispatchRequest, Fleet as _, FleetStore as _, LaunchWorkspace, LaunchedState, WorktreeOrigin,
    World as _, Write,
};
use bailiwick_fleet::workspaces::workspace_name;
use bailiwick_resources::{
    AgentDispatchRun, AgentWorkspace, AnyObject, ConditionType, Kind, Object, RebaseState,
    RebaseSurface, TrustTier, WorkspaceState,
};
use serde_json::json;

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, in_state, reconcile, set_state, start_plane,
};

fn about(id: &str, issue: u64) -> DispatchRequest {
    let mut dispatch_request = crate::dispatch::request(id);
    dispatch_request.source_refs.issue = Some(issue);
    dispatch_request
}

/// A fleet with one workspace for each work item, and the agent of an ended run of issue 7.
async fn after_a_run(mode: &str) -> (Plane, String) {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["workspacePolicy"] = json!("items");
        }
    })
    .await;
    let policy = json!({ "mode": mode, "retentionPolicy": { "keepFor": "7d" } });
    declare(&plane, &[document(Kind::AgentWorkspacePolicy, "items", policy)]).await;
    plane.reconcile_statuses().await;
    plane.world.has_worktrees.store(true, Ordering::Relaxed);
    *plane.world.spawned.lock().unwrap() = Some(Vec::new());
    start(&plane, about("first", 7)).await;
    let earlier = agent(&plane);
    set_state(&plane, &earlier, in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    (plane, earlier)
}

/// Starts a run; its agent has a worktree after the launch.
async fn start(plane: &Plane, dispatch_request: DispatchRequest) {
    plane.api.dispatch(&caller("ada"), "default", dispatch_request).await.unwrap();
    reconcile(plane).await;
    plane.world.spawned.lock().unwrap().as_mut().unwrap().push(agent(plane));
    reconcile(plane).await;
}

fn launched_with(plane: &Plane) -> LaunchWorkspace {
    let last = agent(plane);
    let launched = plane.engine.launched.lock().unwrap();
    // The launch is repeated while the agent starts; the first one counts.
    launched.iter().find(|one| one.agent == last).unwrap().workspace.clone()
}

async fn workspace_of(plane: &Plane, agent: &str) -> Object<AgentWorkspace> {
    let name = workspace_name(agent);
    all::<AgentWorkspace>(plane).await.into_iter().find(|one| one.name() == name).unwrap()
}

/// The message of the condition `WorkspaceResolved` of the last run.
async fn resolved(plane: &Plane) -> String {
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let last = agent(plane);
    let runs = all::<AgentDispatchRun>(plane).await;
    let run = runs.iter().find(|run| run.status.ledger_run_id.as_ref() == Some(&last)).unwrap();
    let kind = ConditionType::WorkspaceResolved;
    run.status.conditions.iter().find(|one| one.kind == kind).unwrap().message.clone()
}

#[tokio::test]
async fn later_run_of_a_work_item_takes_over_its_workspace() {
    let (plane, earlier) = after_a_run("per-work-item").await;
    *plane.world.origin.lock().unwrap() = Some(WorktreeOrigin::TakenOver(earlier.clone()));
    start(&plane, about("second", 7)).await;
    assert_eq!(launched_with(&plane), LaunchWorkspace::TakeOver(earlier.clone()));
    let before = workspace_of(&plane, &earlier).await;
    assert_eq!(before.status.state, WorkspaceState::Archived);
    let current = workspace_of(&plane, &agent(&plane)).await;
    let from = current.metadata.annotations.get("bailiwick.dev/taken-over-from");
    assert_eq!(from.map(String::as_str), Some(before.name()));
    let message = resolved(&plane).await;
    assert!(message.contains(before.name()), "{message}");
}

#[tokio::test]
async fn run_of_another_work_item_or_mode_has_a_new_workspace() {
    let (plane, _) = after_a_run("per-work-item").await;
    start(&plane, about("second", 8)).await;
    assert_eq!(launched_with(&plane), LaunchWorkspace::New);
    let (plane, _) = after_a_run("per-run").await;
    start(&plane, about("second", 7)).await;
    assert_eq!(launched_with(&plane), LaunchWorkspace::New);
}

#[tokio::test]
async fn reason_against_reuse_is_in_the_condition_of_the_run() {
    let (plane, earlier) = after_a_run("per-work-item").await;
    let why = "the target has moved".to_owned();
    *plane.world.origin.lock().unwrap() = Some(WorktreeOrigin::NotReused(why.clone()));
    start(&plane, about("second", 7)).await;
    let message = resolved(&plane).await;
    assert!(message.contains(&why), "{message}");
    assert_eq!(workspace_of(&plane, &earlier).await.status.state, WorkspaceState::Idle);
}

/// Each way in which the earlier workspace does not fit.
#[tokio::test]
async fn workspace_that_does_not_fit_is_not_reused() {
    type Change = fn(&mut Object<AgentWorkspace>);
    let spec: [(&str, Change); 4] = [
        ("another trust tier", |one| one.spec.trust_tier = TrustTier::Untrusted),
        ("another policy", |one| one.spec.policy = Some("other".to_owned())),
        ("another target branch", |one| one.spec.target_branch = "release".to_owned()),
        ("pinned", |one| one.spec.pinned = true),
    ];
    let status: [(&str, Change); 3] = [
        ("are not there", |one| one.status.state = WorkspaceState::Archived),
        ("are not there", |one| one.status.state = WorkspaceState::Missing),
        ("conflicts", |one| {
            one.status.rebase = Some(RebaseSurface {
                state: RebaseState::RebaseConflicts,
                target_branch: "main".to_owned(),
                attempt_count: 1,
                unresolved_files: vec!["src/a.rs".to_owned()],
                resolved_files: Vec::new(),
            });
        }),
    ];
    let spec = spec.into_iter().map(|(word, change)| (word, change, false));
    let status = status.into_iter().map(|(word, change)| (word, change, true));
    for (word, change, is_status) in spec.chain(status) {
        let (plane, earlier) = after_a_run("per-work-item").await;
        let mut one = workspace_of(&plane, &earlier).await;
        change(&mut one);
        let object = AnyObject::of(&one).unwrap();
        let write = if is_status { Write::Status(object) } else { Write::Replace(object) };
        plane.store.commit(vec![write], plane.world.now()).await.unwrap();
        if is_status {
            // With files, it would be examined again and become idle.
            plane.world.has_worktrees.store(word == "conflicts", Ordering::Relaxed);
        }
        start(&plane, about("second", 7)).await;
        let LaunchWorkspace::NotReused(why) = launched_with(&plane) else {
            panic!("{word}: {:?}", launched_with(&plane));
        };
        assert!(why.contains(word), "{word}: {why}");
    }
}

#[tokio::test]
async fn workspace_in_use_is_not_reused() {
    let (plane, _) = after_a_run("per-work-item").await;
    let room = json!({ "capacity": 2, "trustTier": "trusted", "serviceAccountRef": "runner" });
    declare(&plane, &[document(Kind::RunnerPool, "inside", room)]).await;
    *plane.world.origin.lock().unwrap() = Some(WorktreeOrigin::TakenOver(agent(&plane)));
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    start(&plane, about("second", 7)).await;
    *plane.world.origin.lock().unwrap() = None;
    start(&plane, about("third", 7)).await;
    let LaunchWorkspace::NotReused(why) = launched_with(&plane) else {
        panic!("{:?}", launched_with(&plane));
    };
    assert!(why.contains("uses the workspace"), "{why}");
}
