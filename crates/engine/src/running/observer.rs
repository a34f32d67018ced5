//! Ports to the caller that runs an agent: what they see of it, and how they can stop it.

use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::event::Phase;
use bailiwick_model::{AgentId, Event};
use bailiwick_runner::supervisor::{Handle, RunDirectory};

/// What shows an attempt while it goes on.
pub trait RunView: Send {
    /// The attempt enters this phase.
    fn phase(&self, phase: Phase);

    /// Something happened, and is stored.
    fn show(&mut self, event: &Event);
}

/// The caller that runs an agent.
pub trait RunObserver {
    /// Makes what shows an attempt.
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
