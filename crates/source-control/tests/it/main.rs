//! Git as it really is, against what this crate makes of it; one test program.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on says so by stopping"
)]

mod agent;
mod branch_names;
mod copying;
mod cut_short;
mod git_command;
mod hooks;
mod listing;
mod random_tree;
mod repository;
mod setup;
mod trees;
mod work_land;
mod work_snapshot;
mod workspaces;
