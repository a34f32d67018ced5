//! Partial knowledge of values that are not plain text: `$HOME`, `$(mktemp)`, `$(basename "$f")`, `${f%.rs}`.

use brush_parser::ast;
use brush_parser::word::ParameterExpr;

use super::environment::Value;
use super::field::{Field, Piece};
use super::parse;
use super::piped::only_words_of;
use super::walk::Walker;
use super::working_directories::WorkingDirectories;

impl Walker {
    /// A variable, also one that the text leaves alone.
    pub(super) fn named(&self, name: &str) -> Value {
        if !self.environment.is_untouched(name) {
            return self.environment.get(name);
        }
        let field = match name {
            "HOME" => self.home(None),
            "PWD" => self.pwd(),
            "TMPDIR" => Field::of(vec![Piece::Temporary]),
            "RANDOM" | "SRANDOM" | "SECONDS" | "EPOCHSECONDS" | "LINENO" | "UID" | "EUID"
            | "PPID" | "BASHPID" => Field::of(vec![Piece::Name]),
            _ => return self.environment.get(name),
        };
        // Without a directory for temporary files, this would be nothing at all.
        if name == "TMPDIR" {
            Value::Fields(vec![field, Field::text("")])
        } else {
            Value::fields(vec![field])
        }
    }

    /// `$PWD`.
    pub(super) fn pwd(&self) -> Field {
        if self.environment.is_untouched("PWD") {
            self.working_directory()
        } else {
            Field::unknown()
        }
    }

    /// The known output of a substitution.
    pub(super) fn printed(&mut self, text: &str) -> Option<Field> {
        // Only a short text without anything in it is one of those.
        if text.len() > 1000 || !self.spend(text.len()) {
            return None;
        }
        let program = parse::program(text.trim())?;
        let words = only_words(&program.tree)?;
        let (name, arguments) = words.split_first()?;
        let lists = ["find", "grep", "egrep", "fgrep", "rg"].contains(&name.as_str());
        let known = ["mktemp", "pwd", "basename", "dirname", "date", "seq", "nproc"];
        let shadowed = self.environment.functions.contains_key(name.as_str())
            || self.environment.aliases.contains_key(name.as_str());
        let unknown = !known.contains(&name.as_str()) && !lists;
        if unknown || shadowed || !self.environment.is_untouched("PATH") {
            return None;
        }
        let mut fields = Vec::new();
        for argument in arguments {
            let alternatives = self.word(argument);
            let [alternative] = alternatives.as_slice() else { return None };
            fields.extend(alternative.iter().cloned());
        }
        if lists {
            let argv: Vec<Field> = [Field::text(name)].into_iter().chain(fields).collect();
            return self.names_found(&argv);
        }
        if name == "pwd" {
            return (fields.is_empty()).then(|| self.pwd());
        }
        if name == "mktemp" && !self.environment.is_untouched("TMPDIR") {
            return None;
        }
        output(name, &fields)
    }

    /// Names of files that are found below one place; not if files of git may be among them, which
    /// are where the command starts, or above.
    fn names_found(&self, argv: &[Field]) -> Option<Field> {
        let found = self.found(argv)?;
        let here = self.environment.working_directories == WorkingDirectories::default();
        let deeper = |file: &String| {
            let place = file.rsplit_once("/.git").map_or("", |(place, _)| place);
            here && !place.starts_with('/')
                && place.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
        };
        let [field] = found.fields.as_slice() else { return None };
        found.of_git.iter().all(deeper).then(|| field.clone())
    }

    /// `${f%.rs}`, `${f##*/}` and their like.
    pub(super) fn trimmed(&mut self, expression: &ParameterExpr) -> Option<Vec<Field>> {
        if let ParameterExpr::RemoveSmallestSuffixPattern {
            parameter,
            indirect: false,
            pattern: Some(pattern),
        } = expression
        {
            let values = self.value(parameter).possible()?;
            return values.iter().map(|value| short_suffix(value, pattern)).collect();
        }
        if let ParameterExpr::RemoveLargestPrefixPattern {
            parameter,
            indirect: false,
            pattern: Some(pattern),
        } = expression
        {
            let values = self.value(parameter).possible()?;
            return values.iter().map(|value| long_prefix(value, pattern)).collect();
        }
        None
    }
}

