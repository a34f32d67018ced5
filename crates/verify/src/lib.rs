//! Verification: what each check needs to know, and its verdict on the facts.
//!
//! This crate is pure. A check names its [`Needs`], the caller looks them up and runs the jobs, and
//! [`judge`] derives the verdict from the [`Facts`]. The same facts always give the same verdict.
//!
//! ```text
//!  Subject ──needs()──▶ Needs ──(source-control, runner, store)──▶ Facts ──judge()──▶ Verdict
//! ```

pub mod change;
pub mod checks;
mod dependencies;
#[cfg(test)]
mod example;
pub mod executed_tests;
pub mod facts;
pub mod job;
mod measure;
pub mod missing;
mod report;
mod test_tally;
pub mod verdict;

pub use change::{Change, Entry, Mode};
pub use checks::{Check, CheckMethod, Subject, judge, needs};
pub use executed_tests::ExecutedTests;
pub use facts::{Facts, Needs, Pass};
pub use job::{Job, JobOutcome};
pub use verdict::Verdict;
