//! Each verb as requested from the control plane, with real git.

use std::fs;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    ActionError, Fleet as _, FleetStore as _, TokenScope, WorkspaceRequest, WorkspaceVerb,
};
use bailiwick_resources::{
    AgentWorkspace, Kind, LinkSource, Ownership, RebaseState, WorkItemKind, WorkItemRef,
    WorkItemWorkspaceLink, WorkspaceState,
};

use super::control_plane::{TestPlane, caller, of, refused, test_plane};

fn issue(number: &str) -> WorkItemRef {
    let (repository, id) = ("app".to_owned(), number.to_owned());
    WorkItemRef { kind: WorkItemKind::Issue, repository, id }
}

fn provision_request(name: &str) -> WorkspaceRequest {
    WorkspaceRequest {
        name: Some(name.to_owned()),
        repository: Some("app".to_owned()),
        work_item: Some(issue("42")),
        ..of(WorkspaceVerb::Provision)
    }
}

#[tokio::test]
async fn provision_creates_worktree_record_and_link_only_once() {
    let plane = test_plane().await;
    let answer = plane.ask(None, provision_request("mend")).await.unwrap();
    assert_eq!((answer.workspace.as_str(), answer.state), ("mend", WorkspaceState::Idle));
    let path = plane.control.world.root.join("mend");
    assert_eq!(plane.git(&path, &["symbolic-ref", "HEAD"]), "refs/heads/workspace/mend");
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "first\n");
    let known = plane.known("mend").await;
    assert_eq!(known.spec.workspace_path, path.display().to_string());
    assert_eq!(
        (known.spec.ownership, known.spec.target_branch.as_str()),
        (Ownership::Issue, "main")
    );
    assert!(!known.status.git.missing && !known.status.git.dirty);
    let links = plane.all::<WorkItemWorkspaceLink>().await;
    assert_eq!(links.len(), 1);
    assert_eq!(links[0].spec.work_item_ref.repository, "acme/app");
    assert_eq!(links[0].spec.link_source, LinkSource::CreatedFromWorkItem);
    assert_eq!(links[0].spec.created_by, "ada");
    let lines = plane.audit().await;
    let events: Vec<&str> = lines.iter().map(|(_, event, _)| event.as_str()).collect();
    assert_eq!(events, ["AgentWorkspaceActionRequested", "AgentWorkspaceActionDone"]);
    plane.ask(None, provision_request("mend")).await.unwrap();
    assert_eq!(plane.all::<AgentWorkspace>().await.len(), 1);
    assert_eq!(plane.audit().await.len(), 2, "the repeated request changed something");
}

#[tokio::test]
async fn viewer_cannot_change_workspaces() {
    let plane = test_plane().await;
    let before = plane.scratch.git(&["worktree", "list"]);
    for verb in WorkspaceVerb::ALL {
        for name in [None, Some("mend")] {
            let viewer = caller("bob", TokenScope::Viewer);
            let request = WorkspaceRequest { action: verb, ..provision_request("mend") };
            let outcome =
                plane.control.api.act_on_workspace(&viewer, "default", name, request).await;
            assert!(matches!(outcome, Err(ActionError::Denied { .. })), "{verb:?}: {outcome:?}");
        }
    }
    assert!(plane.all::<AgentWorkspace>().await.is_empty());
    assert_eq!(plane.scratch.git(&["worktree", "list"]), before);
    plane.ask(None, provision_request("mend")).await.unwrap();
}

