//! Where a layer has the agent's branch.
//!
//! The layer covers the repository: a file of the branch in it counts first; where that was removed,
//! or is not in the layer, the layer's `packed-refs` may have the branch.

use std::io;
use std::path::{Path, PathBuf};

use super::layer::{self, Entry};

/// A branch is named by one line.
const LOOSE: u64 = 4 * 1024;
const PACKED: u64 = 64 * 1024 * 1024;

/// What a layer says of a branch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing: it is where the repository has it.
    Unchanged,
    /// It was deleted.
    Deleted,
    /// It is at this object.
    At(String),
}

/// The branch in a layer over `common`. Names of objects have `length` letters.
pub(super) fn observe(
    upper: &Path,
    common: &Path,
    branch: &str,
    length: usize,
) -> io::Result<Seen> {
    let loose = walk(upper, branch)?;
    if loose == Entry::File {
        return at(&layer::read(&upper.join(branch), LOOSE)?, branch, length);
    }
    let packed = packed(upper, branch)?;
    let now = match &packed {
        Packed::Absent if loose == Entry::Whiteout => return Ok(Seen::Deleted),
        Packed::Absent => return Ok(Seen::Unchanged),
        Packed::Without => None,
        Packed::At(name) => Some(name),
    };
    // Git writes the whole file for any other branch; an old line in it says nothing new.
    let covered = loose == Entry::Nothing && common.join(branch).exists();
    if let Some(name) = now {
        let stale = covered && self::packed(common, branch)? == packed;
        return if stale { Ok(Seen::Unchanged) } else { at(name, branch, length) };
    }
    Ok(if covered { Seen::Unchanged } else { Seen::Deleted })
}

/// What the layer has in the place of a branch's file, with no link on the way.
fn walk(upper: &Path, branch: &str) -> io::Result<Entry> {
    let mut place = PathBuf::from(upper);
    let mut parts = branch.split('/').peekable();
    while let Some(part) = parts.next() {
        place.push(part);
        let entry = layer::look(&place)?;
        match (entry, parts.peek()) {
            (Entry::Nothing | Entry::Whiteout, _) | (Entry::File, None) => return Ok(entry),
            (Entry::Directory, Some(_)) => {}
            (Entry::File, Some(_)) | (Entry::Directory, None) => {
                return Err(odd(branch, &format!("{} has the wrong kind", place.display())));
            }
        }
    }
    Ok(Entry::Nothing)
}

/// What `packed-refs` of a directory says.
#[derive(Debug, PartialEq, Eq)]
enum Packed {
    /// There is no such file.
    Absent,
    /// It does not have the branch.
    Without,
    /// It has this for its name.
    At(Vec<u8>),
}

fn packed(directory: &Path, branch: &str) -> io::Result<Packed> {
    let place = directory.join("packed-refs");
    match layer::look(&place)? {
        Entry::Nothing => return Ok(Packed::Absent),
        Entry::Whiteout => return Ok(Packed::Without),
        Entry::File | Entry::Directory => {}
    }
    let bytes = layer::read(&place, PACKED)?;
    let name = |line: &[u8]| {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (name, rest) = line.split_at_checked(space)?;
        (rest.strip_prefix(b" ") == Some(branch.as_bytes())).then(|| name.to_owned())
    };
    let found = bytes.split(|byte| *byte == b'\n').find_map(name);
    Ok(found.map_or(Packed::Without, Packed::At))
}

fn at(text: &[u8], branch: &str, length: usize) -> io::Result<Seen> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text.starts_with(b"ref:") {
        return Err(odd(branch, "it is a symbolic reference there"));
    }
    let hexadecimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let whole = text.len() == length && text.iter().all(hexadecimal);
    match std::str::from_utf8(text) {
        Ok(name) if whole => Ok(Seen::At(name.to_owned())),
        Ok(_) | Err(_) => Err(odd(branch, "it does not hold the name of an object")),
    }
}

fn odd(branch: &str, why: &str) -> io::Error {
    io::Error::other(format!("{branch} in the layer is odd: {why}"))
}
