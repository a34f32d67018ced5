//! Real programs, a real kernel and real cargo, against what this crate promises; one test program.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on says so by stopping"
)]

mod bench;
mod build_cache;
mod cargo_checks;
mod kept_apart;
mod lab;
mod preparation;
mod sandbox_basics;
mod sandbox_files;
mod sandbox_network;
mod sandbox_ordinary_user;
mod sandbox_processes;
mod tests_told_apart;
mod toolchain;
mod workshop;
