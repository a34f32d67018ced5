//! May it? What a tool call would run and write, and whether that is allowed.
//!
//! So far it reads shell commands; gates and decisions build on that.

pub mod shell;
