//! Issues in git references: the memory of agents without a server.
//!
//! ```text
//! local       reading and writing them by compare-and-swap
//! merge       joining what two clones did with the same issue
//! any         these, or the issues on a forge
//! ```
//!
//! One change of an issue is an operation (`git/issue_operation`), the message of a commit; an issue is what all of them
//! lead to. `refs/bailiwick/issues/<number>` is the last operation of an issue. Operations are commits without files, so that
//! git stores, fetches, pushes and merges them like code.

mod any;
mod local;
mod merge;

pub use any::{AnyIssues, open_issues};
pub use local::{LocalIssues, NewIssue};
pub use merge::{IssueMerge, merge_issues};
