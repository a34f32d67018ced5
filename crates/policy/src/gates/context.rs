//! The inputs of a gate.

use std::cell::OnceCell;

use crate::call::Call;
use crate::effects::Effects;
use crate::facts::Facts;
use crate::paths::WriteTarget;
use crate::policy::Policy;

/// The inputs of a gate.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The policy of the agent.
    pub(crate) policy: &'a Policy,
    /// The call.
    pub(crate) call: &'a Call,
    /// The effects of the call.
    pub(crate) effects: &'a Effects,
    /// The places that it would write.
    pub(crate) write_targets: &'a [WriteTarget],
    /// The facts.
    pub(crate) facts: &'a Facts,
    /// Computed when the first rule needs them.
    command_lines: OnceCell<Vec<String>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        policy: &'a Policy,
        call: &'a Call,
        effects: &'a Effects,
        write_targets: &'a [WriteTarget],
        facts: &'a Facts,
    ) -> Self {
        Self { policy, call, effects, write_targets, facts, command_lines: OnceCell::new() }
    }

    /// Every command that the call runs, as patterns see it.
    pub(crate) fn command_lines(&self) -> &[String] {
        self.command_lines.get_or_init(|| {
            self.effects.runs.iter().flat_map(|run| super::command_forms(run, self)).collect()
        })
    }
}
