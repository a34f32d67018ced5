//! Recording the files of an agent's worktree in an index of our own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use bailiwick_lifecycle::ports::{Base, WorkError};
use bailiwick_model::TreeId;
use bailiwick_model::well_known::report_path;

use super::index_cache::{self, IndexCopy};
use super::scratch_directory::ScratchDirectory;
use super::worktree_paths::WorktreePaths;
use super::{
    disabled_filters, filtered_files, index_file, index_normalization, regular_file, work_error,
};
use crate::git::command::{Git, GitError, Input};
use crate::git::timeout::Timeout;

/// Enough for a worktree of any size.
const TIMEOUT: Timeout = Timeout {
    grace: Duration::from_secs(2),
    limit: Duration::from_secs(1_800),
    find_obstacle: regular_file::find_blocking_file,
};

/// The mode of a submodule in an index.
const SUBMODULE_MODE: &[u8] = b"160000 ";

/// The recorded files.
#[derive(Debug)]
pub(super) enum RecordedFiles {
    /// The tree of all files that are tracked or would be tracked.
    Tree(TreeId),
    /// The same with a report file: only the base tells whether it belongs to the work.
    Staged(StagedFiles),
}

/// An index of ours with all files.
#[derive(Debug)]
pub(super) struct StagedFiles {
    directory: ScratchDirectory,
    git: Git,
}

/// Records the files as they are now. Object names have `name_length` bytes.
pub(super) fn record(
    paths: &WorktreePaths,
    state: &Path,
    agent: &str,
    name_length: usize,
) -> Result<RecordedFiles, WorkError> {
    let report = paths.worktree.join(report_path(agent));
    let is_reported = || fs::symlink_metadata(&report).is_ok();
    let was_reported = is_reported();
    let staged = stage(paths, state, agent, name_length)?;
    if was_reported || is_reported() {
        return Ok(RecordedFiles::Staged(staged));
    }
    staged.write(paths).map(RecordedFiles::Tree)
}

fn stage(
    paths: &WorktreePaths,
    state: &Path,
    agent: &str,
    name_length: usize,
) -> Result<StagedFiles, WorkError> {
    let what = || what(paths);
    let directory = ScratchDirectory::create(state).map_err(work_error(what()))?;
    let path = directory.path().join("index");
    let copy = copy_index(&paths.git_dir.join("index"), &path).map_err(work_error(what()))?;
    let git = paths
        .worktree_git()
        .with_timeout(TIMEOUT)
        .with_env("GIT_INDEX_FILE", &path)
        .with_settings(SETTINGS)
        .with_settings(disabled_filters::without_filters(paths).map_err(work_error(what()))?);
    let lock = directory.lock();
    if let Some(copy) = &copy {
        if index_file::parse_plain(&copy.bytes, name_length).is_some() {
            let kept = state.join("runs").join(agent).join("index");
            index_cache::refresh(&git, lock, copy, &kept, name_length)
                .map_err(work_error(what()))?;
        } else {
            index_normalization::normalize(&git, paths)?;
        }
    }
    let added = git.output(["add", "--all", "--sparse"], Input::File(lock));
    let output = added.map_err(work_error(what()))?;
    if output.exit_code != Some(0) {
        return Err(work_error(what())(output.into_error()));
    }
    // Git warns of a repository within the worktree; files alone are added without a word.
    let nested = if output.stderr.is_empty() {
        Vec::new()
    } else {
        let before = copy.as_ref().map(|copy| copy.bytes.as_slice());
        embedded_repositories(&git, &directory, before).map_err(work_error(what()))?
    };
    if !nested.is_empty() {
        let why = format!(
            "{} has a git repository of its own, so that its files would be left out; remove its \
             .git, or have it ignored",
            nested.join(", ")
        );
        return Err(WorkError { what: what(), why, caused_by_agent: true });
    }
    if let Some(copy) = copy.as_ref().filter(|copy| filtered_files::may_exist(paths, &copy.bytes)) {
        filtered_files::restore_unmodified(&git, &paths.worktree, &copy.bytes)
            .map_err(work_error(what()))?;
    }
    Ok(StagedFiles { directory, git })
}

impl StagedFiles {
    /// The tree, for work that is to land on this base.
    pub(super) fn tree(
        self,
        paths: &WorktreePaths,
        agent: &str,
        base: &Base,
    ) -> Result<TreeId, WorkError> {
        leave_report_out(&self.git, agent, base).map_err(work_error(what(paths)))?;
        self.write(paths)
    }

    fn write(&self, paths: &WorktreePaths) -> Result<TreeId, WorkError> {
        let stdout = self.git.run_with_input(["write-tree"], Input::File(self.directory.lock()));
        stdout
            .map(|stdout| TreeId::new(String::from_utf8_lossy(&stdout).trim()))
            .map_err(work_error(what(paths)))
    }
}

fn what(paths: &WorktreePaths) -> String {
    format!("the files of {} cannot be recorded", paths.worktree.display())
}

/// The agent's report is not part of the work, unless the base tracks it.
fn leave_report_out(git: &Git, agent: &str, base: &Base) -> Result<(), GitError> {
    let path = report_path(agent);
    if git.succeeds(["cat-file", "-e", &format!("{}:{path}", base.tip)])? {
        return Ok(());
    }
    git.run(["update-index", "--force-remove", "--", &path]).map(drop)
}

/// Directories that `git add` recorded as submodules because they are repositories: their files are left out.
fn embedded_repositories(
    git: &Git,
    directory: &ScratchDirectory,
    index_before: Option<&[u8]>,
) -> Result<Vec<String>, GitError> {
    let mut submodules = list_submodules(git, directory)?;
    if let Some(bytes) = index_before {
        let path = directory.path().join("index-before");
        fs::write(&path, bytes).map_err(|source| GitError::Io {
            action: format!("cannot write {}", path.display()),
            source,
        })?;
        let known = list_submodules(&git.clone().with_env("GIT_INDEX_FILE", &path), directory)?;
        submodules.retain(|path| !known.contains(path));
    }
    Ok(submodules.into_iter().collect())
}

/// The paths of an index that are submodules.
fn list_submodules(git: &Git, directory: &ScratchDirectory) -> Result<BTreeSet<String>, GitError> {
    let listed =
        git.run_with_input(["ls-files", "--stage", "-z"], Input::File(directory.lock()))?;
    let entries = listed.split(|byte| *byte == 0);
    let path = |entry: &[u8]| {
        let rest = entry.strip_prefix(SUBMODULE_MODE)?;
        let at = rest.iter().position(|byte| *byte == b'\t')?;
        Some(String::from_utf8_lossy(rest.get(at + 1..)?).into_owned())
    };
    Ok(entries.filter_map(path).collect())
}

/// Overrides of settings that would hide changes, write elsewhere, or make git fail.
const SETTINGS: [(&str, &str); 11] = [
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
];

/// Copies the index; `None` if there is none.
pub(super) fn copy_index(from: &Path, to: &Path) -> io::Result<Option<IndexCopy>> {
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
    // Git reads files again that are as new as their index, so the copy must have the same time.
    index_cache::set_modified_time(to, written)?;
    Ok(Some(IndexCopy { path: to.to_owned(), bytes, written, made }))
}
