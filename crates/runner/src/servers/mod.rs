//! Asking MCP servers for their tools.
//!
//! ```text
//! speech   what is said and heard, whatever carries it
//! stdio    a program, started in a sandbox with nothing of ours, and ended with all that it started
//! remote   a server on the network, by streamable HTTP
//! ```
//!
//! Nothing that a server says is trusted: its answers are bounded in time and length, and a tool whose name
//! would mean more than itself in a list of tools is refused.

mod remote;
mod speech;
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
pub enum Silence {
    /// It did not answer in time.
    #[error("it did not answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// It cannot be asked, or does not speak as it should.
    #[error("{0}")]
    Failed(String),
}

/// The tools that a server has.
pub type Answer = Result<Vec<DiscoveredTool>, Silence>;
