//! What a snapshot begins with, looked at beside other work: the commit that is checked out, and the
//! files.

use std::path::Path;
use std::thread::{Builder, JoinHandle};

use bailiwick_control::ports::WorkError;

use super::files::{self, Files};
use super::places::Places;
use super::trouble;
use crate::git::command::{Git, GitError};

/// What is known of a commit.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) commit: String,
    pub(super) tree: String,
    pub(super) date: String,
}

/// The beginning of one snapshot. Nothing of it is left when this is dropped, whether somebody
/// asked for it or not.
#[derive(Debug)]
pub(super) struct Ahead {
    head: Looking<Known>,
    files: Looking<Files>,
}

impl Ahead {
    /// Looks at the work as it is now. Names of objects have `name_length` bytes.
    pub(super) fn start(
        places: &Places,
        state: &Path,
        agent: &str,
        name_length: usize,
    ) -> Result<Self, WorkError> {
        let what = format!("the work in {} cannot be recorded", places.worktree.display());
        let (here, state, agent) = (places.clone(), state.to_owned(), agent.to_owned());
        let files = move || files::record(&here, &state, &agent, name_length);
        let files = Looking::start(&what, files)?;
        let here = places.clone();
        let head = Looking::start(&what, move || head(&here))?;
        Ok(Self { head, files })
    }

    /// The commit that is checked out.
    pub(super) fn head(&mut self) -> Result<Known, WorkError> {
        self.head.found()
    }

    /// The files.
    pub(super) fn files(&mut self) -> Result<Files, WorkError> {
        self.files.found()
    }
}

/// A thread that looks at something.
#[derive(Debug)]
struct Looking<T> {
    what: String,
    thread: Option<JoinHandle<Result<T, WorkError>>>,
}

impl<T: Send + 'static> Looking<T> {
    fn start(
        what: &str,
        look: impl FnOnce() -> Result<T, WorkError> + Send + 'static,
    ) -> Result<Self, WorkError> {
        let thread = Builder::new().spawn(look).map_err(trouble(what))?;
        Ok(Self { what: what.to_owned(), thread: Some(thread) })
    }
}

impl<T> Looking<T> {
    /// What it found, once.
    fn found(&mut self) -> Result<T, WorkError> {
        let given_up = || WorkError {
            what: self.what.clone(),
            why: "it was given up".to_owned(),
            of_tree: false,
        };
        let thread = self.thread.take().ok_or_else(given_up)?;
        thread.join().unwrap_or_else(|_| Err(given_up()))
    }
}

impl<T> Drop for Looking<T> {
    fn drop(&mut self) {
        // Its directory must be gone and its git have ended before we are.
        let _unused = self.thread.take().map(JoinHandle::join);
    }
}

fn head(places: &Places) -> Result<Known, WorkError> {
    let what = || format!("the commit of {} cannot be found", places.worktree.display());
    known(&places.agent_git(), "HEAD")
        .map_err(trouble(what()))?
        .ok_or_else(|| trouble(what())("its branch has no commit"))
}

fn known(git: &Git, revision: &str) -> Result<Option<Known>, GitError> {
    let wanted = format!("{revision}^{{commit}}");
    let quiet = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
    let format = ["log", "-1", "--no-show-signature", "--format=%H %T %ct", "--end-of-options"];
    let text = match git.line(format.into_iter().chain([wanted.as_str(), "--"])) {
        Ok(text) => text,
        Err(error) => return if git.succeeds(quiet)? { Err(error) } else { Ok(None) },
    };
    let parts: Option<[&str; 3]> = text.split(' ').collect::<Vec<_>>().try_into().ok();
    let [commit, tree, date] = parts
        .ok_or_else(|| GitError::UnexpectedOutput { command: "log".to_owned(), output: text.clone() })?;
    Ok(Some(Known { commit: commit.to_owned(), tree: tree.to_owned(), date: date.to_owned() }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Looking, WorkError};

    #[test]
    fn an_error_and_a_panic_are_errors_and_nothing_is_found_twice() {
        let mut found = Looking::start("it", || Ok(7)).unwrap();
        assert_eq!(found.found().unwrap(), 7);
        assert!(found.found().unwrap_err().to_string().contains("given up"));
        let error =
            || Err(WorkError { what: "that".to_owned(), why: "so".to_owned(), of_tree: false });
        let mut refused = Looking::<u8>::start("it", error).unwrap();
        assert_eq!(refused.found().unwrap_err().to_string(), error().unwrap_err().to_string());
        let mut broken = Looking::<u8>::start("it", || panic!("meant to be")).unwrap();
        assert!(broken.found().unwrap_err().to_string().contains("given up"));
    }

    #[test]
    fn what_nobody_asks_for_is_waited_for() {
        let output = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&ended);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let looking = Looking::start("it", move || {
            let _closed = wait.recv();
            mark.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(!ended.load(Ordering::SeqCst));
        drop(go);
        drop(looking);
        assert!(ended.load(Ordering::SeqCst));
    }
}
