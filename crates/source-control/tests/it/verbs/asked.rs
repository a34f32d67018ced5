//! Each verb as people ask the control plane for it, with real git below.

use std::fs;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    ActionError, Fleet as _, FleetStore as _, TokenScope, WorkspaceRequest, WorkspaceVerb,
};
use bailiwick_resources::{
    AgentWorkspace, Kind, LinkSource, Ownership, RebaseState, WorkItemKind, WorkItemRef,
    WorkItemWorkspaceLink, WorkspaceState,
};

use super::stand::{Stand, caller, of, refused, stand};

fn issue(number: &str) -> WorkItemRef {
    let (repository, id) = ("app".to_owned(), number.to_owned());
    WorkItemRef { kind: WorkItemKind::Issue, repository, id }
}

fn wish(name: &str) -> WorkspaceRequest {
    WorkspaceRequest {
        name: Some(name.to_owned()),
        repository: Some("app".to_owned()),
        work_item: Some(issue("42")),
        ..of(WorkspaceVerb::Provision)
    }
}

#[tokio::test]
async fn provision_makes_a_worktree_a_record_and_a_link_and_twice_is_once() {
    let stand = stand().await;
    let answer = stand.ask(None, wish("mend")).await.unwrap();
    assert_eq!((answer.workspace.as_str(), answer.state), ("mend", WorkspaceState::Idle));
    let path = stand.plane.world.root.join("mend");
    assert_eq!(stand.git(&path, &["symbolic-ref", "HEAD"]), "refs/heads/workspace/mend");
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "first\n");
    let known = stand.known("mend").await;
    assert_eq!(known.spec.workspace_path, path.display().to_string());
    assert_eq!(
        (known.spec.ownership, known.spec.target_branch.as_str()),
        (Ownership::Issue, "main")
    );
    assert!(!known.status.git.missing && !known.status.git.dirty);
    let links = stand.all::<WorkItemWorkspaceLink>().await;
    assert_eq!(links.len(), 1);
    assert_eq!(links[0].spec.work_item_ref.repository, "acme/app");
    assert_eq!(links[0].spec.link_source, LinkSource::CreatedFromWorkItem);
    assert_eq!(links[0].spec.created_by, "ada");
    let lines = stand.audit().await;
    let events: Vec<&str> = lines.iter().map(|(_, event, _)| event.as_str()).collect();
    assert_eq!(events, ["AgentWorkspaceActionRequested", "AgentWorkspaceActionDone"]);
    stand.ask(None, wish("mend")).await.unwrap();
    assert_eq!(stand.all::<AgentWorkspace>().await.len(), 1);
    assert_eq!(stand.audit().await.len(), 2, "nothing was done");
}

