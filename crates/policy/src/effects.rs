//! The effects of a call, as far as the call itself shows them.

use crate::call::{Action, Call, Target, Touch};
use crate::shell::{
    self, CopyWithLinks, Directory, Field, Hidden, HiddenReason, LinkPlace, ProgramRun,
    VariableSet, Write, WriteKind,
};

/// The effects of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Programs and builtins that it starts, or may start.
    pub runs: Vec<ProgramRun>,
    /// Files that it writes, or may write.
    pub writes: Vec<Write>,
    /// Scripts that it runs and whose text is not here.
    pub scripts_not_in_text: Vec<Field>,
    /// Programs that are named by a path, and that path as seen from where the call starts.
    pub programs_by_path: Vec<(String, String)>,
    /// Variables that it sets and that change what a name or a program means.
    pub sets: Vec<VariableSet>,
    /// Names that it gives to something else.
    pub links: Vec<LinkPlace>,
    /// The copies that contain links.
    pub copies: Vec<CopyWithLinks>,
    /// The parts that the text does not show.
    pub hidden: Vec<Hidden>,
}

impl Effects {
    /// The effects of this call.
    pub fn of(call: &Call) -> Self {
        match &call.action {
            Action::Shell(command) => Self::of_command(command, call.ungated_terminal_input),
            Action::TerminalInput => {
                let text = "text that is typed into a running program".to_owned();
                let hidden = vec![Hidden { why: HiddenReason::Interactive, text }];
                Self { hidden, ..Self::default() }
            }
            Action::Files(targets) => {
                Self { writes: written(targets, &call.cli_tool_name), ..Self::default() }
            }
            Action::ShellAndFiles(command, targets) => {
                let mut effects = Self::of_command(command, call.ungated_terminal_input);
                effects.writes.extend(written(targets, &call.cli_tool_name));
                effects
            }
            Action::NoKnownEffect => Self::default(),
        }
    }

    fn of_command(command: &str, ungated_terminal_input: bool) -> Self {
        let reading = shell::read(command);
        let mut hidden = reading.hidden;
        // A shell that waits for input gets none if nobody can type into it.
        hidden.retain(|hidden| ungated_terminal_input || hidden.why != HiddenReason::Interactive);
        hidden.extend(run_after_written(&reading.runs, &reading.writes));
        Self {
            runs: reading.runs,
            writes: reading.writes,
            scripts_not_in_text: reading.scripts_not_in_text,
            programs_by_path: reading.programs_by_path,
            sets: reading.sets,
            links: reading.links,
            copies: reading.copies,
            hidden,
        }
    }

    /// Whether something is deleted or moved, so that what was looked up may no longer hold.
    pub fn removes(&self) -> bool {
        self.writes
            .iter()
            .any(|write| matches!(write.kind, WriteKind::Delete | WriteKind::DeleteTree))
    }
}

/// The files that a tool writes.
fn written(targets: &[Target], by: &str) -> Vec<Write> {
    let mut writes = Vec::new();
    for target in targets {
        let kind = match target.touch {
            Touch::Read => continue,
            Touch::Change => WriteKind::Change,
            Touch::Delete => WriteKind::Delete,
        };
        for path in meanings(&target.path) {
            let (path, from) = (Field::path(&path), vec![Directory::start()]);
            writes.push(Write {
                path,
                from,
                kind,
                by: by.to_owned(),
                named: None,
                only_existing: false,
            });
        }
    }
    writes
}

/// The meanings of a path: for the kernel, and for a CLI that trims it and removes `x/..` without checking whether
/// `x` is a link.
fn meanings(path: &str) -> Vec<String> {
    let mut meanings = vec![path.to_owned()];
    let trimmed = path.trim();
    let mut parts: Vec<&str> = Vec::new();
    for part in trimmed.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if trimmed.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let parts = parts.join("/");
    let plain = match trimmed.starts_with('/') {
        true => format!("/{parts}"),
        false if parts.is_empty() => ".".to_owned(),
        false => parts,
    };
    if path.contains("..") || trimmed != path {
        meanings.push(plain);
    }
    meanings
}

/// A program that the command itself has put where it runs it from: a copy, a link, an archive.
fn run_after_written(runs: &[ProgramRun], writes: &[Write]) -> Vec<Hidden> {
    let bare = |path: &str| path.trim_start_matches("./").to_owned();
    // A text that is written is read where it is run, and what changes no content hides nothing.
    // What is compiled or installed is as little known as any other program.
    const KNOWN: [&str; 18] = [
        ">",
        "tee",
        "chmod",
        "chown",
        "chgrp",
        "touch",
        "mkdir",
        "gcc",
        "cc",
        "clang",
        "g++",
        "c++",
        "clang++",
        "rustc",
        "go",
        "venv",
        "virtualenv",
        "uv",
    ];
    let known = |by: &str| KNOWN.contains(&by);
    let written: Vec<&Write> = writes.iter().filter(|write| !known(&write.by)).collect();
    let paths: Vec<(String, WriteKind)> =
        written.iter().filter_map(|write| Some((bare(&write.path.known()?), write.kind))).collect();
    let put = |program: &str| {
        let program = bare(program);
        paths.iter().any(|(path, kind)| {
            *path == program || (*kind == WriteKind::WriteBelow && program.starts_with(path))
        })
    };
    // In an unknown directory, anything that is unpacked or has that name may be what runs.
    let put_somewhere = |run: &ProgramRun| {
        let name = run.name().filter(|_| run.program().is_none());
        name.is_some_and(|name| {
            written.iter().any(|write| {
                let path = write.path.known();
                write.kind == WriteKind::WriteBelow || path.is_none_or(|path| path.ends_with(&name))
            })
        })
    };
    let somewhere = runs.iter().filter(|run| put_somewhere(run));
    let somewhere = somewhere.filter_map(|run| run.argv.first().map(ToString::to_string));
    let programs = runs.iter().filter(|run| !run.builtin).filter_map(ProgramRun::program);
    let programs = programs.filter(|program| program.contains('/') && put(program));
    programs
        .chain(somewhere)
        .map(|program| Hidden {
            why: HiddenReason::ComputedName,
            text: format!("{program}, which the command itself puts there"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_includes_every_interpretation_by_a_tool() {
        for (path, other_reading) in [
            ("src/a.rs", None),
            ("/a//b", None),
            ("docs/link/../x", Some("docs/x")),
            ("../x", Some("../x")),
            ("a/../..", Some("..")),
            ("/../x", Some("/x")),
            ("a/..", Some(".")),
            (" /etc/x ", Some("/etc/x")),
        ] {
            let expected: Vec<&str> = std::iter::once(path).chain(other_reading).collect();
            assert_eq!(meanings(path), expected, "{path}");
        }
    }
}
