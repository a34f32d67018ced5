//! Workspaces of runs: recorded, linked, observed, archived after their retention.

use std::fs;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore as _, LaunchedState, WorkspaceVerb, Write};
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentWorkspace, AgentWorkspacePolicy, AnyObject,
    EventSource, LinkSource, Metadata, Moment, Object, Ownership, RunPhase, WorkItemKind,
    WorkItemSessionLink, WorkItemWorkspaceLink, WorkspaceState,
};
use serde_json::json;

use super::control_plane::{START, TestPlane, refused, test_plane};

const AGENT: &str = "adr-one-1";

/// A run with a worktree and a running agent, for an issue and a pull request.
async fn start_run(plane: &TestPlane) {
    let sha = plane.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let path = plane.control.world.root.join(AGENT).display().to_string();
    plane.scratch.git(&["worktree", "add", "--quiet", "-b", "agent/adr-one-1", &path]);
    let policy: AgentWorkspacePolicy = serde_json::from_value(json!({
        "mode": "per-run", "retentionPolicy": { "keepFor": "1h" },
    }))
    .unwrap();
    plane.create(&Object::new(Metadata::named("hour"), policy)).await;
    let run: AgentDispatchRun = serde_json::from_value(json!({
        "repository": "acme/app", "ref": "refs/heads/main", "branch": "main", "sha": sha,
        "sourceEvent": { "source": EventSource::IssueComment, "uid": "1", "actor": "eve" },
        "sourceRefs": { "issue": 42, "pullRequest": 7 }, "agentStack": "fixer",
        "taskKind": "repair", "triggerRule": "broken", "task": "Mend it.", "runnerPool": "inside",
        "trustTier": "trusted",
    }))
    .unwrap();
    let mut run = Object::new(Metadata::named("adr-one"), run);
    run.status.phase = RunPhase::Running;
    run.status.started_at = Some(Moment::from_millis(START));
    run.status.attempts.push(AGENT.to_owned());
    plane.create(&run).await;
    let attempt: AgentDispatchAttempt = serde_json::from_value(json!({
        "agentDispatchRun": "adr-one", "number": 1, "attemptReason": "initial",
        "agentStackSnapshot": { "digest": "", "objects": [{
            "object": { "kind": "AgentWorkspacePolicy", "name": "hour" }, "generation": 1,
            "digest": "", "spec": {},
        }] },
        "contextBundleDigest": "", "permissionSnapshotDigest": "", "runnerPool": "inside",
    }))
    .unwrap();
    let mut attempt = Object::new(Metadata::named(AGENT), attempt);
    attempt.status.started_at = Some(Moment::from_millis(START));
    attempt.status.ledger_run_id = Some(AGENT.to_owned());
    plane.create(&attempt).await;
    set(plane, LaunchedState::Running);
}

fn set(plane: &TestPlane, state: LaunchedState) {
    plane.control.engine.0.lock().unwrap().insert(AGENT.to_owned(), state);
}

