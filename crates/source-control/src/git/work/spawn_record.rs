//! How a repository stood when an agent was spawned: `<state>/runs/<id>/spawned.json`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bailiwick_control::ports::WorkError;
use bailiwick_model::{AgentId, Sha256Hex};
use serde::{Deserialize, Serialize};

use super::base::{self, BaseBranch};
use super::places::Places;
use super::{plain_file, trouble};
use crate::git::command::{Git, GitError};

/// How a repository stood when an agent was spawned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRecord {
    /// The branch that the work is to land on, if the repository told it.
    pub base: Option<BaseBranch>,
    /// The commit that the agent started from.
    pub commit: String,
    /// The branch that its worktree had; nothing if HEAD was detached.
    pub head: Option<String>,
    /// All references and what they named.
    pub references: BTreeMap<String, String>,
    /// Digests of the settings, by their name, and of files that have the force of some.
    pub configuration: BTreeMap<String, String>,
    /// Mode and digest of every file that git could run as a hook, by its path.
    pub hooks: BTreeMap<String, String>,
    /// The log of HEAD that the worktree had; nothing if it had none.
    #[serde(default)]
    pub log: Option<HeadLog>,
}

/// A log of HEAD, to which git only adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadLog {
    /// How many bytes it had.
    pub length: usize,
    /// Their digest.
    pub digest: String,
}

/// As much of a hook as is read.
const HOOK: u64 = 64 * 1024 * 1024;

/// As much of a log as is read.
pub(super) const LOG: u64 = 256 * 1024 * 1024;

/// Where the record of an agent is.
pub(super) fn place(state: &Path, agent: &AgentId) -> PathBuf {
    state.join("runs").join(agent.as_str()).join("spawned.json")
}

/// Notes how the repository stands; `revision` is what the person called the base, if anybody did.
/// Called when no agent has run yet, and over again if that was cut off.
pub fn record_spawn(
    repository: &Path,
    worktree: &Path,
    state: &Path,
    agent: &AgentId,
    revision: Option<&str>,
) -> Result<SpawnRecord, WorkError> {
    let what = || format!("the spawn of `{agent}` cannot be recorded");
    let places = Places::observe(repository, worktree)?;
    let record = observe(&places, repository, agent, revision).map_err(trouble(what()))?;
    let text = serde_json::to_string_pretty(&record).map_err(trouble(what()))?;
    write_whole(&place(state, agent), text.as_bytes()).map_err(trouble(what()))?;
    Ok(record)
}

/// The record of an agent; nothing if there is none.
pub(super) fn read(state: &Path, agent: &AgentId) -> Result<Option<SpawnRecord>, WorkError> {
    let place = place(state, agent);
    let what = || format!("{} cannot be read", place.display());
    match fs::read(&place) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(trouble(what())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(trouble(what())(error)),
    }
}

fn observe(
    places: &Places,
    repository: &Path,
    agent: &AgentId,
    revision: Option<&str>,
) -> Result<SpawnRecord, GitError> {
    let git = places.agent_git();
    let shared = places.git();
    let own = base::own_branches(places, &agent.branch())?;
    let (references, settings) = std::thread::scope(|scope| {
        let settings = scope.spawn(|| settings(&git));
        let references = references(&shared)?;
        let panicked = |_| {
            let error = io::Error::other("the thread that reads it panicked");
            GitError::io("cannot read the configuration of the repository", error)
        };
        Ok::<_, GitError>((references, settings.join().map_err(panicked)??))
    })?;
    let meant = match revision.filter(|revision| *revision != "HEAD") {
        Some(revision) => base::meant_by(&shared, revision)?,
        // An agent may be spawned from a worktree of somebody's.
        None => base::where_called(&Git::at(repository), &references)?,
    };
    let meant = meant.filter(|meant| !own.contains(&meant.branch));
    let base = meant.map_or_else(|| base::guess(&shared, &own), |meant| Ok(Some(meant)))?;
    let head = base::checked_out(&places.private, &git)?;
    let commit = match head.as_ref().and_then(|head| references.get(head)) {
        // A branch names a commit.
        Some(commit) => commit.clone(),
        None => git.line(["rev-parse", "--verify", "HEAD^{commit}"])?,
    };
    Ok(SpawnRecord {
        base,
        commit,
        head,
        references,
        configuration: digests(places, &settings),
        hooks: hooks_told(places, &settings),
        log: plain_file::read(&log_of(&places.private), LOG)
            .ok()
            .map(|bytes| HeadLog { length: bytes.len(), digest: Sha256Hex::of(bytes).to_string() }),
    })
}

