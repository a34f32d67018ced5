//! The files of an agent's worktree, written by git into an index of our own.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use bailiwick_control::ports::{Base, WorkError};
use bailiwick_model::well_known::report_path;

use super::places::Places;
use super::private::PrivateDirectory;
use super::refreshed::{self, Copy};
use super::{filtered, index, peculiar, plain_file, programs, trouble};
use crate::git::command::{Git, GitError, Input};
use crate::git::timeout::Timeout;

/// A worktree of any size is recorded within this time.
const TIMEOUT: Timeout = Timeout {
    grace: Duration::from_secs(2),
    limit: Duration::from_secs(1_800),
    find_obstacle: plain_file::obstacle,
};

/// What has been recorded of the files.
#[derive(Debug)]
pub(super) enum Files {
    /// Every file that is tracked or would be, as the worktree has it.
    Tree(String),
    /// The same, with a report of which only the base can tell whether it belongs to it.
    Staged(Staged),
}

/// An index of ours that has all files.
#[derive(Debug)]
pub(super) struct Staged {
    directory: PrivateDirectory,
    git: Git,
}

/// Records the files as they are now. Names of objects have `name_length` bytes.
pub(super) fn record(
    places: &Places,
    state: &Path,
    agent: &str,
    name_length: usize,
) -> Result<Files, WorkError> {
    let report = places.worktree.join(report_path(agent));
    let is_reported = || fs::symlink_metadata(&report).is_ok();
    let was_reported = is_reported();
    let staged = stage(places, state, agent, name_length)?;
    if was_reported || is_reported() {
        return Ok(Files::Staged(staged));
    }
    staged.write(places).map(Files::Tree)
}

fn stage(
    places: &Places,
    state: &Path,
    agent: &str,
    name_length: usize,
) -> Result<Staged, WorkError> {
    let what = || what(places);
    let directory = PrivateDirectory::make(state).map_err(trouble(what()))?;
    let place = directory.path().join("index");
    let copy = copy_index(&places.private.join("index"), &place).map_err(trouble(what()))?;
    let git = places
        .agent_git()
        .with_timeout(TIMEOUT)
        .with_env("GIT_INDEX_FILE", &place)
        .with_settings(&settings())
        .with_settings(&programs::without_filters(places).map_err(trouble(what()))?);
    let lock = directory.lock();
    if let Some(copy) = &copy {
        if index::plain(&copy.bytes, name_length).is_some() {
            let kept = state.join("runs").join(agent).join("index");
            refreshed::refresh(&git, lock, copy, &kept, name_length).map_err(trouble(what()))?;
        } else {
            peculiar::settle(&git, places)?;
        }
    }
    let added = git.output(["add", "--all", "--sparse"], Input::File(lock));
    let output = added.map_err(trouble(what()))?;
    if output.exit_code != Some(0) {
        return Err(trouble(what())(output.into_error()));
    }
    let nested = embedded_repositories(&output.stderr);
    if !nested.is_empty() {
        let why = format!(
            "{} has a git repository of its own, so that its files would be left out; remove its \
             .git, or have it ignored",
            nested.join(", ")
        );
        return Err(WorkError { what: what(), why, of_tree: true });
    }
    if let Some(copy) = copy.as_ref().filter(|copy| filtered::may_be_any(places, &copy.bytes)) {
        filtered::put_back(&git, &places.worktree, &copy.bytes).map_err(trouble(what()))?;
    }
    Ok(Staged { directory, git })
}

impl Staged {
    /// The tree of it, for work that is to land on this base.
    pub(super) fn tree(
        self,
        places: &Places,
        agent: &str,
        base: &Base,
    ) -> Result<String, WorkError> {
        leave_report_out(&self.git, agent, base).map_err(trouble(what(places)))?;
        self.write(places)
    }

    fn write(&self, places: &Places) -> Result<String, WorkError> {
        let printed = self.git.run_with_input(["write-tree"], Input::File(self.directory.lock()));
        printed
            .map(|printed| String::from_utf8_lossy(&printed).trim().to_owned())
            .map_err(trouble(what(places)))
    }
}

fn what(places: &Places) -> String {
    format!("the files of {} cannot be recorded", places.worktree.display())
}

/// The agent's report is for whoever reads it, and no part of the work; unless the base has it.
fn leave_report_out(git: &Git, agent: &str, base: &Base) -> Result<(), GitError> {
    let path = report_path(agent);
    if git.succeeds(["cat-file", "-e", &format!("{}:{path}", base.tip)])? {
        return Ok(());
    }
    git.run(["update-index", "--force-remove", "--", &path]).map(drop)
}

/// Directories that `git add` recorded as submodules because they are repositories; their files are left
/// out. Git reports this only by a warning.
fn embedded_repositories(stderr: &str) -> Vec<&str> {
    let warning = "warning: adding embedded git repository: ";
    stderr.lines().filter_map(|line| line.strip_prefix(warning)).collect()
}

/// Settings of the repository that would hide changes, write elsewhere, or refuse.
fn settings() -> Vec<(String, String)> {
    [
        ("core.trustctime", "true"),
        ("core.checkStat", "default"),
        ("core.safecrlf", "false"),
        ("core.sparseCheckout", "false"),
        ("core.splitIndex", "false"),
        ("core.untrackedCache", "false"),
        ("core.fsyncMethod", "batch"),
        ("index.sparse", "false"),
        ("index.skipHash", "true"),
        ("add.ignoreErrors", "false"),
        ("advice.addEmbeddedRepo", "false"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// Copies the index; nothing if there is none.
pub(super) fn copy_index(from: &Path, to: &Path) -> io::Result<Option<Copy>> {
    let mut file = match File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let written = file.metadata()?.modified()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    fs::write(to, &bytes)?;
    let made = fs::metadata(to)?.modified()?;
    // Git looks again at files that are as young as their index: the copy must not look younger.
    refreshed::date(to, written)?;
    Ok(Some(Copy { place: to.to_owned(), bytes, written, made }))
}
