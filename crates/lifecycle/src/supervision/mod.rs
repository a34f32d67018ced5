//! Supervision of a run: usage, requested calls, and decisions.
//!
//! ```text
//! budget        what may be spent, what is, and what follows
//! prices        what tokens cost
//! enforcement   whether every call that came back had been decided
//! redaction     secrets that are known by their value
//! trees         which trees are checked between calls, and what the agent is told
//! ```

pub mod budget;
pub mod enforcement;
pub mod prices;
pub mod redaction;
pub mod trees;

pub use budget::{Budget, BudgetState, Spent};
pub use enforcement::{CallTracker, CliBehaviour, EnforcementBreach, Evidence, IncompleteCalls};
pub use prices::Prices;
pub use redaction::Redaction;
pub use trees::Trees;
