//! Files that are run, loaded or compiled: read if this command wrote them before.

use super::interpreters::{Interpreter, Reader};
use super::options::ParsedOptions;
use super::tokens::Style;
use super::written::Content;
use super::{ScriptLanguage, code, interpreters, read};
use crate::base_name::base_name;
use crate::shell::HiddenReason;
use crate::shell::field::{Field, Shape};
use crate::shell::redirect::Input;
use crate::shell::shells::is_shell;
use crate::shell::walk::Walker;

/// Endings of files that code may load.
const CODE_FILES: [(&str, &str); 10] = [
    ("py", "python"),
    ("js", "node"),
    ("mjs", "node"),
    ("cjs", "node"),
    ("ts", "node"),
    ("tsx", "node"),
    ("rb", "ruby"),
    ("pl", "perl"),
    ("pm", "perl"),
    ("awk", "awk"),
];

/// A file that is run: read if this command wrote it, left alone if not.
pub(in crate::shell) fn script(walker: &mut Walker, reading: ScriptLanguage, file: &Field) {
    let Shape::Known(path) = file.shape() else {
        let file_text = file.to_string();
        // A file whose name is known in a directory that is not, as in `"$root/tools/x.py"`.
        let last = file_text.rsplit_once('/').map(|(_, last)| last).unwrap_or_default();
        let named = !last.is_empty() && !last.contains(['…', '*', '?']) && !file.may_be_many();
        if file_text.starts_with('-') || (file_text.starts_with('…') && !named) {
            return walker.hide(HiddenReason::ComputedText, &file_text);
        }
        return match walker.content_of(&file_text) {
            Content::Untouched => walker.reading.scripts_not_in_text.push(file.clone()),
            Content::Unknown => walker.hide(HiddenReason::ComputedText, &file_text),
            Content::Texts(texts) => {
                for text in texts {
                    read(walker, reading, &text);
                }
            }
        };
    };
    if path.starts_with("/dev/") || path.starts_with("/proc/") {
        return walker.hide(HiddenReason::PipedIntoShell, &path);
    }
    match walker.content_of(&path) {
        Content::Untouched => walker.reading.scripts_not_in_text.push(file.clone()),
        Content::Unknown => walker.hide(HiddenReason::ComputedText, &path),
        Content::Texts(texts) => {
            for text in texts {
                read(walker, reading, &text);
            }
        }
    }
}

/// A program that is named by its path: a script, if this command wrote it before.
pub(in crate::shell) fn by_path(walker: &mut Walker, path: &str, arguments: &[Field]) {
    let name = base_name(path).to_owned();
    // zsh looks for `=git` on the path.
    if let Some(real) = path.strip_prefix('=').filter(|real| !real.is_empty()) {
        let argv: Vec<Field> =
            [Field::text(real)].into_iter().chain(arguments.iter().cloned()).collect();
        walker.in_subshell(|walker| walker.started(&argv, &Input::Pipe));
    }
    // A copy of a program, or a link to it, is that program.
    for source in walker.written.copied_from(&name) {
        if walker.written.begin(&name) {
            let argv: Vec<Field> = [source].into_iter().chain(arguments.iter().cloned()).collect();
            walker.in_subshell(|walker| walker.started(&argv, &Input::Pipe));
            walker.written.end();
        }
    }
    // In any directory that is not searched automatically, a name is not a file of this command.
    let searched = walker.reading.sets.iter().any(|setting| setting.name == "PATH");
    if !path.contains('/') && !searched {
        return;
    }
    match walker.content_of(path) {
        Content::Untouched => {}
        Content::Unknown => walker.hide(HiddenReason::ComputedText, path),
        Content::Texts(texts) => {
            for text in texts {
                if let Some(mut argv) = foreign_line(&text)
                    && walker.written.begin(&name)
                {
                    argv.push(Field::text(path));
                    walker.in_subshell(|walker| walker.started(&argv, &Input::Pipe));
                    walker.written.end();
                }
                let reading = shebang(&text);
                // Without a shebang, bash runs it itself.
                let started_by = walker.through.iter().rev().nth(1);
                let by_bash = started_by.is_none_or(|name| name == "bash");
                let line = text.lines().next().filter(|line| line.starts_with("#!"));
                if line.map_or(by_bash, |line| line.ends_with("bash")) {
                    walker.through.push("bash".to_owned());
                    read(walker, reading, &text);
                    walker.through.pop();
                } else {
                    read(walker, reading, &text);
                }
            }
        }
    }
}

