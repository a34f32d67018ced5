//! Reading the agent's branch from a layer.
//!
//! The layer covers the repository: a file of the branch in it comes first; if that was removed or is
//! not in the layer, the layer's `packed-refs` may have the branch.

use std::io;
use std::path::{Path, PathBuf};

use super::layer::{self, Entry};

const MAX_LOOSE_REF_BYTES: u64 = 4 * 1024;
const MAX_PACKED_REFS_BYTES: u64 = 64 * 1024 * 1024;

/// The state of a branch in a layer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LayerBranch {
    /// As in the repository.
    Unchanged,
    Deleted,
    /// At this object.
    At(String),
}

/// The branch in a layer over `common_dir`. Object names have `length` characters.
pub(super) fn observe(
    upper: &Path,
    common_dir: &Path,
    branch: &str,
    length: usize,
) -> io::Result<LayerBranch> {
    let loose = walk(upper, branch)?;
    if loose == Entry::File {
        return at(&layer::read(&upper.join(branch), MAX_LOOSE_REF_BYTES)?, branch, length);
    }
    let packed = packed(upper, branch)?;
    let now = match &packed {
        Packed::Absent if loose == Entry::Whiteout => return Ok(LayerBranch::Deleted),
        Packed::Absent => return Ok(LayerBranch::Unchanged),
        Packed::Without => None,
        Packed::At(name) => Some(name),
    };
    // Git rewrites the file for any other branch, so a line may be older than the branch's own file.
    let covered = loose == Entry::Nothing && common_dir.join(branch).exists();
    if let Some(name) = now {
        let stale = covered && self::packed(common_dir, branch)? == packed;
        return if stale { Ok(LayerBranch::Unchanged) } else { at(name, branch, length) };
    }
    Ok(if covered { LayerBranch::Unchanged } else { LayerBranch::Deleted })
}

/// The layer's entry for the file of a branch; links are not followed.
fn walk(upper: &Path, branch: &str) -> io::Result<Entry> {
    let mut path = PathBuf::from(upper);
    let mut parts = branch.split('/').peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let entry = layer::look(&path)?;
        match (entry, parts.peek()) {
            (Entry::Nothing | Entry::Whiteout, _) | (Entry::File, None) => return Ok(entry),
            (Entry::Directory, Some(_)) => {}
            (Entry::File, Some(_)) | (Entry::Directory, None) => {
                return Err(layer::wrong_kind(&path));
            }
        }
    }
    Ok(Entry::Nothing)
}

/// The state of a branch in `packed-refs`.
#[derive(Debug, PartialEq, Eq)]
enum Packed {
    /// The file does not exist.
    Absent,
    /// The file does not list the branch.
    Without,
    /// The file lists the branch with this object name.
    At(Vec<u8>),
}

fn packed(directory: &Path, branch: &str) -> io::Result<Packed> {
    let path = directory.join("packed-refs");
    match layer::look(&path)? {
        Entry::Nothing => return Ok(Packed::Absent),
        Entry::Whiteout => return Ok(Packed::Without),
        Entry::File | Entry::Directory => {}
    }
    let bytes = layer::read(&path, MAX_PACKED_REFS_BYTES)?;
    let name = |line: &[u8]| {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (name, rest) = line.split_at_checked(space)?;
        (rest.strip_prefix(b" ") == Some(branch.as_bytes())).then(|| name.to_owned())
    };
    let found = bytes.split(|byte| *byte == b'\n').find_map(name);
    Ok(found.map_or(Packed::Without, Packed::At))
}

fn at(text: &[u8], branch: &str, length: usize) -> io::Result<LayerBranch> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text.starts_with(b"ref:") {
        return Err(invalid(branch, "it is a symbolic reference"));
    }
    let hexadecimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let whole = text.len() == length && text.iter().all(hexadecimal);
    match std::str::from_utf8(text) {
        Ok(name) if whole => Ok(LayerBranch::At(name.to_owned())),
        Ok(_) | Err(_) => Err(invalid(branch, "it does not contain an object name")),
    }
}

fn invalid(branch: &str, why: &str) -> io::Error {
    io::Error::other(format!("{branch} in the layer is invalid: {why}"))
}
