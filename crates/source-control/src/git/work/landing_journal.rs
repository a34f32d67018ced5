//! Records by which an interrupted landing is completed: `<state>/landings/<agent>.json`; and the
//! commits of all landings: `<state>/landed`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use bailiwick_model::CommitId;
use serde::{Deserialize, Serialize};

use super::spawn_record::write_atomically;

/// A landing in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LandingJournal {
    pub(super) agent: String,
    /// The git directory that all worktrees share.
    pub(super) repository: PathBuf,
    /// The full name of the branch.
    pub(super) branch: String,
    /// Its commit before; `None` if it did not exist.
    pub(super) old: Option<CommitId>,
    /// Its commit afterwards.
    pub(super) new: CommitId,
    /// The checkouts to update.
    pub(super) checkouts: Vec<PathBuf>,
}

const LANDED_COMMITS_FILE: &str = "landed";

/// The commits of all landings; an incomplete line does not match any commit.
pub(super) fn landed(state: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(state.join(LANDED_COMMITS_FILE)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The landings of one state directory, locked: one landing runs at a time. Every git of a landing reads
/// the lock file, so that the lock lasts until the last of them ends.
pub(super) struct Landings {
    directory: PathBuf,
    lock: File,
}

impl Landings {
    /// Waits until no other landing runs.
    pub(super) fn lock(state: &Path) -> io::Result<Self> {
        let directory = state.join("landings");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let lock = directory.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(lock)?;
        lock.lock()?;
        Ok(Self { directory, lock })
    }

    /// The input of every git that changes something.
    pub(super) fn lock_file(&self) -> &File {
        &self.lock
    }

    /// Writes the journal of a landing to disk.
    pub(super) fn write_journal(&self, journal: &LandingJournal) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(journal).map_err(io::Error::other)?;
        write_atomically(&self.journal_path(&journal.agent), &text)
    }

    /// Records the commits of a landing, before it happens.
    pub(super) fn append_commits(&self, commits: &[String]) -> io::Result<()> {
        // The line break before separates them from an incomplete line.
        let text: String = commits.iter().map(|commit| format!("\n{commit}\n")).collect();
        let path = self.directory.with_file_name(LANDED_COMMITS_FILE);
        let mut file = File::options().create(true).append(true).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }

    /// Removes the journal of a finished landing.
    pub(super) fn remove_journal(&self, journal: &LandingJournal) -> io::Result<()> {
        fs::remove_file(self.journal_path(&journal.agent))
    }

    /// Interrupted landings. Incomplete files are removed.
    pub(super) fn unfinished(&self) -> io::Result<Vec<LandingJournal>> {
        let mut journals = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(".fresh-") {
                fs::remove_file(&path)?;
            } else if name.ends_with(".json") {
                let unparsable = |error| {
                    io::Error::other(format!("{} cannot be parsed: {error}", path.display()))
                };
                journals.push(serde_json::from_slice(&fs::read(&path)?).map_err(unparsable)?);
            }
        }
        Ok(journals)
    }

    fn journal_path(&self, agent: &str) -> PathBuf {
        self.directory.join(format!("{agent}.json"))
    }
}
