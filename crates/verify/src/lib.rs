//! Did it? What each check needs to know, and its verdict from what was found out.
//!
//! Pure: a check names its [`Needs`], somebody else looks them up and runs what has to be run, and
//! [`judge`] gives the verdict from the [`Facts`]. The same facts give the same verdict, everywhere.
//!
//! ```text
//!  Subject ──needs()──▶ Needs ──(source-control, runner, store)──▶ Facts ──judge()──▶ Verdict
//! ```

pub mod change;
pub mod checks;
mod dependencies;
#[cfg(test)]
mod example;
pub mod facts;
pub mod job;
mod measure;
pub mod missing;
mod report;
pub mod verdict;

pub use change::{Change, Entry, Mode};
pub use checks::{Check, How, Subject, judge, needs};
pub use facts::{Facts, Needs, Pass};
pub use job::{Job, Outcome};
pub use verdict::Verdict;
