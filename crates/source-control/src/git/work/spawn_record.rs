//! The state of a repository when an agent was spawned: `<state>/runs/<id>/spawned.json`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_model::{AgentId, CommitId, Sha256Hex};
use serde::{Deserialize, Serialize};

use super::base_branch::{self, BaseBranch};
use super::worktree_paths::WorktreePaths;
use super::{regular_file, work_error};
use crate::git::command::{Git, GitError};

/// The state of a repository when an agent was spawned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRecord {
    /// The branch to land on, if it could be found.
    pub base: Option<BaseBranch>,
    /// The commit that the agent started from.
    pub commit: CommitId,
    /// The branch that was checked out in its worktree; `None` if HEAD was detached.
    pub head: Option<String>,
    /// All references and their objects.
    pub references: BTreeMap<String, String>,
    /// Digests of the settings, by name, and of files that act as settings.
    pub configuration: BTreeMap<String, String>,
    /// Mode and digest of every file that git could run as a hook, by path.
    pub hooks: BTreeMap<String, String>,
    /// The log of HEAD of the worktree, if it had one.
    #[serde(default)]
    pub log: Option<HeadLog>,
}

/// A log of HEAD; git only appends to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadLog {
    /// Its length in bytes.
    pub length: usize,
    /// Its digest.
    pub digest: String,
}

const MAX_HOOK_BYTES: u64 = 64 * 1024 * 1024;

pub(super) const MAX_LOG_BYTES: u64 = 256 * 1024 * 1024;

pub(super) fn record_path(state: &Path, agent: &AgentId) -> PathBuf {
    state.join("runs").join(agent.as_str()).join("spawned.json")
}

/// Records the state of the repository; `revision` is the base that the person named, if any. Called
/// before the agent runs, and again if a spawn was interrupted.
pub fn record_spawn(
    repository: &Path,
    worktree: &Path,
    state: &Path,
    agent: &AgentId,
    revision: Option<&str>,
) -> Result<SpawnRecord, WorkError> {
    let what = || format!("the spawn of `{agent}` cannot be recorded");
    let paths = WorktreePaths::observe(repository, worktree)?;
    let record = observe(&paths, repository, agent, revision).map_err(work_error(what()))?;
    let text = serde_json::to_string_pretty(&record).map_err(work_error(what()))?;
    write_atomically(&record_path(state, agent), text.as_bytes()).map_err(work_error(what()))?;
    Ok(record)
}

/// The record of an agent; `None` if there is none.
pub(super) fn read(state: &Path, agent: &AgentId) -> Result<Option<SpawnRecord>, WorkError> {
    let path = record_path(state, agent);
    let what = || format!("{} cannot be read", path.display());
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(work_error(what())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(work_error(what())(error)),
    }
}

fn observe(
    paths: &WorktreePaths,
    repository: &Path,
    agent: &AgentId,
    revision: Option<&str>,
) -> Result<SpawnRecord, GitError> {
    let git = paths.worktree_git();
    let shared = paths.git();
    let own = base_branch::agent_branches(paths, &agent.branch())?;
    let (references, settings) = std::thread::scope(|scope| {
        let settings = scope.spawn(|| settings(&git));
        let references = references(&shared)?;
        let panicked = |_| {
            let error = io::Error::other("the thread that reads it panicked");
            GitError::io("cannot read the configuration of the repository", error)
        };
        Ok::<_, GitError>((references, settings.join().map_err(panicked)??))
    })?;
    let named = match revision.filter(|revision| *revision != "HEAD") {
        Some(revision) => base_branch::branch_of_revision(&shared, revision)?,
        // The person may spawn the agent from another worktree.
        None => base_branch::checked_out_where_spawned(&Git::at(repository), &references)?,
    };
    let named = named.filter(|named| !own.contains(&named.branch));
    let base =
        named.map_or_else(|| base_branch::guess_base(&shared, &own), |named| Ok(Some(named)))?;
    let head = base_branch::head_branch(&paths.git_dir, &git)?;
    let commit = match head.as_ref().and_then(|head| references.get(head)) {
        // A branch always names a commit.
        Some(commit) => CommitId::new(commit.as_str()),
        None => CommitId::new(git.line(["rev-parse", "--verify", "HEAD^{commit}"])?),
    };
    Ok(SpawnRecord {
        base,
        commit,
        head,
        references,
        configuration: digests(paths, &settings),
        hooks: hooks_of(paths, &settings),
        log: regular_file::read(&log_of(&paths.git_dir), MAX_LOG_BYTES)
            .ok()
            .map(|bytes| HeadLog { length: bytes.len(), digest: Sha256Hex::of(bytes).to_string() }),
    })
}

