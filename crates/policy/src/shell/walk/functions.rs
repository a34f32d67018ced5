//! Functions of the text: definitions and calls.

use std::rc::Rc;

use brush_parser::ast;

use super::Walker;
use crate::shell::environment::{Environment, Function};
use crate::shell::exit_states;
use crate::shell::field::Field;
use crate::shell::redirect::Input;

impl Walker {
    pub(super) fn define_function(&mut self, function: &ast::FunctionDefinition) {
        let name = function.fname.value.clone();
        // Bash calls it for unknown commands.
        if name == "command_not_found_handle" {
            let unknown = Environment { foreign: true, ..Environment::default() };
            self.traps.push((format!("{name} \"$@\""), unknown));
        }
        let body = Rc::new(function.body.clone());
        let bodies = vec![(body, Rc::clone(&self.source))];
        let everywhere = self.all_functions.entry(name.clone());
        let everywhere = everywhere.or_insert(Function { bodies: Vec::new(), sure: false });
        everywhere.bodies.extend(bodies.clone());
        self.environment.functions.insert(name, Function { bodies, sure: true });
    }

    /// Calls a function of the text.
    pub(in crate::shell) fn call(
        &mut self,
        function: &Function,
        arguments: &[Field],
        input: &Input,
    ) {
        let positional = self.environment.positional.clone();
        self.environment.positional = arguments.iter().map(Field::known).collect();
        let before = self.environment.clone();
        let outer_returns = self.exit_states.of_function.take();
        let mut after: Option<Environment> = None;
        for (body, source) in function.bodies.clone() {
            self.environment = before.clone();
            let outer_source = std::mem::replace(&mut self.source, source);
            self.deeper("a function", |walker| {
                let redirects = body.1.iter().flat_map(|list| &list.0);
                let input = walker.redirects(redirects, input.clone());
                walker.compound(&body.0, input);
            });
            self.source = outer_source;
            exit_states::add(&mut after, std::mem::take(&mut self.environment));
        }
        if let Some(at_return) = std::mem::replace(&mut self.exit_states.of_function, outer_returns)
        {
            exit_states::add(&mut after, at_return);
        }
        // The end of local variables is not tracked.
        self.environment = match after {
            Some(after) if after.ended && function.sure => after,
            Some(after) => {
                // A directory is never local.
                let mut working_directories = after.working_directories.clone();
                if !function.sure {
                    working_directories =
                        working_directories.join(before.working_directories.clone());
                }
                Environment { working_directories, ..after.join(before) }
            }
            None => before,
        };
        self.environment.positional = positional;
    }
}
