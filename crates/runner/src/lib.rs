//! Agents, sandbox and processes.
//!
//! At this step it only looks: which agent programs are there, and what a sandbox could hold here.

pub mod agents;
pub mod process;
pub mod sandbox;
