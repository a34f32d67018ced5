//! Agents, sandbox, processes and checks.
//!
//! ```text
//!  checks ──▶ process ──▶ sandbox::Launcher ──▶ ours, outside ──▶ ours, PID 1 ──▶ the program
//!                └── limits: time, output            namespaces      root, Landlock, seccomp
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Bailiwick runs on Linux only: it holds agents by namespaces, Landlock and seccomp, which no other \
     system has. On macOS or Windows, build and run it in a Linux virtual machine."
);

#[cfg(target_os = "linux")]
pub mod agents;
#[cfg(target_os = "linux")]
pub mod checks;
#[cfg(target_os = "linux")]
pub mod environment;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod proxy;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod servers;
#[cfg(target_os = "linux")]
pub mod supervisor;
#[cfg(target_os = "linux")]
pub mod toolchain;
