//! Parsing git's index file.
//!
//! A plain index has nothing that hides changes: no flags that tell git not to look at a file, no
//! conflicts, no submodules, no directories in place of files. Any other index is left to git.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// An index with only files and links at stage 0, without flags.
pub(super) struct PlainIndex {
    /// The ctime and mtime of each file, in seconds since 1970.
    times: Vec<(u32, u32)>,
}

impl PlainIndex {
    /// How many files were written in this second or later. Git has to read those: an index of the same
    /// second does not tell whether they changed afterwards.
    pub(super) fn count_written_since(&self, second: u64) -> usize {
        self.times.iter().filter(|(_, written)| u64::from(*written) >= second).count()
    }

    /// Whether a file was changed in this second or later by its ctime, which cannot be set back.
    pub(super) fn has_file_touched_since(&self, second: u64) -> bool {
        self.times.iter().any(|(touched, _)| u64::from(*touched) >= second)
    }
}

/// Ten numbers of four bytes: times, device, inode, mode, owner, group, size.
const STATISTICS: usize = 40;
const WRITTEN_AT: usize = 8;
const MODE_AT: usize = 24;
/// All flags; the other bits are the length of the path.
const ANY_FLAG: u16 = 0xf000;
/// Two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;
/// The stage: other than 0 in a conflict.
const STAGE: u16 = 0x3000;

/// Parses an index; `None` if it is not plain.
pub(super) fn parse_plain(index: &[u8], name_length: usize) -> Option<PlainIndex> {
    let version = number(index, 4)?;
    if index.get(..4)? != b"DIRC" || !(version == 2 || version == 3) {
        return None;
    }
    let count = number(index, 8)?;
    let mut at = 12usize;
    let mut times = Vec::new();
    for _ in 0..count {
        let kind = number(index, at.checked_add(MODE_AT)?)? >> 12;
        let flags_at = at.checked_add(STATISTICS)?.checked_add(name_length)?;
        let flags = index.get(flags_at..flags_at.checked_add(2)?)?;
        let flags = u16::from_be_bytes(flags.try_into().ok()?);
        if flags & ANY_FLAG != 0 || !(kind == 0o10 || kind == 0o12) {
            return None;
        }
        times.push((number(index, at)?, number(index, at.checked_add(WRITTEN_AT)?)?));
        let path_at = flags_at.checked_add(2)?;
        let length = match usize::from(flags & 0x0fff) {
            0x0fff => index.get(path_at..)?.iter().position(|byte| *byte == 0)?,
            short => short,
        };
        // At least one NUL ends the path, and the entry is padded to a multiple of eight bytes.
        let size = path_at.checked_sub(at)?.checked_add(length)?;
        at = at.checked_add(size.checked_add(8)? & !7)?;
    }
    let extensions = index.get(at..index.len().checked_sub(name_length)?)?;
    (!has_other_entries(extensions)?).then_some(PlainIndex { times })
}

/// A regular file in an index: its content, and the file's metadata when git read it.
pub(super) struct Entry {
    mode: u32,
    object: String,
    /// Seconds and nanoseconds of the ctime, then of the mtime.
    times: [u32; 4],
    inode: u32,
    size: u32,
}

impl Entry {
    /// Mode, object and stage, as `git ls-files -s` prints them.
    pub(super) fn head(&self) -> String {
        format!("{:06o} {} 0", self.mode, self.object)
    }

    /// Whether the file is unmodified since git read it. Git writes size 0 if it must read the file again.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "git stores the lower 32 bits"
    )]
    pub(super) fn is_of(&self, found: &Metadata) -> bool {
        let times = [found.ctime(), found.ctime_nsec(), found.mtime(), found.mtime_nsec()]
            .map(|time| time as u32);
        found.is_file()
            && self.times == times
            && self.inode == found.ino() as u32
            && (self.size == found.size() as u32 || self.size == 0)
    }
}

/// The regular files at stage 0, by their paths; `None` if the index cannot be parsed.
pub(super) fn entries(index: &[u8]) -> Option<BTreeMap<Vec<u8>, Entry>> {
    // Object names have one of two lengths, and only with the right one the paths are sorted.
    entries_with(index, 20).or_else(|| entries_with(index, 32))
}

fn entries_with(index: &[u8], name_length: usize) -> Option<BTreeMap<Vec<u8>, Entry>> {
    let version = number(index, 4)?;
    if index.get(..4)? != b"DIRC" || !(version == 2 || version == 3) {
        return None;
    }
    let mut at = 12usize;
    let mut found: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
    let mut last: &[u8] = b"";
    for _ in 0..number(index, 8)? {
        let field = |position: usize| number(index, at.checked_add(position)?);
        let object_at = at.checked_add(STATISTICS)?;
        let flags_at = object_at.checked_add(name_length)?;
        let flags =
            u16::from_be_bytes(index.get(flags_at..flags_at.checked_add(2)?)?.try_into().ok()?);
        let path_at = flags_at.checked_add(if flags & EXTENDED == 0 { 2 } else { 4 })?;
        let path = index.get(path_at..)?;
        let path = path.get(..path.iter().position(|byte| *byte == 0)?)?;
        if path.is_empty() || path < last {
            return None;
        }
        last = path;
        let mode = field(MODE_AT)?;
        if mode >> 12 == 0o10 && flags & STAGE == 0 {
            let object = index.get(object_at..flags_at)?;
            let object = object.iter().map(|byte| format!("{byte:02x}")).collect();
            let times = [field(0)?, field(4)?, field(8)?, field(12)?];
            let entry = Entry { mode, object, times, inode: field(20)?, size: field(36)? };
            found.insert(path.to_owned(), entry);
        }
        let size = path_at.checked_sub(at)?.checked_add(path.len())?;
        at = at.checked_add(size.checked_add(8)? & !7)?;
    }
    let extensions = index.get(at..index.len().checked_sub(name_length)?)?;
    (!has_other_entries(extensions)?).then_some(found)
}

/// Whether some entries are elsewhere: a split or sparse index.
fn has_other_entries(mut extensions: &[u8]) -> Option<bool> {
    while !extensions.is_empty() {
        let name = extensions.get(..4)?;
        if name == b"link" || name == b"sdir" {
            return Some(true);
        }
        let size = usize::try_from(number(extensions, 4)?).ok()?;
        extensions = extensions.get(size.checked_add(8)?..)?;
    }
    Some(false)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}
