//! Tests this crate against real programs, a real kernel and real cargo; one test program.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers panic on failure")]

mod agent_fixture;
mod bench;
mod build_cache;
mod cargo_checks;
mod forged_results;
mod kept_apart;
mod lab;
mod measured_tree;
mod preparation;
mod proxy_figures;
mod proxy_lab;
mod proxy_models;
mod proxy_passing;
mod proxy_programs;
mod proxy_questions;
mod proxy_seats;
mod proxy_server_side;
mod proxy_tunnels;
mod sandbox_agent_clis;
mod sandbox_agent_files;
mod sandbox_agent_git;
mod sandbox_agent_network;
mod sandbox_agent_processes;
mod sandbox_basics;
mod sandbox_files;
mod sandbox_network;
mod sandbox_ordinary_user;
mod sandbox_path_policy;
mod sandbox_processes;
mod servers;
mod setup;
mod tests_told_apart;
mod toolchain;
mod workshop;
