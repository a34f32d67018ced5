//! Delegation: agents that start agents, and people who do so through a tool of theirs.
//!
//! ```text
//! server     the MCP server: what the tools are called and what they take
//! http       the same over HTTP
//! stdio      the same on standard input and output
//! session    who calls: an agent of a run, or a person
//! caller     who asks for an agent, and what binds that
//! handing    files that a caller hands over
//! context_slice  what a declared sub-agent is given of its caller's context
//! startable  which types a list of names and globs lets somebody start
//! starting   spawn_agent: a full run, bound by all that binds its caller
//! pending    who is just being started
//! purse      what is reserved for whom
//! declared   sub-agents that a control plane has declared: which, and how many at once
//! standing   list_active_agents, wait: how those below stand
//! merging    merge_agent: the work of an agent below becomes work of its caller
//! merged_files  the files of a merge, as they are written in the sandbox
//! talking    send_input, close_agent, set_thread_note
//! ```
//!
//! Every verb looks who calls: an agent reaches only what is below it.

mod caller;
mod context_slice;
mod declared;
mod handing;
pub mod http;
mod merged_files;
pub mod merging;
mod pending;
pub mod reservations;
pub mod server;
pub mod session;
pub mod standing;
mod startable;
pub mod starting;
pub mod stdio;
pub mod talking;

pub use session::Session;

/// Whether a list of names and globs has an agent type in it.
pub(crate) fn may_name(list: &[String], name: &bailiwick_model::template::AgentType) -> bool {
    startable::lets(list, name, std::slice::from_ref(name))
}