#[tokio::test]
async fn failed_provision_leaves_no_record() {
    let plane = test_plane().await;
    plane.scratch.git(&["branch", "workspace/mend"]);
    let other = plane.scratch.place().join("elsewhere");
    plane.scratch.git(&[
        "worktree",
        "add",
        "--quiet",
        &other.display().to_string(),
        "workspace/mend",
    ]);
    let why = plane.ask(None, provision_request("mend")).await.unwrap_err().to_string();
    assert!(why.contains("workspace/mend"), "{why}");
    assert!(plane.audited_refusal("provision").await);
    assert!(plane.all::<AgentWorkspace>().await.is_empty());
    assert!(plane.all::<WorkItemWorkspaceLink>().await.is_empty());
    for name in ["..", "a/b", "-x", "A", "a.b", ""] {
        let outcome = plane.ask(None, provision_request(name)).await;
        assert!(matches!(outcome, Err(ActionError::Invalid(_))), "{name}: {outcome:?}");
    }
    let nowhere =
        WorkspaceRequest { reference: Some("nothing".to_owned()), ..provision_request("other") };
    assert!(matches!(plane.ask(None, nowhere).await, Err(ActionError::NotFound(_))));
    let no_repository =
        WorkspaceRequest { repository: Some("none".to_owned()), ..provision_request("other") };
    assert!(matches!(plane.ask(None, no_repository).await, Err(ActionError::NotFound(_))));
}

#[tokio::test]
async fn pin_forbids_archive_until_unpin() {
    let plane = test_plane().await;
    let path = plane.workspace("mend").await;
    plane.act("mend", WorkspaceVerb::Pin).await.unwrap();
    let lines = plane.audit().await.len();
    plane.act("mend", WorkspaceVerb::Pin).await.unwrap();
    assert_eq!(plane.audit().await.len(), lines, "it was pinned already");
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup] {
        let (_, why) = refused(plane.act("mend", verb).await);
        assert!(why.contains("unpin it first"), "{why}");
        assert!(plane.audited_refusal(verb.as_str()).await);
    }
    assert!(path.join("own.txt").exists());
    plane.act("mend", WorkspaceVerb::Unpin).await.unwrap();
    plane.act("mend", WorkspaceVerb::Archive).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn notes_save_stores_notes_and_refuses_a_stale_version() {
    let plane = test_plane().await;
    plane.workspace("mend").await;
    let version = plane.known("mend").await.metadata.resource_version;
    let note = |version| WorkspaceRequest {
        notes: Some("waits".to_owned()),
        expected_version: Some(version),
        ..of(WorkspaceVerb::NotesSave)
    };
    let (code, _) = refused(plane.ask(Some("mend"), note(version + 7)).await);
    assert_eq!(code, "StaleVersion");
    assert_eq!(plane.known("mend").await.spec.notes, "");
    plane.ask(Some("mend"), note(version)).await.unwrap();
    assert_eq!(plane.known("mend").await.spec.notes, "waits");
    let (_, event, detail) = plane.audit().await.pop().unwrap();
    assert_eq!(
        (event.as_str(), &detail["verb"]),
        ("AgentWorkspaceActionDone", &"notes-save".into())
    );
    let long = WorkspaceRequest { notes: Some("x".repeat(20_000)), ..of(WorkspaceVerb::NotesSave) };
    assert!(matches!(plane.ask(Some("mend"), long).await, Err(ActionError::Invalid(_))));
}

