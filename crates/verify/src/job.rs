//! What has to be run on a tree, in the sandbox, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Something to run on a materialised tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "kebab-case")]
pub enum Job {
    /// A command line for `/bin/sh -c` in the root of the tree.
    Command {
        /// The command line.
        line: String,
    },
    /// `cargo check` of every target.
    CargoCheck {
        /// Of which crates.
        of: Crates,
        /// Whether a warning is an error.
        warnings: Warnings,
    },
    /// The tests of crates, each test told apart.
    CargoTest {
        /// Of which crates.
        of: Crates,
    },
}

/// Which crates a job is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crates {
    /// These, wherever in the tree their workspace is.
    Named(Vec<String>),
    /// All of every workspace that holds one of these paths; where none does, all of every workspace
    /// in the tree.
    Holding(Vec<String>),
}

/// What a warning of the compiler is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warnings {
    /// A warning.
    Allowed,
    /// An error.
    Denied,
}

/// How a job went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It could not be started, or what it was to look at is not there.
    CouldNotRun {
        /// Why.
        why: String,
    },
    /// A program of it changed files of the tree that is measured, so that nothing it said counts.
    TreeChanged {
        /// The program, as a person would write it.
        line: String,
        /// The first of these files.
        paths: Vec<String>,
    },
    /// Its commands, in their order, up to the first that failed.
    Commands(Vec<Ran>),
    /// Tests that were run.
    Tests {
        /// The build in front of them.
        build: Vec<Ran>,
        /// Crate by crate; empty when the build failed.
        crates: Vec<CrateTests>,
    },
}

/// A program that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// As a person would write it.
    pub line: String,
    /// How it ended.
    pub ended: Ended,
    /// The end of what it printed, both streams as they came.
    pub tail: String,
    /// How long it took.
    pub took: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By itself, with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// By us: it ran longer than this.
    TimedOut(Duration),
    /// By us: it printed more than this many bytes.
    TooMuchOutput(u64),
}

/// The tests of one crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrateTests {
    /// The crate.
    pub name: String,
    /// Its test programs.
    pub programs: Vec<TestProgram>,
    /// Its documentation tests, which are run and not counted.
    pub documentation: Option<Ran>,
}

/// One test program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestProgram {
    /// The target, for example `lib` or `tests/it`.
    pub target: String,
    /// What it says of itself.
    pub harness: Harness,
    /// Its run.
    pub run: Ran,
}

/// Who runs the tests of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harness {
    /// The standard one: it lists its tests, and writes a result for each to a file of ours.
    Standard {
        /// The tests that it listed before it ran.
        listed: Vec<String>,
        /// The result of each, as it wrote it down.
        results: BTreeMap<String, TestResult>,
    },
    /// One of its own: the program is one test, and its exit code the result.
    Own,
    /// One that gave a result for a test that it was not to run: none of its results counts.
    Forged {
        /// That test.
        test: String,
    },
}

/// How one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestResult {
    /// It passed.
    Ok,
    /// It failed.
    Failed,
    /// It was not run.
    Ignored,
}

impl Ran {
    /// Whether it ended by itself with 0.
    pub fn succeeded(&self) -> bool {
        self.ended == Ended::Exit(0)
    }
}
