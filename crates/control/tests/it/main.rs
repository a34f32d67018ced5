//! Briefs and plans, and the executor over a world that fails; one test program.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on says so by stopping"
)]

mod admission;
mod brief;
mod brief_parameters;
mod bundle;
mod conditions;
mod declared_fields;
mod deeds;
mod delegation_budget;
mod dispatch;
mod dispatch_again;
mod dispatch_children;
mod dispatch_groups;
mod dispatch_pools;
mod dispatch_pushed;
mod dispatch_results;
mod dispatch_servers;
mod dispatch_troubles;
mod dispatch_workspaces;
mod events;
mod executor;
mod explaining;
mod failing_world;
mod faults;
mod foreign_rights;
mod invocation;
mod kit_in_memory;
mod plane;
mod renewing;
mod request;
mod resources;
mod retention;
mod spawn_plan;
mod subagents;
mod triggers;
mod trust;
mod verification;
mod workspaces;
mod write_back;