/// Whether the log of HEAD still begins with what it was at the spawn.
pub(super) fn has_log(record: &SpawnRecord, private: &Path) -> bool {
    let Some(then) = &record.log else { return true };
    let now = plain_file::read(&log_of(private), LOG).unwrap_or_default();
    now.get(..then.length).is_some_and(|kept| Sha256Hex::of(kept).to_string() == then.digest)
}

fn log_of(private: &Path) -> PathBuf {
    private.join("logs/HEAD")
}

/// All references of a repository.
pub(super) fn references(git: &Git) -> Result<BTreeMap<String, String>, GitError> {
    let printed = git.run(["for-each-ref", "--format=%(objectname) %(refname)"])?;
    let text = String::from_utf8_lossy(&printed).into_owned();
    let pair = |line: &str| {
        let (object, name) = line.split_once(' ')?;
        Some((name.to_owned(), object.to_owned()))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// Digests of what git would be told by the repository.
pub(super) fn configuration(places: &Places) -> Result<BTreeMap<String, String>, GitError> {
    Ok(digests(places, &settings(&places.agent_git())?))
}

fn digests(places: &Places, settings: &[(String, String)]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in settings {
        values.entry(name.clone()).or_default().push(value.clone());
    }
    let digest = |values: Vec<String>| Sha256Hex::of(values.join("\0")).to_string();
    let mut digests: BTreeMap<String, String> =
        values.into_iter().map(|(name, values)| (name, digest(values))).collect();
    for file in ["info/attributes", "info/exclude", "info/grafts", "objects/info/alternates"] {
        if let Ok(text) = fs::read(places.common.join(file)) {
            digests.insert(file.to_owned(), Sha256Hex::of(text).to_string());
        }
    }
    digests
}

/// The settings of the repository and of the worktree, without ours.
fn settings(git: &Git) -> Result<Vec<(String, String)>, GitError> {
    let printed = git.run(["config", "--list", "-z", "--show-scope", "--includes"])?;
    let text = String::from_utf8_lossy(&printed).into_owned();
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

/// Every file that git could run as a hook: of the repository, and of a place inside of it that the
/// configuration names.
pub(super) fn hooks(places: &Places) -> Result<BTreeMap<String, String>, GitError> {
    Ok(hooks_told(places, &settings(&places.agent_git())?))
}

fn hooks_told(places: &Places, settings: &[(String, String)]) -> BTreeMap<String, String> {
    let mut directories = vec![places.common.join("hooks")];
    let root = places.common.parent().filter(|_| places.common.ends_with(".git"));
    for (name, value) in settings {
        if name != "core.hookspath" {
            continue;
        }
        let named = root.unwrap_or(&places.common).join(value);
        let inside = |place: &PathBuf| {
            root.is_some_and(|root| place.starts_with(root)) || place.starts_with(&places.common)
        };
        directories.extend(fs::canonicalize(named).ok().filter(inside));
    }
    let mut hooks = BTreeMap::new();
    for directory in directories {
        for (path, what) in files(&directory) {
            hooks.insert(shortened(&path, root, &places.common), what);
        }
    }
    hooks
}

fn shortened(path: &Path, root: Option<&Path>, common: &Path) -> String {
    let short = root.and_then(|root| path.strip_prefix(root).ok());
    let short = short.or_else(|| path.strip_prefix(common).ok()).unwrap_or(path);
    short.to_string_lossy().into_owned()
}

/// Mode and digest of every file below a directory.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                open.push(path);
                continue;
            }
            let mode = fs::metadata(&path).map_or(0, |target| target.permissions().mode());
            let target = fs::read_link(&path).unwrap_or_default();
            let digest = plain_file::read(&path, HOOK).map(Sha256Hex::of);
            let digest = digest.map_or_else(|error| error.to_string(), |digest| digest.to_string());
            found.push((path, format!("{mode:o} {digest} {}", target.display())));
        }
    }
    found
}

/// Writes a file so that it is there as a whole or not at all, and stays.
pub(super) fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let mut fresh = tempfile::Builder::new().prefix(".fresh-").tempfile_in(parent)?;
    fresh.write_all(text)?;
    fresh.as_file().sync_all()?;
    fresh.persist(path).map_err(|error| error.error)?;
    File::open(parent)?.sync_all()
}
