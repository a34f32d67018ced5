//! Declaring resources: what people may write, and what a list of documents would change.

mod apply;
mod label_review;

pub use apply::{Applied, DeclareError, Outcome, apply, delete, plan};
pub use label_review::{TEXT_BY, keep_writer, review_fault};
