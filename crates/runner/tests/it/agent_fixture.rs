//! A repository with the worktrees of two agents, and the first agent's sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use bailiwick_runner::process::{self, Capture, Finished, Limits};
use bailiwick_runner::sandbox::{AgentPlaces, Bounds, Level, Sandbox, WorktreeAccess, agent};
use bailiwick_testkit::scratch::Scratch;
use bailiwick_verify::job::Termination;

use crate::lab::launcher;

/// The agent's paths and permissions.
pub(crate) struct AgentFixture {
    /// The repository.
    pub(crate) scratch: Scratch,
    /// The paths of which the sandbox is built.
    pub(crate) places: AgentPlaces,
}

impl AgentFixture {
    /// An agent that may write to its worktree but not commit.
    pub(crate) fn new() -> Self {
        let scratch = Scratch::repository();
        scratch.write("file", "first\n");
        scratch.write("rules/deep/rule", "a rule\n");
        scratch.write("Makefile", "all:\n\techo made > $(WHERE)\n");
        scratch.commit("first");
        let place = fs::canonicalize(scratch.place()).unwrap();
        for name in ["one", "two"] {
            let worktree = place.join("state/worktrees").join(name);
            let branch = format!("agent/{name}");
            let add = ["worktree", "add", "--quiet", "-b", &branch, worktree.to_str().unwrap()];
            scratch.git(&add);
            for directory in ["home", "temp", "gate"] {
                fs::create_dir_all(place.join("state/runs").join(name).join(directory)).unwrap();
            }
        }
        let run = place.join("state/runs/one");
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let places = AgentPlaces {
            worktree: place.join("state/worktrees/one"),
            git_common: place.join("repo/.git"),
            git_private: place.join("repo/.git/worktrees/one"),
            home: run.join("home"),
            fixed: Vec::new(),
            open: Vec::new(),
            temp: run.join("temp"),
            programs: Vec::new(),
            gate: Vec::new(),
            layered: Vec::new(),
            access: WorktreeAccess::Writable,
            scratch: run.join("scratch"),
            commits: None,
            read_only_paths: Vec::new(),
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            environment: ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"]
                .map(|name| variable(name, "An Agent"))
                .into_iter()
                .chain(
                    ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]
                        .map(|name| variable(name, "agent@example.org")),
                )
                .collect(),
            listener_port: None,
            bounds: Bounds::default(),
            level: Level::Full,
        };
        Self { scratch, places }
    }

    /// An agent that may commit, and the directory of its commits.
    pub(crate) fn committing() -> (Self, PathBuf) {
        let mut fixture = Self::new();
        let layer = fixture.place().join("state/runs/one/git");
        fixture.places.commits = Some(layer.clone());
        (fixture, layer)
    }

    pub(crate) fn place(&self) -> PathBuf {
        fs::canonicalize(self.scratch.place()).unwrap()
    }

    pub(crate) fn sandbox(&self) -> Sandbox {
        agent(&self.places)
    }

    /// A command line for a shell.
    pub(crate) fn shell(&self, line: &str) -> Finished {
        let argv = ["/bin/sh", "-c", line].map(str::to_owned);
        let limits = Limits { time: Duration::from_mins(3), output: 1 << 20 };
        process::run(&launcher(), &self.sandbox(), &argv, Capture::Merged, limits).unwrap()
    }

    /// The output of a command line that must succeed.
    #[track_caller]
    pub(crate) fn output_of(&self, line: &str) -> String {
        let finished = self.shell(line);
        let text = String::from_utf8_lossy(&finished.tail).into_owned();
        assert_eq!(finished.ended, Termination::Exit(0), "{line}: {text}");
        text
    }

    /// Runs a command line in the worktree without a sandbox: the positive control.
    pub(crate) fn run_outside(&self, line: &str) -> Output {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", line])
            .current_dir(&self.places.worktree)
            .env_clear()
            .envs(self.sandbox().environment);
        shell.output().unwrap()
    }

    /// The command's effect must be absent after it runs inside, and present after it runs outside.
    #[track_caller]
    pub(crate) fn has_effect_only_outside(
        &self,
        line: &str,
        mut effect_exists: impl FnMut() -> bool,
    ) {
        assert!(!effect_exists(), "the effect existed before: {line}");
        let finished = self.shell(line);
        let output = String::from_utf8_lossy(&finished.tail).into_owned();
        assert!(!effect_exists(), "{line}: {output}");
        let outside_run = self.run_outside(line);
        assert!(effect_exists(), "the control: it has no effect outside: {line}: {outside_run:?}");
    }

    /// The command must fail inside and succeed outside.
    #[track_caller]
    pub(crate) fn succeeds_only_outside(&self, line: &str) {
        let finished = self.shell(line);
        let output = String::from_utf8_lossy(&finished.tail).into_owned();
        assert_ne!(finished.ended, Termination::Exit(0), "{line}: {output}");
        let outside_run = self.run_outside(line);
        assert!(
            outside_run.status.success(),
            "the control: it fails outside: {line}: {outside_run:?}"
        );
    }

    /// Every file of the repository's own directory, byte for byte.
    pub(crate) fn repository(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        read_all(&self.places.git_common, &mut files);
        files
    }
}

fn read_all(place: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, files);
        } else {
            let bytes = fs::read(&path).unwrap();
            files.insert(path, bytes);
        }
    }
}
