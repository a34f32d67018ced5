//! An agent's index with its files looked at once more, kept for the next time.
//!
//! Git cannot tell by an index whether files that are as young as it are what it knows: it reads
//! them, each time. Right after a checkout those are all files. So git looks once, in our copy, and
//! the copy serves for as long as the agent's index has the same bytes and the same time. It has the
//! same entries; only what was seen of the files is younger.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_model::Sha256Hex;

use super::index;
use crate::git::command::{Git, GitError, Input};

/// To read fewer files than these again costs less than to keep what was seen.
const MANY: usize = 500;

/// A copy of an agent's index.
pub(super) struct Copy {
    /// Where it is.
    pub(super) place: PathBuf,
    /// What it has.
    pub(super) bytes: Vec<u8>,
    /// When the agent's index was written.
    pub(super) written: SystemTime,
    /// When the copy was made.
    pub(super) made: SystemTime,
}

/// Puts what is known of the files into the copy, on which `git` works, where it is worth while.
/// Names of objects have `name_length` bytes.
pub(super) fn refresh(
    git: &Git,
    lock: &File,
    copy: &Copy,
    kept: &Path,
    name_length: usize,
) -> Result<(), GitError> {
    let Some(plain) = index::plain(&copy.bytes, name_length) else { return Ok(()) };
    let doubtful = |time: SystemTime| plain.as_young_as(since(time).as_secs());
    let made = since(copy.made).as_secs();
    // What is touched in this very second could be touched once more without a trace.
    if doubtful(copy.written).saturating_sub(doubtful(copy.made)) < MANY
        || plain.is_touched_since(made)
    {
        return Ok(());
    }
    let key = format!("{} {}", Sha256Hex::of(&copy.bytes), since(copy.written).as_nanos());
    if let Some((made, bytes)) = read(kept, &key) {
        return fs::write(&copy.place, bytes)
            .and_then(|()| date(&copy.place, made))
            .map_err(broken);
    }
    git.run_with_input(["update-index", "-q", "--refresh", "--force-write-index"], Input::File(lock))?;
    let bytes = fs::read(&copy.place).map_err(broken)?;
    let settled = index::plain(&bytes, name_length).is_some_and(|it| !it.is_touched_since(made));
    if !settled {
        return date(&copy.place, copy.written).map_err(broken);
    }
    // What changes after the copy was made must look as young as it, whenever git wrote it.
    date(&copy.place, copy.made).map_err(broken)?;
    // What is not kept is found again.
    let _unkept = keep(kept, &key, copy.made, &bytes);
    Ok(())
}

/// Gives a file this time.
pub(super) fn date(file: &Path, time: SystemTime) -> io::Result<()> {
    File::options().write(true).open(file)?.set_modified(time)
}

/// The index that was kept for this key, and when it was made.
fn read(kept: &Path, key: &str) -> Option<(SystemTime, Vec<u8>)> {
    let mut bytes = fs::read(kept).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (of, made) = std::str::from_utf8(bytes.get(..end)?).ok()?.rsplit_once(' ')?;
    if of != key {
        return None;
    }
    let made = UNIX_EPOCH.checked_add(Duration::from_nanos(made.parse().ok()?))?;
    bytes.drain(..=end);
    Some((made, bytes))
}

/// Only beside what else is known of the agent; never seen half written.
fn keep(kept: &Path, key: &str, made: SystemTime, index: &[u8]) -> io::Result<()> {
    let Some(directory) = kept.parent().filter(|directory| directory.is_dir()) else {
        return Ok(());
    };
    let mut fresh = tempfile::Builder::new().prefix(".index-").tempfile_in(directory)?;
    writeln!(fresh, "{key} {}", since(made).as_nanos())?;
    fresh.write_all(index)?;
    fresh.as_file().sync_all()?;
    fresh.persist(kept).map(drop).map_err(|error| error.error)
}

fn since(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn broken(error: io::Error) -> GitError {
    GitError::io("cannot write a copy of the index", error)
}
