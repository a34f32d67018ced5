//! Code of other languages in the text: `python -c`, `awk '…'`, `node <<E`.
//!
//! Small readers, not interpreters: they see the names in code, and known calls that start programs, write files or
//! run text, with literal texts. Anything else that could do so is hidden.
//!
//! ```text
//!  interpreters ─▶ options ─▶ the code ─▶ tokens ─▶ code ◀── languages
//!                                 └─▶ awk, sed: readers of their own
//!  unread: editors, rarer languages, whose code nobody here reads
//! ```

mod awk;
mod code;
mod configured;
mod files;
mod interpreters;
mod languages;
mod modules;
mod options;
mod sed;
mod tokens;
mod tools;
mod unread;
mod values;
mod written;

pub(super) use configured::{configured, startup};
pub(super) use files::{by_path, script, sourced};
pub(super) use written::WrittenFiles;

use files::{imported, preloaded};

use self::interpreters::{Interpreter, Reader};
use self::options::ParsedOptions;
use super::field::Field;
use super::redirect::Input;
use super::variables::{self, Meaning};
use super::walk::Walker;
use super::{HiddenReason, WriteKind};

/// How the text of a file is read.
#[derive(Clone, Copy)]
pub(super) enum ScriptLanguage {
    Shell,
    Interpreter(&'static Interpreter),
}

/// Looks into the code that an interpreter of this name is given; whether it is an interpreter.
pub(super) fn look_into(
    walker: &mut Walker,
    name: &str,
    arguments: &[Field],
    input: &Input,
) -> bool {
    if let Some(interpreter) = interpreters::find(name) {
        interpret(walker, interpreter, arguments, input);
        return true;
    }
    match name {
        "deno" => deno(walker, arguments, input),
        "bun" => return bun(walker, arguments, input),
        _ => {
            return unread::analyse(walker, name, arguments, input)
                || tools::analyse(walker, name, arguments, input);
        }
    }
    true
}

/// A variable that is set: what other programs run of it.
pub(super) fn variable(walker: &mut Walker, name: &str, values: Option<Vec<String>>) {
    if name == "GOFLAGS" {
        for value in values.iter().flatten() {
            let words: Vec<Field> = value.split_whitespace().map(Field::text).collect();
            tools::toolexec(walker, &words);
        }
        return;
    }
    let known = values.as_deref();
    let loads = match known {
        Some(values) => values.iter().any(|value| variables::loads_code(name, Some(value))),
        None => variables::loads_code(name, None),
    };
    // The gates for git handle variables that control git.
    if loads && !name.starts_with("GIT_") {
        return walker.hide(HiddenReason::RunsText, name);
    }
    if variables::meaning(name) != Some(Meaning::Command) {
        return;
    }
    match values {
        Some(values) => {
            for value in values {
                let command = value.trim_start_matches('|').to_owned();
                walker.in_new_shell(&command, None);
            }
        }
        None => walker.hide(HiddenReason::ComputedText, name),
    }
}

fn read(walker: &mut Walker, reading: ScriptLanguage, text: &str) {
    match reading {
        ScriptLanguage::Shell => walker.in_new_shell(text, None),
        ScriptLanguage::Interpreter(interpreter) => {
            read_code(walker, interpreter.reader, text, &[])
        }
    }
}

fn read_code(walker: &mut Walker, reader: Reader, text: &str, variables: &[(String, String)]) {
    match reader {
        Reader::Tokens(language) => code::analyse(walker, language, text),
        Reader::Awk => awk::analyse(walker, text, variables),
        Reader::Sed => sed::analyse(walker, text),
    }
}

/// Codes of a line each: a hole in them is a value more often than not.
fn is_of_lines(reader: Reader) -> bool {
    matches!(reader, Reader::Awk | Reader::Sed)
}

fn interpret(
    walker: &mut Walker,
    interpreter: &'static Interpreter,
    arguments: &[Field],
    input: &Input,
) {
    let mut parsed = interpreter.options.read(arguments);
    let by = walker.through.last().cloned().unwrap_or_default();
    if let Some(unsure) = parsed.unsure.take() {
        return walker.hide(HiddenReason::ComputedText, &unsure.to_string());
    }
    if parsed.prompt {
        walker.hide(HiddenReason::Interactive, &by);
    }
    if parsed.module {
        for file in parsed.rest.iter().chain(parsed.values.iter().map(|(_, value)| value)) {
            imported(walker, &file.to_string());
        }
        let name = parsed.values.iter().rev().find(|(letter, _)| *letter == 'm');
        if let Some((_, name)) = name {
            modules::analyse(walker, &name.to_string(), parsed.rest);
        }
        return;
    }
    if interpreter.first_is_code
        && parsed.texts.is_empty()
        && parsed.files.is_empty()
        && let Some((first, rest)) = parsed.rest.split_first()
    {
        parsed.texts.push(first.clone());
        parsed.rest = rest;
    }
    for file in parsed.files.clone() {
        match file.known().as_deref() {
            Some("-" | "/dev/stdin") => from_input(walker, interpreter, input, &by),
            _ => script(walker, ScriptLanguage::Interpreter(interpreter), &file),
        }
    }
    preloaded(walker, interpreter, &parsed);
    let assigned = variables(&parsed);
    if !parsed.texts.is_empty() {
        texts(walker, interpreter, &parsed, &assigned);
        in_place(walker, &parsed, &by);
        magic_open(walker, interpreter, &parsed);
        return;
    }
    if !parsed.files.is_empty() || parsed.quiet {
        return in_place(walker, &parsed, &by);
    }
    match parsed.rest.first() {
        Some(file) if file.known().as_deref() != Some("-") => {
            script(walker, ScriptLanguage::Interpreter(interpreter), file);
        }
        _ if !interpreter.reads_input => {}
        _ => from_input(walker, interpreter, input, &by),
    }
}

fn from_input(walker: &mut Walker, interpreter: &'static Interpreter, input: &Input, by: &str) {
    match input {
        Input::Text(Some(texts)) => {
            for text in texts.clone() {
                read_code(walker, interpreter.reader, &text, &[]);
            }
        }
        Input::Text(None) => walker.hide(HiddenReason::ComputedText, "a here document"),
        Input::Pipe | Input::Names(_) => walker.hide(HiddenReason::PipedIntoShell, by),
        Input::File(file) => {
            script(walker, ScriptLanguage::Interpreter(interpreter), &file.clone())
        }
        Input::Inherited => walker.waits(by),
    }
}

/// Several texts are one code, a line each.
fn texts(
    walker: &mut Walker,
    interpreter: &'static Interpreter,
    parsed: &ParsedOptions<'_>,
    variables: &[(String, String)],
) {
    let mut whole = Vec::new();
    for text in &parsed.texts {
        match text.known() {
            Some(text) => whole.push(text),
            None => {
                let code = text.with_holes();
                if !is_of_lines(interpreter.reader) || !decides(interpreter.reader, &code) {
                    return walker.hide(HiddenReason::ComputedText, &code);
                }
                whole.push(code);
            }
        }
    }
    read_code(walker, interpreter.reader, &whole.join("\n"), variables);
}

/// Whether a script with unknown parts can still be read: none must be where a command is. In sed, it then counts as
/// the number of a line.
fn decides(reader: Reader, code: &str) -> bool {
    let mut before = ';';
    for c in code.chars() {
        if c == '…' && matches!(before, '{' | '}' | ';' | '\n') && matches!(reader, Reader::Awk) {
            return false;
        }
        if c == '\n' || !c.is_whitespace() {
            before = c;
        }
    }
    code.chars().any(|c| c != '…' && !c.is_whitespace())
}

/// `-v name=value` of awk.
fn variables(parsed: &ParsedOptions<'_>) -> Vec<(String, String)> {
    let set = parsed.values.iter().filter(|(letter, _)| *letter == 'v');
    let known = set.filter_map(|(_, value)| value.known());
    known
        .filter_map(|text| {
            let (name, value) = text.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// `perl -pi -e`, `sed -i`, `gawk -i inplace`: the files behind are changed.
fn in_place(walker: &mut Walker, parsed: &ParsedOptions<'_>, by: &str) {
    let included = parsed.values.iter().any(|(letter, value)| {
        *letter == 'i' && value.known().is_some_and(|text| text.starts_with("inplace"))
    });
    let suffixes = parsed.values.iter().filter(|(letter, _)| *letter == 'i' && !included);
    let suffixes: Vec<Option<String>> = suffixes.map(|(_, suffix)| suffix.known()).collect();
    if parsed.in_place || included {
        for file in parsed.rest {
            walker.wrote(file.clone(), WriteKind::Change, by);
            for suffix in &suffixes {
                let backup = match suffix.as_deref() {
                    Some("") => continue,
                    Some(suffix) if !suffix.contains('*') => file.followed_by(suffix),
                    Some(_) | None => Field::unknown(),
                };
                walker.wrote(backup, WriteKind::Change, by);
            }
        }
    }
}

/// A file name for `<>` in perl and ruby is run if it starts or ends with a bar.
fn magic_open(walker: &mut Walker, interpreter: &'static Interpreter, parsed: &ParsedOptions<'_>) {
    let Reader::Tokens(language) = interpreter.reader else { return };
    if language.style != tokens::Style::Perl {
        return;
    }
    for name in parsed.rest.iter().filter_map(Field::known) {
        let name = name.trim();
        if let Some(command) = name.strip_prefix('|').or_else(|| name.strip_suffix('|')) {
            walker.handed_to_shell(&Field::text(command));
        } else if let Some(file) = name.strip_prefix('>') {
            walker.wrote(
                Field::text(file.trim_start_matches(['>', ' '])),
                WriteKind::Change,
                "perl",
            );
        }
    }
}

fn deno(walker: &mut Walker, arguments: &[Field], input: &Input) {
    let Some((command, rest)) = arguments.split_first() else {
        return walker.hide(HiddenReason::Interactive, "deno");
    };
    let operand = rest.iter().find(|field| !field.to_string().starts_with('-'));
    match command.known().as_deref() {
        Some("eval") => match operand.map(Field::known) {
            Some(Some(text)) => code::analyse(walker, &languages::JAVASCRIPT, &text),
            Some(None) => walker.hide(HiddenReason::ComputedText, "deno eval"),
            None => {}
        },
        Some("run") => {
            let Some(node) = interpreters::find("node") else { return };
            match rest.iter().find(|field| {
                field.known().as_deref() == Some("-") || !field.to_string().starts_with('-')
            }) {
                Some(file) if file.known().as_deref() != Some("-") => {
                    script(walker, ScriptLanguage::Interpreter(node), file);
                }
                _ => from_input(walker, node, input, "deno"),
            }
        }
        Some("repl") => walker.hide(HiddenReason::Interactive, "deno"),
        Some(_) => {}
        None => walker.hide(HiddenReason::ComputedText, "deno"),
    }
}

/// Whether it was all there is to see; `bun x` starts a program.
fn bun(walker: &mut Walker, arguments: &[Field], input: &Input) -> bool {
    let Some((command, rest)) = arguments.split_first() else { return true };
    let Some(node) = interpreters::find("node") else { return true };
    match command.known().as_deref() {
        Some("x") => return false,
        Some("-e" | "-p" | "--eval" | "--print") => interpret(walker, node, arguments, input),
        Some("run") => match rest.first() {
            Some(file) if file.known().as_deref() == Some("-") => {
                from_input(walker, node, input, "bun");
            }
            Some(file) if file.to_string().contains(['.', '/']) => {
                script(walker, ScriptLanguage::Interpreter(node), file);
            }
            _ => {}
        },
        Some("repl") => walker.hide(HiddenReason::Interactive, "bun"),
        Some("-") => from_input(walker, node, input, "bun"),
        Some(file) if file.contains('.') => {
            script(walker, ScriptLanguage::Interpreter(node), command)
        }
        Some(_) => {}
        None => walker.hide(HiddenReason::ComputedText, "bun"),
    }
    true
}