/// A file that the shell itself reads: it runs in this shell.
pub(in crate::shell) fn sourced(walker: &mut Walker, file: &Field) {
    let path = file.to_string();
    match walker.content_of(&path) {
        Content::Texts(texts) => {
            for text in texts {
                walker.text(&text);
            }
        }
        Content::Unknown => walker.hide(HiddenReason::ComputedText, &path),
        Content::Untouched => walker.reading.scripts_not_in_text.push(file.clone()),
    }
}

/// The program in the first line of a script, if it is neither a shell nor an interpreter.
fn foreign_line(text: &str) -> Option<Vec<Field>> {
    let line = text.lines().next()?.strip_prefix("#!")?;
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let mut words = line.split_whitespace().peekable();
    if words.peek().is_some_and(|word| base(word) == "env") {
        words.next();
        while words.peek().is_some_and(|word| word.starts_with('-') || word.contains('=')) {
            words.next();
        }
    }
    let name = base(words.peek()?);
    let known = is_shell(&name) || interpreters::find(&name).is_some();
    (!known).then(|| words.map(Field::text).collect())
}

/// The interpreter in the first line of a script.
fn shebang(text: &str) -> ScriptLanguage {
    let line = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    let words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let mut words = words.filter(|word| *word != "env" && !word.starts_with('-'));
    match words.next().filter(|name| !is_shell(name)).and_then(interpreters::find) {
        Some(interpreter) => ScriptLanguage::Interpreter(interpreter),
        None => ScriptLanguage::Shell,
    }
}

/// Sources that this command wrote and passes to a compiler: the output is likely to be run.
pub(super) fn compiled(walker: &mut Walker, arguments: &[Field]) {
    const STARTS: [&str; 8] =
        ["system", "exec", "popen", "spawn", "Command", "ProcessBuilder", "fork", "git"];
    for path in arguments.iter().filter_map(Field::known) {
        let source = [".c", ".cc", ".cpp", ".cxx", ".go", ".java", ".m", ".d", ".rs"]
            .iter()
            .any(|ending| path.ends_with(ending));
        if !source {
            continue;
        }
        match walker.content_of(&path) {
            Content::Untouched => {}
            Content::Unknown => walker.hide(HiddenReason::ComputedText, &path),
            Content::Texts(texts) => {
                if texts.iter().any(|text| STARTS.iter().any(|word| text.contains(word))) {
                    walker.hide(HiddenReason::ComputedText, &path);
                }
            }
        }
    }
}

/// Files with code that this command wrote and that a text names: it may load them.
pub(super) fn imported(walker: &mut Walker, text: &str) {
    for name in walker.written.names() {
        let Some((stem, ending)) = name.rsplit_once('.') else { continue };
        let language = CODE_FILES.iter().find(|(this, _)| *this == ending);
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
        let named = words.into_iter().any(|word| word == stem);
        let Some(interpreter) = language.and_then(|(_, name)| interpreters::find(name)) else {
            continue;
        };
        if !named || !walker.written.begin(&name) {
            continue;
        }
        script(walker, ScriptLanguage::Interpreter(interpreter), &Field::text(name.clone()));
        walker.written.end();
    }
}

/// `perl -MModule`, `node -r ./file.js`: code that is run first.
pub(super) fn preloaded(
    walker: &mut Walker,
    interpreter: &'static Interpreter,
    parsed: &ParsedOptions<'_>,
) {
    let Reader::Tokens(language) = interpreter.reader else { return };
    for (letter, value) in &parsed.values {
        match (language.style, letter) {
            (Style::Perl, 'M' | 'm') => code::analyse(walker, language, &format!("use {value};")),
            (Style::JavaScript | Style::Ruby, 'r') if value.to_string().contains(['/', '.']) => {
                script(walker, ScriptLanguage::Interpreter(interpreter), value);
            }
            _ => {}
        }
    }
}
