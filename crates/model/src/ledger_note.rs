//! The kinds of notes in the ledger, and their stored names.

use std::fmt;

/// A kind of note in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerNote {
    /// All checks of the work passed; the detail is the report.
    Verified,
    /// A check of the work failed; the detail is the report.
    VerificationFailed,
    /// The agent ended without changing anything.
    NothingChanged,
    /// The work landed; the detail is the record of the landing.
    Landed,
    /// The work is on a branch that waits for a pull request.
    Proposed,
    /// The work was replayed on a branch that had moved; the detail is the report.
    Rebased,
    /// Landed work was reverted; the detail is the record of that.
    RolledBack,
    /// A person chose the subject of the commit.
    Title,
    /// The files of the run were removed.
    FilesRemoved,
    /// The lock on the file formats was revoked.
    LockRevoked,
}

impl LedgerNote {
    const ALL: [Self; 10] = [
        Self::Verified,
        Self::VerificationFailed,
        Self::NothingChanged,
        Self::Landed,
        Self::Proposed,
        Self::Rebased,
        Self::RolledBack,
        Self::Title,
        Self::FilesRemoved,
        Self::LockRevoked,
    ];

    /// The name that it is stored under.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::VerificationFailed => "verification-failed",
            Self::NothingChanged => "nothing-changed",
            Self::Landed => "landed",
            Self::Proposed => "proposed",
            Self::Rebased => "rebased",
            Self::RolledBack => "rolled-back",
            Self::Title => "title",
            Self::FilesRemoved => "files-removed",
            Self::LockRevoked => "lock-revoked",
        }
    }

    /// The note of this name; other rows of the ledger have other names.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|note| note.as_str() == name)
    }
}

impl fmt::Display for LedgerNote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_is_parsed_from_its_own_name_only() {
        for note in LedgerNote::ALL {
            assert_eq!(LedgerNote::parse(note.as_str()), Some(note));
        }
        let mut names = LedgerNote::ALL.map(LedgerNote::as_str).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LedgerNote::ALL.len());
        assert_eq!(LedgerNote::parse("spawned"), None);
    }
}
