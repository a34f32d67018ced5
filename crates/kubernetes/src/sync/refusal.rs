//! Why an object of a cluster is not what the control plane has.

use bailiwick_resources::Standing;

/// The reason of the condition `Synced`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncReason {
    /// The control plane has this generation.
    Copied,
    /// The control plane refuses the object: a field has a value that it does not accept.
    Invalid,
    /// The control plane does not let the operator write it.
    Denied,
    /// The control plane has an object of this name that was not copied from the cluster.
    ExistsInControlPlane,
    /// The copy was changed in the control plane since it was written.
    ChangedInControlPlane,
    /// The copy cannot be deleted.
    DeletionRefused,
}

impl SyncReason {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copied => "Copied",
            Self::Invalid => "Invalid",
            Self::Denied => "Denied",
            Self::ExistsInControlPlane => "ExistsInControlPlane",
            Self::ChangedInControlPlane => "ChangedInControlPlane",
            Self::DeletionRefused => "DeletionRefused",
        }
    }

    /// The status of the condition.
    pub fn standing(self) -> Standing {
        match self {
            Self::Copied => Standing::True,
            Self::Invalid
            | Self::Denied
            | Self::ExistsInControlPlane
            | Self::ChangedInControlPlane
            | Self::DeletionRefused => Standing::False,
        }
    }
}

/// Why the control plane does not have what the cluster declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: SyncReason,
    /// What is wrong and what to do, for people.
    pub message: String,
}
