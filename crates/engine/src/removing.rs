//! Removing what a run has left on the disk; the ledger and its events stay.

use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::{RunStore as _, Work as _, WorkError, spec_sha};
use bailiwick_model::claim::ClaimOutcome;
use bailiwick_model::{AgentId, LedgerNote, Run, RunState, RunStatus};
use bailiwick_runner::supervisor::{RunDirectory, RunLock};
use bailiwick_source_control::Repository;

use crate::context::Context;
use crate::failure::Failure;
use crate::running::bound_issue;
use crate::verifying::{AgentWork, WorkOptions};
use crate::{agent_names, claiming, system};

/// The names of the files that a spawn writes for its agent into the checkout.
const TASK_FILES: [&str; 3] = [".gitignore", "task.toml", "prompt.md"];

/// Which work may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveWork {
    /// Only work that has landed or was rejected.
    Finished,
    /// Any.
    Any,
}

/// Removes what a run has left on the disk; returns the run, and whether there was anything.
pub fn remove(
    context: &Context,
    name: &AgentId,
    which: RemoveWork,
) -> Result<(Run, Removed), Failure> {
    let agent = agent_names::require(context, name)?;
    let run = context.with_store(async |store| Ok(store.get(&agent).await?))?;
    let Some(_lock) = lock_run(context, &run)? else {
        return Err(Failure::AtWork { agent: name.clone() });
    };
    let unused = run.state == RunState::Ready && !has_work(context, &run)?;
    if !run.status.next().is_empty() && which == RemoveWork::Finished && !unused {
        return Err(Failure::refused(format!("`{name}` is {}: its work would be lost", run.state))
            .help(format!("reject it first: bailiwick reject {name}; or say --force")));
    }
    let removed = remove_files(context, &run)?;
    if unused {
        context.with_store(async |store| {
            let why = Some("removed before it was started");
            Ok(store.change_status(&run.id, RunStatus::Rejected, why).await?)
        })?;
    }
    Ok((run, removed))
}

/// Locks a run, so that it is not started; `None` if it is locked already.
pub fn lock_run(context: &Context, run: &Run) -> Result<Option<RunLock>, Failure> {
    let directory = RunDirectory::new(&context.state, run.id.as_str());
    directory.lock().map_err(|error| {
        Failure::general(format!("{} cannot be locked: {error}", directory.path().display()))
    })
}

/// Whether the worktree has anything that its base has not. A worktree that is gone has nothing.
fn has_work(context: &Context, run: &Run) -> Result<bool, Failure> {
    if !run.worktree_path.as_ref().is_some_and(|path| Path::new(path).exists()) {
        return Ok(false);
    }
    let subject = AgentWork::of_agent(context, &run.id, &WorkOptions::default())?;
    let failed = |error: WorkError| Failure::general(error.to_string());
    let work = subject.git_work()?;
    let snapshot = work.snapshot(&work.base().map_err(failed)?).map_err(failed)?;
    Ok(snapshot.commit != subject.base || snapshot.head != subject.base)
}

/// Whether there was anything to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    Files,
    Nothing,
}

/// Whether a run has left anything on the disk that can be removed.
pub fn has_files(context: &Context, run: &Run) -> bool {
    let worktree = run.worktree_path.as_ref().map(PathBuf::from);
    let private = private_places(context, run).into_iter().chain(worktree);
    let has_task = task_directory(context, run).is_ok_and(|task| task.is_some());
    has_task || private.into_iter().any(|place| place.exists())
}

/// Removes the worktree, the task directory and the private files of a run that the caller has locked.
pub fn remove_files(context: &Context, run: &Run) -> Result<Removed, Failure> {
    // A result that its issue does not have could not be added later.
    bound_issue::complete(context, &run.id);
    claiming::forge::release(context, &run.id);
    let task = task_directory(context, run)?;
    let worktree = run.worktree_path.as_ref().map(PathBuf::from);
    let places = private_places(context, run).into_iter().chain(task.clone());
    let places: Vec<PathBuf> = places.filter(|place| place.exists()).collect();
    let removed = match worktree.is_some_and(|worktree| worktree.exists()) || !places.is_empty() {
        true => Removed::Files,
        false => Removed::Nothing,
    };
    if let (Some(worktree), Some(repository)) =
        (&run.worktree_path, agent_names::repository_of(context, run))
    {
        forget_worktree(&repository, Path::new(worktree))?;
    }
    for place in places {
        match std::fs::remove_dir_all(&place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::general(format!(
                    "{} cannot be removed: {error}",
                    place.display()
                )));
            }
            Ok(()) | Err(_) => {}
        }
    }
    if let Some(tasks) = task.as_ref().and_then(|task| task.parent()) {
        // It stays if there is anything else in it.
        let _ = std::fs::remove_dir(tasks);
    }
    let now = system::now_ms();
    context.with_store(async |store| {
        if removed == Removed::Files {
            store
                .append_run_note(
                    &run.id,
                    LedgerNote::FilesRemoved,
                    "worktree, task and private files",
                )
                .await?;
        }
        Ok(store.release_run(&run.id, ClaimOutcome::Revoked, now).await?)
    })?;
    Ok(removed)
}

/// The directory with what a spawn gave its agent; `None` if there is none, if git tracks something in it, or
/// if it has another task or other files than those that we wrote.
pub fn task_directory(context: &Context, run: &Run) -> Result<Option<PathBuf>, Failure> {
    let Some(repository) = agent_names::repository_of(context, run) else { return Ok(None) };
    let inside = format!("tasks/{}", run.id);
    let directory = repository.root().join(&inside);
    let is_directory = std::fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir());
    let Ok(entries) = std::fs::read_dir(&directory) else { return Ok(None) };
    let is_ours = |entry: std::fs::DirEntry| {
        TASK_FILES.iter().any(|name| entry.file_name() == *name)
            && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    let all_ours = entries.into_iter().all(|entry| entry.is_ok_and(is_ours));
    let task = std::fs::read_to_string(directory.join("task.toml")).unwrap_or_default();
    let unchanged = spec_sha(&task).as_str() == run.spec_sha;
    if !is_directory || !all_ours || !unchanged {
        return Ok(None);
    }
    let tracked = repository.git().run(["ls-files", "-z", "--", &inside])?;
    Ok(tracked.is_empty().then_some(directory))
}

/// Where a run has files that only its agent needed.
pub fn private_places(context: &Context, run: &Run) -> [PathBuf; 5] {
    RunDirectory::new(&context.state, run.id.as_str()).private_places()
}

/// Takes a worktree away, and git's knowledge of it.
fn forget_worktree(repository: &Repository, worktree: &Path) -> Result<(), Failure> {
    let git = repository.git();
    if worktree.exists() {
        let path = worktree.display().to_string();
        git.run(["worktree", "remove", "--force", &path])?;
    }
    git.run(["worktree", "prune"])?;
    Ok(())
}
