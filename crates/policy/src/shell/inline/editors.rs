//! Editors that are told what to do by their arguments or their input: vim, ex, ed, emacs.

use super::lisp;
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;
use crate::shell::{How, Why};

/// Looks into what an editor is told; whether a program of this name is one.
pub(super) fn look(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) -> bool {
    match name {
        "vim" | "vi" | "nvim" | "ex" | "view" | "gvim" | "vimdiff" | "rvim" => {
            vim(walker, name, arguments, input);
        }
        "ed" | "red" => ed(walker, name, arguments, input),
        "emacs" | "emacsclient" => emacs(walker, arguments),
        "nano" | "pico" | "micro" | "joe" | "helix" | "hx" | "kak" | "mg" => {
            walker.hide(Why::Interactive, name);
        }
        _ => return false,
    }
    true
}

fn vim(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) {
    let (mut commands, mut files, mut scripted) = (Vec::new(), Vec::new(), name == "ex");
    let mut rest = arguments;
    let mut literal = false;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let Some(word) = first.known() else {
            if first.to_string().starts_with(['-', '+']) {
                walker.hide(Why::ComputedText, name);
            }
            files.push(first.clone());
            continue;
        };
        if literal || !word.starts_with(['-', '+']) {
            files.push(first.clone());
            continue;
        }
        match word.as_str() {
            "--" => literal = true,
            "--version" | "--help" | "-h" => return,
            // Of ex, and behind `-e`, it only says to be silent.
            "-s" if scripted => {}
            "-c" | "--cmd" | "-S" | "-u" | "-s" | "-i" | "-T" | "-w" | "-W" | "-t" | "-q" => {
                let Some((value, after)) = rest.split_first() else { break };
                rest = after;
                match word.as_str() {
                    "-c" | "--cmd" => match value.known() {
                        Some(text) => commands.push(text),
                        None => walker.hide(Why::ComputedText, name),
                    },
                    "-S" | "-s" => super::script(walker, super::Reading::Vim, value),
                    "-w" | "-W" => walker.wrote(value.clone(), How::Change, name),
                    _ => {}
                }
            }
            "-es" | "-Es" | "-e" | "-E" => scripted = true,
            _ => {
                if let Some(command) = word.strip_prefix('+') {
                    commands.push(command.to_owned());
                } else if let Some(command) = word.strip_prefix("-c") {
                    commands.push(command.to_owned());
                } else if let Some(command) = word.strip_prefix("--cmd=") {
                    commands.push(command.to_owned());
                }
            }
        }
    }
    if scripted {
        match input {
            Input::Text(Some(texts)) => {
                for text in texts {
                    commands.extend(text.lines().map(str::to_owned));
                }
            }
            Input::Text(None) => walker.hide(Why::ComputedText, name),
            Input::Pipe | Input::Names(_) => walker.hide(Why::PipedIntoShell, name),
            Input::File(_) | Input::Inherited => {}
        }
    }
    let quits = |command: &String| {
        command.split('|').any(|one| {
            let one = one.trim_start_matches([':', ' ']).trim_end_matches('!');
            matches!(
                one,
                "q" | "qa"
                    | "qall"
                    | "wq"
                    | "wqa"
                    | "x"
                    | "xa"
                    | "xit"
                    | "quit"
                    | "cq"
                    | "exit"
                    | "wqall"
                    | "xall"
                    | "ZZ"
            )
        })
    };
    if !scripted && !commands.iter().any(quits) {
        walker.hide(Why::Interactive, name);
    }
    for command in &commands {
        ex(walker, name, command, &files);
    }
}

