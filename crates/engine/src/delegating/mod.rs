//! Delegation: agents that start agents, and people who do so through a tool of theirs.
//!
//! ```text
//! server     the MCP server: what the tools are called and what they take
//! http       the same over HTTP
//! stdio      the same on standard input and output
//! session    who calls: an agent of a run, or a person
//! caller     whoever asks for an agent, and what binds that
//! handing    files that a caller hands over
//! startable  which types a list of names and globs lets somebody start
//! starting   spawn_agent: a full run, bound by all that binds its caller
//! pending    who is just being started
//! purse      what is reserved for whom
//! declared   sub-agents that a control plane has declared: which, and how many at once
//! standing   list_active_agents, wait: how those below stand
//! talking    send_input, close_agent, set_thread_note
//! ```
//!
//! Every verb looks who calls: an agent reaches only what is below it.

mod caller;
mod declared;
mod handing;
pub mod http;
mod pending;
pub mod purse;
pub mod server;
pub mod session;
pub mod standing;
mod startable;
pub mod starting;
pub mod stdio;
pub mod talking;

pub use session::Session;
