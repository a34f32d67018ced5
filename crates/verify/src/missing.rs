//! Finds out from the output of a failed command which program, module or package is not installed.
//!
//! A check runs in a fresh copy of the tree without network access. If it fails for a reason unrelated to
//! the work, the most frequent cause is that dependencies are not installed there.

use crate::job::{CommandResult, Termination};

/// The exit code of a shell that cannot find a program.
const COMMAND_NOT_FOUND: i32 = 127;

/// Programs that Python packages install.
const PYTHON_TOOLS: [&str; 11] = [
    "pytest", "tox", "nox", "ruff", "mypy", "black", "flake8", "pylint", "isort", "coverage",
    "pyright",
];
/// Programs that JavaScript packages install.
const NODE_TOOLS: [&str; 14] = [
    "mocha", "jest", "vitest", "eslint", "prettier", "tsc", "tsx", "ts-node", "webpack", "vite",
    "rollup", "next", "ava", "c8",
];
/// Commands that run programs of JavaScript packages.
const NODE_RUNNERS: [&str; 6] = ["npm", "npx", "yarn", "pnpm", "node", "bun"];

/// What is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// A program.
    Program {
        name: String,
        /// The package manager that installs it, if known.
        from: Option<Packages>,
    },
    /// A module or package of one language.
    Module {
        /// None if the message does not name it.
        name: Option<String>,
        from: Packages,
    },
}

/// Package managers, by language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packages {
    /// npm, yarn, pnpm.
    Node,
    /// pip, uv, poetry.
    Python,
    /// The modules of Go.
    Go,
    /// Cargo.
    Cargo,
    /// Bundler.
    Ruby,
    /// Composer.
    Php,
    /// Maven or Gradle.
    Java,
}

impl Packages {
    fn example(self) -> &'static str {
        match self {
            Self::Node => "[\"npm ci\"]",
            Self::Python => {
                "[\"python3 -m venv .venv\", \".venv/bin/pip install -r requirements.txt\"]"
            }
            Self::Go => "[\"go mod download\"]",
            Self::Cargo => "[\"cargo fetch --locked\"]",
            Self::Ruby => "[\"bundle config set --local path vendor/bundle\", \"bundle install\"]",
            Self::Php => "[\"composer install\"]",
            Self::Java => "[\"mvn -q dependency:go-offline\"]",
        }
    }

    fn explanation(self) -> &'static str {
        match self {
            Self::Node => "node_modules is not installed in the tree that was checked",
            Self::Python => "the Python packages are not installed in the tree that was checked",
            Self::Go => "the module is not in the module cache, and a check has no network",
            Self::Cargo => "the crate was not fetched, and a check has no network",
            Self::Ruby => "the gems are not installed in the tree that was checked",
            Self::Php => "vendor is not installed in the tree that was checked",
            Self::Java => "the artifact is not in the local repository, and a check has no network",
        }
    }
}

impl Missing {
    /// What is missing, in a few words.
    pub fn summary(&self) -> String {
        match self {
            Self::Program { name, .. } => format!("the program `{name}` was not found"),
            Self::Module { name: Some(name), from } => {
                let kind = match from {
                    Packages::Cargo => "crate",
                    Packages::Ruby | Packages::Php | Packages::Java => "package",
                    Packages::Node | Packages::Python | Packages::Go => "module",
                };
                format!("the {kind} `{name}` was not found")
            }
            Self::Module { name: None, .. } => "a dependency was not found".to_owned(),
        }
    }

    /// How to install it.
    pub fn remedy(&self) -> String {
        let from = match self {
            Self::Program { from, .. } => *from,
            Self::Module { from, .. } => Some(*from),
        };
        match from {
            Some(from) => format!(
                "{}: write `setup = {}` under [workspace] of the task, or the command that installs \
                 the dependencies of your project",
                from.explanation(),
                from.example()
            ),
            None => "if it belongs to your project, the change removed or renamed it; otherwise install it in \
                     your PATH, or add the command that installs it to `setup` under [workspace] of the task"
                .to_owned(),
        }
    }
}

