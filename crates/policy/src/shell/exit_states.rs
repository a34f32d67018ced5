//! Early exits: `break`, `return` and errors skip the following commands, so the state at the exit is joined with
//! the state at the end of the loop, function or command.

use super::environment::Environment;
use super::walk::Walker;

/// The states at early exits.
#[derive(Debug, Default)]
pub(super) struct ExitStates {
    /// By `break` and `continue`, and by the condition of a loop.
    pub(super) of_loop: Option<Environment>,
    /// By `return`.
    pub(super) of_function: Option<Environment>,
    /// By an error after which bash continues with the next command of the text.
    pub(super) of_command: Option<Environment>,
}

/// Adds what is known on one more way.
pub(super) fn add(way: &mut Option<Environment>, environment: Environment) {
    *way = Some(match way.take() {
        Some(others) => others.join(environment),
        None => environment,
    });
}

impl Walker {
    pub(super) fn leave_loop(&mut self) {
        add(&mut self.exit_states.of_loop, self.environment.clone());
    }

    pub(super) fn leave_function(&mut self) {
        add(&mut self.exit_states.of_function, self.environment.clone());
    }

    pub(super) fn leave_command(&mut self) {
        add(&mut self.exit_states.of_command, self.environment.clone());
    }
}
