//! What test programs proved: which tests passed, and what speaks against the rest.

use std::collections::BTreeSet;

use super::ran;
use crate::job::{CrateTests, Harness, Outcome, TestProgram, TestResult};

/// The tests of a job, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Tests that were listed and passed; a program with a harness of its own is one.
    pub(super) passed: usize,
    /// Those among them that are whole programs.
    pub(super) own: usize,
    /// Tests that were not run because they say so.
    pub(super) ignored: usize,
    /// Programs that were run.
    pub(super) programs: usize,
    /// Tests that failed, with their crate and target.
    pub(super) failed: Vec<String>,
    /// What else speaks against the tests, with the output that shows it.
    pub(super) faults: Vec<(String, String)>,
}

impl Tally {
    /// Whether nothing speaks against the tests.
    pub(super) fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.faults.is_empty()
    }
}

/// Counts; nothing where no tests were run.
pub(super) fn tally(outcome: &Outcome) -> Option<Tally> {
    let (build, crates) = match outcome {
        Outcome::Tests { build, crates } => (build, crates),
        Outcome::CouldNotRun { .. } | Outcome::TreeChanged { .. } | Outcome::Commands(_) => {
            return None;
        }
    };
    let mut tally = Tally::default();
    for failed in build.iter().filter(|step| !step.succeeded()) {
        let told = format!("`{}` {}", failed.line, ran::ended(&failed.ended));
        tally.faults.push((told, ran::tail(&failed.tail)));
    }
    for tests in crates {
        count_crate(tests, &mut tally);
    }
    Some(tally)
}

fn count_crate(tests: &CrateTests, tally: &mut Tally) {
    for program in &tests.programs {
        tally.programs += 1;
        count_program(&format!("{} {}", tests.name, program.target), program, tally);
    }
    if let Some(documentation) = tests.documentation.as_ref().filter(|run| !run.succeeded()) {
        let how = ran::ended(&documentation.ended);
        let told =
            format!("the documentation tests of {}: `{}` {how}", tests.name, documentation.line);
        tally.faults.push((told, ran::tail(&documentation.tail)));
    }
}

fn count_program(name: &str, program: &TestProgram, tally: &mut Tally) {
    let failed_before = tally.failed.len();
    let mut silent = Vec::new();
    match &program.harness {
        Harness::Own if program.run.succeeded() => {
            tally.passed += 1;
            tally.own += 1;
        }
        Harness::Own => tally.failed.push(name.to_owned()),
        Harness::Forged { test } => {
            let told = format!(
                "{name} gave a result for `{test}`, which it was not to run: its results are forged"
            );
            tally.faults.push((told, ran::tail(&program.run.tail)));
            return;
        }
        Harness::Standard { listed, results } => {
            for test in listed.iter().collect::<BTreeSet<_>>() {
                match results.get(test) {
                    Some(TestResult::Ok) => tally.passed += 1,
                    Some(TestResult::Ignored) => tally.ignored += 1,
                    Some(TestResult::Failed) => tally.failed.push(format!("{name} {test}")),
                    None => silent.push(test.as_str()),
                }
            }
        }
    }
    if !silent.is_empty() {
        let some = silent.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        let told = format!(
            "{name} listed {} tests that have no result: the program ended early ({some})",
            silent.len()
        );
        tally.faults.push((told, ran::tail(&program.run.tail)));
    } else if !program.run.succeeded() && tally.failed.len() == failed_before {
        let told = format!("{name}: `{}` {}", program.run.line, ran::ended(&program.run.ended));
        tally.faults.push((told, ran::tail(&program.run.tail)));
    }
}
