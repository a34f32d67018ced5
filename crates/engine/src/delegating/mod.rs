//! Delegation: agents that start agents, and people who do so through a tool of theirs.
//!
//! ```text
//! server     the MCP server: what the tools are called and what they take
//! http       the same over HTTP
//! stdio      the same on standard input and output
//! service    DelegationService: answers the calls of one agent or person
//! caller     what a caller passes on: its types, its model, its limits
//! handed_files  files that a caller gives to an agent
//! context_slice  what a declared sub-agent gets of its caller's context
//! allowed_types  the agent types that a list of names and globs allows
//! spawn_agent  spawn_agent: a full run within the limits of its caller
//! pending    agents that are being started
//! reservations  budget reservations
//! run_budgets  their amounts, limit by limit
//! declared   sub-agents that a control plane has declared: which, and how many at once
//! wait       list_active_agents, wait: the agents below the caller
//! merging    merge_agent: the work of an agent below becomes work of its caller
//! merged_files  the files of a merge, as they are written in the sandbox
//! send_input  send_input, close_agent, set_thread_note
//! ```
//!
//! Every tool checks its caller: an agent reaches only the agents below it.

mod allowed_types;
mod caller;
mod context_slice;
mod declared;
mod handed_files;
pub mod http;
mod merged_files;
pub mod merging;
mod pending;
mod reservations;
pub(crate) mod run_budgets;
pub mod send_input;
pub mod server;
pub mod service;
pub mod spawn_agent;
pub mod stdio;
pub mod wait;

pub use service::DelegationService;

/// Whether a list of names and globs contains an agent type.
pub(crate) fn may_name(list: &[String], name: &bailiwick_model::template::AgentType) -> bool {
    allowed_types::allows(list, name, std::slice::from_ref(name))
}
