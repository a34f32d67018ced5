//! Agent templates: Markdown files with frontmatter, found in an order of places.
//!
//! ```text
//!  places, nearest first ─discovery▶ one file a type ─file▶ Template ─select▶ prompt, model, effort
//!                                                              └─────list──▶ the answer of list_agents
//! ```
//!
//! Which tools a template's lists allow is decided in the policy, by `bailiwick_policy::tool_lists`.

pub mod assignment;
mod blocks;
pub mod discovery;
pub mod file;
mod frontmatter;
pub mod list;
pub mod seeding;
pub mod select;
pub mod skeleton;

pub use assignment::{Assignment, Sandbox, assign};
pub use discovery::{FoundTemplate, Place, TemplateError, Templates};
pub use list::{AgentsListed, ListAgents};
pub use select::{Effective, Inherited, KnownModel, Overrides, Selected};
