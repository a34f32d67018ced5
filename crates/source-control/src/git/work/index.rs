//! Whether an index has anything that hides or holds back changes: bits that tell git not to look,
//! conflicts, submodules, directories in place of files.
//!
//! A plain index is told from its bytes; of any other, git is asked.

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
