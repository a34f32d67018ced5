//! Admission: may this stack, with all that it names, do this piece of work here?
//!
//! ```text
//!  Inventory ─snapshot▶ FrozenStack ─requirements▶ Requirements ─review▶ Review
//!                         │                                               │
//!                         ├─compile▶ task.toml + limits                   ├─▶ conditions
//!                         ▼                                               ▼
//!                       admit: ten validations, eight steps ─▶ Admitted or Refused
//! ```
//!
//! Pure: objects, facts of the platform and results of probes are arguments. What is not known is not allowed.

pub mod access;
pub mod admit;
pub mod code_owners;
pub mod compile;
pub mod conditions;
pub mod context;
pub mod inventory;
pub mod native;
pub mod ownership;
mod person;
pub mod requirements;
pub mod review;
pub mod roles;
pub mod snapshot;
pub mod validations;
pub mod yaml;

pub use admit::{Admission, Admitted, Refused, admit};
pub use compile::{CompileInput, Compiled, compile};
pub use inventory::{Found, Inventory};
pub use ownership::{OwnerFacts, TeamMembers};
pub use person::PersonRecord;
pub use requirements::{Requirements, collect};
pub use review::{Decision, Review, Scope, Situation, review};
pub use snapshot::{FrozenStack, snapshot};