/// Commands of vim and ex: one line.
pub(super) fn ex(walker: &mut Walker, name: &str, line: &str, files: &[Field]) {
    let line = line.trim_start_matches([':', ' ', '\t']);
    let command = without_range(line);
    // A command for a shell goes to the end of the line, bars and all.
    if let Some(text) = command.strip_prefix('!') {
        return walker.handed_to_shell(&Field::text(text));
    }
    let word: String = command.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
    let behind = command.get(word.len()..).unwrap_or_default();
    let behind_mark = behind.strip_prefix('!').unwrap_or(behind).trim_start();
    match word.as_str() {
        // `w !program` runs it, `w! file` writes the file.
        "w" | "write"
            if behind.starts_with([' ', '\t']) && behind.trim_start().starts_with('!') =>
        {
            let text = behind.trim_start().trim_start_matches('!');
            return walker.handed_to_shell(&Field::text(text));
        }
        "r" | "read" if behind.trim_start().starts_with('!') => {
            let text = behind.trim_start().trim_start_matches('!');
            return walker.handed_to_shell(&Field::text(text));
        }
        "te" | "term" | "terminal" | "ter" => {
            return match behind_mark {
                "" => walker.hide(Why::Interactive, name),
                text => walker.handed_to_shell(&Field::text(text)),
            };
        }
        "sh" | "shell" => return walker.hide(Why::Interactive, name),
        "py" | "python" | "py3" | "python3" | "pyx" => {
            return super::calls::read(walker, &super::python::PYTHON, behind_mark);
        }
        "lua" => return super::calls::read(walker, &super::scripting::LUA, behind_mark),
        "perl" => return super::calls::read(walker, &super::perl::PERL, behind_mark),
        "ruby" => return super::calls::read(walker, &super::scripting::RUBY, behind_mark),
        "exe" | "exec" | "execute" | "norm" | "normal" => {
            let text = behind_mark.trim_matches(['"', '\'']);
            let risky = ["!", "system", ":w", "term"].iter().any(|word| text.contains(word));
            if risky {
                walker.hide(Why::ComputedText, command);
            }
        }
        "so" | "source" => super::script(walker, super::Reading::Vim, &Field::text(behind_mark)),
        "g" | "global" | "v" | "vglobal" | "argdo" | "bufdo" | "windo" | "tabdo" | "silent"
        | "sil" | "silen" | "keepjumps" | "keeppatterns" | "noautocmd" => {
            let inner = match word.as_str() {
                "g" | "global" | "v" | "vglobal" => behind_pattern(behind),
                _ => behind_mark,
            };
            ex(walker, name, inner, files);
        }
        "w" | "wq" | "x" | "write" | "wa" | "wall" | "wqa" | "xa" | "up" | "update" | "xit"
        | "sav" | "saveas" | "wqall" | "xall" | "exit" | "ZZ" => {
            let target = behind_mark.trim_start_matches(['>', ' ']);
            let target = target.split('|').next().unwrap_or_default().trim();
            if target.is_empty() || target == "%" {
                for file in files {
                    walker.wrote(file.clone(), How::Change, name);
                }
            } else if target.contains(['%', '#', '*', '`', '$']) {
                walker.hide(Why::ComputedPath, name);
            } else {
                walker.wrote(Field::text(target), How::Change, name);
            }
        }
        _ => {}
    }
    functions(walker, name, command);
    if let Some((_, more)) = command.split_once('|').filter(|_| !matches!(word.as_str(), "s" | "g"))
    {
        ex(walker, name, more, files);
    }
}

/// `system('git push')` and `writefile(…)` in an expression.
fn functions(walker: &mut Walker, name: &str, command: &str) {
    for function in ["system(", "systemlist(", "job_start(", "jobstart(", "termopen("] {
        let Some((_, behind)) = command.split_once(function) else { continue };
        let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''));
        let text = quote.and_then(|quote| {
            let inner = behind.get(1..)?;
            inner.split_once(quote).filter(|(_, rest)| rest.trim_start().starts_with([')', ',']))
        });
        match text {
            Some((text, _)) => walker.handed_to_shell(&Field::text(text)),
            None => walker.hide(Why::ComputedText, command),
        }
    }
    for function in ["writefile(", "delete(", "rename("] {
        if command.contains(function) {
            walker.hide(Why::ComputedPath, name);
        }
    }
}

