//! The commits that a worker has, and the work that it sends. They travel as git bundles: a worker needs no forge.

use std::fs::File;
use std::path::{Path, PathBuf};

use bailiwick_fleet::workers::{MAX_WORK_BYTES, WorkClaim};
use bailiwick_lifecycle::ports::{Work as _, WorkError};
use bailiwick_model::AgentId;
use bailiwick_source_control::git::{
    BundleError, Git, MAX_KNOWN_COMMITS, is_object_name, unpack_bundle_file,
};
use thiserror::Error;

use crate::context::Context;
use crate::failure::Failure;
use crate::verifying::{AgentWork, WorkOptions};

/// Why the work of an agent cannot be sent.
#[derive(Debug, Error)]
pub(super) enum WorkFailure {
    /// The work is at fault.
    #[error("its work cannot be sent: {0}")]
    Work(String),
    /// This machine is at fault, and may be able to later.
    #[error("{}", .0.in_one_line())]
    Machine(#[from] Failure),
}

impl From<WorkError> for WorkFailure {
    fn from(error: WorkError) -> Self {
        match error.caused_by_agent {
            true => Self::Work(error.to_string()),
            false => Self::Machine(Failure::general(error.to_string())),
        }
    }
}

impl From<BundleError> for WorkFailure {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::TooLarge { .. } | BundleError::TooManyObjects { .. } => {
                Self::Work(error.to_string())
            }
            BundleError::Git(_)
            | BundleError::Unreadable(_)
            | BundleError::Malformed
            | BundleError::Corrupt(_)
            | BundleError::Interrupted(_) => Self::Machine(Failure::general(error.to_string())),
        }
    }
}

/// References that keep what was fetched.
pub(super) const FETCHED: &str = "refs/bailiwick/fetched-base";

/// The repositories of a worker's directory.
pub(super) struct WorkerRepository {
    directory: PathBuf,
}

impl WorkerRepository {
    /// The repository of this name; it is made if there is none.
    pub(super) fn open(worker: &Path, name: &str) -> Result<Self, Failure> {
        let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_plain {
            return Err(Failure::general("the server names no repository"));
        }
        let directory = worker.join("repositories").join(name);
        if !directory.join(".git/HEAD").exists() {
            std::fs::create_dir_all(&directory).map_err(|error| {
                Failure::general(format!("{} cannot be made: {error}", directory.display()))
            })?;
            Git::at(&directory).run(["init", "--quiet", "--initial-branch=unused", "."])?;
        }
        Ok(Self { directory })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The newest commits that need not be sent.
    pub(super) fn has(&self) -> Result<Vec<String>, Failure> {
        let count = format!("--count={MAX_KNOWN_COMMITS}");
        let newest = ["for-each-ref", "--sort=-committerdate", &count];
        let format = ["--format=%(objectname)", FETCHED];
        let listed = Git::at(&self.directory).run(newest.into_iter().chain(format))?;
        Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
    }

    /// Adds the commits of a bundle; these ones must be there afterwards, and are not sent again.
    pub(super) fn add(&self, bundle: &mut File, commits: &[&str]) -> Result<(), Failure> {
        let git = Git::at(&self.directory);
        unpack_bundle_file(&git, bundle).map_err(|error| {
            Failure::general(format!("the commits were not sent whole: {error}"))
        })?;
        for commit in commits {
            if !is_object_name(commit) {
                return Err(Failure::general(format!("`{commit}` names no commit")));
            }
            git.run(["update-ref", &format!("{FETCHED}/{commit}"), commit])?;
        }
        Ok(())
    }

    /// Checks a commit out, without files.
    pub(super) fn point_at(&self, base: &str) -> Result<(), Failure> {
        let git = Git::at(&self.directory);
        Ok(git.run(["update-ref", "--no-deref", "HEAD", base]).map(drop)?)
    }
}

/// The work of an agent that has ended, and its bundle. It is empty if the agent committed and changed nothing. The
/// bundle is written to a file in `directory` first.
pub(super) fn work(
    context: &Context,
    id: &AgentId,
    directory: &Path,
) -> Result<(WorkClaim, Vec<u8>), WorkFailure> {
    let subject = AgentWork::of_agent(context, id, &WorkOptions::default())?;
    let work = subject.git_work()?;
    let snapshot = work.snapshot(&work.base()?)?;
    let claim = WorkClaim { head: snapshot.head.to_string(), commit: snapshot.commit.to_string() };
    let bundle = match snapshot.commit == subject.base {
        true => Vec::new(),
        false => work.bundle(&snapshot, &subject.base, directory, MAX_WORK_BYTES)?,
    };
    Ok((claim, bundle))
}

/// Where the agent of an attempt works.
pub(super) fn worktree(context: &Context, agent: &str) -> PathBuf {
    context.state.join("worktrees").join(agent)
}

/// Removes the worktree and the private files of an attempt that the server has.
pub(super) fn clean_up(context: &Context, id: &AgentId) {
    let shown = worktree(context, id.as_str()).display().to_string();
    // What stays is only in the way of the disk.
    let git = Git::at(&context.directory);
    let _ = git.run(["worktree", "remove", "--force", "--force", &shown]);
    let _ = git.run(["branch", "-D", &id.branch()]);
    let _ = std::fs::remove_dir_all(context.state.join("runs").join(id.as_str()));
    let _ = std::fs::remove_dir_all(context.directory.join("tasks").join(id.as_str()));
}
