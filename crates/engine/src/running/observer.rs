//! Ports to the caller of a run: what it observes and how it can stop the run.

use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::event::Phase;
use bailiwick_model::{AgentId, Event};
use bailiwick_runner::supervisor::{Handle, RunDirectory};

/// Shows the progress of an attempt.
pub trait RunView: Send {
    /// The attempt enters this phase.
    fn phase(&self, phase: Phase);

    /// Something happened, and is stored.
    fn show(&mut self, event: &Event);
}

/// The caller that runs an agent.
pub trait RunObserver {
    /// Creates the view of an attempt.
    fn view(&self, directory: &RunDirectory) -> Box<dyn RunView>;

    /// The agent has started; the handle stops it.
    fn started(&self, handle: Handle);

    /// The agent has ended.
    fn ended(&self);

    /// The checks of its work begin.
    fn checking(&self, agent: &AgentId);

    /// A step of the checks.
    fn check_progress(&self, progress: &Progress<'_>);
}
