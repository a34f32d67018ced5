//! The operations on workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An operation on a workspace.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "WorkspaceVerb")]
pub enum Verb {
    /// Creates a new one.
    Provision,
    /// Adopts an existing worktree, or links a work item with it.
    LinkExisting,
    /// Removes a link; files stay.
    Unlink,
    /// Exempts it from retention.
    Pin,
    /// Ends the exemption.
    Unpin,
    /// Its files go, its branch stays.
    Archive,
    /// Its files go, and its record with them.
    Cleanup,
    /// Restores its files.
    Recover,
    /// Something is written about it.
    NotesSave,
    /// It is put on top of its target.
    RebaseStart,
    /// Conflicts that were settled before are settled in the same way.
    RebaseAutoResolve,
    /// A person wants to see the files with conflicts.
    RebaseOpenInEditor,
    /// The conflicts are resolved, and the rebase continues.
    RebaseMarkResolved,
    /// It is put back as it was.
    RebaseAbort,
}

impl Verb {
    /// Every one.
    pub const ALL: [Self; 14] = [
        Self::Provision,
        Self::LinkExisting,
        Self::Unlink,
        Self::Pin,
        Self::Unpin,
        Self::Archive,
        Self::Cleanup,
        Self::Recover,
        Self::NotesSave,
        Self::RebaseStart,
        Self::RebaseAutoResolve,
        Self::RebaseOpenInEditor,
        Self::RebaseMarkResolved,
        Self::RebaseAbort,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::LinkExisting => "link-existing",
            Self::Unlink => "unlink",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Archive => "archive",
            Self::Cleanup => "cleanup",
            Self::Recover => "recover",
            Self::NotesSave => "notes-save",
            Self::RebaseStart => "rebase-start",
            Self::RebaseAutoResolve => "rebase-auto-resolve",
            Self::RebaseOpenInEditor => "rebase-open-in-editor",
            Self::RebaseMarkResolved => "rebase-mark-resolved",
            Self::RebaseAbort => "rebase-abort",
        }
    }

    /// The verb that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text)
    }
}
