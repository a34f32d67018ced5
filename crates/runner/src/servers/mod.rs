//! Asking MCP servers for their tools.
//!
//! ```text
//! protocol the messages, independent of the transport
//! stdio    a program, started in a sandbox with nothing of ours, and ended with all that it started
//! remote   a server on the network, by streamable HTTP
//! ```
//!
//! A server is not trusted: its answers are limited in time and length, and a tool name with a special meaning in a
//! list of tools is refused.

mod protocol;
mod remote;
mod stdio;

use std::time::Duration;

use bailiwick_model::DiscoveredTool;
use thiserror::Error;

pub use remote::ask_remote;
pub use stdio::{Program, ask_program};

/// How long a server may take for all of its answers.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Why a server's tools are not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoToolList {
    /// It did not answer in time.
    #[error("it did not answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// It cannot be reached, or violates the protocol.
    #[error(transparent)]
    Failed(#[from] ServerError),
}

/// An error of a server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServerError {
    #[error("it has no {0}")]
    Undeclared(&'static str),
    #[error("a server of sse is not asked before a run: make it lazy, or use streamable-http")]
    Sse,
    #[error("it broke: {0}")]
    Broke(String),
    #[error("it cannot be started: {0}")]
    NotStarted(String),
    #[error("it cannot be spoken to: {0}")]
    NoPipes(String),
    #[error("{how} before it answered. {complaint}")]
    Ended { how: String, complaint: String },
    #[error("{0} before it answered.")]
    EndedSilently(String),
    #[error("its address is none")]
    NoAddress,
    #[error("no HTTP client can be made: {0}")]
    NoClient(String),
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answers with {0}")]
    HttpStatus(reqwest::StatusCode),
    #[error("it was cut off: {0}")]
    CutOff(String),
    #[error("it says too much")]
    TooMuch,
    #[error("it does not answer what it was asked")]
    NoAnswer,
    #[error("it says what is no message: {0}")]
    NoMessage(String),
    #[error("what it says is no text")]
    NoText,
    #[error("what it says is no JSON-RPC")]
    NoJsonRpc,
    #[error("it names its messages too long")]
    LongMessageId,
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("it answers without a result")]
    NoResult,
    #[error("it does not say which protocol it speaks")]
    NoProtocol,
    #[error("it says that it has no tools")]
    NoTools,
    #[error("its list of tools is none")]
    NoList,
    #[error("its list of tools does not end")]
    EndlessList,
    #[error("its pages are named too long")]
    LongCursor,
    #[error("`{0}` is no name for a tool")]
    ToolName(String),
    #[error("it has more than {0} tools")]
    TooManyTools(usize),
    #[error("it asks too much itself")]
    AsksTooMuch,
}

/// The tools that a server has.
pub type ToolList = Result<Vec<DiscoveredTool>, NoToolList>;
