//! Runs untrusted programs.
//!
//! A [`Sandbox`] is a plain value that describes what the program may see; a [`Launcher`] starts it:
//!
//! ```text
//!  the launcher's process
//!    └─ ours, outside     makes the user, PID, mount, network, IPC and UTS namespaces; watches
//!        └─ ours, PID 1   builds the new root, gives its powers away, applies Landlock and seccomp
//!            └─ the program, and whatever it starts
//! ```
//!
//! Each of our processes dies with its parent, and everything inside dies with PID 1. They communicate over their
//! standard input, a socket: the description goes in, the reports come out, and open files go along with both: the
//! program's input goes in, the listener of the sandbox comes out.

mod agent;
mod bounds;
mod channel;
pub mod diagnosis;
mod group;
mod inside;
mod landlock_rules;
mod launch;
mod loopback;
mod memory;
mod messages;
mod mounts;
mod outside;
mod probe;
mod program;
mod read_only_paths;
mod root;
mod seccomp;
mod shell_command;
mod streams;
mod unguarded;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use agent::{AgentPlaces, WorktreeAccess, agent};
pub use bounds::Bounds;
pub use landlock_rules::has_landlock;
pub use launch::{Launcher, Received, Running, Stopper, Waker};
pub use messages::{Confinement, Inactive, Report};
pub use probe::{Part, level, probe, probe_with};
pub use shell_command::{CommandPlaces, CommandRepository, GitAccess, shell_command};
pub use streams::{Streams, Terminal};

/// The file system, network and resources of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Files and directories that it can read, beside the system's.
    pub read_only: Vec<Bind>,
    /// Files and directories that it can write.
    pub writable: Vec<Bind>,
    /// Directories that look writable: what it writes there is its own, and gone when it ends. Where
    /// the kernel cannot do that, they can only be read.
    pub layered: Vec<Bind>,
    /// Directories that are writable without changing what is below: writes go to a directory of the host.
    pub overlaid: Vec<Overlay>,
    /// Empty private directories that are removed at the end; `/tmp` and `/var/tmp` always exist.
    pub private: Vec<PathBuf>,
    /// Directories that hold nothing but what else is placed in them, and can only be read.
    pub emptied: Vec<PathBuf>,
    /// Paths that are empty inside although their parents are visible.
    pub hidden: Vec<PathBuf>,
    /// Read-only paths in writable directories, which cannot be moved either; paths that do not exist at the start
    /// are skipped.
    #[serde(rename = "frozen")]
    pub read_only_paths: Vec<PathBuf>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// The working directory.
    pub directory: PathBuf,
    /// Its network.
    pub network: Network,
    /// The port on its loopback where this process listens, see [`Running::take_listener`]; 0 for any.
    pub listener_port: Option<u16>,
    /// Limits for all its processes together.
    pub bounds: Bounds,
    /// The required level; with less it does not start.
    pub level: Level,
}

/// A path of the host and its path inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub source: PathBuf,
    /// Inside.
    pub target: PathBuf,
}

impl Bind {
    /// `source` of the host, seen at `target`.
    pub fn new(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), target: target.into() }
    }

    /// Seen where it is.
    pub fn same(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { source: path.clone(), target: path }
    }
}

/// An overlay mount of host directories, with a writable layer on top.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// The read-only directories, upper ones first.
    pub lower: Vec<PathBuf>,
    /// A directory in which `upper` receives the writes; `work` in it belongs to the kernel. It is created if it
    /// does not exist.
    pub layer: PathBuf,
    /// Their path inside.
    pub target: PathBuf,
    /// What happens if the kernel cannot do that.
    pub fallback: Fallback,
}

/// What happens if the kernel does not support the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fallback {
    /// The program does not start.
    Fail,
    /// The first of the directories is written itself.
    Write,
}

/// The networks that a program can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// A private loopback.
    None,
    /// The network of the host.
    Host,
}

/// The isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing: the program runs as the person would run it, and is only ended with its children.
    Off,
    /// Namespaces, and what there is of Landlock and seccomp.
    Partial,
    /// Namespaces, Landlock and seccomp.
    Full,
}

impl Level {
    /// The name that is stored with an attempt.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Partial => "partial",
            Self::Full => "full",
        }
    }
}

/// Why a program did not run in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{part}: {why}")]
pub struct SandboxError {
    /// The part of the sandbox that could not be created.
    pub part: String,
    /// The cause.
    pub why: String,
    /// Whether something else can be tried.
    pub kind: SandboxErrorKind,
}

/// Whether the caller can try something else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxErrorKind {
    /// Directories cannot be laid over each other here, so copies are needed.
    LayersUnsupported,
    /// Nothing.
    #[default]
    Other,
}

impl SandboxError {
    pub(crate) fn new(part: &str, why: impl std::fmt::Display) -> Self {
        Self { part: part.to_owned(), why: why.to_string(), kind: SandboxErrorKind::Other }
    }
}

/// The main function of the sandbox's own processes. `arguments` are those after the launcher's own.
///
/// Must be called before the process has a second thread.
pub fn init(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    match arguments.as_slice() {
        [] => outside::run(),
        [only] if only.as_os_str() == inside::ARGUMENT => inside::run(),
        _ => ExitCode::from(messages::MISUSED),
    }
}
