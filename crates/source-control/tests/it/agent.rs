//! An agent in its worktree, and plain git for comparison.

use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::{Base, Preparation, Snapshot, Work as _, Workspaces as _};
use bailiwick_model::AgentId;
use bailiwick_source_control::GitWork;
use bailiwick_testkit::Scratch;

use crate::workspaces::{id, over};

pub(crate) struct Agent {
    pub(crate) id: AgentId,
    pub(crate) worktree: PathBuf,
    repository: PathBuf,
    state: PathBuf,
}

impl Agent {
    /// Spawned from the commit of the checkout.
    pub(crate) fn spawn(scratch: &Scratch, name: &str) -> Self {
        Self::spawn_on(scratch, name, "HEAD")
    }

    pub(crate) fn spawn_on(scratch: &Scratch, name: &str, revision: &str) -> Self {
        let workspaces = over(scratch, scratch.state()).with_base(revision);
        let id = id(name);
        let _lock = workspaces.lock(&id).unwrap();
        workspaces.add_worktree(&id, revision).unwrap();
        workspaces.make_ready(&id, &Preparation::default()).unwrap();
        let worktree = workspaces.worktree_path(&id);
        Self { id, worktree, repository: scratch.root(), state: scratch.state() }
    }

    /// In an existing worktree.
    pub(crate) fn at(repository: &Path, worktree: &Path, state: &Path, name: &str) -> Self {
        Self {
            id: id(name),
            worktree: worktree.to_owned(),
            repository: repository.to_owned(),
            state: state.to_owned(),
        }
    }

    /// The same agent with another state directory, and so without a spawn record.
    pub(crate) fn with_state(self, state: &Path) -> Self {
        Self { state: state.to_owned(), ..self }
    }

    pub(crate) fn work(&self) -> GitWork {
        self.work_on(None)
    }

    pub(crate) fn work_on(&self, base: Option<&str>) -> GitWork {
        let base = base.map(str::to_owned);
        GitWork::open(&self.repository, &self.worktree, &self.state, &self.id, base).unwrap()
    }

    pub(crate) fn snapshot(&self) -> (Base, Snapshot) {
        let work = self.work();
        let base = work.base().unwrap();
        let snapshot = work.snapshot(&base).unwrap();
        (base, snapshot)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let file = self.worktree.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub(crate) fn git(&self, scratch: &Scratch, arguments: &[&str]) -> String {
        git_in(scratch, &self.worktree, arguments)
    }

    pub(crate) fn commit(&self, scratch: &Scratch, message: &str) -> String {
        self.git(scratch, &["add", "--all"]);
        self.git(scratch, &["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(scratch, &["rev-parse", "HEAD"]).trim().to_owned()
    }
}

/// Plain git in a directory; it must succeed.
pub(crate) fn git_in(scratch: &Scratch, directory: &Path, arguments: &[&str]) -> String {
    let output = scratch.command("git").current_dir(directory).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with a few files in one commit.
pub(crate) fn repository() -> Scratch {
    let scratch = Scratch::repository();
    scratch.write("README.md", "first\nsecond\nthird\n");
    scratch.write("src/lib.rs", "fn one() {}\n\nfn two() {}\n\nfn three() {}\n");
    scratch.write("src/deep/er.rs", "// deep\n");
    scratch.write(".gitignore", "target/\n*.log\n");
    scratch.commit("first");
    scratch
}
