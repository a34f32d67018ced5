//! Declaring resources: what people may write, and what a list of documents would change.

mod access;
mod applied_by;
mod apply;
mod audit;
mod difference;
mod label_review;
pub(crate) mod namespaces;
mod unified;

pub use access::{AccessError, AccessRequest, record_access};
pub use applied_by::{keep_applied_by, record_applied_by};
pub use apply::{
    Applied, DeclareError, Deletion, Outcome, apply, apply_by, apply_requiring, check, delete,
    delete_requiring, plan, require,
};
pub use audit::{AuditAction, AuditActor};
pub use difference::{ObjectDiff, compare};
pub use label_review::{TEXT_BY, keep_writer, review_fault};
pub use namespaces::namespace_fault;