#[tokio::test]
async fn cleanup_refuses_changes_that_archive_and_recover_keep() {
    let plane = test_plane().await;
    let path = plane.workspace("mend").await;
    fs::write(path.join("README.md"), "changed\n").unwrap();
    fs::write(path.join("new file"), [0, 159, 146, 150]).unwrap();
    fs::write(path.join("a.log"), "ignored\n").unwrap();
    fs::remove_file(path.join("own.txt")).unwrap();
    let before = crate::workspaces::snapshot(&path);
    let (code, why) = refused(plane.act("mend", WorkspaceVerb::Cleanup).await);
    assert_eq!(code, "WorkspaceRefused");
    assert!(why.contains("commit them, or archive it"), "{why}");
    assert!(plane.audited_refusal("cleanup").await);
    assert_eq!(crate::workspaces::snapshot(&path), before);

    let answer = plane.act("mend", WorkspaceVerb::Archive).await.unwrap();
    assert_eq!(answer.state, WorkspaceState::Archived);
    assert_eq!(answer.kept.as_deref(), Some("refs/bailiwick/rescue/mend"));
    assert!(!path.exists());
    assert_eq!(plane.known("mend").await.status.state, WorkspaceState::Archived);
    // A repeated request has no further effect.
    assert_eq!(
        plane.act("mend", WorkspaceVerb::Archive).await.unwrap().state,
        WorkspaceState::Archived
    );
    let answer = plane.act("mend", WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(answer.state, WorkspaceState::Idle);
    assert_eq!(crate::workspaces::snapshot(&path), before);
    let known = plane.known("mend").await;
    assert!(known.status.git.dirty);
    assert!(known.metadata.annotations.is_empty(), "{:?}", known.metadata.annotations);
    let (_, why) = refused(plane.act("mend", WorkspaceVerb::Recover).await);
    assert!(why.contains("use it as it is"), "{why}");
}

#[tokio::test]
async fn cleanup_removes_files_record_and_links_and_keeps_the_branch() {
    let plane = test_plane().await;
    plane.ask(None, provision_request("mend")).await.unwrap();
    let path = plane.control.world.root.join("mend");
    let head = plane.git(&path, &["rev-parse", "HEAD"]);
    plane.act("mend", WorkspaceVerb::Cleanup).await.unwrap();
    assert!(!path.exists());
    assert!(plane.all::<AgentWorkspace>().await.is_empty());
    assert!(plane.all::<WorkItemWorkspaceLink>().await.is_empty());
    assert_eq!(plane.scratch.git(&["rev-parse", "workspace/mend"]).trim(), head);
    let outcome = plane.act("mend", WorkspaceVerb::Cleanup).await;
    assert!(matches!(outcome, Err(ActionError::NotFound(_))), "{outcome:?}");
}

/// A worktree of another person, outside of the root.
async fn linked(plane: &TestPlane) -> std::path::PathBuf {
    let path = plane.scratch.place().join("theirs");
    let text = path.display().to_string();
    plane.scratch.git(&["worktree", "add", "--quiet", "-b", "theirs", &text]);
    let request = WorkspaceRequest {
        name: Some("theirs".to_owned()),
        path: Some(text),
        repository: Some("acme/app".to_owned()),
        ..of(WorkspaceVerb::LinkExisting)
    };
    let answer = plane.ask(None, request).await.unwrap();
    assert_eq!((answer.workspace.as_str(), answer.state), ("theirs", WorkspaceState::Idle));
    fs::canonicalize(path).unwrap()
}

#[tokio::test]
async fn link_existing_accepts_a_worktree_of_the_repository_once() {
    let plane = test_plane().await;
    let path = linked(&plane).await;
    let known = plane.known("theirs").await;
    assert_eq!(known.spec.branch, "theirs");
    assert_eq!(known.spec.ownership, Ownership::Host);
    let request = |path: &str| WorkspaceRequest {
        path: Some(path.to_owned()),
        repository: Some("app".to_owned()),
        work_item: Some(issue("7")),
        ..of(WorkspaceVerb::LinkExisting)
    };
    // Another path to the same directory; now with a work item.
    let roundabout = format!("{}/../theirs", path.display());
    let repeated = plane.ask(None, request(&roundabout)).await.unwrap();
    assert_eq!(repeated.workspace, "theirs");
    assert_eq!(plane.all::<AgentWorkspace>().await.len(), 1);
    assert_eq!(plane.all::<WorkItemWorkspaceLink>().await.len(), 1);
    for stranger in
        [plane.scratch.place().display().to_string(), "/".to_owned(), "/none".to_owned()]
    {
        let (_, why) = refused(plane.ask(None, request(&stranger)).await);
        assert!(why.contains("not a worktree of this repository"), "{why}");
    }
    let outcome = plane.ask(None, request("theirs")).await;
    assert!(matches!(outcome, Err(ActionError::Invalid(_))), "{outcome:?}");
}

#[tokio::test]
async fn worktree_outside_of_the_root_is_not_removed_and_the_refusal_is_audited() {
    let plane = test_plane().await;
    let path = linked(&plane).await;
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup, WorkspaceVerb::RebaseStart] {
        let (_, why) = refused(plane.act("theirs", verb).await);
        assert!(why.contains("is not directly below"), "{verb:?}: {why}");
        assert!(plane.audited_refusal(verb.as_str()).await, "{verb:?}");
    }
    assert!(path.join("README.md").exists());
    let known = plane.known("theirs").await;
    assert!(known.metadata.annotations.is_empty(), "{:?}", known.metadata.annotations);
}

