//! The workspaces of runs: recorded, joined, looked at again, put away in their time.

use std::fs;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore as _, LaunchedState, WorkspaceVerb, Write};
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentWorkspace, AgentWorkspacePolicy, AnyObject,
    EventSource, LinkSource, Metadata, Moment, Object, Ownership, RunPhase, WorkItemKind,
    WorkItemSessionLink, WorkItemWorkspaceLink, WorkspaceState,
};
use serde_json::json;

use super::stand::{START, Stand, refused, stand};

const AGENT: &str = "adr-one-1";

/// A run with a worktree, whose agent is at work; about an issue and a pull request.
async fn at_work(stand: &Stand) {
    let sha = stand.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let path = stand.plane.world.root.join(AGENT).display().to_string();
    stand.scratch.git(&["worktree", "add", "--quiet", "-b", "agent/adr-one-1", &path]);
    let policy: AgentWorkspacePolicy = serde_json::from_value(json!({
        "mode": "per-run", "retentionPolicy": { "keepFor": "1h" },
    }))
    .unwrap();
    stand.create(&Object::new(Metadata::named("hour"), policy)).await;
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
    stand.create(&run).await;
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
    attempt.status.agent_mux_run_id = Some(AGENT.to_owned());
    stand.create(&attempt).await;
    set(stand, LaunchedState::Running);
}

fn set(stand: &Stand, state: LaunchedState) {
    stand.plane.engine.0.lock().unwrap().insert(AGENT.to_owned(), state);
}

async fn only(stand: &Stand) -> Object<AgentWorkspace> {
    let mut all = stand.all::<AgentWorkspace>().await;
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[tokio::test]
async fn a_run_s_worktree_is_recorded_and_joined_with_what_the_run_is_about() {
    let stand = stand().await;
    at_work(&stand).await;
    for _ in 0..3 {
        stand.turn().await;
    }
    let workspace = only(&stand).await;
    assert_eq!(workspace.status.state, WorkspaceState::Active);
    assert_eq!(workspace.spec.branch, "agent/adr-one-1");
    assert_eq!(workspace.spec.target_branch, "main");
    assert_eq!(workspace.spec.ownership, Ownership::PrRepair);
    assert_eq!(workspace.spec.policy.as_deref(), Some("hour"));
    assert_eq!(workspace.spec.run.as_deref(), Some(AGENT));
    assert_eq!(workspace.status.runs, ["adr-one"]);
    let links = stand.all::<WorkItemWorkspaceLink>().await;
    let kinds: Vec<WorkItemKind> = links.iter().map(|link| link.spec.work_item_ref.kind).collect();
    assert_eq!(kinds, [WorkItemKind::Issue, WorkItemKind::PullRequest]);
    for link in &links {
        assert_eq!(link.spec.workspace_ref, workspace.name());
        assert_eq!(link.spec.run_refs, ["adr-one"]);
        assert_eq!(link.spec.link_source, LinkSource::AutomationDerived);
        assert_eq!(link.spec.created_by, "eve");
    }
    assert_eq!(stand.all::<WorkItemSessionLink>().await.len(), 2);
    // Somebody works in it.
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup, WorkspaceVerb::RebaseStart] {
        let (_, why) = refused(stand.act(workspace.name(), verb).await);
        assert!(why.contains("wait for the run, or cancel it"), "{why}");
    }
    let version = stand.plane.store.list(&selection()).await.unwrap().version;
    stand.turn().await;
    let after = stand.plane.store.list(&selection()).await.unwrap().version;
    assert_eq!(after, version, "a turn with nothing to do writes nothing");
}

fn selection() -> bailiwick_fleet::ports::Selection {
    bailiwick_fleet::ports::Selection::of(bailiwick_resources::Kind::AgentWorkspace)
}

/// One that is dirty is kept; one that is clean goes when its time is over, and comes back.
#[tokio::test]
async fn a_workspace_is_looked_at_when_its_run_ends_and_put_away_in_its_time() {
    let stand = stand().await;
    at_work(&stand).await;
    stand.turn().await;
    let path = stand.plane.world.root.join(AGENT);
    fs::write(path.join("README.md"), "changed\n").unwrap();
    set(&stand, LaunchedState::Failed);
    for _ in 0..3 {
        stand.turn().await;
    }
    let left = only(&stand).await;
    assert_eq!(left.status.state, WorkspaceState::Idle);
    assert!(left.status.git.dirty && left.status.git.uncommitted_count == 1);
    let later = |by: u64| stand.plane.world.clock.fetch_add(by, Ordering::Relaxed);
    later(3_600_000);
    stand.turn().await;
    assert_eq!(only(&stand).await.status.state, WorkspaceState::Idle, "it is dirty");
    stand.git(&path, &["commit", "--quiet", "--all", "-m", "changed"]);
    // The record says dirty until somebody looks.
    let mut known = only(&stand).await;
    known.status.git.dirty = false;
    let writes = vec![Write::Status(AnyObject::of(&known).unwrap())];
    stand.plane.store.commit(writes, Moment::from_millis(START)).await.unwrap();
    stand.turn().await;
    assert_eq!(only(&stand).await.status.state, WorkspaceState::Archived);
    assert!(!path.exists());
    let events: Vec<String> = stand.audit().await.into_iter().map(|(_, event, _)| event).collect();
    assert!(events.contains(&"AgentWorkspaceRetired".to_owned()), "{events:?}");
    let name = only(&stand).await.name().to_owned();
    stand.act(&name, WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "changed\n");
}

/// What was dirty when it was looked at, though the record says that it is not, is kept.
#[tokio::test]
async fn retention_believes_the_files_and_not_the_record() {
    let stand = stand().await;
    at_work(&stand).await;
    stand.turn().await;
    set(&stand, LaunchedState::Failed);
    for _ in 0..3 {
        stand.turn().await;
    }
    assert!(!only(&stand).await.status.git.dirty);
    let path = stand.plane.world.root.join(AGENT);
    fs::write(path.join("late.txt"), "late\n").unwrap();
    stand.plane.world.clock.fetch_add(3_600_000, Ordering::Relaxed);
    for _ in 0..2 {
        stand.turn().await;
    }
    let kept = only(&stand).await;
    assert_eq!((kept.status.state, kept.status.git.dirty), (WorkspaceState::Idle, true));
    assert_eq!(fs::read_to_string(path.join("late.txt")).unwrap(), "late\n");
}
