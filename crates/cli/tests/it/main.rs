//! Tests of the commands as people and programs use them, and of rules for the whole repository.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

mod agents;
mod agents_assemble;
mod agents_import;
mod attach;
mod bound_issues;
mod check;
mod checks_between_calls;
mod claiming_machines;
mod claims;
mod conformance;
mod corpus;
mod db_copy;
mod documentation;
mod effects;
mod environment;
mod exec;
mod exec_clis;
mod explain;
mod facade;
mod faults;
mod first_hour;
mod fleet;
mod gate_program;
mod generated;
mod granted;
mod guides;
mod help;
mod hints;
mod histories;
mod hooks;
mod issue_outcomes;
mod kei_programs;
mod kills;
mod land;
mod layering;
mod ledger_processes;
mod lint_runs;
mod lint_settings;
mod missing_database;
mod names;
mod new_user;
mod output_formats;
mod path_limits;
mod preconditions;
mod real_agent_files;
mod real_clis;
mod real_gitea;
mod removing;
mod replaced_machine;
mod run;
mod run_endings;
mod run_kills;
mod run_load;
mod same_results;
mod schemas;
mod screens;
mod spawn;
mod spec_fields;
mod template_contract;
mod trajectories;
mod tree;
mod ui;
mod verify;
mod web_page;
mod web_streams;
mod writes_nothing;

/// The programs under test.
const BAILIWICK: &str = env!("CARGO_BIN_EXE_bailiwick");
const BAILIWICK_GATE: &str = env!("CARGO_BIN_EXE_bailiwick-gate");
const KEI_AGENT_RUNTIME: &str = env!("CARGO_BIN_EXE_kei-agent-runtime");
const KEI_CAPABILITY: &str = env!("CARGO_BIN_EXE_kei-capability");
const KEI_LEDGER: &str = env!("CARGO_BIN_EXE_kei-ledger");

/// The root of the workspace.
fn workspace() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
