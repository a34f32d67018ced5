//! The control plane with in-memory stores, forges and engines; one test program.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test helpers panic on failure"
)]

mod access_reports;
mod admission;
mod api_actions;
mod bundle;
mod conditions;
mod context_refresh;
mod declared_fields;
mod definition_conditions;
mod dispatch;
mod dispatch_again;
mod dispatch_children;
mod dispatch_failures;
mod dispatch_groups;
mod dispatch_owners;
mod dispatch_pools;
mod dispatch_pushed;
mod dispatch_results;
mod dispatch_reuse;
mod dispatch_servers;
mod dispatch_workspaces;
mod embedded_kit;
mod events;
mod explanation;
mod faults;
mod handed_work;
mod layering;
mod moved_targets;
mod opened_issues;
mod plane;
mod reruns;
mod resources;
mod retention;
mod revalidation;
mod slow_forges;
mod subagents;
mod triggers;
mod trust;
mod worker_protocol;
mod workspaces;
mod write_back;
