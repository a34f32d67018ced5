//! Counts the tests of a job: passed, ignored, failed, and other faults.

use std::collections::BTreeSet;

use crate::job::{CrateTests, Harness, JobOutcome, TestProgram, TestResult};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Listed tests that passed; a program with a custom harness counts as one test.
    pub(super) passed: usize,
    /// Programs with a custom harness among them.
    pub(super) custom: usize,
    /// Tests that are marked as ignored.
    pub(super) ignored: usize,
    /// Test programs that were run.
    pub(super) programs: usize,
    /// Tests that failed, with their crate and target.
    pub(super) failed: Vec<String>,
    /// Other faults, each with the output that shows it.
    pub(super) faults: Vec<(String, String)>,
}

impl Tally {
    /// Whether there is no failed test and no other fault.
    pub(crate) fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.faults.is_empty()
    }
}

/// Counts the tests; none if the outcome has no tests.
pub(crate) fn tally(outcome: &JobOutcome) -> Option<Tally> {
    let (build, crates) = match outcome {
        JobOutcome::Tests { build, crates } => (build, crates),
        JobOutcome::CouldNotRun { .. }
        | JobOutcome::TreeChanged { .. }
        | JobOutcome::Commands(_) => {
            return None;
        }
    };
    let mut tally = Tally::default();
    for failed in build.iter().filter(|step| !step.succeeded()) {
        let message =
            format!("`{}` {}", failed.line, crate::job::describe_termination(&failed.ended));
        tally.faults.push((message, crate::job::last_lines(&failed.tail)));
    }
    for tests in crates {
        count_crate(tests, &mut tally);
    }
    Some(tally)
}

/// The tests of a crate that were executed, whether they passed or not.
pub(crate) fn executed(tests: &CrateTests) -> u64 {
    let mut tally = Tally::default();
    count_crate(tests, &mut tally);
    u64::try_from(tally.passed.saturating_add(tally.failed.len())).unwrap_or(u64::MAX)
}

fn count_crate(tests: &CrateTests, tally: &mut Tally) {
    for program in &tests.programs {
        tally.programs += 1;
        count_program(&format!("{} {}", tests.name, program.target), program, tally);
    }
    if let Some(documentation) = tests.documentation.as_ref().filter(|run| !run.succeeded()) {
        let termination = crate::job::describe_termination(&documentation.ended);
        let message = format!(
            "the documentation tests of {}: `{}` {termination}",
            tests.name, documentation.line
        );
        tally.faults.push((message, crate::job::last_lines(&documentation.tail)));
    }
}

fn count_program(name: &str, program: &TestProgram, tally: &mut Tally) {
    let failed_before = tally.failed.len();
    let mut without_result = Vec::new();
    match &program.harness {
        Harness::Custom if program.run.succeeded() => {
            tally.passed += 1;
            tally.custom += 1;
        }
        Harness::Custom => tally.failed.push(name.to_owned()),
        Harness::Forged { test } => {
            let message = format!(
                "{name} reported `{test}`, which it was not told to run: its results are forged"
            );
            tally.faults.push((message, crate::job::last_lines(&program.run.tail)));
            return;
        }
        Harness::Standard { listed, results } => {
            for test in listed.iter().collect::<BTreeSet<_>>() {
                match results.get(test) {
                    Some(TestResult::Ok) => tally.passed += 1,
                    Some(TestResult::Ignored) => tally.ignored += 1,
                    Some(TestResult::Failed) => tally.failed.push(format!("{name} {test}")),
                    None => without_result.push(test.as_str()),
                }
            }
        }
    }
    if !without_result.is_empty() {
        let first = without_result.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        let message = format!(
            "{name} listed {} tests that have no result: the program ended early ({first})",
            without_result.len()
        );
        tally.faults.push((message, crate::job::last_lines(&program.run.tail)));
    } else if !program.run.succeeded() && tally.failed.len() == failed_before {
        let message = format!(
            "{name}: `{}` {}",
            program.run.line,
            crate::job::describe_termination(&program.run.ended)
        );
        tally.faults.push((message, crate::job::last_lines(&program.run.tail)));
    }
}
