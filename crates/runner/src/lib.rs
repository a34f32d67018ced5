//! Agents, sandbox, processes and checks.
//!
//! ```text
//!  checks ──▶ process ──▶ sandbox::Launcher ──▶ ours, outside ──▶ ours, PID 1 ──▶ the program
//!                └── limits: time, output            namespaces      root, Landlock, seccomp
//! ```

pub mod agents;
pub mod checks;
pub mod environment;
pub mod process;
pub mod proxy;
pub mod sandbox;
pub mod servers;
pub mod supervisor;
pub mod toolchain;
