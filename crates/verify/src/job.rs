//! What has to be run on a tree in the sandbox, and its outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Something to run on a materialised tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "kebab-case")]
pub enum Job {
    /// A command line for `/bin/sh -c` in the root of the tree.
    Command { line: String },
    /// `cargo check` of every target.
    CargoCheck { of: Crates, warnings: Warnings },
    /// The tests of crates, with a result for each test.
    CargoTest { of: Crates },
}

/// Which crates a job is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crates {
    /// The crates with these names, in any workspace of the tree.
    Named(Vec<String>),
    /// All crates of each workspace that contains one of these paths; if none does, all crates of all
    /// workspaces in the tree.
    #[serde(rename = "holding")]
    Containing(Vec<String>),
}

/// How compiler warnings count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warnings {
    /// As warnings.
    Allowed,
    /// As errors.
    Denied,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOutcome {
    /// It could not be started, or its subject does not exist.
    CouldNotRun { why: String },
    /// A command changed files of the measured tree, so its results do not count.
    TreeChanged {
        /// The command line, as shown to people.
        line: String,
        /// The first of the changed files.
        paths: Vec<String>,
    },
    /// The commands in order, up to the first that failed.
    Commands(Vec<CommandResult>),
    /// Tests were run.
    Tests {
        /// The build before the tests.
        build: Vec<CommandResult>,
        /// The tests of each crate; empty if the build failed.
        crates: Vec<CrateTests>,
    },
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    /// The command line, as shown to people.
    pub line: String,
    pub ended: Termination,
    /// The end of its output, with both streams interleaved.
    pub tail: String,
    /// The elapsed time.
    pub took: Duration,
    /// The number of tests that it executed, if its whole output reports one.
    #[serde(default)]
    pub executed_tests: Option<u64>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Termination {
    /// It exited with this code.
    Exit(i32),
    /// A signal killed it.
    Signal(i32),
    /// It was stopped because it ran longer than this.
    TimedOut(Duration),
    /// It was stopped because it printed more than this many bytes.
    TooMuchOutput(u64),
}

/// The tests of one crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrateTests {
    pub name: String,
    pub programs: Vec<TestProgram>,
    /// Its documentation tests, which must pass but are not counted.
    pub documentation: Option<CommandResult>,
}

/// A test program of a crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestProgram {
    /// The target, for example `lib` or `tests/it`.
    pub target: String,
    pub harness: Harness,
    pub run: CommandResult,
}

/// The test harness of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harness {
    /// The standard harness: it lists its tests and writes the result of each to a file.
    Standard {
        /// The tests that it listed before the run.
        listed: Vec<String>,
        /// The result of each test.
        results: BTreeMap<String, TestResult>,
    },
    /// A custom harness: the program counts as one test, with its exit code as the result.
    #[serde(rename = "own")]
    Custom,
    /// A harness that reported a test that it was not told to run: none of its results count.
    Forged { test: String },
}

/// The result of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestResult {
    /// It passed.
    Ok,
    /// It failed.
    Failed,
    /// It was skipped.
    Ignored,
}

impl CommandResult {
    /// Whether it exited with 0.
    pub fn succeeded(&self) -> bool {
        self.ended == Termination::Exit(0)
    }
}

pub(crate) fn describe(job: &Job) -> String {
    match job {
        Job::Command { line } => format!("`{line}`"),
        Job::CargoCheck { of, .. } => format!("cargo check of {}", describe_crates(of)),
        Job::CargoTest { of } => format!("cargo test of {}", describe_crates(of)),
    }
}

fn describe_crates(crates: &Crates) -> String {
    match crates {
        Crates::Named(names) => names.join(", "),
        Crates::Containing(_) => "the workspaces with changes".to_owned(),
    }
}

/// How a command ended, to follow its name in a sentence.
pub(crate) fn describe_termination(ended: &Termination) -> String {
    match ended {
        Termination::Exit(code) => format!("exited with {code}"),
        Termination::Signal(signal) => format!("was killed by signal {signal}"),
        Termination::TimedOut(limit) => format!("was stopped after {} s", limit.as_secs()),
        Termination::TooMuchOutput(bytes) => {
            format!("was stopped: it printed more than {bytes} bytes")
        }
    }
}

pub(crate) const MAX_OUTPUT_LINES: usize = 40;
pub(crate) const MAX_OUTPUT_BYTES: usize = 4096;

/// The last lines of an output.
pub(crate) fn last_lines(output: &str) -> String {
    let output = output.trim_end();
    let mut start = output.len().saturating_sub(MAX_OUTPUT_BYTES);
    while !output.is_char_boundary(start) {
        start += 1;
    }
    let end = output.get(start..).unwrap_or_default();
    let lines: Vec<&str> = end.lines().collect();
    let skipped = lines.len().saturating_sub(MAX_OUTPUT_LINES);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}