/// Whether the log of HEAD still begins with its content at the spawn.
pub(super) fn has_intact_log(record: &SpawnRecord, git_dir: &Path) -> bool {
    let Some(then) = &record.log else { return true };
    let now = regular_file::read(&log_of(git_dir), MAX_LOG_BYTES).unwrap_or_default();
    now.get(..then.length).is_some_and(|kept| Sha256Hex::of(kept).to_string() == then.digest)
}

fn log_of(git_dir: &Path) -> PathBuf {
    git_dir.join("logs/HEAD")
}

/// All references of a repository.
pub(super) fn references(git: &Git) -> Result<BTreeMap<String, String>, GitError> {
    let stdout = git.run(["for-each-ref", "--format=%(objectname) %(refname)"])?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let pair = |line: &str| {
        let (object, name) = line.split_once(' ')?;
        Some((name.to_owned(), object.to_owned()))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// Digests of the repository's configuration.
pub(super) fn configuration(paths: &WorktreePaths) -> Result<BTreeMap<String, String>, GitError> {
    Ok(digests(paths, &settings(&paths.worktree_git())?))
}

fn digests(paths: &WorktreePaths, settings: &[(String, String)]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in settings {
        values.entry(name.clone()).or_default().push(value.clone());
    }
    let digest = |values: Vec<String>| Sha256Hex::of(values.join("\0")).to_string();
    let mut digests: BTreeMap<String, String> =
        values.into_iter().map(|(name, values)| (name, digest(values))).collect();
    for file in ["info/attributes", "info/exclude", "info/grafts", "objects/info/alternates"] {
        if let Ok(text) = fs::read(paths.common_dir.join(file)) {
            digests.insert(file.to_owned(), Sha256Hex::of(text).to_string());
        }
    }
    digests
}

/// The settings of the repository and of the worktree, without our overrides.
fn settings(git: &Git) -> Result<Vec<(String, String)>, GitError> {
    let stdout = git.run(["config", "--list", "-z", "--show-scope", "--includes"])?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let mut fields = text.split_terminator('\0');
    let mut settings = Vec::new();
    while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
        if scope == "command" {
            continue;
        }
        let (name, value) = setting.split_once('\n').unwrap_or((setting, ""));
        settings.push((name.to_owned(), value.to_owned()));
    }
    Ok(settings)
}

/// Every file that git could run as a hook: in the repository's hooks directory, and in a directory of
/// the repository that the configuration names.
pub(super) fn hooks(paths: &WorktreePaths) -> Result<BTreeMap<String, String>, GitError> {
    Ok(hooks_of(paths, &settings(&paths.worktree_git())?))
}

fn hooks_of(paths: &WorktreePaths, settings: &[(String, String)]) -> BTreeMap<String, String> {
    let mut directories = vec![paths.common_dir.join("hooks")];
    let root = paths.common_dir.parent().filter(|_| paths.common_dir.ends_with(".git"));
    for (name, value) in settings {
        if name != "core.hookspath" {
            continue;
        }
        let named = root.unwrap_or(&paths.common_dir).join(value);
        let inside = |path: &PathBuf| {
            root.is_some_and(|root| path.starts_with(root)) || path.starts_with(&paths.common_dir)
        };
        directories.extend(fs::canonicalize(named).ok().filter(inside));
    }
    let mut hooks = BTreeMap::new();
    for directory in directories {
        for (path, what) in files(&directory) {
            hooks.insert(relative_path(&path, root, &paths.common_dir), what);
        }
    }
    hooks
}

fn relative_path(path: &Path, root: Option<&Path>, common_dir: &Path) -> String {
    let short = root.and_then(|root| path.strip_prefix(root).ok());
    let short = short.or_else(|| path.strip_prefix(common_dir).ok()).unwrap_or(path);
    short.to_string_lossy().into_owned()
}

/// Mode and digest of every file below a directory.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                pending.push(path);
                continue;
            }
            let mode = fs::metadata(&path).map_or(0, |target| target.permissions().mode());
            let target = fs::read_link(&path).unwrap_or_default();
            let digest = regular_file::read(&path, MAX_HOOK_BYTES).map(Sha256Hex::of);
            let digest = digest.map_or_else(|error| error.to_string(), |digest| digest.to_string());
            found.push((path, format!("{mode:o} {digest} {}", target.display())));
        }
    }
    found
}

/// Writes a file atomically and syncs it to disk.
pub(super) fn write_atomically(path: &Path, text: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let mut temporary = tempfile::Builder::new().prefix(".fresh-").tempfile_in(parent)?;
    temporary.write_all(text)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    File::open(parent)?.sync_all()
}
