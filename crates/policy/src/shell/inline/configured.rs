//! Files that tools read automatically, and what they run from them: read if this command wrote them.

use serde_json::Value;

use super::files::{by_path, compiled};
use super::written::Content;
use super::{ScriptLanguage, interpreters, read};
use crate::shell::HiddenReason;
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;

/// What is run from a file.
#[derive(Clone, Copy)]
enum FileRole {
    /// The scripts of `package.json`.
    Scripts,
    /// Programs that cargo's settings name.
    Settings,
    /// Code of the interpreter of this name.
    Code(&'static str),
    /// Commands of a shell.
    Shell,
    /// Recipes, as in a makefile.
    Recipes,
    /// A source that is compiled and run.
    Source,
}

/// The tools, the file, and what is run of it. A slash in the name of a file is part of its path.
const FILES: [(&[&str], &str, FileRole); 16] = [
    (&["npm", "npx", "yarn", "pnpm", "bun"], "package.json", FileRole::Scripts),
    (&["cargo"], ".cargo/config.toml", FileRole::Settings),
    (&["cargo"], ".cargo/config", FileRole::Settings),
    (&["cargo"], "build.rs", FileRole::Source),
    (&["pytest", "py.test", "tox", "nox"], "conftest.py", FileRole::Code("python")),
    (&["pytest", "py.test"], "sitecustomize.py", FileRole::Code("python")),
    (&["pip", "pip3", "uv", "pytest", "tox"], "setup.py", FileRole::Code("python")),
    (&["nox"], "noxfile.py", FileRole::Code("python")),
    (&["python"], "sitecustomize.py", FileRole::Code("python")),
    (&["python"], "usercustomize.py", FileRole::Code("python")),
    (&["rake"], "Rakefile", FileRole::Code("ruby")),
    (&["bundle", "bundler"], "Gemfile", FileRole::Code("ruby")),
    (&["just"], "justfile", FileRole::Recipes),
    (&["just"], "Justfile", FileRole::Recipes),
    (&["zsh"], ".zshenv", FileRole::Shell),
    (&["direnv"], ".envrc", FileRole::Shell),
];

/// Files that a shell reads first at a login or in a terminal.
const STARTUP: [&str; 6] =
    [".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zprofile"];

/// Keys of cargo's settings whose value is a program.
const KEYS: [&str; 7] = [
    "runner",
    "linker",
    "rustc",
    "rustc-wrapper",
    "rustc-workspace-wrapper",
    "rustdoc",
    "credential-provider",
];

/// Reads what a tool of this name would find among the files that this command wrote.
pub(in crate::shell) fn configured(walker: &mut Walker, name: &str, arguments: &[Field]) {
    if walker.wrote_nothing() {
        return;
    }
    let version = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let tool = if version == "python" { version } else { name };
    let looks = arguments.first().and_then(Field::known).is_some_and(|verb| {
        matches!(verb.as_str(), "view" | "info" | "ls" | "list" | "outdated" | "help" | "--version")
    });
    if looks {
        return;
    }
    for (_, file, holds) in FILES.iter().filter(|(tools, ..)| tools.contains(&tool)) {
        one(walker, file, *holds);
    }
}

/// Reads the files that a shell reads first, if this command wrote them.
pub(in crate::shell) fn startup(walker: &mut Walker) {
    for file in STARTUP {
        one(walker, file, FileRole::Shell);
    }
}

fn one(walker: &mut Walker, file: &str, holds: FileRole) {
    if file.contains('/') && !walker.wrote_at(file) {
        return;
    }
    let texts = match walker.content_of(file) {
        Content::Untouched => return,
        Content::Unknown => return walker.hide(HiddenReason::ComputedText, file),
        Content::Texts(texts) => texts,
    };
    if !walker.written.begin(file) {
        return;
    }
    for text in texts {
        match holds {
            FileRole::Scripts => scripts(walker, &text),
            FileRole::Settings => settings(walker, &text),
            FileRole::Shell => read(walker, ScriptLanguage::Shell, &text),
            FileRole::Recipes => walker.hide(HiddenReason::ComputedText, file),
            FileRole::Source => compiled(walker, &[Field::text(file)]),
            FileRole::Code(language) => {
                if let Some(interpreter) = interpreters::find(language) {
                    read(walker, ScriptLanguage::Interpreter(interpreter), &text);
                }
            }
        }
    }
    walker.written.end();
}

fn scripts(walker: &mut Walker, text: &str) {
    let Ok(package) = serde_json::from_str::<Value>(text) else {
        return walker.hide(HiddenReason::ComputedText, "package.json");
    };
    let scripts = package.get("scripts").and_then(Value::as_object);
    for command in scripts.into_iter().flat_map(|all| all.values()).filter_map(Value::as_str) {
        walker.in_new_shell(command, None);
    }
}

/// `target.x.runner = "program"`, in whatever table it stands.
pub(super) fn settings(walker: &mut Walker, text: &str) {
    for line in text.split(['\n', ',', '{']) {
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim().rsplit('.').next().unwrap_or_default();
        if !KEYS.contains(&key.trim().trim_matches(['"', '\''])) {
            continue;
        }
        let words =
            value.split_whitespace().map(|word| word.trim_matches(['"', '\'', '[', ']', '}']));
        let argv: Vec<Field> = words.filter(|word| !word.is_empty()).map(Field::text).collect();
        walker.in_subshell(|walker| walker.started(&argv, &Input::Pipe));
    }
}

/// `run-parts directory`: every file in it that this command wrote.
pub(super) fn parts(walker: &mut Walker, arguments: &[Field]) {
    let operands = arguments.iter().filter(|field| !field.to_string().starts_with('-'));
    for directory in operands.cloned().collect::<Vec<Field>>() {
        walker.reading.scripts_not_in_text.push(directory.clone());
        for name in walker.written.runnable() {
            by_path(walker, &format!("{directory}/{name}"), &[]);
        }
    }
}
