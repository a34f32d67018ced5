//! The abstract interpreter: walks the syntax tree as the shell would execute it.
//!
//! Comes in: a text (`Walker::text`). Goes out: what it runs and writes (`Walker::finish`).
//!
//! 1. A text is parsed, and its lists are walked: list, and-or list, pipeline, command.
//! 2. Each command changes the environment (variables, functions, directories) and adds to the reading.
//! 3. Where the shell may continue in several ways, each is walked, and their environments are joined.
//! 4. At the end, the texts of traps are walked, links are followed, and repeated effects are removed.
//!
//! ```text
//! texts             programs, substitutions and arithmetic
//! simple_commands   words, assignments and redirections
//! functions         definitions and calls
//! distinct          removes repeated effects
//! ```
//!
//! Compound commands are in `compound`, early exits in `exit_states`.

mod distinct;
mod functions;
mod simple_commands;
mod texts;

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use brush_parser::ast::{self, Assignment, AssignmentName, CompoundCommand};

use super::budget::Budget;
use super::documents::Document;
use super::environment::{Environment, Function, Value};
use super::exit_states::ExitStates;
use super::field::Field;
use super::redirect::Input;
use super::variables::{self, Meaning};
use super::working_directories::WorkingDirectories;
use super::writers::{Copied, Link};
use super::{HiddenReason, ProgramRun, ShellEffects, inline};

use distinct::distinct;

pub(super) const MAX_ROUNDS: usize = 4;
pub(super) const MAX_SETTINGS: usize = 500;

/// Walks a command and collects what it runs and writes.
#[derive(Debug, Default)]
pub(super) struct Walker {
    pub(super) reading: ShellEffects,
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
    pub(super) fn finish(mut self) -> ShellEffects {
        self.run_traps();
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
        distinct(&mut reading.programs_by_path);
        distinct(&mut reading.hidden);
        reading
    }

    /// Walks the texts of traps: each may run at any time since it was set.
    fn run_traps(&mut self) {
        let at_end = std::mem::take(&mut self.environment);
        while let Some((text, when_set)) = self.traps.pop() {
            let (functions, aliases) = (self.all_functions.clone(), self.all_aliases.clone());
            self.environment = Environment { functions, aliases, ..when_set.until(&at_end) };
            if self.moved {
                self.environment.working_directories = WorkingDirectories::lost();
            }
            let (runs_before, bodies_before) = (self.reading.runs.len(), self.count_bodies());
            self.text(&text);
            let mut programs =
                self.reading.runs.iter().skip(runs_before).filter_map(ProgramRun::program);
            let redefines = ["unset", "alias", "unalias", "shopt"];
            // The trap may change the meaning of what was read before.
            if programs.any(|name| redefines.contains(&name.as_str()))
                || self.count_bodies() > bodies_before
            {
                self.hide(HiddenReason::RunsText, &text);
            }
        }
    }

    fn count_bodies(&self) -> usize {
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

    fn and_or(&mut self, and_or: &ast::AndOrList) {
        self.pipeline(&and_or.first);
        if and_or.additional.is_empty() {
            return;
        }
        let (mut succeeded, mut failed) = self.outcomes();
        for more in &and_or.additional {
            match more {
                ast::AndOr::And(pipeline) => {
                    self.environment = succeeded;
                    self.pipeline(pipeline);
                    let (both_succeeded, second_failed) = self.outcomes();
                    (succeeded, failed) = (both_succeeded, failed.join(second_failed));
                }
                ast::AndOr::Or(pipeline) => {
                    self.environment = failed;
                    self.pipeline(pipeline);
                    let (second_succeeded, both_failed) = self.outcomes();
                    (succeeded, failed) = (succeeded.join(second_succeeded), both_failed);
                }
            }
        }
        self.outcome = (!succeeded.ended && !failed.ended)
            .then(|| (succeeded.working_directories.clone(), failed.working_directories.clone()));
        self.environment = succeeded.join(failed);
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline) {
        let [only] = pipeline.seq.as_slice() else {
            return self.connected_commands(&pipeline.seq);
        };
        self.command(only, Input::Inherited);
        if pipeline.bang {
            self.outcome = self.outcome.take().map(|(succeeded, failed)| (failed, succeeded));
        }
    }

    /// Commands with pipes between them: each runs in a subshell of its own.
    fn connected_commands(&mut self, commands: &[ast::Command]) {
        let mut input = Input::Inherited;
        for (index, command) in commands.iter().enumerate() {
            let before = self.environment.clone();
            let output = if index == 0 { self.piped(command) } else { input.filtered(command) };
            let input = std::mem::replace(&mut input, output);
            self.subshell_depth += 1;
            self.command(command, input);
            self.subshell_depth -= 1;
            let after = std::mem::replace(&mut self.environment, before);
            // With `lastpipe`, the last command runs in this shell.
            if index + 1 == commands.len() {
                self.join_environment(after);
            }
        }
        self.outcome = None;
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
            ast::Command::Function(function) => walker.define_function(function),
            ast::Command::ExtendedTest(test, redirects) => {
                walker.redirects(redirects.iter().flat_map(|list| &list.0), input);
                walker.test(&test.expr);
                walker.outcome = None;
            }
        });
    }

    /// The environments after the last command: if it succeeded, and if it failed.
    pub(super) fn outcomes(&mut self) -> (Environment, Environment) {
        let succeeded = std::mem::take(&mut self.environment);
        let failed = succeeded.clone();
        match self.outcome.take() {
            Some((if_succeeded, if_failed)) => (
                Environment { working_directories: if_succeeded, ..succeeded },
                Environment { working_directories: if_failed, ..failed },
            ),
            None => (succeeded, failed),
        }
    }

    /// Continues with what is known in either case: after this way, or after another one.
    pub(super) fn join_environment(&mut self, other: Environment) {
        let ours = std::mem::take(&mut self.environment);
        self.environment = ours.join(other);
    }

    /// Records the start of a program or builtin.
    pub(super) fn record_run(&mut self, argv: &[Field], builtin: bool) {
        if !self.another_effect(argv) {
            return;
        }
        let relative_path = argv
            .first()
            .and_then(Field::known_text)
            .filter(|path| !builtin && path.contains('/') && !path.starts_with('/'));
        if let Some(program) = relative_path.map(Cow::into_owned) {
            for place in self.environment.working_directories.places.iter() {
                let directory = place.path.as_ref().and_then(Field::known).unwrap_or_default();
                if !directory.is_empty() {
                    let path = format!("{directory}/{program}");
                    self.reading.programs_by_path.push((program.clone(), path));
                }
            }
        }
        let through = self.through.clone();
        self.reading.runs.push(ProgramRun { argv: argv.to_vec(), through, builtin });
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