/// The output of a program, as far as its arguments determine it.
fn output(name: &str, arguments: &[Field]) -> Option<Field> {
    match (name, arguments) {
        ("mktemp", arguments) => {
            makes_temporary(arguments).then(|| Field::of(vec![Piece::Temporary]))
        }
        ("basename", [path]) => path.split_name().map(|(_, name)| name.single()).filter(is_name),
        ("basename", [path, suffix]) => {
            let (_, name) = path.split_name()?;
            let suffix = suffix.known()?;
            name.single().without_suffix(&suffix).filter(is_name)
        }
        ("dirname", [path]) => path.parent().map(|parent| parent.single()),
        ("date", [format]) => {
            let format = format.known()?;
            let plain = |c: char| c.is_ascii_alphanumeric() || "+%-_T".contains(c);
            let slashes = ["%D", "%x", "%c", "%E", "%O"];
            let clear = format.starts_with('+') && format.chars().all(plain);
            (clear && !slashes.iter().any(|slash| format.contains(slash)))
                .then(|| Field::of(vec![Piece::Name]))
        }
        ("nproc", []) => Some(Field::of(vec![Piece::Name])),
        ("seq", arguments) => {
            let number = |field: &Field| {
                field.known().is_none_or(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            };
            arguments.iter().all(number).then(|| Field::of(vec![Piece::Names]))
        }
        _ => None,
    }
}

/// Whether `mktemp` creates something in the directory for temporary files: without a template, with `--tmpdir`, or
/// below `/tmp`.
fn makes_temporary(arguments: &[Field]) -> bool {
    let Some(words) = arguments.iter().map(Field::known).collect::<Option<Vec<String>>>() else {
        return false;
    };
    let mut there = false;
    let mut names = Vec::new();
    for word in &words {
        match word.as_str() {
            "-d" | "--directory" | "-q" | "--quiet" | "-dq" | "-qd" => {}
            "-t" | "-dt" | "-td" | "--tmpdir" => there = true,
            _ if word.starts_with("--suffix=") && !word.contains('/') => {}
            _ if word.starts_with('-') => return false,
            name => names.push(name),
        }
    }
    names.iter().all(|name| match name.strip_prefix("/tmp/") {
        Some(rest) => !there && !rest.split('/').any(|part| part == ".."),
        None => there && !name.contains('/'),
    })
}

/// A name in any directory: not `..`, not empty.
fn is_name(field: &Field) -> bool {
    field.known().is_none_or(|text| !text.is_empty() && text != "..")
}

fn short_suffix(value: &Field, pattern: &str) -> Option<Field> {
    if pattern == "/*" {
        if let Some(text) = value.known() {
            return Some(Field::text(
                text.rsplit_once('/').map_or(text.as_str(), |(head, _)| head),
            ));
        }
        return match value.split_name()? {
            (Some(parent), _) => Some(parent),
            (None, name) => Some(name),
        };
    }
    // `.*` takes the last ending away, wherever it is.
    if pattern == ".*" {
        let text = value.known()?;
        return Some(Field::text(text.rsplit_once('.').map_or(text.as_str(), |(stem, _)| stem)));
    }
    match (value.without_suffix(pattern), value.known()) {
        (Some(shorter), _) => Some(shorter),
        (None, Some(_)) if !pattern.contains(['*', '?', '[', '\\', '$', '"', '\'']) => {
            Some(value.clone())
        }
        (None, _) => None,
    }
}

fn long_prefix(value: &Field, pattern: &str) -> Option<Field> {
    if pattern != "*/" {
        return None;
    }
    match value.known() {
        Some(text) => Some(Field::text(text.rsplit('/').next().unwrap_or_default())),
        None => value.split_name().map(|(_, name)| name),
    }
}

/// The words of a text that is one plain command without anything around it.
fn only_words(program: &ast::Program) -> Option<Vec<String>> {
    let [list] = program.complete_commands.as_slice() else { return None };
    let [ast::CompoundListItem(and_or, ast::SeparatorOperator::Sequence)] = list.0.as_slice()
    else {
        return None;
    };
    let [ast::Command::Simple(simple)] = and_or.first.seq.as_slice() else { return None };
    if !and_or.additional.is_empty() || and_or.first.bang {
        return None;
    }
    only_words_of(simple)
}
