//! Why a run that was admitted may not start today.

use thiserror::Error;

use crate::admission::inventory::InventoryError;
use crate::admission::snapshot::NoStack;
use crate::controllers::ReconcileError;

/// Why a run that was admitted may not start today.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum StartRefusal {
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    #[error("there is no repository `{0}`")]
    RepositoryGone(String),
    #[error("`{0}` is not trusted any more")]
    LessTrusted(String),
    /// A stack or one of its parts.
    #[error(transparent)]
    Stack(#[from] NoStack),
    #[error("the {what} `{name}` is gone")]
    PartGone { what: &'static str, name: String },
    /// The record of its admission cannot be used.
    #[error(transparent)]
    Record(#[from] ReconcileError),
    #[error("its task cannot be read: {0}")]
    TaskUnreadable(#[from] toml::de::Error),
    /// The sentences of the validations, of the review, or of the compiler.
    #[error("{}", .0.join("; "))]
    Objections(Vec<String>),
    #[error("`{entry}` of its {list} is not open to it any more")]
    Withdrawn { entry: String, list: &'static str },
    /// The agent of a conversation keeps its initial policy and tools.
    #[error("{0} than when its conversation began; retry it")]
    ConversationOutdated(&'static str),
}
