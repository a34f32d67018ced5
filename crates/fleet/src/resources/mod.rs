//! Declaring resources: what people may write, and what a list of documents would change.

mod apply;
mod audit;
mod label_review;
pub(crate) mod namespaces;

pub use apply::{Applied, DeclareError, Outcome, apply, apply_by, delete, plan};
pub use audit::{AuditAction, AuditActor};
pub use label_review::{TEXT_BY, keep_writer, review_fault};
pub use namespaces::namespace_fault;
