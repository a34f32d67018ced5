//! The services of one machine: run, exec, verify, land, delegate, claim, and the engine of a control plane.
//!
//! Nothing here prints or reads arguments. What a service reports while it works goes to
//! [`notices::Notices`] and to the observers that its caller hands it.

pub mod agent_names;
pub mod agent_programs;
pub mod agent_state;
pub mod background;
pub mod claiming;
pub mod context;
pub mod counted;
pub mod database;
pub mod delegating;
mod disallowed_agents;
pub mod failure;
pub mod fleet;
pub mod given_issue;
pub mod issue_recovery;
pub mod issues;
pub mod landing;
pub mod launched_for;
pub mod local_runs;
pub mod logins;
pub mod managed;
pub mod messages;
pub mod notices;
pub mod options;
pub mod policy_file;
pub mod preconditions;
pub mod pruning;
pub mod rejecting;
pub mod removing;
pub mod respawning;
pub mod reused_workspace;
pub mod rollback;
pub mod running;
pub mod seen_issues;
pub mod sources;
pub mod spawning;
pub mod standing;

pub mod system;
pub mod task_files;
pub mod templates;
pub mod verifying;
pub mod waiting_for;
pub mod watch;
mod work_commits;
mod work_patch;
pub mod worker;
