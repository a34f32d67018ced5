//! The abstract interpreter: goes through the syntax tree as the shell would.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::rc::Rc;

use brush_parser::ast::{
    self, Assignment, AssignmentName, AssignmentValue, CommandPrefixOrSuffixItem, CompoundCommand,
};

use super::budget::Budget;
use super::documents::{self, Document};
use super::environment::{Environment, Function, Value};
use super::exit_states::{self, ExitStates};
use super::expand::product;
use super::field::{Field, Piece};
use super::redirect::Input;
use super::variables::{self, Meaning};
use super::working_directories::WorkingDirectories;
use super::writers::{Copied, Link};
use super::{HiddenReason, Reading, Run, guard, inline, parse};

pub(super) const MAX_ROUNDS: usize = 4;
pub(super) const MAX_SETTINGS: usize = 500;
const MAX_UNROLLED: usize = 8;

/// Walks a command and collects what it runs and writes.
#[derive(Debug, Default)]
pub(super) struct Walker {
    pub(super) reading: Reading,
    pub(super) environment: Environment,
    pub(super) through: Vec<String>,
    /// Whether commands read what a pipe or a document gives to several of them.
    pub(super) shared_stdin: bool,
    /// Whether `exec` may have given the shell itself something else to read.
    pub(super) redirected: bool,
    /// Texts that run at some later moment.
    pub(super) traps: Vec<(String, Environment)>,
    /// Such a text may have changed every variable.
    pub(super) forget_later: bool,
    /// Whether the command may have left the directory in which it started.
    pub(super) moved: bool,
    /// Where the last command leads if it works, and if it does not.
    pub(super) outcome: Option<(WorkingDirectories, WorkingDirectories)>,
    /// Links that the command makes.
    pub(super) links: Vec<Link>,
    /// What it copies together with the links in it.
    pub(super) copies: Vec<Copied>,
    /// How many subshells stand around the command.
    pub(super) subshell_depth: usize,
    /// How many loops stand around the command.
    pub(super) loops: usize,
    /// Every function that is defined anywhere.
    pub(super) all_functions: HashMap<String, Function>,
    /// Every alias that is defined anywhere.
    pub(super) all_aliases: HashMap<String, Option<String>>,
    /// Somewhere the value of a variable is evaluated as a number.
    pub(super) evaluated: bool,
    /// Somewhere a quoted text would run something if it were evaluated.
    pub(super) quoted_code: bool,
    /// Somewhere a quoted text has a subscript, without which nothing in it is run.
    pub(super) quoted_subscript: bool,
    pub(super) exit_states: ExitStates,
    /// The text that is being read, for places in it.
    pub(super) source: Rc<str>,
    /// Variables that stand in front of the command that is started next.
    pub(super) prefix_assignments: Vec<(String, Value)>,
    /// Texts of files that the command writes.
    pub(super) written: inline::WrittenFiles,
    /// Here documents that were taken out of the text.
    pub(super) documents: Vec<Document>,
    pub(super) budget: Budget,
}

