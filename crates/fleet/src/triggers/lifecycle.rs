//! The lifecycle of a rule.

use bailiwick_resources::{LifecycleState, Reason};
use thiserror::Error;

use crate::ports::LifecycleVerb;

/// Why a verb does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a rule that is {} cannot be told to {}; {instead}", word(*.from), .verb.as_str())]
pub struct LifecycleError {
    /// The requested verb.
    pub verb: LifecycleVerb,
    /// The current state.
    pub from: LifecycleState,
    /// What to do instead.
    pub instead: &'static str,
}

/// As a state is written.
pub fn word(state: LifecycleState) -> &'static str {
    match state {
        LifecycleState::Draft => "draft",
        LifecycleState::Active => "active",
        LifecycleState::Paused => "paused",
        LifecycleState::Disabled => "disabled",
        LifecycleState::Archived => "archived",
    }
}

/// The next state of a rule.
pub fn apply(from: LifecycleState, verb: LifecycleVerb) -> Result<LifecycleState, LifecycleError> {
    use LifecycleState::{Active, Archived, Disabled, Draft, Paused};
    use LifecycleVerb::{Archive, Disable, Enable, Pause, Resume};
    let instead = match (from, verb) {
        (Draft | Disabled, Enable) | (Paused, Resume) => return Ok(Active),
        (Active, Pause) => return Ok(Paused),
        (Draft | Active | Paused, Disable) => return Ok(Disabled),
        (Draft | Active | Paused | Disabled, Archive) => return Ok(Archived),
        (Archived, Enable | Pause | Resume | Disable | Archive) => {
            "it is kept for the record: make a new rule"
        }
        (Active, Enable | Resume) | (Paused, Pause) | (Disabled, Disable) => "it is so already",
        (Paused, Enable) => "use resume",
        (Draft | Disabled, Pause) => "it does nothing that could be paused",
        (Draft | Disabled, Resume) => "use enable",
    };
    Err(LifecycleError { verb, from, instead })
}

/// Whether a rule may start runs, and if not, why.
pub fn may_dispatch(state: LifecycleState) -> Result<(), (Reason, &'static str)> {
    match state {
        LifecycleState::Active => Ok(()),
        LifecycleState::Draft => Err((Reason::RuleDraft, "the rule is a draft; enable it")),
        LifecycleState::Paused => Err((Reason::RulePaused, "the rule is paused; resume it")),
        LifecycleState::Disabled => Err((Reason::RuleDisabled, "the rule is disabled; enable it")),
        LifecycleState::Archived => Err((Reason::RuleArchived, "the rule is archived")),
    }
}
