//! Agents that start agents: their budgets, depth, context and paths.
//!
//! ```text
//! budget     a tree of runs under one allowance; reserved before a start, settled after the end
//! estimate   what a run is thought to take before it has begun
//! depth      how many levels there may be
//! context    what an agent may load before it begins
//! claim      exclusive leases on paths, and the fence that proves one when landing
//! consent    a person's yes to one call
//! ```
//!
//! Every rule is a pure function; the caller stores the result.

pub mod budget;
pub mod claim;
pub mod consent;
pub mod context;
pub mod depth;
pub mod estimate;
