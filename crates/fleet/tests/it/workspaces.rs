//! Which verb is for which workspace.

use bailiwick_fleet::workspaces::{Verb, is_due, permit, rebase_surface, state};
use bailiwick_resources::{
    AgentWorkspace, AgentWorkspacePolicy, AgentWorkspaceStatus, GitStatus, Moment, Ownership,
    RebaseState, RetentionPolicy, Span, TrustTier, WorkspaceMode, WorkspaceState,
};

fn workspace(pinned: bool) -> AgentWorkspace {
    AgentWorkspace {
        repository: "widgets".to_owned(),
        workspace_path: "/w".to_owned(),
        ownership: Ownership::Issue,
        branch: "agent/x".to_owned(),
        target_branch: "main".to_owned(),
        trust_tier: TrustTier::Trusted,
        policy: None,
        work_item: None,
        pinned,
        notes: String::new(),
        run: None,
    }
}

fn git(dirty: bool, missing: bool, behind: u64, conflicts: bool) -> GitStatus {
    let conflicting_files = if conflicts { vec!["a".to_owned()] } else { Vec::new() };
    GitStatus { dirty, missing, behind, conflicting_files, ..GitStatus::default() }
}

/// Every combination there is: files are only ever taken away from a workspace that is idle or put
/// away, not pinned, not in a rebase, and (for good) not dirty.
#[test]
fn files_go_only_where_nothing_can_be_lost() {
    let states = [
        WorkspaceState::Active,
        WorkspaceState::Idle,
        WorkspaceState::Archived,
        WorkspaceState::Missing,
    ];
    let mut allowed = 0;
    for now in states {
        for bits in 0..16_u8 {
            let [pinned, dirty, behind, conflicts] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let git = git(dirty, false, u64::from(behind), conflicts);
            let rebase = rebase_surface("main", &git, conflicts, false, 1, Vec::new());
            let rebase = Some(rebase);
            let status = AgentWorkspaceStatus { state: now, git, rebase, ..Default::default() };
            let may = |verb| permit(verb, &workspace(pinned), &status).is_ok();
            let idle = now == WorkspaceState::Idle;
            let away = now == WorkspaceState::Archived;
            let cleanup = !pinned && (away || (idle && !dirty && !conflicts));
            assert_eq!(may(Verb::Cleanup), cleanup, "{now:?} {bits:04b}");
            assert_eq!(may(Verb::Archive), !pinned && (away || (idle && !conflicts)), "{now:?}");
            assert_eq!(may(Verb::Recover), away || now == WorkspaceState::Missing);
            assert_eq!(may(Verb::RebaseStart), idle && !conflicts);
            for verb in [Verb::RebaseAbort, Verb::RebaseMarkResolved, Verb::RebaseAutoResolve] {
                assert_eq!(may(verb), idle && conflicts);
            }
            assert!(may(Verb::Pin) && may(Verb::Unpin) && may(Verb::NotesSave));
            allowed += usize::from(cleanup);
        }
    }
    assert!(allowed > 0);
}

#[test]
fn a_refusal_says_what_to_do_instead() {
    let status = AgentWorkspaceStatus {
        state: WorkspaceState::Idle,
        git: git(true, false, 0, false),
        ..Default::default()
    };
    let refusal = permit(Verb::Cleanup, &workspace(false), &status).unwrap_err();
    assert!(refusal.to_string().contains("commit them, or archive it"), "{refusal}");
    for verb in Verb::ALL {
        assert_eq!(Verb::parse(verb.as_str()), Some(verb));
    }
    assert_eq!(Verb::parse("destroy"), None);
}

#[test]
fn the_state_is_what_is_really_there() {
    let there = git(false, false, 0, false);
    let gone = git(false, true, 0, false);
    assert_eq!(state(false, &there, false), WorkspaceState::Idle);
    assert_eq!(state(false, &there, true), WorkspaceState::Active);
    assert_eq!(state(true, &gone, false), WorkspaceState::Archived);
    assert_eq!(state(false, &gone, false), WorkspaceState::Missing);
    // Somebody has brought it back by hand.
    assert_eq!(state(true, &there, false), WorkspaceState::Idle);
    let surface = |git: &GitStatus, verified| {
        rebase_surface("main", git, false, verified, 0, Vec::new()).state
    };
    assert_eq!(surface(&git(false, false, 2, false), true), RebaseState::RebaseNeeded);
    assert_eq!(surface(&git(false, false, 2, true), true), RebaseState::RebaseConflicts);
    assert_eq!(surface(&there, false), RebaseState::ReadyForReview);
    assert_eq!(surface(&there, true), RebaseState::ReadyForMerge);
    assert_eq!(surface(&git(true, false, 0, false), true), RebaseState::ReadyForReview);
}

#[test]
fn what_is_used_pinned_or_dirty_is_kept_for_ever() {
    let keep_for = Span::from_millis(1_000);
    let policy = AgentWorkspacePolicy {
        mode: WorkspaceMode::PerRun,
        retention_policy: RetentionPolicy { keep_for },
        copy: Vec::new(),
        setup: Vec::new(),
    };
    let status = |state, dirty, last| AgentWorkspaceStatus {
        state,
        git: git(dirty, false, 0, false),
        last_used_at: last,
        ..Default::default()
    };
    let (idle, then) = (WorkspaceState::Idle, Some(Moment::from_millis(5_000)));
    let due = |pinned, status: &AgentWorkspaceStatus, now| {
        is_due(&policy, &workspace(pinned), status, Moment::from_millis(now))
    };
    assert!(due(false, &status(idle, false, then), 6_000));
    assert!(!due(false, &status(idle, false, then), 5_999));
    let late = u64::MAX;
    assert!(!due(true, &status(idle, false, then), late));
    assert!(!due(false, &status(idle, true, then), late));
    assert!(!due(false, &status(idle, false, None), late));
    assert!(!due(false, &status(WorkspaceState::Active, false, then), late));
}
