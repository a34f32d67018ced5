//! Simple commands: their words, assignments and redirections.

use brush_parser::ast::{self, AssignmentValue, CommandPrefixOrSuffixItem};

use super::{Walker, assignment_name};
use crate::shell::environment::Environment;
use crate::shell::expand::product;
use crate::shell::field::{Field, Piece};
use crate::shell::redirect::Input;
use crate::shell::working_directories::WorkingDirectories;
use crate::shell::{HiddenReason, exit_states, parse};

impl Walker {
    pub(in crate::shell) fn simple(&mut self, simple: &ast::SimpleCommand, input: Input) {
        // A trap may run between any two commands.
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
        // `[` is the name of a command here, not a pattern.
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
        let prefix_values = self.temporarily(&assignments);
        self.redirected |= name.value == "exec" && input != Input::Inherited;
        let has_input = self.shared_stdin || self.redirected;
        let input = if has_input && input == Input::Inherited { Input::Pipe } else { input };
        if let [argv] = alternatives.as_slice() {
            self.outcome = None;
            self.remember_text(argv, &input, written);
            self.prefix_assignments.clone_from(&prefix_values);
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
            self.prefix_assignments.clone_from(&prefix_values);
            self.start(&argv, &input, &declared);
            self.prefix_assignments.clear();
            exit_states::add(&mut after, std::mem::take(&mut self.environment));
        }
        self.environment = after.unwrap_or(before);
        self.outcome = None;
    }

    /// `exec {name}>file` only opens the file. In other commands, such a word may change what runs.
    pub(in crate::shell) fn descriptor_names(&mut self, simple: &ast::SimpleCommand) {
        let mut words = words_of(simple);
        if words.next() != Some("exec") || !words.all(names_descriptor) {
            return self.hide(HiddenReason::Unreadable, "a redirection to {name}");
        }
        for name in words_of(simple).skip(1) {
            self.environment.forget(name.trim_matches(['{', '}']));
        }
    }

    /// Whether this name is the builtin that changes the directory.
    pub(in crate::shell) fn is_cd(&self, name: &str) -> bool {
        matches!(name, "cd" | "pushd" | "popd")
            && !self.environment.functions.contains_key(name)
            && !self.environment.aliases.contains_key(name)
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

/// Whether a word is a `{name}` in front of a redirection. It belongs to the redirection, which the parser does not
/// know.
fn names_descriptor(word: &str) -> bool {
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'))
        && !word.contains(',')
}
