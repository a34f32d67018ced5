//! A repository with the worktrees of two agents, and the sandbox of the first.

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

/// Where the agent's things are, and what it may do.
pub(crate) struct AgentFixture {
    /// The repository.
    pub(crate) scratch: Scratch,
    /// What the sandbox is made of.
    pub(crate) places: AgentPlaces,
}

impl AgentFixture {
    /// An agent that may write to its worktree, and not commit.
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
            for own in ["home", "temp", "gate"] {
                fs::create_dir_all(place.join("state/runs").join(name).join(own)).unwrap();
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

    /// One that may commit, and where that goes.
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

    /// What a command line printed, which must succeed.
    #[track_caller]
    pub(crate) fn says(&self, line: &str) -> String {
        let ran = self.shell(line);
        let text = String::from_utf8_lossy(&ran.tail).into_owned();
        assert_eq!(ran.ended, Termination::Exit(0), "{line}: {text}");
        text
    }

    /// A command line in the worktree, outside of any sandbox: the positive control.
    pub(crate) fn free(&self, line: &str) -> Output {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", line])
            .current_dir(&self.places.worktree)
            .env_clear()
            .envs(self.sandbox().environment);
        shell.output().unwrap()
    }

    /// What a command line does must not be there after it ran inside, and must be after it ran outside.
    #[track_caller]
    pub(crate) fn happens_only_outside(&self, line: &str, mut happened: impl FnMut() -> bool) {
        assert!(!happened(), "it had happened before: {line}");
        let held = self.shell(line);
        let said = String::from_utf8_lossy(&held.tail).into_owned();
        assert!(!happened(), "{line}: {said}");
        let free = self.free(line);
        assert!(happened(), "it does not even happen outside: {line}: {free:?}");
    }

    /// The same for a command line that only has to fail.
    #[track_caller]
    pub(crate) fn works_only_outside(&self, line: &str) {
        let held = self.shell(line);
        let said = String::from_utf8_lossy(&held.tail).into_owned();
        assert_ne!(held.ended, Termination::Exit(0), "{line}: {said}");
        let free = self.free(line);
        assert!(free.status.success(), "it does not even work outside: {line}: {free:?}");
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
