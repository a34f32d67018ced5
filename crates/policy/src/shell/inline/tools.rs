//! Tools that are not interpreters, but run some of their arguments.

use super::configured::{parts, settings};
use super::{unread, variable};
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::variables::{self, Meaning};
use crate::shell::walk::Walker;
use crate::shell::{HiddenReason, WriteKind};

/// Options whose value is a command for a shell.
const COMMANDS: [(&str, &[&str]); 21] = [
    (
        "tar",
        &["--to-command", "-I", "--use-compress-program", "--rsh-command", "-F", "--info-script"],
    ),
    ("bsdtar", &["--use-compress-program"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("man", &["-P", "--pager", "-H", "--html"]),
    ("zip", &["-TT", "--unzip-command"]),
    ("scp", &["-S"]),
    ("sftp", &["-S"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("ctags", &[]),
    ("fzf", &["--preview"]),
    ("tmux", &[]),
    ("rg", &["--pre"]),
    ("pg_dump", &[]),
    ("qemu-system-x86_64", &[]),
    ("mysql", &["--pager"]),
    ("psql", &[]),
    ("nmap", &[]),
    ("curl", &[]),
    ("wget", &["--use-askpass"]),
    ("git-grep", &["-O"]),
];

/// Reads the commands in the arguments of a tool. Returns whether they are all that it runs.
pub(super) fn analyse(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) -> bool {
    if let Some((_, options)) = COMMANDS.iter().find(|(tool, _)| *tool == name) {
        commands(walker, options, arguments);
    }
    match name {
        "tar" => checkpoint_actions(walker, arguments),
        "ssh" | "scp" | "sftp" => proxy_commands(walker, arguments),
        "sqlite3" | "psql" | "mysql" => database(walker, name, arguments, input),
        "make" | "gmake" => make(walker, arguments, input),
        "hyperfine" => {
            for text in arguments.iter().filter(|field| field.to_string().contains(' ')) {
                walker.handed_to_shell(text);
            }
        }
        "run-parts" => parts(walker, arguments),
        "cargo" => {
            cargo(walker, arguments);
            return false;
        }
        "cmake" | "configure" => {
            definitions(walker, arguments);
            return false;
        }
        "pee" | "mispipe" => {
            for text in arguments.iter().filter(|field| !field.to_string().starts_with('-')) {
                walker.handed_to_shell(text);
            }
        }
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "tcc" | "go" | "javac" | "java"
        | "rustc" => {
            super::files::compiled(walker, arguments);
            toolexec(walker, arguments);
        }
        "npm" | "yarn" | "pnpm" | "pip" | "pip3" | "uv" => {
            packages(walker, name, arguments);
            return false;
        }
        _ => return false,
    }
    true
}

/// The values of options, in the same word or the next.
pub(super) fn values(options: &[&str], arguments: &[Field]) -> Vec<Field> {
    let mut found = Vec::new();
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let Some(word) = first.known_text() else { continue };
        if word == "--" {
            break;
        }
        if options.contains(&word.as_ref()) {
            found.extend(more.first().cloned());
            continue;
        }
        for option in options {
            let attached = match option.starts_with("--") {
                true => word.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')),
                false if option.len() > 2 => {
                    word.strip_prefix(option).and_then(|rest| rest.strip_prefix('='))
                }
                false => word.strip_prefix(option),
            };
            found.extend(attached.map(Field::text));
        }
    }
    found
}

/// `gcc -wrapper`, `go run -exec`, `go build -toolexec`: programs around others.
pub(super) fn toolexec(walker: &mut Walker, arguments: &[Field]) {
    for value in values(&["-wrapper", "-exec", "-toolexec"], arguments) {
        match value.known() {
            Some(text) => walker.handed_to_shell(&Field::text(text.replace(',', " "))),
            None => walker.hide(HiddenReason::ComputedName, &value.to_string()),
        }
    }
}

/// `cargo --config 'target.x.runner="program"'`
fn cargo(walker: &mut Walker, arguments: &[Field]) {
    for value in values(&["--config"], arguments) {
        match value.known() {
            Some(text) => settings(walker, &text),
            None => walker.hide(HiddenReason::ComputedText, "cargo"),
        }
    }
}

/// `cmake -DCMAKE_C_COMPILER=program`, `./configure CC=program`, `make CC=program`.
fn definitions(walker: &mut Walker, arguments: &[Field]) {
    const MADE: [&str; 14] = [
        "AR", "LD", "FC", "CPP", "MAKE", "RM", "CP", "MV", "INSTALL", "PYTHON", "NODE", "NPM",
        "GO", "CARGO",
    ];
    for argument in arguments {
        let text = argument.to_string();
        let Some((name, value)) = text.split_once('=') else { continue };
        let name = name.strip_prefix("-D").unwrap_or(name);
        let name = name.split(':').next().unwrap_or(name);
        if variables::meaning(name) == Some(Meaning::Command) {
            variable(walker, name, argument.known().map(|_| vec![value.to_owned()]));
        } else if MADE.contains(&name) && argument.known().is_some() {
            walker.in_new_shell(value, None);
        }
    }
}

fn commands(walker: &mut Walker, options: &[&str], arguments: &[Field]) {
    for value in values(options, arguments) {
        walker.handed_to_shell(&value);
    }
}

/// `tar --checkpoint-action=exec=command`
fn checkpoint_actions(walker: &mut Walker, arguments: &[Field]) {
    for value in values(&["--checkpoint-action"], arguments) {
        match value.known() {
            Some(text) => {
                if let Some(command) = text.strip_prefix("exec=") {
                    walker.handed_to_shell(&Field::text(command));
                }
            }
            None => walker.hide(HiddenReason::ComputedText, "tar"),
        }
    }
    let unsure = arguments.iter().filter(|field| field.known().is_none()).map(Field::to_string);
    for text in unsure.filter(|text| text.starts_with("--checkpoint") || text.starts_with("--to")) {
        walker.hide(HiddenReason::ComputedText, &text);
    }
}

/// Packages that are fetched by git, and versions that are committed.
fn packages(walker: &mut Walker, name: &str, arguments: &[Field]) {
    let words: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let javascript = matches!(name, "npm" | "yarn" | "pnpm");
    let fetched = words.iter().any(|word| {
        word.starts_with("git+")
            || word.contains("@git+")
            || (javascript && ["github:", "gitlab:", "git://"].iter().any(|s| word.starts_with(s)))
    });
    let operand = words.iter().find(|word| !word.starts_with('-'));
    let silent = words.iter().any(|word| word == "--no-git-tag-version");
    let versioned = javascript && words.len() > 1 && operand.is_some_and(|word| word == "version");
    if fetched || (versioned && !silent) {
        let argv = [Field::text("git"), Field::unknown_many()];
        walker.in_subshell(|walker| walker.started(&argv, &Input::Pipe));
    }
    let set = words.windows(2).any(|two| matches!(two, [pkg, set] if pkg == "pkg" && set == "set"));
    for word in words.iter().filter(|word| set && word.starts_with("scripts.")) {
        match word.split_once('=') {
            Some((_, command)) if !word.contains('…') => walker.in_new_shell(command, None),
            _ => walker.hide(HiddenReason::ComputedText, word),
        }
    }
    for shell in values(&["--script-shell"], arguments) {
        walker.in_subshell(|walker| walker.started(&[shell, Field::unknown_many()], &Input::Pipe));
    }
}

/// `ssh -o ProxyCommand=…`: what ssh runs here; what it runs elsewhere is not followed.
fn proxy_commands(walker: &mut Walker, arguments: &[Field]) {
    for value in values(&["-o"], arguments) {
        let Some(text) = value.known() else { continue };
        let (key, command) = text.split_once(['=', ' ']).unwrap_or((&text, ""));
        let runs = ["proxycommand", "localcommand", "knownhostscommand", "match"];
        if runs.contains(&key.trim().to_lowercase().as_str()) {
            walker.handed_to_shell(&Field::text(command.trim()));
        }
    }
}

/// `.shell` of sqlite3, `\!` of psql and mysql.
fn database(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) {
    let mut lines: Vec<String> = arguments.iter().filter_map(Field::known).collect();
    match input {
        Input::Text(Some(texts)) => {
            lines.extend(texts.iter().flat_map(|text| text.lines().map(str::to_owned)));
        }
        Input::Text(None) | Input::Inherited | Input::Pipe | Input::Names(_) | Input::File(_) => {}
    }
    for line in lines.iter().flat_map(|text| text.lines()) {
        let line = line.trim();
        let starts: &[&str] =
            if name == "sqlite3" { &[".shell ", ".system "] } else { &["\\!", "system "] };
        if let Some(command) = starts.iter().find_map(|start| line.strip_prefix(start)) {
            walker.handed_to_shell(&Field::text(command));
        }
        let target = [".output ", ".once ", ".backup ", ".dump ", "\\o "]
            .iter()
            .find_map(|start| line.strip_prefix(start));
        if let Some(target) = target.map(str::trim) {
            match target.strip_prefix('|') {
                Some(command) => walker.handed_to_shell(&Field::text(command)),
                None => walker.wrote(Field::text(target), WriteKind::Change, name),
            }
        }
    }
    let changed = lines.iter().any(|line| changes_database(line) || line.starts_with(".import"));
    let base = arguments.iter().find(|field| !field.to_string().starts_with('-'));
    if let (true, "sqlite3", Some(base)) = (changed, name, base) {
        walker.wrote(base.clone(), WriteKind::Change, name);
    }
    if name == "sqlite3" && *input == Input::Inherited {
        let operands = arguments.iter().filter(|field| !field.to_string().starts_with('-'));
        let quiet =
            lines.iter().any(|word| word.starts_with("-cmd") || word.starts_with("-version"));
        if operands.count() < 2 && !quiet {
            walker.hide(HiddenReason::Interactive, name);
        }
    }
}

/// `make CC=program --eval=rule -f file`: files that this command wrote are not followed.
fn make(walker: &mut Walker, arguments: &[Field], input: &Input) {
    definitions(walker, arguments);
    if !values(&["--eval"], arguments).is_empty() {
        walker.hide(HiddenReason::ComputedText, "make --eval");
    }
    let shells = arguments.iter().filter_map(Field::known);
    for shell in shells.filter_map(|word| word.strip_prefix("SHELL=").map(str::to_owned)) {
        walker.in_subshell(|walker| walker.started(&[Field::text(shell)], &Input::Pipe));
    }
    let files = values(&["-f", "--file", "--makefile"], arguments);
    for file in &files {
        match file.known().as_deref() {
            Some("-" | "/dev/stdin") if *input == Input::Inherited => {
                walker.hide(HiddenReason::Interactive, "make")
            }
            Some("-" | "/dev/stdin") => walker.hide(HiddenReason::ComputedText, "make"),
            Some(file) => unread::written(walker, file),
            None => walker.hide(HiddenReason::ComputedText, "make"),
        }
    }
    if files.is_empty() {
        ["Makefile", "makefile", "GNUmakefile"]
            .iter()
            .for_each(|file| unread::written(walker, file));
    }
}

/// Whether a text of SQL changes something.
pub(super) fn changes_database(text: &str) -> bool {
    let text = text.to_lowercase();
    ["create ", "insert ", "update ", "delete ", "drop ", "alter ", "replace ", "vacuum"]
        .iter()
        .any(|word| text.contains(word))
}