async fn only(plane: &TestPlane) -> Object<AgentWorkspace> {
    let mut all = plane.all::<AgentWorkspace>().await;
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[tokio::test]
async fn worktree_of_a_run_is_recorded_and_linked_to_its_work_item() {
    let plane = test_plane().await;
    start_run(&plane).await;
    for _ in 0..3 {
        plane.advance().await;
    }
    let workspace = only(&plane).await;
    assert_eq!(workspace.status.state, WorkspaceState::Active);
    assert_eq!(workspace.spec.branch, "agent/adr-one-1");
    assert_eq!(workspace.spec.target_branch, "main");
    assert_eq!(workspace.spec.ownership, Ownership::PrRepair);
    assert_eq!(workspace.spec.policy.as_deref(), Some("hour"));
    assert_eq!(workspace.spec.run.as_deref(), Some(AGENT));
    assert_eq!(workspace.status.runs, ["adr-one"]);
    let links = plane.all::<WorkItemWorkspaceLink>().await;
    let kinds: Vec<WorkItemKind> = links.iter().map(|link| link.spec.work_item_ref.kind).collect();
    assert_eq!(kinds, [WorkItemKind::Issue, WorkItemKind::PullRequest]);
    for link in &links {
        assert_eq!(link.spec.workspace_ref, workspace.name());
        assert_eq!(link.spec.run_refs, ["adr-one"]);
        assert_eq!(link.spec.link_source, LinkSource::AutomationDerived);
        assert_eq!(link.spec.created_by, "eve");
    }
    assert_eq!(plane.all::<WorkItemSessionLink>().await.len(), 2);
    // The agent works in it.
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup, WorkspaceVerb::RebaseStart] {
        let (_, why) = refused(plane.act(workspace.name(), verb).await);
        assert!(why.contains("wait for the run, or cancel it"), "{why}");
    }
    let version = plane.control.store.list(&selection()).await.unwrap().version;
    plane.advance().await;
    let after = plane.control.store.list(&selection()).await.unwrap().version;
    assert_eq!(after, version, "a turn with nothing to do writes nothing");
}

fn selection() -> bailiwick_fleet::ports::Selection {
    bailiwick_fleet::ports::Selection::of(bailiwick_resources::Kind::AgentWorkspace)
}

/// A dirty workspace is kept; a clean one is archived after its retention, and can be recovered.
#[tokio::test]
async fn workspace_is_observed_when_its_run_ends_and_archived_after_retention() {
    let plane = test_plane().await;
    start_run(&plane).await;
    plane.advance().await;
    let path = plane.control.world.root.join(AGENT);
    fs::write(path.join("README.md"), "changed\n").unwrap();
    set(&plane, LaunchedState::Failed);
    for _ in 0..3 {
        plane.advance().await;
    }
    let remaining = only(&plane).await;
    assert_eq!(remaining.status.state, WorkspaceState::Idle);
    assert!(remaining.status.git.dirty && remaining.status.git.uncommitted_count == 1);
    let later = |by: u64| plane.control.world.clock.fetch_add(by, Ordering::Relaxed);
    later(3_600_000);
    plane.advance().await;
    assert_eq!(only(&plane).await.status.state, WorkspaceState::Idle, "it is dirty");
    plane.git(&path, &["commit", "--quiet", "--all", "-m", "changed"]);
    // The record says dirty until the next observation.
    let mut known = only(&plane).await;
    known.status.git.dirty = false;
    let writes = vec![Write::Status(AnyObject::of(&known).unwrap())];
    plane.control.store.commit(writes, Moment::from_millis(START)).await.unwrap();
    plane.advance().await;
    assert_eq!(only(&plane).await.status.state, WorkspaceState::Archived);
    assert!(!path.exists());
    let events: Vec<String> = plane.audit().await.into_iter().map(|(_, event, _)| event).collect();
    assert!(events.contains(&"AgentWorkspaceRetired".to_owned()), "{events:?}");
    let name = only(&plane).await.name().to_owned();
    plane.act(&name, WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "changed\n");
}

/// A workspace that is dirty is kept, even if its record says that it is clean.
#[tokio::test]
async fn retention_trusts_the_files_and_not_the_record() {
    let plane = test_plane().await;
    start_run(&plane).await;
    plane.advance().await;
    set(&plane, LaunchedState::Failed);
    for _ in 0..3 {
        plane.advance().await;
    }
    assert!(!only(&plane).await.status.git.dirty);
    let path = plane.control.world.root.join(AGENT);
    fs::write(path.join("late.txt"), "late\n").unwrap();
    plane.control.world.clock.fetch_add(3_600_000, Ordering::Relaxed);
    for _ in 0..2 {
        plane.advance().await;
    }
    let workspace = only(&plane).await;
    assert_eq!((workspace.status.state, workspace.status.git.dirty), (WorkspaceState::Idle, true));
    assert_eq!(fs::read_to_string(path.join("late.txt")).unwrap(), "late\n");
}