#[tokio::test]
async fn whoever_may_only_look_changes_nothing() {
    let stand = stand().await;
    let before = stand.scratch.git(&["worktree", "list"]);
    for verb in WorkspaceVerb::ALL {
        for name in [None, Some("mend")] {
            let viewer = caller("bob", TokenScope::Viewer);
            let request = WorkspaceRequest { action: verb, ..wish("mend") };
            let done = stand.plane.act_on_workspace(&viewer, "default", name, request).await;
            assert!(matches!(done, Err(ActionError::Denied { .. })), "{verb:?}: {done:?}");
        }
    }
    assert!(stand.all::<AgentWorkspace>().await.is_empty());
    assert_eq!(stand.scratch.git(&["worktree", "list"]), before);
    stand.ask(None, wish("mend")).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_made_leaves_no_record() {
    let stand = stand().await;
    stand.scratch.git(&["branch", "workspace/mend"]);
    let other = stand.scratch.place().join("elsewhere");
    stand.scratch.git(&[
        "worktree",
        "add",
        "--quiet",
        &other.display().to_string(),
        "workspace/mend",
    ]);
    let why = stand.ask(None, wish("mend")).await.unwrap_err().to_string();
    assert!(why.contains("workspace/mend"), "{why}");
    assert!(stand.told_refusal("provision").await);
    assert!(stand.all::<AgentWorkspace>().await.is_empty());
    assert!(stand.all::<WorkItemWorkspaceLink>().await.is_empty());
    for name in ["..", "a/b", "-x", "A", "a.b", ""] {
        let done = stand.ask(None, wish(name)).await;
        assert!(matches!(done, Err(ActionError::Invalid(_))), "{name}: {done:?}");
    }
    let nowhere = WorkspaceRequest { reference: Some("nothing".to_owned()), ..wish("other") };
    assert!(matches!(stand.ask(None, nowhere).await, Err(ActionError::NotFound(_))));
    let no_repository = WorkspaceRequest { repository: Some("none".to_owned()), ..wish("other") };
    assert!(matches!(stand.ask(None, no_repository).await, Err(ActionError::NotFound(_))));
}

#[tokio::test]
async fn pin_keeps_it_from_being_put_away_and_unpin_lets_it() {
    let stand = stand().await;
    let path = stand.workspace("mend").await;
    stand.act("mend", WorkspaceVerb::Pin).await.unwrap();
    let lines = stand.audit().await.len();
    stand.act("mend", WorkspaceVerb::Pin).await.unwrap();
    assert_eq!(stand.audit().await.len(), lines, "it was pinned already");
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup] {
        let (_, why) = refused(stand.act("mend", verb).await);
        assert!(why.contains("unpin it first"), "{why}");
        assert!(stand.told_refusal(verb.as_str()).await);
    }
    assert!(path.join("own.txt").exists());
    stand.act("mend", WorkspaceVerb::Unpin).await.unwrap();
    stand.act("mend", WorkspaceVerb::Archive).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn notes_save_is_written_down_and_a_stale_version_is_a_conflict() {
    let stand = stand().await;
    stand.workspace("mend").await;
    let version = stand.known("mend").await.metadata.resource_version;
    let note = |version| WorkspaceRequest {
        notes: Some("waits".to_owned()),
        expected_version: Some(version),
        ..of(WorkspaceVerb::NotesSave)
    };
    let (code, _) = refused(stand.ask(Some("mend"), note(version + 7)).await);
    assert_eq!(code, "StaleVersion");
    assert_eq!(stand.known("mend").await.spec.notes, "");
    stand.ask(Some("mend"), note(version)).await.unwrap();
    assert_eq!(stand.known("mend").await.spec.notes, "waits");
    let (_, event, detail) = stand.audit().await.pop().unwrap();
    assert_eq!(
        (event.as_str(), &detail["verb"]),
        ("AgentWorkspaceActionDone", &"notes-save".into())
    );
    let long = WorkspaceRequest { notes: Some("x".repeat(20_000)), ..of(WorkspaceVerb::NotesSave) };
    assert!(matches!(stand.ask(Some("mend"), long).await, Err(ActionError::Invalid(_))));
}

#[tokio::test]
async fn a_dirty_workspace_is_not_cleaned_up_and_archive_and_recover_lose_no_byte() {
    let stand = stand().await;
    let path = stand.workspace("mend").await;
    fs::write(path.join("README.md"), "changed\n").unwrap();
    fs::write(path.join("new file"), [0, 159, 146, 150]).unwrap();
    fs::write(path.join("a.log"), "ignored\n").unwrap();
    fs::remove_file(path.join("own.txt")).unwrap();
    let before = crate::workspaces::snapshot(&path);
    let (code, why) = refused(stand.act("mend", WorkspaceVerb::Cleanup).await);
    assert_eq!(code, "WorkspaceRefused");
    assert!(why.contains("commit them, or archive it"), "{why}");
    assert!(stand.told_refusal("cleanup").await);
    assert_eq!(crate::workspaces::snapshot(&path), before);

    let answer = stand.act("mend", WorkspaceVerb::Archive).await.unwrap();
    assert_eq!(answer.state, WorkspaceState::Archived);
    assert_eq!(answer.kept.as_deref(), Some("refs/bailiwick/rescue/mend"));
    assert!(!path.exists());
    assert_eq!(stand.known("mend").await.status.state, WorkspaceState::Archived);
    // Twice is once.
    assert_eq!(
        stand.act("mend", WorkspaceVerb::Archive).await.unwrap().state,
        WorkspaceState::Archived
    );
    let answer = stand.act("mend", WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(answer.state, WorkspaceState::Idle);
    assert_eq!(crate::workspaces::snapshot(&path), before);
    let known = stand.known("mend").await;
    assert!(known.status.git.dirty);
    assert!(known.metadata.annotations.is_empty(), "{:?}", known.metadata.annotations);
    let (_, why) = refused(stand.act("mend", WorkspaceVerb::Recover).await);
    assert!(why.contains("use it as it is"), "{why}");
}

#[tokio::test]
async fn cleanup_takes_files_record_and_links_and_keeps_the_branch() {
    let stand = stand().await;
    stand.ask(None, wish("mend")).await.unwrap();
    let path = stand.plane.world.root.join("mend");
    let head = stand.git(&path, &["rev-parse", "HEAD"]);
    stand.act("mend", WorkspaceVerb::Cleanup).await.unwrap();
    assert!(!path.exists());
    assert!(stand.all::<AgentWorkspace>().await.is_empty());
    assert!(stand.all::<WorkItemWorkspaceLink>().await.is_empty());
    assert_eq!(stand.scratch.git(&["rev-parse", "workspace/mend"]).trim(), head);
    let done = stand.act("mend", WorkspaceVerb::Cleanup).await;
    assert!(matches!(done, Err(ActionError::NotFound(_))), "{done:?}");
}

/// The worktree of somebody else, outside of the root.
async fn linked(stand: &Stand) -> std::path::PathBuf {
    let path = stand.scratch.place().join("theirs");
    let text = path.display().to_string();
    stand.scratch.git(&["worktree", "add", "--quiet", "-b", "theirs", &text]);
    let request = WorkspaceRequest {
        name: Some("theirs".to_owned()),
        path: Some(text),
        repository: Some("acme/app".to_owned()),
        ..of(WorkspaceVerb::LinkExisting)
    };
    let answer = stand.ask(None, request).await.unwrap();
    assert_eq!((answer.workspace.as_str(), answer.state), ("theirs", WorkspaceState::Idle));
    fs::canonicalize(path).unwrap()
}

#[tokio::test]
async fn link_existing_takes_only_worktrees_of_the_repository_and_once() {
    let stand = stand().await;
    let path = linked(&stand).await;
    let known = stand.known("theirs").await;
    assert_eq!(known.spec.branch, "theirs");
    assert_eq!(known.spec.ownership, Ownership::Host);
    let request = |path: &str| WorkspaceRequest {
        path: Some(path.to_owned()),
        repository: Some("app".to_owned()),
        work_item: Some(issue("7")),
        ..of(WorkspaceVerb::LinkExisting)
    };
    // By another way to the same directory; now it is about something.
    let roundabout = format!("{}/../theirs", path.display());
    let again = stand.ask(None, request(&roundabout)).await.unwrap();
    assert_eq!(again.workspace, "theirs");
    assert_eq!(stand.all::<AgentWorkspace>().await.len(), 1);
    assert_eq!(stand.all::<WorkItemWorkspaceLink>().await.len(), 1);
    for stranger in
        [stand.scratch.place().display().to_string(), "/".to_owned(), "/none".to_owned()]
    {
        let (_, why) = refused(stand.ask(None, request(&stranger)).await);
        assert!(why.contains("no worktree of this repository"), "{why}");
    }
    let done = stand.ask(None, request("theirs")).await;
    assert!(matches!(done, Err(ActionError::Invalid(_))), "{done:?}");
}

#[tokio::test]
async fn what_is_outside_of_the_root_is_not_taken_away_and_that_is_written_down() {
    let stand = stand().await;
    let path = linked(&stand).await;
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup, WorkspaceVerb::RebaseStart] {
        let (_, why) = refused(stand.act("theirs", verb).await);
        assert!(why.contains("is not directly below"), "{verb:?}: {why}");
        assert!(stand.told_refusal(verb.as_str()).await, "{verb:?}");
    }
    assert!(path.join("README.md").exists());
    let known = stand.known("theirs").await;
    assert!(known.metadata.annotations.is_empty(), "{:?}", known.metadata.annotations);
}

#[tokio::test]
async fn unlink_parts_and_forgets_and_touches_no_file() {
    let stand = stand().await;
    let path = linked(&stand).await;
    let link = WorkspaceRequest {
        path: Some(path.display().to_string()),
        repository: Some("app".to_owned()),
        work_item: Some(issue("7")),
        ..of(WorkspaceVerb::LinkExisting)
    };
    stand.ask(None, link).await.unwrap();
    let item = WorkItemRef { repository: "acme/app".to_owned(), ..issue("7") };
    let part = || WorkspaceRequest { work_item: Some(item.clone()), ..of(WorkspaceVerb::Unlink) };
    stand.ask(Some("theirs"), part()).await.unwrap();
    assert!(stand.all::<WorkItemWorkspaceLink>().await.is_empty());
    assert_eq!(stand.all::<AgentWorkspace>().await.len(), 1);
    let again = stand.ask(Some("theirs"), part()).await.unwrap();
    assert!(again.message.contains("not joined"), "{}", again.message);
    stand.act("theirs", WorkspaceVerb::Unlink).await.unwrap();
    assert!(stand.all::<AgentWorkspace>().await.is_empty());
    assert!(path.join("README.md").exists());
    // One that was made here would be nobody's.
    stand.workspace("mend").await;
    let (_, why) = refused(stand.act("mend", WorkspaceVerb::Unlink).await);
    assert!(why.contains("clean it up"), "{why}");
    assert!(stand.told_refusal("unlink").await);
}

/// The target and the workspace have both changed the same line.
async fn in_conflict(stand: &Stand) -> std::path::PathBuf {
    let path = stand.workspace("mend").await;
    fs::write(path.join("README.md"), "mine\n").unwrap();
    stand.git(&path, &["commit", "--quiet", "--all", "-m", "mine"]);
    stand.scratch.write("README.md", "theirs\n");
    stand.scratch.commit("theirs");
    path
}

#[tokio::test]
async fn rebase_start_open_in_editor_and_mark_resolved_go_through_a_conflict() {
    let stand = stand().await;
    let path = in_conflict(&stand).await;
    for verb in [
        WorkspaceVerb::RebaseOpenInEditor,
        WorkspaceVerb::RebaseMarkResolved,
        WorkspaceVerb::RebaseAutoResolve,
        WorkspaceVerb::RebaseAbort,
    ] {
        let (_, why) = refused(stand.act("mend", verb).await);
        assert!(why.contains("start one first"), "{verb:?}: {why}");
    }
    let answer = stand.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    let file = path.join("README.md").display().to_string();
    assert_eq!(answer.rebase, Some(RebaseState::RebaseConflicts));
    assert_eq!(answer.files, std::slice::from_ref(&file));
    let surface = stand.known("mend").await.status.rebase.unwrap();
    assert_eq!((surface.attempt_count, surface.unresolved_files.len()), (1, 1));
    let opened = stand.act("mend", WorkspaceVerb::RebaseOpenInEditor).await.unwrap();
    assert_eq!(opened.files, std::slice::from_ref(&file));
    for verb in [WorkspaceVerb::Archive, WorkspaceVerb::Cleanup, WorkspaceVerb::RebaseStart] {
        refused(stand.act("mend", verb).await);
    }
    let (_, why) = refused(stand.act("mend", WorkspaceVerb::RebaseMarkResolved).await);
    assert!(why.contains("marks of a conflict"), "{why}");
    fs::write(&file, "both\n").unwrap();
    let answer = stand.act("mend", WorkspaceVerb::RebaseMarkResolved).await.unwrap();
    assert_eq!(answer.rebase, Some(RebaseState::ReadyForReview));
    assert_eq!(stand.git(&path, &["rev-list", "--count", "HEAD..main"]), "0");
    assert_eq!(fs::read_to_string(&file).unwrap(), "both\n");
    let status = stand.known("mend").await.status;
    assert_eq!((status.git.behind, status.git.ahead), (0, 2));
}

#[tokio::test]
async fn rebase_abort_goes_back_and_auto_resolve_settles_what_was_settled_before() {
    let stand = stand().await;
    let path = in_conflict(&stand).await;
    let former = stand.git(&path, &["rev-parse", "HEAD"]);
    stand.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    fs::write(path.join("README.md"), "by hand\n").unwrap();
    let answer = stand.act("mend", WorkspaceVerb::RebaseAbort).await.unwrap();
    assert_eq!(stand.git(&path, &["rev-parse", "HEAD"]), former);
    let kept = answer.kept.unwrap();
    assert_eq!(stand.scratch.git(&["show", &format!("{kept}:README.md")]), "by hand\n");
    // Settle it once, go back by hand, and meet the same again.
    stand.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    fs::write(path.join("README.md"), "both\n").unwrap();
    stand.act("mend", WorkspaceVerb::RebaseMarkResolved).await.unwrap();
    stand.git(&path, &["reset", "--quiet", "--hard", &former]);
    let again = stand.act("mend", WorkspaceVerb::RebaseStart).await.unwrap();
    assert_eq!(again.rebase, Some(RebaseState::RebaseConflicts));
    assert_eq!(stand.known("mend").await.status.rebase.unwrap().attempt_count, 3);
    let answer = stand.act("mend", WorkspaceVerb::RebaseAutoResolve).await.unwrap();
    assert_eq!(answer.rebase, Some(RebaseState::ReadyForReview), "{answer:?}");
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "both\n");
}

