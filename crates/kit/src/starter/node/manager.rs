//! Which package manager a project uses, and how it is called.

use super::super::files::Directory;
use super::super::stack::quote;
use super::super::tool::Tool;
use super::package::Package;

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Npm,
    Pnpm,
    Yarn,
    YarnClassic,
    Bun,
}

/// A package manager in one directory.
pub(super) struct Manager {
    program: Program,
    /// The file that decided.
    pub(super) evidence: &'static str,
    /// Whether its lock file is there.
    pub(super) locked: bool,
}

const LOCK_FILES: [(&str, Program); 6] = [
    ("pnpm-lock.yaml", Program::Pnpm),
    ("yarn.lock", Program::Yarn),
    ("bun.lock", Program::Bun),
    ("bun.lockb", Program::Bun),
    ("package-lock.json", Program::Npm),
    ("npm-shrinkwrap.json", Program::Npm),
];

impl Manager {
    /// `packageManager` decides, then the lock file; npm is what everybody has.
    pub(super) fn of(directory: Directory<'_>, package: Option<&Package>) -> Self {
        let locks = || LOCK_FILES.into_iter().filter(|(file, _)| directory.has(file));
        let named = package.and_then(|package| named(package.manager.as_deref()?));
        let program =
            named.or_else(|| locks().next().map(|(_, program)| program)).unwrap_or(Program::Npm);
        let family = |of: Program| if of == Program::YarnClassic { Program::Yarn } else { of };
        let lock = locks().find(|(_, of)| *of == family(program)).map(|(file, _)| file);
        let classic = program == Program::Yarn && named.is_none() && is_classic(directory);
        let program = if classic { Program::YarnClassic } else { program };
        Self { program, evidence: lock.unwrap_or("package.json"), locked: lock.is_some() }
    }

    pub(super) fn tool(&self) -> Tool {
        match self.program {
            Program::Npm => Tool::Npm,
            Program::Pnpm => Tool::Pnpm,
            Program::Yarn => Tool::Yarn,
            Program::YarnClassic => Tool::YarnClassic,
            Program::Bun => Tool::Bun,
        }
    }

    pub(super) fn command_name(&self) -> &'static str {
        match self.program {
            Program::Pnpm => "pnpm",
            Program::Yarn | Program::YarnClassic => "yarn",
            Program::Bun => "bun",
            Program::Npm => "npm",
        }
    }

    /// Without a lock file nothing is installed unless needed, and no lock file is written.
    pub(super) fn setup(&self, needed: bool) -> Vec<String> {
        let line = match (self.program, self.locked) {
            (Program::Pnpm, true) => "pnpm install --frozen-lockfile",
            (Program::Pnpm, false) => "pnpm install --no-lockfile",
            (Program::Yarn, true) => "yarn install --immutable",
            (Program::Yarn, false) => "yarn install",
            (Program::YarnClassic, true) => "yarn install --frozen-lockfile",
            (Program::YarnClassic, false) => "yarn install --no-lockfile",
            (Program::Bun, true) => "bun install --frozen-lockfile",
            (Program::Bun, false) => "bun install --no-save",
            (Program::Npm, true) => "npm ci",
            (Program::Npm, false) => "npm install --no-package-lock",
        };
        if needed { vec![line.to_owned()] } else { Vec::new() }
    }

    pub(super) fn run(&self, script: &str) -> String {
        let program = self.command_name();
        match (self.program, script) {
            (Program::Bun, _) => format!("bun run {script}"),
            (_, "test") => format!("{program} test"),
            _ => format!("{program} run {script}"),
        }
    }

    /// The tests of the members of a workspace.
    pub(super) fn member_tests(&self, members: &[&Package]) -> Vec<String> {
        let one = |member: &&Package| {
            Some(format!("yarn workspace {} test", quote(member.name.as_deref()?)))
        };
        match self.program {
            Program::Pnpm => vec!["pnpm -r --if-present run test".to_owned()],
            Program::Yarn | Program::YarnClassic => members.iter().filter_map(one).collect(),
            Program::Bun => vec!["bun run --filter '*' test".to_owned()],
            Program::Npm => vec!["npm test --workspaces --if-present".to_owned()],
        }
    }
}

/// `pnpm@9.1.0` names a program and a version.
fn named(field: &str) -> Option<Program> {
    let (program, version) = field.split_once('@').unwrap_or((field, ""));
    match program {
        "npm" => Some(Program::Npm),
        "pnpm" => Some(Program::Pnpm),
        "bun" => Some(Program::Bun),
        "yarn" if version.starts_with("1.") || version == "1" => Some(Program::YarnClassic),
        "yarn" => Some(Program::Yarn),
        _ => None,
    }
}

/// Yarn 2 and later have settings in .yarnrc.yml and their own form of lock file.
fn is_classic(directory: Directory<'_>) -> bool {
    let lock = directory.read("yarn.lock").unwrap_or_default();
    !directory.has(".yarnrc.yml") && !lock.contains("__metadata:")
}
