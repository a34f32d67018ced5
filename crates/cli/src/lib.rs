//! The `bailiwick` command, and the kei tools on the same code.
//!
//! One command a file under [`commands`]: it parses arguments, calls a service of the engine and prints
//! the result. Only this crate prints.

pub mod commands;
pub mod failure;
pub mod hooks;
pub mod interrupt;
pub mod kei;
pub mod output;
pub mod plumbing;
pub mod reference;
pub mod view;

pub use commands::Bailiwick;