/// What a failed command was missing, if its output says so. Its exit code alone does not.
pub fn diagnose(result: &CommandResult) -> Option<Missing> {
    let Termination::Exit(code) = result.ended else { return None };
    if code == 0 {
        return None;
    }
    let lines = || result.tail.lines().map(str::trim);
    lines().find_map(missing_module).or_else(|| {
        let name = lines().find_map(missing_program).or_else(|| {
            let first = result.line.split_whitespace().next();
            first.filter(|_| code == COMMAND_NOT_FOUND).map(str::to_owned)
        })?;
        // A shell script can continue without the program and exit with another code.
        let from = package_manager(&name, &result.line);
        Some(Missing::Program { name, from })
    })
}

fn missing_module(line: &str) -> Option<Missing> {
    let found = |name: &str, from| {
        let name = (!name.is_empty()).then(|| name.to_owned());
        Some(Missing::Module { name, from })
    };
    if let Some(rest) = after(line, "No module named ") {
        return found(unquoted(rest), Packages::Python);
    }
    for mark in ["Cannot find module ", "Cannot find package "] {
        if let Some(rest) = after(line, mark) {
            let name = unquoted(rest);
            // A missing file of the project is a fault of the work.
            return (!name.starts_with(['.', '/'])).then(|| found(name, Packages::Node))?;
        }
    }
    for mark in ["no required module provides package ", "cannot find module providing package "] {
        if let Some(rest) = after(line, mark) {
            return found(unquoted(rest), Packages::Go);
        }
    }
    if line.contains("module lookup disabled by GOPROXY=off")
        || (line.contains("dial tcp") && line.contains("@v/"))
    {
        let name = line.split([' ', ':']).find(|word| word.contains('/') && word.contains('@'));
        return found(name.unwrap_or_default(), Packages::Go);
    }
    if let Some(rest) = after(line, "no matching package named ") {
        return found(unquoted(rest), Packages::Cargo);
    }
    if line.contains("attempting to make an HTTP request, but --offline was specified") {
        return found("", Packages::Cargo);
    }
    if let Some(rest) = after(line, "failed to download ").filter(|rest| rest.starts_with('`')) {
        return found(unquoted(rest), Packages::Cargo);
    }
    if let Some(rest) = after(line, "cannot load such file -- ") {
        let name = rest.split([' ', ')']).next().unwrap_or_default();
        return (!name.starts_with(['.', '/'])).then(|| found(name, Packages::Ruby))?;
    }
    if let Some(rest) = after(line, "Could not find gem ") {
        return found(unquoted(rest), Packages::Ruby);
    }
    if line.contains("vendor/autoload.php") && line.contains("Failed opening required") {
        return found("vendor/autoload.php", Packages::Php);
    }
    let java = ["Could not resolve dependencies for project", "Could not resolve all files for"];
    if java.iter().any(|mark| line.contains(mark)) {
        return found("", Packages::Java);
    }
    None
}

/// The name in `sh: 1: mocha: not found`, `bash: line 1: mocha: command not found` or
/// `env: ‘mocha’: No such file or directory`.
fn missing_program(line: &str) -> Option<String> {
    let head = line
        .strip_suffix(": not found")
        .or_else(|| line.strip_suffix(": command not found"))
        .or_else(|| {
            let head = line.strip_suffix(": No such file or directory")?;
            line.contains("env: ").then_some(head)
        })?;
    // Only shells print it in this form.
    head.contains(':').then_some(())?;
    let name = head.rsplit(": ").next()?.trim_matches(['\'', '"', '‘', '’', '`']);
    (!name.is_empty() && !name.contains(' ')).then(|| name.to_owned())
}

fn package_manager(name: &str, line: &str) -> Option<Packages> {
    let first = line.split_whitespace().next().unwrap_or_default();
    if NODE_TOOLS.contains(&name) || name.contains("node_modules/") {
        Some(Packages::Node)
    } else if PYTHON_TOOLS.contains(&name) || name.contains("venv/bin/") {
        Some(Packages::Python)
    } else if NODE_RUNNERS.contains(&first) && name != first {
        Some(Packages::Node)
    } else {
        None
    }
}

fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark).map(|(_, rest)| rest)
}

