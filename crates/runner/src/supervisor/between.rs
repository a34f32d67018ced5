//! Checking the agent's tree between its calls: each new tree once, and the next call waits for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_lifecycle::ports::TreeChecks;
use bailiwick_lifecycle::supervision::Trees;
use bailiwick_model::Event;
use bailiwick_model::event::ReportedBy;
use bailiwick_policy::decision::Objection;
use tokio::sync::Mutex;

use super::hub::Hub;

/// The rule by which nothing runs while the tree cannot be checked.
const RULE: &str = "bailiwick::checks";
/// What is said of a tree that cannot be checked.
const UNCHECKED: &str = "the checks that run after each call could not be run";
/// What an agent can do about it where its own files are why.
const MEND: &str = "mend that; your calls go on from here, and nothing of it lands as it is";

/// The checks of one attempt.
pub(super) struct PerCallChecks {
    hub: Arc<Hub>,
    checks: Arc<dyn TreeChecks>,
    gone: Arc<AtomicBool>,
    /// Held by whoever looks, to the end of the checks.
    seen: Arc<Mutex<Seen>>,
}

/// What was seen.
struct Seen {
    trees: Trees,
    /// Why the tree cannot be checked; nothing runs then.
    trouble: Option<String>,
}

/// Why a call may not run.
pub(super) struct Held {
    pub(super) objection: Objection,
    /// Whether it is only told of what it has to mend, and may go on with its next call.
    pub(super) may_go_on: bool,
}

impl Held {
    /// The checks were not done in time for this call: the next one waits for them again.
    pub(super) fn deadline() -> Self {
        let why = "the checks that run after each call were not done in time";
        let objection = Objection::new(RULE, why, "try the call again");
        Self { objection, may_go_on: true }
    }
}

impl PerCallChecks {
    pub(super) fn new(hub: Arc<Hub>, checks: Arc<dyn TreeChecks>, earlier: &[Event]) -> Self {
        let seen = Seen { trees: Trees::new(earlier), trouble: None };
        Self { hub, checks, gone: Arc::default(), seen: Arc::new(Mutex::new(seen)) }
    }

    /// Looks at the tree, and comes back when it is known whether that holds.
    pub(super) async fn look(&self) {
        let mut seen = Arc::clone(&self.seen).lock_owned().await;
        let (hub, checks, gone) =
            (Arc::clone(&self.hub), Arc::clone(&self.checks), Arc::clone(&self.gone));
        // Whoever waits may be gone before it is done: the thread has the lock until then.
        let looked = tokio::task::spawn_blocking(move || {
            seen.trouble = Some("they did not come to their end".to_owned());
            let _holding = hub.hold();
            seen.trouble = looked(&hub, checks.as_ref(), &gone, &mut seen.trees).err();
        });
        // Its panic has left the trouble as it is.
        let _ = looked.await;
    }

    /// Why the next call may not run: once for a tree that fails or that the agent has to mend before it
    /// can be checked, and always while none can be checked for another reason.
    pub(super) async fn objection(&self) -> Option<Held> {
        let mut seen = self.seen.lock().await;
        if let Some(why) = &seen.trouble {
            let why = format!("{UNCHECKED}: {why}");
            let instead = "nothing can run until this is mended; tell the person who started you";
            let objection = Objection::new(RULE, why, instead);
            return Some(Held { objection, may_go_on: false });
        }
        let objection = seen.trees.tell()?;
        Some(Held { objection, may_go_on: true })
    }

    /// The agent has not heard this, if it was told of a tree that fails.
    pub(super) fn untold(&self, told: &Objection) {
        // Whoever looks at this moment will find what there is to be told.
        if let Ok(mut seen) = self.seen.try_lock() {
            seen.trees.untell(told);
        }
    }

    /// Nobody needs a verdict any more.
    pub(super) fn stop(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// Comes back when nothing is being checked.
    pub(super) async fn ended(&self) {
        drop(self.seen.lock().await);
    }
}

fn looked(
    hub: &Hub,
    checks: &dyn TreeChecks,
    gone: &Arc<AtomicBool>,
    trees: &mut Trees,
) -> Result<(), String> {
    let over = || gone.load(Ordering::SeqCst) || hub.ending().is_some();
    let the_end = || "the run is over".to_owned();
    if over() {
        return Err(the_end());
    }
    let work = match checks.look() {
        Ok(work) => work,
        // Mending it takes calls, as with a tree that fails.
        Err(error) if error.of_tree => {
            trees.refused(&Objection::new(RULE, format!("{UNCHECKED}: {error}"), MEND));
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    };
    if !trees.is_new(&work) {
        return Ok(());
    }
    let results = checks.check(&work, gone)?;
    // What was ended with the run says nothing of the tree.
    if gone.load(Ordering::SeqCst) {
        return Err(the_end());
    }
    for what in trees.checked(&work.tree, &results) {
        hub.tell(ReportedBy::Supervisor, None, what);
    }
    Ok(())
}
