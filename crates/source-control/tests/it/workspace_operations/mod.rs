//! Operations on workspaces, checked by real git.

mod archive;
mod control_plane;
mod killed;
mod random;
mod rebase;
mod requests;
mod runs;

use std::path::{Path, PathBuf};

use bailiwick_source_control::git::{OperationError, Workspace, WorkspaceOperations};
use bailiwick_testkit::Scratch;

/// A repository with a workspace `one` on the branch `work/one`, which has its own commit.
pub(crate) struct Setup {
    pub(crate) scratch: Scratch,
    pub(crate) operations: WorkspaceOperations,
    pub(crate) path: PathBuf,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::repository();
        scratch.write(".gitignore", "*.log\nbuild/\n");
        scratch.write("README.md", "first\n");
        scratch.write("src/a.rs", "fn a() {}\n");
        scratch.write("src/deep er/b.rs", "fn b() {}\n");
        scratch.commit("first");
        let root = scratch.state().join("worktrees");
        let operations =
            WorkspaceOperations::new(&scratch.root(), &root, &scratch.state()).unwrap();
        let path = root.join("one");
        let setup = Self { scratch, operations, path };
        setup.operations.provision(&setup.workspace(), "main").unwrap();
        setup.write("src/own.rs", "fn own() {}\n");
        setup.git(&["add", "--all"]);
        setup.git(&["commit", "--quiet", "-m", "own"]);
        setup
    }

    pub(crate) fn workspace(&self) -> Workspace<'_> {
        Workspace { path: &self.path, branch: "work/one", target: Some("refs/heads/main") }
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let file = self.path.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// Real git in the workspace; it must succeed.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = self.scratch.command("git");
        let output = command.current_dir(&self.path).args(arguments).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Everything that must not be lost: files, the index, git's status.
    pub(crate) fn everything(&self) -> Everything {
        let mut files = crate::workspaces::snapshot(&self.path);
        // Git does not track empty directories.
        files.retain(|path, _| !self.path.join(path).is_dir() || self.path.join(path).is_symlink());
        Everything {
            files,
            staged: self.git(&["ls-files", "--stage", "-z"]),
            status: self.git(&[
                "status",
                "--porcelain=v2",
                "--branch",
                "-z",
                "--untracked-files=all",
            ]),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Everything {
    pub(crate) files: std::collections::BTreeMap<PathBuf, Vec<u8>>,
    staged: String,
    status: String,
}

/// The text of a refusal.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(outcome: Result<T, OperationError>) -> String {
    match outcome {
        Err(error @ OperationError::Refused { .. }) => error.to_string(),
        other => panic!("the operation was not refused: {other:?}"),
    }
}

pub(crate) fn at<'a>(path: &'a Path, branch: &'a str) -> Workspace<'a> {
    Workspace { path, branch, target: Some("refs/heads/main") }
}
