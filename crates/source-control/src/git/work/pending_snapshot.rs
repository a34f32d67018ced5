//! The first part of a snapshot, done in background threads: reading HEAD and recording the files.

use std::path::Path;
use std::thread::{Builder, JoinHandle};

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_model::{CommitId, TreeId};

use super::work_error;
use super::worktree_files::{self, RecordedFiles};
use super::worktree_paths::WorktreePaths;
use crate::git::command::{Git, GitError};

/// The commit that is checked out.
#[derive(Debug)]
pub(super) struct HeadCommit {
    pub(super) commit: CommitId,
    pub(super) tree: TreeId,
    pub(super) date: String,
}

/// A snapshot that was started. Dropping it waits for its threads.
#[derive(Debug)]
pub(super) struct PendingSnapshot {
    head: BackgroundTask<HeadCommit>,
    files: BackgroundTask<RecordedFiles>,
}

impl PendingSnapshot {
    /// Starts to record the work as it is now. Object names have `name_length` bytes.
    pub(super) fn start(
        paths: &WorktreePaths,
        state: &Path,
        agent: &str,
        name_length: usize,
    ) -> Result<Self, WorkError> {
        let what = format!("the work in {} cannot be recorded", paths.worktree.display());
        let (thread_paths, state, agent) = (paths.clone(), state.to_owned(), agent.to_owned());
        let files = move || worktree_files::record(&thread_paths, &state, &agent, name_length);
        let files = BackgroundTask::start(&what, files)?;
        let thread_paths = paths.clone();
        let head = BackgroundTask::start(&what, move || head(&thread_paths))?;
        Ok(Self { head, files })
    }

    pub(super) fn head(&mut self) -> Result<HeadCommit, WorkError> {
        self.head.result()
    }

    pub(super) fn files(&mut self) -> Result<RecordedFiles, WorkError> {
        self.files.result()
    }
}

/// A thread with a result. `what` names the task in errors.
#[derive(Debug)]
struct BackgroundTask<T> {
    what: String,
    thread: Option<JoinHandle<Result<T, WorkError>>>,
}

impl<T: Send + 'static> BackgroundTask<T> {
    fn start(
        what: &str,
        task: impl FnOnce() -> Result<T, WorkError> + Send + 'static,
    ) -> Result<Self, WorkError> {
        let thread = Builder::new().spawn(task).map_err(work_error(what))?;
        Ok(Self { what: what.to_owned(), thread: Some(thread) })
    }
}

impl<T> BackgroundTask<T> {
    /// Waits for the result, which can be taken once.
    fn result(&mut self) -> Result<T, WorkError> {
        let panicked = || WorkError {
            what: self.what.clone(),
            why: "its thread panicked".to_owned(),
            caused_by_agent: false,
        };
        let thread = self.thread.take().ok_or_else(panicked)?;
        thread.join().unwrap_or_else(|_| Err(panicked()))
    }
}

impl<T> Drop for BackgroundTask<T> {
    fn drop(&mut self) {
        // Its scratch directory and its git must not outlive this process.
        let _unused = self.thread.take().map(JoinHandle::join);
    }
}

fn head(paths: &WorktreePaths) -> Result<HeadCommit, WorkError> {
    let what = || format!("the commit of {} cannot be found", paths.worktree.display());
    read_commit(&paths.worktree_git(), "HEAD")
        .map_err(work_error(what()))?
        .ok_or_else(|| work_error(what())("its branch has no commit"))
}

fn read_commit(git: &Git, revision: &str) -> Result<Option<HeadCommit>, GitError> {
    let wanted = format!("{revision}^{{commit}}");
    let quiet = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
    let format = ["log", "-1", "--no-show-signature", "--format=%H %T %ct", "--end-of-options"];
    let text = match git.line(format.into_iter().chain([wanted.as_str(), "--"])) {
        Ok(text) => text,
        Err(error) => return if git.succeeds(quiet)? { Err(error) } else { Ok(None) },
    };
    let parts: Option<[&str; 3]> = text.split(' ').collect::<Vec<_>>().try_into().ok();
    let [commit, tree, date] = parts.ok_or_else(|| GitError::UnexpectedOutput {
        command: "log".to_owned(),
        output: text.clone(),
    })?;
    let (commit, tree) = (CommitId::new(commit), TreeId::new(tree));
    Ok(Some(HeadCommit { commit, tree, date: date.to_owned() }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{BackgroundTask, WorkError};

    #[test]
    fn result_can_be_taken_once_and_a_panic_is_an_error() {
        let mut found = BackgroundTask::start("it", || Ok(7)).unwrap();
        assert_eq!(found.result().unwrap(), 7);
        assert!(found.result().unwrap_err().to_string().contains("panicked"));
        let error = || {
            Err(WorkError { what: "that".to_owned(), why: "so".to_owned(), caused_by_agent: false })
        };
        let mut refused = BackgroundTask::<u8>::start("it", error).unwrap();
        assert_eq!(refused.result().unwrap_err().to_string(), error().unwrap_err().to_string());
        let mut broken = BackgroundTask::<u8>::start("it", || panic!("meant to be")).unwrap();
        assert!(broken.result().unwrap_err().to_string().contains("panicked"));
    }

    #[test]
    fn dropped_task_is_waited_for() {
        let finished = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&finished);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let task = BackgroundTask::start("it", move || {
            let _closed = wait.recv();
            mark.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(!finished.load(Ordering::SeqCst));
        drop(go);
        drop(task);
        assert!(finished.load(Ordering::SeqCst));
    }
}