/// The first word, without quotes and punctuation.
fn unquoted(rest: &str) -> &str {
    let quotes = ['\'', '"', '`', '‘', '’'];
    match rest.chars().next().filter(|first| quotes.contains(first)) {
        Some(_) => {
            let rest = rest.trim_start_matches(quotes);
            rest.split(quotes).next().unwrap_or_default()
        }
        None => {
            let word = rest.split([' ', ';', ',']).next().unwrap_or_default();
            word.trim_end_matches([':', '.'])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::result;

    fn module(name: &str, from: Packages) -> Option<Missing> {
        let name = (!name.is_empty()).then(|| name.to_owned());
        Some(Missing::Module { name, from })
    }

    fn program(name: &str, from: Option<Packages>) -> Option<Missing> {
        Some(Missing::Program { name: name.to_owned(), from })
    }

    #[test]
    fn messages_of_real_tools_name_the_missing_dependency() {
        let node = Packages::Node;
        for (line, code, tail, expected) in [
            (
                "npm test",
                127,
                "> x@1.0.0 test\n> mocha\n\nsh: 1: mocha: not found\n",
                program("mocha", Some(node)),
            ),
            ("npm run lint", 127, "sh: 1: my-lint: not found", program("my-lint", Some(node))),
            (
                "pytest -q",
                127,
                "/bin/sh: 1: pytest: not found",
                program("pytest", Some(Packages::Python)),
            ),
            (".venv/bin/pytest", 127, "", program(".venv/bin/pytest", Some(Packages::Python))),
            ("bash ci.sh", 1, "ci.sh: line 3: cmake: command not found", program("cmake", None)),
            (
                "./run",
                127,
                "/usr/bin/env: ‘deno’: No such file or directory",
                program("deno", None),
            ),
            ("npm test", 127, "/bin/sh: 1: npm: not found", program("npm", None)),
            (
                "python -m pytest",
                1,
                "/x/bin/python: No module named pytest",
                module("pytest", Packages::Python),
            ),
            (
                "python t.py",
                1,
                "ModuleNotFoundError: No module named 'attr.converters'; 'attr' is not a package",
                module("attr.converters", Packages::Python),
            ),
            (
                "node a.js",
                1,
                "Error: Cannot find module 'chai'\nRequire stack:",
                module("chai", node),
            ),
            (
                "node a.mjs",
                1,
                "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'chai' imported from /t/a.mjs",
                module("chai", node),
            ),
            (
                "go test ./...",
                1,
                "a.go:3:8: no required module provides package example.org/x; to add it:",
                module("example.org/x", Packages::Go),
            ),
            (
                "go test ./...",
                1,
                "go: example.org/x@v1.0.0: module lookup disabled by GOPROXY=off",
                module("example.org/x@v1.0.0", Packages::Go),
            ),
            (
                "cargo test",
                101,
                "error: no matching package named `serde` found",
                module("serde", Packages::Cargo),
            ),
            (
                "cargo test",
                101,
                "  attempting to make an HTTP request, but --offline was specified",
                module("", Packages::Cargo),
            ),
            (
                "ruby t.rb",
                1,
                "<internal:kernel>: in `require': cannot load such file -- rspec (LoadError)",
                module("rspec", Packages::Ruby),
            ),
        ] {
            assert_eq!(diagnose(&result(line, code, tail)), expected, "{line}: {tail}");
        }
    }

    #[test]
    fn failure_of_the_work_is_not_a_missing_dependency() {
        for (line, code, tail) in [
            ("npm test", 0, "sh: 1: mocha: not found"),
            ("npm test", 1, "1 failing\n  AssertionError: user not found"),
            ("node a.js", 1, "Error: Cannot find module './lib'"),
            ("make", 2, "make: *** No rule to make target 'x'.  Stop."),
            ("cat x", 1, "cat: x: No such file or directory"),
        ] {
            assert_eq!(diagnose(&result(line, code, tail)), None, "{line}: {tail}");
        }
    }

    #[test]
    fn remedy_shows_the_setting() {
        let missing = diagnose(&result("npm test", 127, "sh: 1: mocha: not found")).unwrap();
        assert_eq!(missing.summary(), "the program `mocha` was not found");
        assert!(missing.remedy().contains("`setup = [\"npm ci\"]` under [workspace]"));
    }
}
