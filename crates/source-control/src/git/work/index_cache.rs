//! A refreshed copy of an agent's index, cached for the next snapshot.
//!
//! Git reads files that are as new as the index each time, because the index does not tell whether they
//! changed afterwards. Right after a checkout those are all files. So git refreshes our copy once, and
//! the copy is used as long as the agent's index has the same bytes and the same time. It has the same
//! entries; only the metadata of the files is newer.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_model::Sha256Hex;

use super::index_file;
use crate::git::command::{Git, GitError, Input};

/// Reading fewer files again is cheaper than caching.
const MIN_FILES_TO_CACHE: usize = 500;

/// A copy of an agent's index.
pub(super) struct IndexCopy {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// When the agent's index was written.
    pub(super) written: SystemTime,
    /// When the copy was made.
    pub(super) made: SystemTime,
}

/// Refreshes the copy, which `git` uses, if that saves time. Object names have `name_length` bytes.
pub(super) fn refresh(
    git: &Git,
    lock: &File,
    copy: &IndexCopy,
    cache: &Path,
    name_length: usize,
) -> Result<(), GitError> {
    let Some(plain) = index_file::parse_plain(&copy.bytes, name_length) else { return Ok(()) };
    let files_to_read = |time: SystemTime| plain.count_written_since(since_epoch(time).as_secs());
    let made = since_epoch(copy.made).as_secs();
    // A file that was touched in this second could be touched again with the same time.
    if files_to_read(copy.written).saturating_sub(files_to_read(copy.made)) < MIN_FILES_TO_CACHE
        || plain.has_file_touched_since(made)
    {
        return Ok(());
    }
    let key = format!("{} {}", Sha256Hex::of(&copy.bytes), since_epoch(copy.written).as_nanos());
    if let Some((made, bytes)) = read_cache(cache, &key) {
        return fs::write(&copy.path, bytes)
            .and_then(|()| set_modified_time(&copy.path, made))
            .map_err(not_written);
    }
    git.run_with_input(
        ["update-index", "-q", "--refresh", "--force-write-index"],
        Input::File(lock),
    )?;
    let bytes = fs::read(&copy.path).map_err(not_written)?;
    let is_stable = index_file::parse_plain(&bytes, name_length)
        .is_some_and(|index| !index.has_file_touched_since(made));
    if !is_stable {
        return set_modified_time(&copy.path, copy.written).map_err(not_written);
    }
    // Files that change after the copy was made must be at least as new as the copy.
    set_modified_time(&copy.path, copy.made).map_err(not_written)?;
    // If this fails, the next snapshot refreshes again.
    let _uncached = write_cache(cache, &key, copy.made, &bytes);
    Ok(())
}

pub(super) fn set_modified_time(file: &Path, time: SystemTime) -> io::Result<()> {
    File::options().write(true).open(file)?.set_modified(time)
}

/// The cached index of this key, and when it was made.
fn read_cache(cache: &Path, key: &str) -> Option<(SystemTime, Vec<u8>)> {
    let mut bytes = fs::read(cache).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (of, made) = std::str::from_utf8(bytes.get(..end)?).ok()?.rsplit_once(' ')?;
    if of != key {
        return None;
    }
    let made = UNIX_EPOCH.checked_add(Duration::from_nanos(made.parse().ok()?))?;
    bytes.drain(..=end);
    Some((made, bytes))
}

/// Writes the cache as a whole, if the agent has a run directory.
fn write_cache(cache: &Path, key: &str, made: SystemTime, index: &[u8]) -> io::Result<()> {
    let Some(directory) = cache.parent().filter(|directory| directory.is_dir()) else {
        return Ok(());
    };
    let mut temporary = tempfile::Builder::new().prefix(".index-").tempfile_in(directory)?;
    writeln!(temporary, "{key} {}", since_epoch(made).as_nanos())?;
    temporary.write_all(index)?;
    temporary.as_file().sync_all()?;
    temporary.persist(cache).map(drop).map_err(|error| error.error)
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn not_written(error: io::Error) -> GitError {
    GitError::io("cannot write a copy of the index", error)
}
