//! Reads what people write: capabilities, roles, tasks and agent templates, from any tree.
//!
//! Pure over a [`Tree`]: the embedded kit is compiled in; other crates provide directories and commits as trees.
//! Errors are [`bailiwick_model::Problem`]s with their places.
//!
//! ```text
//!  repository kit ─┐
//!  user kit ───────┼─▶ Kit ─▶ Role ──resolve──▶ ResolvedRole ─▶ Bound (role + capabilities + task)
//!  embedded kit ───┘    │
//!                       └─▶ lint, fork, role matrix
//!  places of agents ───▶ Templates ─▶ Template ─▶ Assignment (prompt, model, sandbox, tools)
//! ```

pub mod bind;
pub mod capability_file;
pub mod embedded;
pub mod foreign;
pub mod fork;
pub mod kit;
mod layer;
pub mod lint;
pub mod manifest;
pub mod resolve;
pub mod role_file;
pub mod role_matrix;
pub mod starter;
pub mod task_text;
pub mod templates;
mod tool_table;
pub mod tree;

pub use bind::{Bound, bind};
pub use kit::{FoundCapability, FoundRole, Kit};
pub use layer::{Layer, Layout, Origin};
pub use resolve::{ResolvedRole, resolve};
pub use tree::{Tree, TreeError};
