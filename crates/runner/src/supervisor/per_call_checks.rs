//! Checks the agent's tree between its calls: each new tree once; the next call waits for the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_lifecycle::ports::{ChecksNotRun, TreeChecks, WorkError};
use bailiwick_lifecycle::supervision::Trees;
use bailiwick_model::Event;
use bailiwick_model::event::ReportedBy;
use bailiwick_policy::decision::Objection;
use tokio::sync::Mutex;

use super::attempt_state::AttemptState;

/// The rule that denies calls while the tree cannot be checked.
const RULE: &str = "bailiwick::checks";
/// The reason when a tree cannot be checked.
const UNCHECKED: &str = "the checks that run after each call could not be run";
/// The advice when the agent's own files are the cause.
const FIX_ADVICE: &str = "fix it; you can continue, but this work does not land as it is";

/// The checks of one attempt.
pub(super) struct PerCallChecks {
    attempt_state: Arc<AttemptState>,
    checks: Arc<dyn TreeChecks>,
    stopped: Arc<AtomicBool>,
    /// Locked until the checks are done.
    state: Arc<Mutex<TreeState>>,
}

/// The state of the trees.
struct TreeState {
    trees: Trees,
    /// Why the tree cannot be checked; every call is denied meanwhile.
    cannot_check: Option<CannotCheck>,
}

/// Why the tree cannot be checked.
#[derive(Debug, thiserror::Error)]
enum CannotCheck {
    #[error("they were interrupted")]
    Interrupted,
    #[error("the run has ended")]
    RunOver,
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Checks(#[from] ChecksNotRun),
}

/// Why a call may not run.
pub(super) struct BlockedCall {
    pub(super) objection: Objection,
    /// Whether the agent only has to fix something, and its next call may run.
    pub(super) exempt_from_fail_fast: bool,
}

impl BlockedCall {
    /// The checks were not done in time for this call; the next call waits for them again.
    pub(super) fn timed_out() -> Self {
        let why = "the checks that run after each call were not done in time";
        let objection = Objection::new(RULE, why, "try the call again");
        Self { objection, exempt_from_fail_fast: true }
    }
}

impl PerCallChecks {
    pub(super) fn new(
        attempt_state: Arc<AttemptState>,
        checks: Arc<dyn TreeChecks>,
        earlier: &[Event],
    ) -> Self {
        let state = TreeState { trees: Trees::new(earlier), cannot_check: None };
        Self { attempt_state, checks, stopped: Arc::default(), state: Arc::new(Mutex::new(state)) }
    }

    /// Checks the current tree; returns when the result is known.
    pub(super) async fn check_tree(&self) {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        let (attempt_state, checks, stopped) =
            (Arc::clone(&self.attempt_state), Arc::clone(&self.checks), Arc::clone(&self.stopped));
        // The caller may be gone before it is done: the thread keeps the lock until then.
        let check_current_tree = tokio::task::spawn_blocking(move || {
            state.cannot_check = Some(CannotCheck::Interrupted);
            let _holding = attempt_state.pause_idle_timeout();
            state.cannot_check =
                check_current_tree(&attempt_state, checks.as_ref(), &stopped, &mut state.trees)
                    .err();
        });
        // A panic leaves `cannot_check` set.
        let _ = check_current_tree.await;
    }

    /// Why the next call may not run: once for a tree that fails or that the agent has to fix before it can
    /// be checked, and always while it cannot be checked for another reason.
    pub(super) async fn objection(&self) -> Option<BlockedCall> {
        let mut state = self.state.lock().await;
        if let Some(why) = &state.cannot_check {
            let why = format!("{UNCHECKED}: {why}");
            let instead = "nothing can run until this is fixed; tell the person who started you";
            let objection = Objection::new(RULE, why, instead);
            return Some(BlockedCall { objection, exempt_from_fail_fast: false });
        }
        let objection = state.trees.take_objection()?;
        Some(BlockedCall { objection, exempt_from_fail_fast: true })
    }

    /// The agent did not receive this objection.
    pub(super) fn on_undelivered(&self, objection: &Objection) {
        // A check that runs right now will find it again.
        if let Ok(mut state) = self.state.try_lock() {
            state.trees.restore_objection(objection);
        }
    }

    /// No verdict is needed any more.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Waits until no check runs.
    pub(super) async fn ended(&self) {
        drop(self.state.lock().await);
    }
}

fn check_current_tree(
    attempt_state: &AttemptState,
    checks: &dyn TreeChecks,
    stopped: &Arc<AtomicBool>,
    trees: &mut Trees,
) -> Result<(), CannotCheck> {
    let over = || stopped.load(Ordering::SeqCst) || attempt_state.ending().is_some();
    if over() {
        return Err(CannotCheck::RunOver);
    }
    let work = match checks.snapshot() {
        Ok(work) => work,
        // A repair needs calls, as with a tree that fails.
        Err(error) if error.caused_by_agent => {
            trees.not_a_tree(&Objection::new(RULE, format!("{UNCHECKED}: {error}"), FIX_ADVICE));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if !trees.is_new(&work) {
        return Ok(());
    }
    let results = checks.check(&work, stopped)?;
    // A check that was stopped with the run says nothing about the tree.
    if stopped.load(Ordering::SeqCst) {
        return Err(CannotCheck::RunOver);
    }
    for what in trees.checked(&work.tree, &results) {
        attempt_state.record_event(ReportedBy::Supervisor, None, what);
    }
    Ok(())
}