#[tokio::test]
async fn unlink_removes_links_and_record_but_no_file() {
    let plane = test_plane().await;
    let path = linked(&plane).await;
    let link = WorkspaceRequest {
        path: Some(path.display().to_string()),
        repository: Some("app".to_owned()),
        work_item: Some(issue("7")),
        ..of(WorkspaceVerb::LinkExisting)
    };
    plane.ask(None, link).await.unwrap();
    let item = WorkItemRef { repository: "acme/app".to_owned(), ..issue("7") };
    let part = || WorkspaceRequest { work_item: Some(item.clone()), ..of(WorkspaceVerb::Unlink) };
    plane.ask(Some("theirs"), part()).await.unwrap();
    assert!(plane.all::<WorkItemWorkspaceLink>().await.is_empty());
    assert_eq!(plane.all::<AgentWorkspace>().await.len(), 1);
    let repeated = plane.ask(Some("theirs"), part()).await.unwrap();
    assert!(repeated.message.contains("not joined"), "{}", repeated.message);
    plane.act("theirs", WorkspaceVerb::Unlink).await.unwrap();
    assert!(plane.all::<AgentWorkspace>().await.is_empty());
    assert!(path.join("README.md").exists());
    // A workspace that was created here would have no owner.
    plane.workspace("mend").await;
    let (_, why) = refused(plane.act("mend", WorkspaceVerb::Unlink).await);
    assert!(why.contains("clean it up"), "{why}");
    assert!(plane.audited_refusal("unlink").await);
}

/// The target and the workspace have both changed the same line.
async fn in_conflict(plane: &TestPlane) -> std::path::PathBuf {
    let path = plane.workspace("mend").await;
    fs::write(path.join("README.md"), "mine\n").unwrap();
    plane.git(&path, &["commit", "--quiet", "--all", "-m", "mine"]);
    plane.scratch.write("README.md", "theirs\n");
    plane.scratch.commit("theirs");
    path
}

#[tokio::test]
async fn rebase_start_open_in_editor_and_mark_resolved_handle_a_conflict() {
    let plane = test_plane().await;
    let path = in_conflict(&plane).await;
    for verb in [
        WorkspaceVerb::RebaseOpenInEditor,
        WorkspaceVerb::RebaseMarkResolved,
        WorkspaceVerb::RebaseAutoResolve,
        WorkspaceVerb::RebaseAbort,
    ] {
        let (_, why) = refused(plane.act("mend", verb).await);
        assert!(why.contains("start one first"), "{verb:?}: {why}");
    }
    let answer = plane.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    let file = path.join("README.md").display().to_string();
    assert_eq!(answer.rebase, Some(RebaseState::RebaseConflicts));
    assert_eq!(answer.files, std::slice::from_ref(&file));
    let surface = plane.known("mend").await.status.rebase.unwrap();
    assert_eq!((surface.attempt_count, surface.unresolved_files.len()), (1, 1));
    let opened = plane.act("mend", WorkspaceVerb::RebaseOpenInEditor).await.unwrap();
    assert_eq!(opened.files, std::slice::from_ref(&file));
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup, WorkspaceVerb::RebaseStart] {
        refused(plane.act("mend", verb).await);
    }
    let (_, why) = refused(plane.act("mend", WorkspaceVerb::RebaseMarkResolved).await);
    assert!(why.contains("conflict markers"), "{why}");
    fs::write(&file, "both\n").unwrap();
    let answer = plane.act("mend", WorkspaceVerb::RebaseMarkResolved).await.unwrap();
    assert_eq!(answer.rebase, Some(RebaseState::ReadyForReview));
    assert_eq!(plane.git(&path, &["rev-list", "--count", "HEAD..main"]), "0");
    assert_eq!(fs::read_to_string(&file).unwrap(), "both\n");
    let status = plane.known("mend").await.status;
    assert_eq!((status.git.behind, status.git.ahead), (0, 2));
}

