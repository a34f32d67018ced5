//! Integration tests against real git, in one program.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test helpers panic on failure"
)]

mod agent;
mod branch_names;
mod copying;
mod forge;
mod git_command;
mod hooks;
mod hostile;
mod interrupted;
mod layer;
mod listing;
mod random_tree;
mod random_work;
mod repository;
mod retained_commits;
mod setup;
mod take_over;
mod trees;
mod work_base;
mod work_faults;
mod work_filtered;
mod work_import;
mod work_import_hostile;
mod work_import_killed;
mod work_killed;
mod work_land;
mod work_land_many;
mod work_land_random;
mod work_land_refused;
mod work_materialise;
mod work_merge;
mod work_moved_refs;
mod work_pending_snapshot;
mod work_recover;
mod work_repository;
mod work_rollback;
mod work_snapshot;
mod work_snapshot_random;
mod work_submodules;
mod workspace_operations;
mod workspaces;
