//! The words of Bailiwick, one meaning each: types, parsing, validation.
//!
//! Pure: nothing here reads a file, a clock, the environment or the network.
//!
//! ```text
//!  Capability ──named by──▶ CapabilityName      one limit or duty: text, gate, check
//!  Role       ──named by──▶ RoleName            an ordered set of capabilities, with tools
//!  Task       ──asks for──▶ Role                what one agent is to do
//!  Run        ──made of───▶ Task + Role         one piece of delegated work, in the ledger
//!  Dna        ──identifies▶ Role + capabilities + scope + body
//!  Template   ──is told to─▶ Agent              an agent definition in Markdown, with personas
//!  Claim      ──held by──▶ Run                  an exclusive lease on paths
//!  Event      ──happens in▶ Run                what an agent did, said, was denied, has cost
//!  Problem    ──points at─▶ Source              what is wrong in a file that a person wrote
//! ```

pub mod attempt;
pub mod audit;
pub mod backoff;
pub mod capability;
mod checked;
pub mod claim;
pub mod delegate;
pub mod digest;
pub mod dna;
pub mod event;
pub mod globs;
pub mod issue_name;
pub mod ledger_note;
pub mod mcp_tool;
pub mod module;
pub mod name;
pub mod nearest;
pub mod object_id;
pub mod problem;
pub mod role;
pub mod run;
pub mod secret;
pub mod settings;
pub mod size;
pub mod task;
pub mod template;
pub mod token_formats;
pub mod toml_file;
mod toml_value;
pub mod well_known;

pub use attempt::Attempt;
pub use audit::AuditLevel;
pub use capability::Capability;
pub use claim::{Claim, Fence};
pub use delegate::Delegate;
pub use digest::Sha256Hex;
pub use dna::Dna;
pub use event::Event;
pub use issue_name::IssueName;
pub use ledger_note::LedgerNote;
pub use mcp_tool::DiscoveredTool;
pub use name::{AgentId, CapabilityName, Category, NameError, ParameterName, PhaseName, RoleName};
pub use object_id::{CommitId, TreeId};
pub use problem::{Place, Problem, Severity, Source};
pub use role::Role;
pub use run::{Run, RunFacts, RunName, RunState, RunStatus};
pub use settings::Settings;
pub use task::Task;
pub use template::Template;
