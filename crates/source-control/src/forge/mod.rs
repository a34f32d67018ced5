//! Forges: reading from them and writing back to them.
//!
//! ```text
//! client          HTTP with one credential to one host: pages, limits, timeouts, errors
//! long_text       cuts long texts out of responses; pause: `Retry-After`; conditional: `ETag`
//! marker          finds a comment, review or release again by the key it was written with
//! gitea, github   the two APIs; shared_requests: what they share; wire: their JSON
//! facts           what the credential may do and what the forge can
//! gitea_rights    the rights of others; placement: where a commit is; timeline: changes of labels
//! local           a repository on this machine, without a forge
//! checks          CI runs that ended since the last poll
//! activity        what else happened on Gitea since then: comments, labels, pushes, tags, statuses
//! github_activity the same on GitHub; github_checks, github_labels: parts of it; poll: what both share
//! branch_rights   whether the token may push to a branch
//! push, fetch     git transfers
//! memory          the memory of agents in issues
//! ```
//!
//! Nothing is written twice for one key: an existing object is looked up first. After `Unavailable`, the
//! caller can try again with the same key.

mod activity;
mod branch_rights;
mod checks;
mod client;
mod conditional;
mod facts;
mod fetch;
mod gitea;
mod gitea_rights;
mod github;
mod github_activity;
mod github_checks;
mod github_labels;
mod local;
mod long_text;
mod marker;
mod memory;
mod open;
mod pause;
mod placement;
mod poll;
mod push;
mod shared_requests;
mod timeline;
mod token;
mod wire;
mod write_lock;

pub use fetch::fetch;
pub use gitea::Gitea;
pub use github::Github;
pub use local::Local;
pub use memory::{ForgeIssues, forge_issues};
pub use open::{AnyForge, open};
pub use token::Token;
