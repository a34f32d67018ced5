//! May it? What a tool call would run and write, and whether that is allowed.
//!
//! ```text
//!  payload ─dialects▶ Call ─▶ Effects ─▶ lookups ─(looked up outside)──▶ Facts
//!                       │        ▲                                        │
//!                       │        └── shell: what a command runs, writes   │
//!                       ▼                                                 ▼
//!  kit+role+task ─compile▶ Policy ─────────────▶ decide ◀─── paths: where a write leads
//!                                                  │  ▲
//!                                                  ▼  └──── gates: one file each
//!                                               Decision ─dialects▶ answer
//! ```
//!
//! Pure: nothing here reads a file, a clock, the environment or the network.

mod base_name;
pub mod call;
pub mod compile;
pub mod decide;
pub mod decision;
pub mod dialects;
pub mod effects;
pub mod facts;
mod gates;
pub mod limits;
mod package_managers;
pub mod path_policy;
pub mod paths;
pub mod pattern;
pub mod policy;
pub mod protocol;
pub mod record;
pub mod shell;
pub mod tool;
pub mod tool_lists;
mod word_list;

pub use call::Call;
pub use compile::{Sources, compile};
pub use decide::decide;
pub use decision::{Decision, Objection, Outcome};
pub use effects::Effects;
pub use facts::Facts;
pub use limits::{Limit, Limits};
pub use path_policy::PathPolicy;
pub use policy::Policy;
pub use tool_lists::ToolStack;
