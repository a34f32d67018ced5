//! The abstract interpreter: walks the syntax tree as the shell would execute it.

mod distinct;
mod simple_commands;
mod texts;

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use brush_parser::ast::{self, Assignment, AssignmentName, CompoundCommand};

use super::budget::Budget;
use super::documents::Document;
use super::environment::{Environment, Function, Value};
use super::exit_states::{self, ExitStates};
use super::field::{Field, Piece};
use super::redirect::Input;
use super::variables::{self, Meaning};
use super::working_directories::WorkingDirectories;
use super::writers::{Copied, Link};
use super::{HiddenReason, Reading, Run, inline};

use distinct::distinct;

pub(super) const MAX_ROUNDS: usize = 4;
pub(super) const MAX_SETTINGS: usize = 500;
const MAX_UNROLLED: usize = 8;

/// Walks a command and collects what it runs and writes.
#[derive(Debug, Default)]
pub(super) struct Walker {
    pub(super) reading: Reading,
    pub(super) environment: Environment,
    pub(super) through: Vec<String>,
    /// Whether several commands read the same pipe or document.
    pub(super) shared_stdin: bool,
    /// Whether `exec` may have redirected the input of the shell itself.
    pub(super) redirected: bool,
    /// Texts that run later, such as traps.
    pub(super) traps: Vec<(String, Environment)>,
    /// Whether such a text may have changed any variable.
    pub(super) forget_later: bool,
    /// Whether the directory may have changed.
    pub(super) moved: bool,
    /// The directories after the last command, if it succeeds and if it fails.
    pub(super) outcome: Option<(WorkingDirectories, WorkingDirectories)>,
    /// Links that the command creates.
    pub(super) links: Vec<Link>,
    /// What it copies, with the links in it.
    pub(super) copies: Vec<Copied>,
    /// The number of subshells around the command.
    pub(super) subshell_depth: usize,
    /// The number of loops around the command.
    pub(super) loops: usize,
    /// Every function that is defined anywhere.
    pub(super) all_functions: HashMap<String, Function>,
    /// Every alias that is defined anywhere.
    pub(super) all_aliases: HashMap<String, Option<String>>,
    /// Whether the value of a variable is evaluated as a number anywhere.
    pub(super) evaluated: bool,
    /// Whether any quoted text would run something if it were evaluated.
    pub(super) quoted_code: bool,
    /// Whether any quoted text has a subscript; without one, nothing in it runs.
    pub(super) quoted_subscript: bool,
    pub(super) exit_states: ExitStates,
    /// The text that is being read.
    pub(super) source: Rc<str>,
    /// The assignments in front of the next command.
    pub(super) prefix_assignments: Vec<(String, Value)>,
    /// The texts of files that the command writes.
    pub(super) written: inline::WrittenFiles,
    /// Here documents that were removed from the text.
    pub(super) documents: Vec<Document>,
    pub(super) budget: Budget,
}

impl Walker {
    /// Everything that was collected, without repetitions.
    pub(super) fn finish(mut self) -> Reading {
        let last = std::mem::take(&mut self.environment);
        while let Some((text, at_first)) = self.traps.pop() {
            let (functions, aliases) = (self.all_functions.clone(), self.all_aliases.clone());
            self.environment = Environment { functions, aliases, ..at_first.until(&last) };
            if self.moved {
                self.environment.working_directories = WorkingDirectories::lost();
            }
            let (ran, bodies) = (self.reading.runs.len(), self.count_bodies());
            self.text(&text);
            // The trap may change the meaning of what was read before.
            let mut ran = self.reading.runs.iter().skip(ran).filter_map(Run::program);
            let redefines = ["unset", "alias", "unalias", "shopt"];
            if ran.any(|name| redefines.contains(&name.as_str())) || self.count_bodies() > bodies {
                self.hide(HiddenReason::RunsText, &text);
            }
        }
        if self.documents.iter().any(|document| !document.confirmed) {
            self.hide(HiddenReason::Unreadable, "a here document");
        }
        if self.evaluated && self.quoted_code && self.quoted_subscript {
            self.hide(HiddenReason::RunsText, "a number that may be evaluated from quoted text");
        }
        self.follow_links();
        let mut reading = self.reading;
        distinct(&mut reading.runs);
        distinct(&mut reading.writes);
        distinct(&mut reading.scripts_not_in_text);
        distinct(&mut reading.by_path);
        distinct(&mut reading.hidden);
        reading
    }