/// `1,5w`, `%!sort`, `'<,'>!git`: what stands behind the lines it is for.
fn without_range(line: &str) -> &str {
    let mut rest = line;
    loop {
        let before = rest;
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "%.,$;+- ".contains(c));
        if let Some(mark) = rest.strip_prefix('\'') {
            let mut chars = mark.chars();
            chars.next();
            rest = chars.as_str();
        }
        if rest.starts_with(['/', '?']) && rest.len() > 1 {
            let after = behind_pattern(rest);
            if after.len() < rest.len() && !after.is_empty() {
                rest = after;
            }
        }
        if rest == before {
            return rest;
        }
    }
}

/// What stands behind `/pattern/`.
fn behind_pattern(text: &str) -> &str {
    let text = text.strip_prefix('!').unwrap_or(text);
    let mut chars = text.chars();
    let Some(end) = chars.next() else { return "" };
    while let Some(c) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == end {
            return chars.as_str();
        }
    }
    ""
}

fn ed(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) {
    let files: Vec<Field> =
        arguments.iter().filter(|field| !field.to_string().starts_with('-')).cloned().collect();
    if let Some(command) = files.iter().filter_map(Field::known).find(|file| file.starts_with('!'))
    {
        walker.handed_to_shell(&Field::text(command.trim_start_matches('!')));
    }
    match input {
        Input::Text(Some(texts)) => {
            for text in texts.clone() {
                let mut adding = false;
                for line in text.lines() {
                    let command = without_range(line.trim());
                    if adding {
                        adding = line != ".";
                    } else if matches!(command, "a" | "i" | "c") {
                        adding = true;
                    } else if let Some(rest) = command.strip_prefix('e').map(str::trim_start) {
                        if let Some(text) = rest.strip_prefix('!') {
                            walker.handed_to_shell(&Field::text(text));
                        }
                    } else {
                        ex(walker, name, line, &files);
                    }
                }
            }
        }
        Input::Text(None) => walker.hide(Why::ComputedText, name),
        Input::Pipe | Input::Names(_) => walker.hide(Why::PipedIntoShell, name),
        Input::File(file) => walker.reading.unseen.push(file.clone()),
        Input::Inherited => walker.hide(Why::Interactive, name),
    }
}

fn emacs(walker: &mut Walker, arguments: &[Field]) {
    let mut batch = false;
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let Some(word) = first.known() else { continue };
        let (option, attached) = match word.split_once('=') {
            Some((option, value)) => (option.to_owned(), Some(Field::text(value))),
            None => (word.clone(), None),
        };
        match option.as_str() {
            "--batch" | "-batch" | "--script" | "-script" | "-x" => {
                batch = true;
                if option != "--batch"
                    && option != "-batch"
                    && let Some(file) = attached.or_else(|| more.first().cloned())
                {
                    super::script(walker, super::Reading::Lisp, &file);
                }
            }
            "--eval" | "-eval" | "--execute" | "-execute" | "-e" => {
                batch |= option == "-e";
                let text = attached.or_else(|| {
                    let (value, after) = rest.split_first()?;
                    rest = after;
                    Some(value.clone())
                });
                match text.as_ref().map(Field::known) {
                    Some(Some(text)) => lisp::look(walker, &text),
                    Some(None) => walker.hide(Why::ComputedText, "emacs"),
                    None => {}
                }
            }
            "-l" | "--load" => {
                if let Some(file) = attached.or_else(|| more.first().cloned()) {
                    super::script(walker, super::Reading::Lisp, &file);
                }
            }
            "--version" | "--help" => return,
            _ => {}
        }
    }
    if !batch {
        walker.hide(Why::Interactive, "emacs");
    }
}
