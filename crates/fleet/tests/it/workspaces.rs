//! The verbs that each workspace permits.

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

/// All combinations: files are deleted only from a workspace that is idle or archived, not pinned, not in a rebase,
/// and (for a cleanup) not dirty.
#[test]
fn files_are_deleted_only_if_nothing_can_be_lost() {
    let states = [
        WorkspaceState::Active,
        WorkspaceState::Idle,
        WorkspaceState::Archived,
        WorkspaceState::Missing,
    ];
    let mut allowed = 0;
    for current_state in states {
        for bits in 0..16_u8 {
            let [pinned, dirty, behind, conflicts] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let git = git(dirty, false, u64::from(behind), conflicts);
            let rebase = rebase_surface("main", &git, conflicts, false, 1, Vec::new());
            let rebase = Some(rebase);
            let status =
                AgentWorkspaceStatus { state: current_state, git, rebase, ..Default::default() };
            let is_permitted = |verb| permit(verb, &workspace(pinned), &status).is_ok();
            let idle = current_state == WorkspaceState::Idle;
            let archived = current_state == WorkspaceState::Archived;
            let cleanup = !pinned && (archived || (idle && !dirty && !conflicts));
            assert_eq!(is_permitted(Verb::Cleanup), cleanup, "{current_state:?} {bits:04b}");
            assert_eq!(
                is_permitted(Verb::Archive),
                !pinned && (archived || (idle && !conflicts)),
                "{current_state:?}"
            );
            assert_eq!(
                is_permitted(Verb::Recover),
                archived || current_state == WorkspaceState::Missing
            );
            assert_eq!(is_permitted(Verb::RebaseStart), idle && !conflicts);
            for verb in [Verb::RebaseAbort, Verb::RebaseMarkResolved, Verb::RebaseAutoResolve] {
                assert_eq!(is_permitted(verb), idle && conflicts);
            }
            assert!(
                is_permitted(Verb::Pin)
                    && is_permitted(Verb::Unpin)
                    && is_permitted(Verb::NotesSave)
            );
            allowed += usize::from(cleanup);
        }
    }
    assert!(allowed > 0);
}

#[test]
fn refusal_names_an_alternative() {
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
fn state_follows_the_files_that_exist() {
    let present = git(false, false, 0, false);
    let absent = git(false, true, 0, false);
    assert_eq!(state(false, &present, false), WorkspaceState::Idle);
    assert_eq!(state(false, &present, true), WorkspaceState::Active);
    assert_eq!(state(true, &absent, false), WorkspaceState::Archived);
    assert_eq!(state(false, &absent, false), WorkspaceState::Missing);
    // A person has restored it by hand.
    assert_eq!(state(true, &present, false), WorkspaceState::Idle);
    let surface = |git: &GitStatus, verified| {
        rebase_surface("main", git, false, verified, 0, Vec::new()).state
    };
    assert_eq!(surface(&git(false, false, 2, false), true), RebaseState::RebaseNeeded);
    assert_eq!(surface(&git(false, false, 2, true), true), RebaseState::RebaseConflicts);
    assert_eq!(surface(&present, false), RebaseState::ReadyForReview);
    assert_eq!(surface(&present, true), RebaseState::ReadyForMerge);
    assert_eq!(surface(&git(true, false, 0, false), true), RebaseState::ReadyForReview);
}

#[test]
fn used_pinned_or_dirty_workspace_is_never_due() {
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
    let (idle, last_used) = (WorkspaceState::Idle, Some(Moment::from_millis(5_000)));
    let due = |pinned, status: &AgentWorkspaceStatus, now| {
        is_due(&policy, &workspace(pinned), status, Moment::from_millis(now))
    };
    assert!(due(false, &status(idle, false, last_used), 6_000));
    assert!(!due(false, &status(idle, false, last_used), 5_999));
    let late = u64::MAX;
    assert!(!due(true, &status(idle, false, last_used), late));
    assert!(!due(false, &status(idle, true, last_used), late));
    assert!(!due(false, &status(idle, false, None), late));
    assert!(!due(false, &status(WorkspaceState::Active, false, last_used), late));
}