    pub(super) fn count_bodies(&self) -> usize {
        self.all_functions.values().map(|function| function.bodies.len()).sum()
    }

    pub(super) fn list(&mut self, list: &ast::CompoundList) {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            match separator {
                ast::SeparatorOperator::Async => self.in_subshell(|walker| walker.and_or(and_or)),
                ast::SeparatorOperator::Sequence => self.and_or(and_or),
            }
        }
    }

    pub(super) fn and_or(&mut self, and_or: &ast::AndOrList) {
        self.pipeline(&and_or.first);
        if and_or.additional.is_empty() {
            return;
        }
        let (mut worked, mut failed) = self.outcomes();
        for more in &and_or.additional {
            match more {
                ast::AndOr::And(pipeline) => {
                    self.environment = worked;
                    self.pipeline(pipeline);
                    let (so, otherwise) = self.outcomes();
                    (worked, failed) = (so, failed.join(otherwise));
                }
                ast::AndOr::Or(pipeline) => {
                    self.environment = failed;
                    self.pipeline(pipeline);
                    let (so, otherwise) = self.outcomes();
                    (worked, failed) = (worked.join(so), otherwise);
                }
            }
        }
        self.outcome = (!worked.ended && !failed.ended)
            .then(|| (worked.working_directories.clone(), failed.working_directories.clone()));
        self.environment = worked.join(failed);
    }

    /// The environments after the last command: if it succeeded, and if it failed.
    pub(super) fn outcomes(&mut self) -> (Environment, Environment) {
        let worked = std::mem::take(&mut self.environment);
        let failed = worked.clone();
        match self.outcome.take() {
            Some((there, stayed)) => (
                Environment { working_directories: there, ..worked },
                Environment { working_directories: stayed, ..failed },
            ),
            None => (worked, failed),
        }
    }

    /// Continues with what holds after either of both ways.
    pub(super) fn join_environment(&mut self, other: Environment) {
        let ours = std::mem::take(&mut self.environment);
        self.environment = ours.join(other);
    }

    pub(super) fn pipeline(&mut self, pipeline: &ast::Pipeline) {
        let [only] = pipeline.seq.as_slice() else {
            let mut input = Input::Inherited;
            for (index, command) in pipeline.seq.iter().enumerate() {
                let before = self.environment.clone();
                let next = if index == 0 { self.piped(command) } else { input.filtered(command) };
                let input = std::mem::replace(&mut input, next);
                self.subshell_depth += 1;
                self.command(command, input);
                self.subshell_depth -= 1;
                let after = std::mem::replace(&mut self.environment, before);
                // With `lastpipe`, the last command runs in this shell.
                if index + 1 == pipeline.seq.len() {
                    self.join_environment(after);
                }
            }
            self.outcome = None;
            return;
        };
        self.command(only, Input::Inherited);
        if pipeline.bang {
            self.outcome = self.outcome.take().map(|(there, stayed)| (stayed, there));
        }
    }

    pub(super) fn command(&mut self, command: &ast::Command, input: Input) {
        self.deeper("a command", |walker| match command {
            ast::Command::Simple(simple) => walker.simple(simple, input),
            ast::Command::Compound(compound, redirects) => {
                let redirects = redirects.iter().flat_map(|list| &list.0);
                let input = walker.redirects(redirects, input);
                walker.compound(compound, input);
                if !matches!(compound, CompoundCommand::BraceGroup(_)) {
                    walker.outcome = None;
                }
            }
            ast::Command::Function(function) => {
                let name = function.fname.value.clone();
                // Bash calls it for unknown commands.
                if name == "command_not_found_handle" {
                    let unknown = Environment { foreign: true, ..Environment::default() };
                    walker.traps.push((format!("{name} \"$@\""), unknown));
                }
                let body = Rc::new(function.body.clone());
                let bodies = vec![(body, Rc::clone(&walker.source))];
                let everywhere = walker.all_functions.entry(name.clone());
                let everywhere = everywhere.or_insert(Function { bodies: Vec::new(), sure: false });
                everywhere.bodies.extend(bodies.clone());
                walker.environment.functions.insert(name, Function { bodies, sure: true });
            }
            ast::Command::ExtendedTest(test, redirects) => {
                walker.redirects(redirects.iter().flat_map(|list| &list.0), input);
                walker.test(&test.expr);
                walker.outcome = None;
            }
        });
    }

    /// The values of the variable of a loop: one by one if they are few.
    pub(super) fn each_value(&self, fields: &[Field]) -> Vec<Value> {
        if fields
            .iter()
            .any(|field| matches!(field.pieces(), [Piece::Unknown | Piece::UnknownMany]))
        {
            return vec![Value::Unknown];
        }
        let values: Vec<Field> = fields.iter().map(Field::single).collect();
        if values.is_empty() {
            return vec![Value::Unknown];
        }
        if values.len() <= MAX_UNROLLED && self.loops < 2 {
            return values.into_iter().map(|field| Value::fields(vec![field])).collect();
        }
        let plain = |field: &Field| {
            field.known().is_some_and(|text| !text.contains('/') && text.contains(|c| c != '.'))
        };
        let named = values.iter().all(plain);
        let value = Value::fields(values);
        if named && value == Value::Unknown {
            return vec![Value::fields(vec![Field::of(vec![Piece::Name])])];
        }
        vec![value]
    }

    /// Records the start of a program or builtin.
    pub(super) fn note(&mut self, argv: &[Field], builtin: bool) {
        if !self.another_effect(argv) {
            return;
        }
        let program = argv
            .first()
            .and_then(Field::known_text)
            .filter(|path| !builtin && path.contains('/') && !path.starts_with('/'));
        if let Some(program) = program.map(Cow::into_owned) {
            for place in self.environment.working_directories.places.iter() {
                let directory = place.path.as_ref().and_then(Field::known).unwrap_or_default();
                if !directory.is_empty() {
                    let path = format!("{directory}/{program}");
                    self.reading.by_path.push((program.clone(), path));
                }
            }
        }
        let through = self.through.clone();
        self.reading.runs.push(Run { argv: argv.to_vec(), through, builtin });
    }

    /// Calls a function of the text.
    pub(super) fn call(&mut self, function: &Function, arguments: &[Field], input: &Input) {
        let positional = self.environment.positional.clone();
        self.environment.positional = arguments.iter().map(Field::known).collect();
        let before = self.environment.clone();
        let outer_ways = self.exit_states.of_function.take();
        let mut after: Option<Environment> = None;
        for (body, source) in function.bodies.clone() {
            self.environment = before.clone();
            let outer = std::mem::replace(&mut self.source, source);
            self.deeper("a function", |walker| {
                let redirects = body.1.iter().flat_map(|list| &list.0);
                let input = walker.redirects(redirects, input.clone());
                walker.compound(&body.0, input);
            });
            self.source = outer;
            exit_states::add(&mut after, std::mem::take(&mut self.environment));
        }
        if let Some(left) = std::mem::replace(&mut self.exit_states.of_function, outer_ways) {
            exit_states::add(&mut after, left);
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

/// The variable of an assignment.
pub(super) fn assignment_name(assignment: &Assignment) -> &str {
    match &assignment.name {
        AssignmentName::VariableName(name) | AssignmentName::ArrayElementName(name, _) => name,
    }
}

/// Whether the shell runs the value of this variable at some time.
pub(super) fn runs_its_value(name: &str) -> bool {
    variables::meaning(name) == Some(Meaning::Shell)
}
