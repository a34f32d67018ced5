//! Declaring resources: what people may write, and what a list of documents would change.

mod apply;

pub use apply::{Applied, DeclareError, Outcome, apply, delete, plan};