#[tokio::test]
async fn a_verb_whose_answer_was_lost_can_be_asked_for_again() {
    let stand = stand().await;
    let path = stand.workspace("mend").await;
    fs::write(path.join("README.md"), "changed\n").unwrap();
    stand.plane.world.cut_off.store(true, Ordering::Relaxed);
    let done = stand.act("mend", WorkspaceVerb::Archive).await;
    assert!(matches!(done, Err(ActionError::Unavailable(_))), "{done:?}");
    assert!(!path.exists());
    stand.plane.world.cut_off.store(false, Ordering::Relaxed);
    // It is known where its files are: nobody calls them missing.
    stand.turn().await;
    assert_eq!(stand.known("mend").await.status.state, WorkspaceState::Archived);
    let answer = stand.act("mend", WorkspaceVerb::Archive).await.unwrap();
    assert_eq!(answer.state, WorkspaceState::Archived);
    stand.act("mend", WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "changed\n");

    stand.git(&path, &["checkout", "--quiet", "README.md"]);
    stand.plane.world.cut_off.store(true, Ordering::Relaxed);
    stand.act("mend", WorkspaceVerb::Cleanup).await.unwrap_err();
    stand.plane.world.cut_off.store(false, Ordering::Relaxed);
    stand.act("mend", WorkspaceVerb::Cleanup).await.unwrap();
    let there = stand.plane.store.get(Kind::AgentWorkspace, "default", "mend").await.unwrap();
    assert_eq!(there, None);
}

#[tokio::test]
async fn files_that_vanish_leave_a_record_that_only_recover_answers_to() {
    let stand = stand().await;
    let path = stand.workspace("mend").await;
    fs::remove_dir_all(&path).unwrap();
    stand.turn().await;
    assert_eq!(stand.known("mend").await.status.state, WorkspaceState::Missing);
    let (_, why) = refused(stand.act("mend", WorkspaceVerb::Cleanup).await);
    assert!(why.contains("recover it first"), "{why}");
    stand.act("mend", WorkspaceVerb::Recover).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("own.txt")).unwrap(), "own\n");
    assert_eq!(stand.known("mend").await.status.state, WorkspaceState::Idle);
}

/// Every verb has a test of its name in this file.
#[test]
fn every_verb_of_workspaces_has_a_test() {
    let text = include_str!("asked.rs");
    let tests: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("async fn ")).collect();
    for verb in WorkspaceVerb::ALL {
        let name = verb.as_str().trim_start_matches("rebase-").replace('-', "_");
        let tested = tests.iter().any(|test| test.contains(&name));
        assert!(tested, "{} has no test", verb.as_str());
    }
}
