//! Whether an index has anything that hides or holds back changes: bits that tell git not to look,
//! conflicts, submodules, directories in place of files.
//!
//! A plain index is told from its bytes; of any other, git is asked.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// An index of which every entry is an ordinary file or link at stage 0 without a flag.
pub(super) struct Plain {
    /// When each file was touched in any way and when it was written to, in seconds since 1970.
    seen: Vec<(u32, u32)>,
}

impl Plain {
    /// How many files were written to in this second or later: git has to read those, since it
    /// cannot tell by an index of that second whether they are what it knows.
    pub(super) fn as_young_as(&self, second: u64) -> usize {
        self.seen.iter().filter(|(_, written)| u64::from(*written) >= second).count()
    }

    /// Whether a file was touched in this second or later, whatever it says of when it was written
    /// to: that can be set back.
    pub(super) fn is_touched_since(&self, second: u64) -> bool {
        self.seen.iter().any(|(touched, _)| u64::from(*touched) >= second)
    }
}

/// Ten numbers of four bytes: times, device, inode, mode, owner, size.
const STATISTICS: usize = 40;
const WRITTEN_AT: usize = 8;
const MODE_AT: usize = 24;
/// Everything of the flags but the length of the path.
const PECULIAR: u16 = 0xf000;
/// There are two bytes of flags more.
const EXTENDED: u16 = 0x4000;
/// The sides of a conflict.
const STAGE: u16 = 0x3000;

/// What the index has, if it is plain and understood.
pub(super) fn plain(index: &[u8], name_length: usize) -> Option<Plain> {
    let version = number(index, 4)?;
    if index.get(..4)? != b"DIRC" || !(version == 2 || version == 3) {
        return None;
    }
    let count = number(index, 8)?;
    let mut at = 12usize;
    let mut seen = Vec::new();
    for _ in 0..count {
        let kind = number(index, at.checked_add(MODE_AT)?)? >> 12;
        let flags_at = at.checked_add(STATISTICS)?.checked_add(name_length)?;
        let flags = index.get(flags_at..flags_at.checked_add(2)?)?;
        let flags = u16::from_be_bytes(flags.try_into().ok()?);
        if flags & PECULIAR != 0 || !(kind == 0o10 || kind == 0o12) {
            return None;
        }
        seen.push((number(index, at)?, number(index, at.checked_add(WRITTEN_AT)?)?));
        let path_at = flags_at.checked_add(2)?;
        let length = match usize::from(flags & 0x0fff) {
            0x0fff => index.get(path_at..)?.iter().position(|byte| *byte == 0)?,
            short => short,
        };
        // At least one zero ends it, and the entry is filled up to a multiple of eight.
        let size = path_at.checked_sub(at)?.checked_add(length)?;
        at = at.checked_add(size.checked_add(8)? & !7)?;
    }
    let extensions = index.get(at..index.len().checked_sub(name_length)?)?;
    (!has_link(extensions)?).then_some(Plain { seen })
}

/// A plain file of an index: what it holds, and what git saw of the file.
pub(super) struct Entry {
    mode: u32,
    object: String,
    /// When it was touched in any way and when it was written to: seconds and nanoseconds of each.
    times: [u32; 4],
    inode: u32,
    size: u32,
}

impl Entry {
    /// Mode, object and stage, as git lists and reads them.
    pub(super) fn head(&self) -> String {
        format!("{:06o} {} 0", self.mode, self.object)
    }

    /// Whether this is the file that git saw. A size of 0 is git's mark for a file that it was not sure of.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as git keeps them"
    )]
    pub(super) fn is_of(&self, found: &Metadata) -> bool {
        let times = [found.ctime(), found.ctime_nsec(), found.mtime(), found.mtime_nsec()]
            .map(|it| it as u32);
        found.is_file()
            && self.times == times
            && self.inode == found.ino() as u32
            && (self.size == found.size() as u32 || self.size == 0)
    }
}

/// The plain files at stage 0 of an index, by their paths; nothing if it is not understood.
pub(super) fn entries(index: &[u8]) -> Option<BTreeMap<Vec<u8>, Entry>> {
    // Names of objects have one of two lengths, and only with the right one the paths are in order.
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
    (!has_link(extensions)?).then_some(found)
}

/// Whether the entries are somewhere else: a split index.
fn has_link(mut extensions: &[u8]) -> Option<bool> {
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
