//! Resources in the API: list, watch, read, declare, apply, delete.

mod access;
mod apply;
mod document;
mod read;
mod secret;
mod select;
mod write;

pub(crate) use access::record_access;
pub use apply::{AppliedItem, ApplyAnswer, ApplyRequest, DiffAnswer};
pub(crate) use apply::{apply, diff};
pub use read::{AuditLine, AuditList, ListMetadata, ObjectList};
pub(crate) use read::{audit, blob, events, list, read};
pub use secret::SecretValues;
pub(crate) use secret::set_secret;
pub(crate) use write::{create, delete, patch, replace};
