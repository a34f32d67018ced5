//! The space that files take on disk.

/// The space that files take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DiskUsage {
    pub(super) bytes: u64,
    /// How many files and directories there are.
    pub(super) files: u64,
}

impl DiskUsage {
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
        }
    }
}
