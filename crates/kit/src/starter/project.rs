//! A whole repository: the stacks in its root and below, and the example task for them.

use std::collections::BTreeSet;

use super::files::{Directory, Files, extension};
use super::stack::{Note, Stack};
use super::tool::C_FAMILY;
use super::{
    cargo, cmake, dotnet, elixir, go, ignored, jvm, make, node, php, python, ruby, shell, whitelist,
};

/// Stacks below the root are looked for so deep.
const MAX_DEPTH: usize = 3;
/// The maximum number of stacks in the example task.
const MAX_STACKS: usize = 8;

/// Directories whose projects belong to others or are not what the tests are about.
const PASSED_OVER: [&str; 27] = [
    "node_modules",
    "vendor",
    "third_party",
    "third-party",
    "external",
    "dist",
    "build",
    "out",
    "target",
    "docs",
    "doc",
    "examples",
    "example",
    "samples",
    "demo",
    "demos",
    "fixtures",
    "testdata",
    "test",
    "tests",
    "__tests__",
    "spec",
    "benchmarks",
    "fuzz",
    "templates",
    "template",
    "venv",
];

/// What the repository contains, so that the example task fits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Source files.
    Code,
    /// Documents only.
    Prose,
    /// No file yet.
    Nothing,
}

/// The stacks of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The build tools, those of the root first.
    pub stacks: Vec<Stack>,
    /// Commands that prepare a new worktree, run from the root.
    pub setup: Vec<String>,
    /// Commands that check the project, run from the root.
    pub commands: Vec<String>,
    /// Where an agent may write; never empty.
    pub whitelist: Vec<String>,
    /// What it contains.
    pub content: Content,
    /// Notes for people.
    pub notes: Vec<Note>,
}

impl Project {
    /// Recognises the stacks of a repository. It never fails: unreadable files are skipped.
    pub fn detect(files: &Files<'_>) -> Self {
        let mut stacks = declared(files.root());
        let mut left_out = 0;
        for path in directories(files) {
            for stack in declared(files.directory(&path)) {
                if stacks.iter().any(|other| other.covers(&stack)) {
                    continue;
                }
                if stacks.len() < MAX_STACKS { stacks.push(stack) } else { left_out += 1 }
            }
        }
        let checked = stacks.iter().any(|stack| !stack.commands.is_empty());
        if !checked {
            stacks.extend(undeclared(files.root()));
        }
        // A stack without checks needs no setup, unless a check of the root may need it.
        let several = stacks.len() > 1;
        let unchecked = |stack: &&mut Stack| {
            stack.commands.is_empty() && (checked || several && !stack.directory.is_empty())
        };
        stacks.iter_mut().filter(unchecked).for_each(|stack| stack.setup.clear());
        for stack in &mut stacks {
            let place = stack.directory.clone();
            ignored::note_missing(files.directory(&place), stack);
        }
        let mut notes: Vec<Note> = stacks.iter().flat_map(|stack| stack.notes.clone()).collect();
        if left_out > 0 {
            notes.push(Note::MoreStacks { count: left_out });
        }
        let lines = |of: fn(&Stack) -> &Vec<String>| -> Vec<String> {
            let each = |stack: &Stack| -> Vec<String> {
                of(stack).iter().map(|command| stack.in_root(command)).collect()
            };
            stacks.iter().flat_map(each).collect()
        };
        Self {
            setup: lines(|stack| &stack.setup),
            commands: lines(|stack| &stack.commands),
            whitelist: whitelist(files, &stacks),
            content: content(files),
            notes,
            stacks,
        }
    }
}

/// The stacks that a file of a directory declares.
fn declared(directory: Directory<'_>) -> Vec<Stack> {
    let detectors = [
        cargo::detect,
        node::detect,
        python::detect,
        go::detect,
        jvm::detect,
        ruby::detect,
        php::detect,
        dotnet::detect,
        elixir::detect,
    ];
    let found: Vec<Stack> = detectors.into_iter().filter_map(|detect| detect(directory)).collect();
    // Beside another tool, CMake builds a part for that tool.
    if found.is_empty() { cmake::detect(directory).into_iter().collect() } else { found }
}

/// The checks of a repository without stacks that have checks.
fn undeclared(root: Directory<'_>) -> Option<Stack> {
    let checks = |stack: &Stack| !stack.commands.is_empty();
    make::detect(root)
        .filter(checks)
        .or_else(|| python::detect_undeclared(root).filter(checks))
        .or_else(|| shell::detect(root).filter(checks))
}

/// The directories below the root in which a stack may be, the upper ones first.
fn directories(files: &Files<'_>) -> Vec<String> {
    let mut found = BTreeSet::new();
    for path in files.paths() {
        let mut parts: Vec<&str> = path.split('/').collect();
        parts.pop();
        for depth in 1..=parts.len().min(MAX_DEPTH) {
            let upper = parts.get(..depth).unwrap_or_default();
            if upper.iter().any(|part| part.starts_with('.') || PASSED_OVER.contains(part)) {
                break;
            }
            found.insert((depth, upper.join("/")));
        }
    }
    found.into_iter().map(|(_, path)| path).collect()
}

fn whitelist(files: &Files<'_>, stacks: &[Stack]) -> Vec<String> {
    let mut globs: Vec<String> = Vec::new();
    for stack in stacks {
        let inner = stacks.iter().map(|other| other.directory.as_str());
        let inner: Vec<&str> = inner.filter(|other| other.len() > stack.directory.len()).collect();
        let ecosystem = stack.tool.ecosystem();
        let directory = files.directory(&stack.directory);
        for glob in whitelist::for_sources(directory, ecosystem.extensions(), &inner) {
            if !globs.contains(&glob) {
                globs.push(glob);
            }
        }
    }
    if globs.is_empty() {
        globs = whitelist::for_sources(files.root(), C_FAMILY, &[]);
    }
    if globs.is_empty() {
        globs = whitelist::for_anything(files.root());
    }
    if globs.is_empty() {
        globs = vec!["src/**".to_owned(), "/*.md".to_owned()];
    }
    globs
}

fn content(files: &Files<'_>) -> Content {
    let prose = ["md", "txt", "rst", "adoc", "tex", "org"];
    let mut shown = files.paths().iter().filter(|path| !path.starts_with('.')).peekable();
    if shown.peek().is_none() {
        return Content::Nothing;
    }
    let is_prose = |path: &String| extension(path).is_none_or(|it| prose.contains(&it));
    if shown.all(is_prose) { Content::Prose } else { Content::Code }
}
