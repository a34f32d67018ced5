//! The record by which a landing that was cut off is completed: `<state>/landings/<agent>.json`; and
//! the commits of all landings: `<state>/landed`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::spawn_record::write_whole;

/// A landing that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    /// The agent.
    pub(super) agent: String,
    /// What the worktrees of the repository share.
    pub(super) repository: PathBuf,
    /// The branch, by its full name.
    pub(super) branch: String,
    /// Where it was; nothing if it was not there.
    pub(super) old: Option<String>,
    /// Where it goes.
    pub(super) new: String,
    /// The checkouts that follow it.
    pub(super) checkouts: Vec<PathBuf>,
}

const LANDED: &str = "landed";

/// All commits that landings have brought; a line that was cut off names none.
pub(super) fn landed(state: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(state.join(LANDED)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// All landings of one state, of which one is made at a time. The lock is held by us and by every
/// git that has it for its input, so that what we find after us is still.
pub(super) struct Landings {
    directory: PathBuf,
    lock: File,
}

impl Landings {
    /// Waits until nobody else lands.
    pub(super) fn lock(state: &Path) -> io::Result<Self> {
        let directory = state.join("landings");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let lock = directory.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(lock)?;
        lock.lock()?;
        Ok(Self { directory, lock })
    }

    /// What a git that changes something gets for its input.
    pub(super) fn held(&self) -> &File {
        &self.lock
    }

    /// Writes a landing down, for good.
    pub(super) fn begin(&self, journal: &Journal) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(journal).map_err(io::Error::other)?;
        write_whole(&self.place(&journal.agent), &text)
    }

    /// Notes commits that a landing is about to bring, for good.
    pub(super) fn note(&self, commits: &[String]) -> io::Result<()> {
        // What was cut off before must not run into it.
        let text: String = commits.iter().map(|commit| format!("\n{commit}\n")).collect();
        let place = self.directory.with_file_name(LANDED);
        let mut file = File::options().create(true).append(true).open(place)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }

    /// Forgets a landing.
    pub(super) fn end(&self, journal: &Journal) -> io::Result<()> {
        fs::remove_file(self.place(&journal.agent))
    }

    /// Landings that were cut off. Files that were not written to their end are removed.
    pub(super) fn left(&self) -> io::Result<Vec<Journal>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(".fresh-") {
                fs::remove_file(&path)?;
            } else if name.ends_with(".json") {
                let broken =
                    |error| io::Error::other(format!("{} is broken: {error}", path.display()));
                left.push(serde_json::from_slice(&fs::read(&path)?).map_err(broken)?);
            }
        }
        Ok(left)
    }

    fn place(&self, agent: &str) -> PathBuf {
        self.directory.join(format!("{agent}.json"))
    }
}