impl Walker {
    /// Everything that was gathered, each thing once.
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
            // What was read before may have meant something else by then.
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
            self.hide(HiddenReason::RunsText, "a number that may be worked out from quoted text");
        }
        self.follow_links();
        let mut reading = self.reading;
        distinct(&mut reading.runs);
        distinct(&mut reading.writes);
        distinct(&mut reading.unseen);
        distinct(&mut reading.by_path);
        distinct(&mut reading.hidden);
        reading
    }

    pub(super) fn count_bodies(&self) -> usize {
        self.all_functions.values().map(|function| function.bodies.len()).sum()
    }

    /// Reads a text in the environment of now.
    pub(super) fn text(&mut self, text: &str) {
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

    /// Reads a text whose here documents are data; whether the parser finds them at the same places.
    fn text_without_documents(&mut self, text: &str) -> bool {
        let first = self.documents.len();
        let Some(lifted) = documents::extract(text, first) else { return false };
        let Ok(prepared) = guard::prepare(&lifted.text) else { return false };
        let Some(program) = parse::program(&prepared) else { return false };
        let found = |(number, document): (usize, &Document)| {
            document.inside || program.documents.contains(&(first + number))
        };
        let agrees = lifted.documents.iter().enumerate().all(found);
        if agrees {
            self.documents.extend(lifted.documents);
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

    pub(super) fn complete_command(&mut self, list: &ast::CompoundList) {
        let outer = self.exit_states.of_command.take();
        self.list(list);
        let left = std::mem::replace(&mut self.exit_states.of_command, outer);
        if let Some(left) = left {
            self.meet(left.clone());
            // Whether an error is caught here or further outside is not followed.
            exit_states::add(&mut self.exit_states.of_command, left);
        }
    }

    /// What a subshell does leaves no trace in the environment.
    pub(super) fn in_subshell(&mut self, work: impl FnOnce(&mut Self)) {
        if !self.spend_copy() {
            return;
        }
        let kept = self.environment.clone();
        self.subshell_depth += 1;
        work(self);
        self.subshell_depth -= 1;
        self.environment = kept;
    }

    /// Bash prints a substitution again before it runs it, and misplaces here documents in it that
    /// stand inside of something: only one that belongs to a plain command is sure.
    pub(super) fn substitution(&mut self, text: &str) {
        if !self.spend(text.len()) {
            return;
        }
        let document = text.replace("<<<", "").contains("<<");
        if document && !parse::program(text).is_some_and(|program| is_plain(&program.tree)) {
            self.hide(HiddenReason::Unreadable, "a here document inside of a substitution");
        }
        self.in_subshell(|walker| walker.text(text));
    }

    pub(super) fn aside(&mut self, list: &ast::CompoundList) {
        // It is printed again as well, and a document inside of something is then misplaced.
        if !self.spend(self.source.len()) {
            return;
        }
        let document = self.source.replace("<<<", "").contains("<<");
        if document && !is_plain_list(std::slice::from_ref(list)) {
            self.hide(HiddenReason::Unreadable, "a here document inside of a substitution");
        }
        self.in_subshell(|walker| walker.list(list));
    }

    /// Arithmetic runs what is substituted in it, also in the subscripts of its variables.
    pub(super) fn arithmetic(&mut self, expression: &str) {
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

    /// Where a number is expected, the value of a variable is evaluated again, and with it what is
    /// substituted in its subscripts.
    pub(super) fn evaluates(&mut self, expression: &str) {
        if expression.contains(|c: char| c.is_alphabetic() || c == '_' || c == '$') {
            self.evaluated = true;
        }
    }

    /// Text that would run something if it were evaluated. Which variables it comes into is not
    /// followed.
    pub(super) fn data(&mut self, text: &str) {
        self.quoted_code |= text.contains("$(") || text.contains('`');
        self.quoted_subscript |= has_subscript(text);
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

    /// The environment if the last command worked, and if it did not.
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

    pub(super) fn meet(&mut self, other: Environment) {
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
                // With `lastpipe` the last one runs in this shell.
                if index + 1 == pipeline.seq.len() {
                    self.meet(after);
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
                // Bash calls it by itself.
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

    pub(super) fn simple(&mut self, simple: &ast::SimpleCommand, input: Input) {
        // A trap that was set may run between any two commands.
        if self.forget_later {
            self.environment.forget_all();
            self.environment.positional = None;
            if self.moved {
                self.environment.working_directories = WorkingDirectories::lost();
            }
        }
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        let mut assignments = Vec::new();
        let mut redirects = Vec::new();
        for item in prefix {
            match item {
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    assignments.push(assignment);
                }
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => redirects.push(redirect),
                CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                    self.aside(&subshell.list);
                }
                CommandPrefixOrSuffixItem::Word(word) => {
                    self.hide(HiddenReason::Unreadable, &word.value)
                }
            }
        }
        let Some(name) = &simple.word_or_name else {
            for assignment in assignments {
                self.assign(assignment);
            }
            self.redirects(redirects, input);
            self.outcome = None;
            return;
        };
        // The command of this name is no text that is evaluated.
        let mut alternatives = match name.value.as_str() {
            "[" => vec![vec![Field::text("[")]],
            word => self.word(word),
        };
        let mut declared = Vec::new();
        for item in suffix {
            match item {
                CommandPrefixOrSuffixItem::Word(word) => {
                    alternatives = self.append_word(alternatives, &word.value);
                }
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                    declared.push(assignment);
                    let more = match assignment.value {
                        AssignmentValue::Scalar(_) => self.word(&word.value),
                        AssignmentValue::Array(_) => {
                            let name = assignment_name(assignment);
                            let named = Field::text(format!("{name}="));
                            vec![vec![named.joined(&Field::unknown())]]
                        }
                    };
                    alternatives = product(alternatives, more);
                }
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => redirects.push(redirect),
                CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                    self.aside(&subshell.list);
                    let pipe = Field::of(vec![Piece::Pipe]);
                    alternatives = product(alternatives, vec![vec![pipe]]);
                }
            }
        }
        let written = self.reading.writes.len();
        if !redirects.is_empty() && words_of(simple).any(names_descriptor) {
            self.descriptor_names(simple);
        }
        let input = self.redirects(redirects, input);
        let quoted = name.value.contains(['\'', '"', '\\']);
        if parse::is_reserved(&name.value) && !quoted {
            return self.hide(HiddenReason::Unreadable, &name.value);
        }
        let handed = self.temporarily(&assignments);
        self.redirected |= name.value == "exec" && input != Input::Inherited;
        let fed = self.shared_stdin || self.redirected;
        let input = if fed && input == Input::Inherited { Input::Pipe } else { input };
        if let [argv] = alternatives.as_slice() {
            self.outcome = None;
            self.remember_text(argv, &input, written);
            self.prefix_assignments.clone_from(&handed);
            self.start(argv, &input, &declared);
            self.prefix_assignments.clear();
            if !self.is_cd(&name.value) {
                self.outcome = None;
            }
            return;
        }
        let before = self.environment.clone();
        let mut after: Option<Environment> = None;
        for argv in alternatives {
            if !self.spend_copy() {
                break;
            }
            self.environment = before.clone();
            self.outcome = None;
            self.remember_text(&argv, &input, written);
            self.prefix_assignments.clone_from(&handed);
            self.start(&argv, &input, &declared);
            self.prefix_assignments.clear();
            exit_states::add(&mut after, std::mem::take(&mut self.environment));
        }
        self.environment = after.unwrap_or(before);
        self.outcome = None;
    }

    /// `exec {name}>file` only opens the file; what else such words are would change the command.
    pub(super) fn descriptor_names(&mut self, simple: &ast::SimpleCommand) {
        let mut words = words_of(simple);
        if words.next() != Some("exec") || !words.all(names_descriptor) {
            return self.hide(HiddenReason::Unreadable, "a redirection to {name}");
        }
        for name in words_of(simple).skip(1) {
            self.environment.forget(name.trim_matches(['{', '}']));
        }
    }

    /// Whether a command of this name is what the shell knows by it.
    pub(super) fn is_cd(&self, name: &str) -> bool {
        matches!(name, "cd" | "pushd" | "popd")
            && !self.environment.functions.contains_key(name)
            && !self.environment.aliases.contains_key(name)
    }

    /// The values that a variable takes in a loop, one after the other if they are few.
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

    /// Notes a program or builtin that is started.
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
        // What is local to the function is forgotten, and that is not followed.
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

/// The variable that an assignment is to.
pub(super) fn assignment_name(assignment: &Assignment) -> &str {
    match &assignment.name {
        AssignmentName::VariableName(name) | AssignmentName::ArrayElementName(name, _) => name,
    }
}

fn words_of(simple: &ast::SimpleCommand) -> impl Iterator<Item = &str> {
    let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
    let words = suffix.filter_map(|item| match item {
        CommandPrefixOrSuffixItem::Word(word) => Some(word.value.as_str()),
        CommandPrefixOrSuffixItem::IoRedirect(_)
        | CommandPrefixOrSuffixItem::AssignmentWord(..)
        | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => None,
    });
    simple.word_or_name.iter().map(|name| name.value.as_str()).chain(words)
}

/// `{name}` in front of a redirection belongs to it, which the parser does not know.
fn names_descriptor(word: &str) -> bool {
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'))
        && !word.contains(',')
}

/// One pipeline of simple commands.
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

/// Whether a text, or what it is the end of, may have a subscript: `a[1]`.
fn has_subscript(text: &str) -> bool {
    text.match_indices('[').any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        before.is_empty() || before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// Variables whose value the shell runs sooner or later.
pub(super) fn runs_its_value(name: &str) -> bool {
    variables::meaning(name) == Some(Meaning::Shell)
}

fn distinct<T: Eq + Hash>(items: &mut Vec<T>) {
    if items.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity_and_hasher(
        items.len(),
        BuildHasherDefault::<QuickHasher>::default(),
    );
    let first: Vec<bool> = items.iter().map(|item| seen.insert(item)).collect();
    let mut first = first.into_iter();
    items.retain(|_| first.next().unwrap_or(true));
}

/// FNV-1a by words: what an attacker gains by equal hashes is bounded by the number of effects.
#[derive(Default)]
struct QuickHasher(u64);

impl QuickHasher {
    fn add(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.add(chunk.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.add(u64::try_from(value).unwrap_or(u64::MAX));
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
