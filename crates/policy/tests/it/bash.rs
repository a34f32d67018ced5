//! Real bash, with a PATH of stubs that record their runs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// Names that are recorded when they run; no system has programs with these names.
pub(crate) const STUBS: [&str; 8] = ["gti", "s0", "s1", "s2", "s3", "s4", "push", "wipe"];

/// Real programs that start others or only read.
const REAL: [&str; 22] = [
    "bash", "sh", "env", "timeout", "nice", "nohup", "xargs", "find", "setsid", "stdbuf", "flock",
    "cat", "true", "seq", "printf", "sed", "tr", "mkdir", "head", "sort", "wc", "grep",
];

/// Stubs, and nothing else in PATH except programs that start others or only read.
pub(crate) struct Oracle {
    place: TempDir,
}

/// A separate bash: a scratch directory that is reused, and the program that
/// starts bash in it.
pub(crate) struct Bash {
    scratch: PathBuf,
    runner: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The effects of a command.
pub(crate) struct Done {
    /// The stubs that ran.
    pub(crate) ran: BTreeSet<String>,
    /// The files below the scratch directory.
    pub(crate) files: BTreeSet<String>,
}

impl Oracle {
    /// Builds the stubs and the runner, which are one program with many names.
    pub(crate) fn new() -> Self {
        Self::with(&[], &[])
    }

    /// With additional real programs, and additional stubs that create a file of their name
    /// in the scratch directory of the first bash: programs that close every descriptor may run them.
    pub(crate) fn with(more: &[&str], leaving: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let bin = place.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let source = place.path().join("bash.c");
        fs::write(&source, include_str!("bash.c")).unwrap();
        let runner = place.path().join("runner");
        let build = |arguments: &[&str]| {
            let command =
                Command::new("cc").args(arguments).arg("-o").arg(&runner).arg(&source).output();
            command.expect("cc is needed: install a C compiler")
        };
        // A static program starts twice as fast, but not every system can link one.
        if !build(&["-O1", "-static"]).status.success() {
            let built = build(&["-O1"]);
            assert!(built.status.success(), "cc: {}", String::from_utf8_lossy(&built.stderr));
        }
        for name in STUBS {
            fs::hard_link(&runner, bin.join(name)).unwrap();
        }
        for name in leaving {
            let marker = place.path().join("scratch-0").join(name);
            executable(&bin.join(name), &format!(": >'{}'", marker.display()));
        }
        for name in REAL.iter().chain(more) {
            let real = find(name).unwrap_or_else(|| panic!("{name} is needed"));
            if *name == "python3" {
                executable(&bin.join(name), &format!("exec '{}' \"$@\"", python(&real)));
                continue;
            }
            std::os::unix::fs::symlink(real, bin.join(name)).unwrap();
        }
        Self { place }
    }

    /// A bash for one thread.
    pub(crate) fn bash(&self, number: usize) -> Bash {
        let scratch = self.place.path().join(format!("scratch-{number}"));
        fs::create_dir(&scratch).unwrap();
        let mut runner = Command::new(self.place.path().join("runner"))
            .args([scratch.as_path(), &self.place.path().join("bin"), &find("bash").unwrap()])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = runner.stdin.take().unwrap();
        let answers = BufReader::new(runner.stdout.take().unwrap());
        Bash { scratch, runner, commands, answers }
    }
}

impl Bash {
    /// The effects of a command; `None` if it did not end in time.
    pub(crate) fn run(&mut self, command: &str) -> Option<Done> {
        write!(self.commands, "{}\n{command}", command.len()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let files = self.clear();
        match answer.trim_end().split_once(' ').unwrap_or((answer.trim_end(), "")) {
            ("ran", names) => {
                let ran = names.split_whitespace().map(str::to_owned).collect();
                Some(Done { ran, files })
            }
            ("slow", _) => None,
            _ => panic!("the runner ended at: {command}"),
        }
    }

    /// Empties the scratch directory; returns the files that were in it.
    fn clear(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        list(&self.scratch, "", &mut files);
        for entry in fs::read_dir(&self.scratch).unwrap() {
            let entry = entry.unwrap();
            let removed = match entry.file_type().unwrap().is_dir() {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            };
            removed.unwrap();
        }
        files
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        let _ = self.runner.kill();
        let _ = self.runner.wait();
    }
}

fn list(place: &Path, below: &str, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(place).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        match entry.file_type().unwrap().is_dir() {
            true => list(&entry.path(), &format!("{name}/"), files),
            false => {
                files.insert(name);
            }
        }
    }
}

fn executable(path: &Path, line: &str) {
    fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// The program found may be a script that searches PATH for python.
fn python(found: &Path) -> String {
    let output = Command::new(found).args(["-c", "import sys; print(sys.executable)"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(name)).find(|file| file.is_file())
}
