//! Reading of texts: programs, substitutions and arithmetic, at any depth.

use brush_parser::ast;

use super::Walker;
use crate::shell::documents::{self, Document};
use crate::shell::{HiddenReason, exit_states, guard, parse};

impl Walker {
    /// Reads a text in the current environment.
    pub(in crate::shell) fn text(&mut self, text: &str) {
        self.deeper(text, |walker| {
            if !walker.spend(text.len()) {
                return;
            }
            if walker.text_without_documents(text) {
                return;
            }
            let prepared = match guard::prepare(text) {
                Ok(prepared) => prepared,
                Err((why, what)) => return walker.hide(why, &what),
            };
            match parse::program(&prepared) {
                None => walker.hide(HiddenReason::Unreadable, text),
                Some(program) => walker.program_text(prepared, &program),
            }
        });
    }

    /// Reads a text whose here documents are data. False if the parser finds them at other places.
    fn text_without_documents(&mut self, text: &str) -> bool {
        let first = self.documents.len();
        let Some(extracted) = documents::extract(text, first) else { return false };
        let Ok(prepared) = guard::prepare(&extracted.text) else { return false };
        let Some(program) = parse::program(&prepared) else { return false };
        let found = |(number, document): (usize, &Document)| {
            document.inside || program.documents.contains(&(first + number))
        };
        let agrees = extracted.documents.iter().enumerate().all(found);
        if agrees {
            self.documents.extend(extracted.documents);
            self.program_text(prepared, &program);
        }
        agrees
    }

    fn program_text(&mut self, text: String, program: &parse::Program) {
        for number in &program.documents {
            if let Some(document) = self.documents.get_mut(*number) {
                document.confirmed = true;
            }
        }
        let outer = std::mem::replace(&mut self.source, text.into());
        for list in &program.tree.complete_commands {
            self.complete_command(list);
        }
        self.source = outer;
    }

    pub(in crate::shell) fn complete_command(&mut self, list: &ast::CompoundList) {
        let outer = self.exit_states.of_command.take();
        self.list(list);
        let at_errors = std::mem::replace(&mut self.exit_states.of_command, outer);
        if let Some(at_errors) = at_errors {
            self.join_environment(at_errors.clone());
            // Where an error is caught, here or further outside, is not tracked.
            exit_states::add(&mut self.exit_states.of_command, at_errors);
        }
    }

    /// Runs `work` as in a subshell: the environment is the same afterwards.
    pub(in crate::shell) fn in_subshell(&mut self, work: impl FnOnce(&mut Self)) {
        if !self.spend_copy() {
            return;
        }
        let outer = self.environment.clone();
        self.subshell_depth += 1;
        work(self);
        self.subshell_depth -= 1;
        self.environment = outer;
    }

    /// Reads a substitution. Bash prints it again before it runs it, and misplaces here documents inside compound
    /// commands: only one that belongs to a simple command is certain.
    pub(in crate::shell) fn substitution(&mut self, text: &str) {
        if !self.spend(text.len()) {
            return;
        }
        let document = text.replace("<<<", "").contains("<<");
        if document && !parse::program(text).is_some_and(|program| is_plain(&program.tree)) {
            self.hide(HiddenReason::Unreadable, "a here document in a substitution");
        }
        self.in_subshell(|walker| walker.text(text));
    }

    pub(in crate::shell) fn aside(&mut self, list: &ast::CompoundList) {
        // Bash prints it again as well, and misplaces documents inside compound commands.
        if !self.spend(self.source.len()) {
            return;
        }
        let document = self.source.replace("<<<", "").contains("<<");
        if document && !is_plain_list(std::slice::from_ref(list)) {
            self.hide(HiddenReason::Unreadable, "a here document in a substitution");
        }
        self.in_subshell(|walker| walker.list(list));
    }

    /// Arithmetic runs the substitutions in it, also those in the subscripts of its variables.
    pub(in crate::shell) fn arithmetic(&mut self, expression: &str) {
        self.leave_command();
        if expression.contains("$(") || expression.contains('`') {
            self.hide(HiddenReason::RunsText, expression);
        }
        self.evaluates(expression);
        let changes =
            expression.contains('=') || expression.contains("++") || expression.contains("--");
        if changes {
            let names = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
            for name in names.filter(|name| name.chars().next().is_some_and(|c| !c.is_numeric())) {
                self.environment.forget(name);
            }
        }
    }

    /// Where a number is expected, the shell evaluates the value of a variable again, with the substitutions in its
    /// subscripts.
    pub(in crate::shell) fn evaluates(&mut self, expression: &str) {
        if expression.contains(|c: char| c.is_alphabetic() || c == '_' || c == '$') {
            self.evaluated = true;
        }
    }

    /// Notes text that would run something if it were evaluated. Which variables receive it is not tracked.
    pub(in crate::shell) fn data(&mut self, text: &str) {
        self.quoted_code |= text.contains("$(") || text.contains('`');
        self.quoted_subscript |= has_subscript(text);
    }
}

/// Whether a program is one pipeline of simple commands.
fn is_plain(program: &ast::Program) -> bool {
    is_plain_list(&program.complete_commands)
}

fn is_plain_list(lists: &[ast::CompoundList]) -> bool {
    let simple = |pipeline: &ast::Pipeline| {
        pipeline.seq.iter().all(|command| matches!(command, ast::Command::Simple(_)))
    };
    let lists: Vec<_> = lists.iter().flat_map(|list| &list.0).collect();
    matches!(lists.as_slice(), [ast::CompoundListItem(list, _)]
        if list.additional.is_empty() && simple(&list.first))
}

/// Whether a text, alone or behind other text, may have a subscript such as `a[1]`.
fn has_subscript(text: &str) -> bool {
    text.match_indices('[').any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        before.is_empty() || before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}