#[tokio::test]
async fn rebase_abort_restores_and_auto_resolve_repeats_a_resolution() {
    let plane = test_plane().await;
    let path = in_conflict(&plane).await;
    let former = plane.git(&path, &["rev-parse", "HEAD"]);
    plane.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    fs::write(path.join("README.md"), "by hand\n").unwrap();
    let answer = plane.act("mend", WorkspaceVerb::RebaseAbort).await.unwrap();
    assert_eq!(plane.git(&path, &["rev-parse", "HEAD"]), former);
    let saved = answer.kept.unwrap();
    assert_eq!(plane.scratch.git(&["show", &format!("{saved}:README.md")]), "by hand\n");
    // Resolve it once, go back by hand, and meet the same conflict again.
    plane.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    fs::write(path.join("README.md"), "both\n").unwrap();
    plane.act("mend", WorkspaceVerb::RebaseMarkResolved).await.unwrap();
    plane.git(&path, &["reset", "--quiet", "--hard", &former]);
    let repeated = plane.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    assert_eq!(repeated.rebase, Some(RebaseState::RebaseConflicts));
    assert_eq!(plane.known("mend").await.status.rebase.unwrap().attempt_count, 3);
    let answer = plane.act("mend", WorkspaceVerb::RebaseAutoResolve).await.unwrap();
    assert_eq!(answer.rebase, Some(RebaseState::ReadyForReview), "{answer:?}");
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "both\n");
}

#[tokio::test]
async fn operation_with_a_lost_answer_can_be_repeated() {
    let plane = test_plane().await;
    let path = plane.workspace("mend").await;
    fs::write(path.join("README.md"), "changed\n").unwrap();
    plane.control.world.cut_off.store(true, Ordering::Relaxed);
    let outcome = plane.act("mend", WorkspaceVerb::Archive).await;
    assert!(matches!(outcome, Err(ActionError::Unavailable(_))), "{outcome:?}");
    assert!(!path.exists());
    plane.control.world.cut_off.store(false, Ordering::Relaxed);
    // An archived workspace is not reported as missing.
    plane.advance().await;
    assert_eq!(plane.known("mend").await.status.state, WorkspaceState::Archived);
    let answer = plane.act("mend", WorkspaceVerb::Archive).await.unwrap();
    assert_eq!(answer.state, WorkspaceState::Archived);
    plane.act("mend", WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "changed\n");

    plane.git(&path, &["checkout", "--quiet", "README.md"]);
    plane.control.world.cut_off.store(true, Ordering::Relaxed);
    plane.act("mend", WorkspaceVerb::Cleanup).await.unwrap_err();
    plane.control.world.cut_off.store(false, Ordering::Relaxed);
    plane.act("mend", WorkspaceVerb::Cleanup).await.unwrap();
    let stored = plane.control.store.get(Kind::AgentWorkspace, "default", "mend").await.unwrap();
    assert_eq!(stored, None);
}

#[tokio::test]
async fn workspace_with_missing_files_can_only_be_recovered() {
    let plane = test_plane().await;
    let path = plane.workspace("mend").await;
    fs::remove_dir_all(&path).unwrap();
    plane.advance().await;
    assert_eq!(plane.known("mend").await.status.state, WorkspaceState::Missing);
    let (_, why) = refused(plane.act("mend", WorkspaceVerb::Cleanup).await);
    assert!(why.contains("recover it first"), "{why}");
    plane.act("mend", WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("own.txt")).unwrap(), "own\n");
    assert_eq!(plane.known("mend").await.status.state, WorkspaceState::Idle);
}

/// Every verb has a test of its name in this file.
#[test]
fn every_workspace_verb_has_a_test() {
    let text = include_str!("requests.rs");
    let tests: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("async fn ")).collect();
    for verb in WorkspaceVerb::ALL {
        let name = verb.as_str().trim_start_matches("rebase-").replace('-', "_");
        let tested = tests.iter().any(|test| test.contains(&name));
        assert!(tested, "{} has no test", verb.as_str());
    }
}
