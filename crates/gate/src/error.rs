//! Why the gate cannot decide. Each is a denial, with its text as the reason.

use std::io;
use std::path::PathBuf;

use bailiwick_policy::policy::PolicyError;
use bailiwick_policy::protocol::ProtocolError;
use thiserror::Error;

/// Why the gate cannot decide.
#[derive(Debug, Error)]
pub enum GateError {
    #[error("the call is empty")]
    EmptyCall,
    #[error("the call is larger than 16 MiB")]
    CallTooLarge,
    #[error("the call is not UTF-8")]
    CallNotUtf8,
    #[error("the call cannot be read: {0}")]
    UnreadableCall(#[source] io::Error),
    #[error("the supervisor did not answer: {0}")]
    NoAnswer(#[source] io::Error),
    #[error("the supervisor hung up without an answer")]
    EmptyAnswer,
    #[error("the supervisor's answer cannot be read: {0}")]
    UnreadableAnswer(#[from] ProtocolError),
    #[error("the policy {} cannot be read: {error}", path.display())]
    UnreadablePolicy { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Why the environment of a call is unknown.
#[derive(Debug, Error)]
pub enum HostError {
    #[error("the working directory of the gate cannot be read: {0}")]
    WorkingDirectory(#[source] io::Error),
    #[error("the directory of the call cannot be resolved")]
    CallDirectory,
    #[error("the root {} cannot be used: {error}", path.display())]
    Root { path: PathBuf, error: io::Error },
    #[error("the root is not UTF-8")]
    RootNotUtf8,
}

/// Why a decision is not in the log.
#[derive(Debug, Error)]
pub enum LogError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the decision cannot be kept in {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
}

/// An invalid argument.
#[derive(Debug, Error)]
pub(crate) enum ArgumentError {
    #[error("an argument is not UTF-8")]
    NotUtf8,
    #[error("{0} needs a value")]
    NoValue(String),
    #[error("there is no dialect {0}")]
    Dialect(String),
    #[error("--deadline-ms needs a number")]
    Deadline,
    #[error("the argument {0} is not known")]
    Unknown(String),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("--socket and --policy exclude each other")]
    SocketAndPolicy,
    #[error("--announce needs --socket")]
    AnnounceWithoutSocket,
}
