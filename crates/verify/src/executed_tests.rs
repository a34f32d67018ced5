//! How many tests were executed: counted from what test runners print, and compared with the base.

mod lines;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::{self, Job, JobOutcome};
use crate::test_tally;

pub use lines::TestCounter;

/// The executed tests of a job by crate or command. A command that reported no number is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedTests(BTreeMap<String, u64>);

impl ExecutedTests {
    /// The executed tests of a job; none if it failed, because a job that failed can end early.
    pub fn of_passed(outcome: &JobOutcome) -> Option<Self> {
        let passed = match outcome {
            JobOutcome::CouldNotRun { .. } | JobOutcome::TreeChanged { .. } => false,
            JobOutcome::Commands(results) => results.iter().all(|result| result.succeeded()),
            JobOutcome::Tests { .. } => {
                test_tally::tally(outcome).is_some_and(|all| all.is_clean())
            }
        };
        passed.then(|| Self::of(outcome))
    }

    /// The executed tests of a job, whether they passed or not.
    pub fn of(outcome: &JobOutcome) -> Self {
        match outcome {
            JobOutcome::CouldNotRun { .. } | JobOutcome::TreeChanged { .. } => Self::default(),
            JobOutcome::Commands(results) => {
                let reported = |result: &job::CommandResult| {
                    Some((result.line.clone(), result.executed_tests?))
                };
                Self(results.iter().filter_map(reported).collect())
            }
            JobOutcome::Tests { crates, .. } => {
                let mut all = BTreeMap::new();
                for tests in crates {
                    let count = test_tally::executed(tests);
                    *all.entry(tests.name.clone()).or_insert(0) += count;
                }
                Self(all)
            }
        }
    }

    fn total(&self) -> u64 {
        self.0.values().fold(0, |all, count| all.saturating_add(*count))
    }
}

/// The executed tests of one job on the base and with the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The job, as shown to people.
    pub job: String,
    pub before: u64,
    /// None if it no longer reports a number.
    pub after: Option<u64>,
}

impl Comparison {
    /// None if the base has no number to compare with.
    pub fn new(job: &Job, before: &ExecutedTests, after: &ExecutedTests) -> Option<Self> {
        let is_comparable = match job {
            Job::Command { .. } => !before.0.is_empty(),
            // A change that adds a workspace has its tests alone, and the base has all but those.
            Job::CargoTest { .. } => before.0.keys().any(|name| after.0.contains_key(name)),
            Job::CargoCheck { .. } => false,
        };
        is_comparable.then(|| Self {
            job: job::describe(job),
            before: before.total(),
            after: (!after.0.is_empty()).then(|| after.total()),
        })
    }

    /// Whether fewer tests are executed than on the base.
    pub fn is_fewer(&self) -> bool {
        self.after.unwrap_or(0) < self.before
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { job, before, .. } = self;
        match self.after {
            Some(1) => write!(out, "{job} executed 1 test, {before} on the base"),
            Some(after) => write!(out, "{job} executed {after} tests, {before} on the base"),
            None => write!(out, "{job} reported no executed tests, {before} on the base"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::result;
    use crate::job::{CommandResult, CrateTests, Crates, Harness, TestProgram, TestResult};

    fn command(tests: Option<u64>, code: i32) -> JobOutcome {
        let result = CommandResult { executed_tests: tests, ..result("npm test", code, "") };
        JobOutcome::Commands(vec![result])
    }

    fn compared(before: Option<u64>, after: Option<u64>) -> Option<Comparison> {
        let job = Job::Command { line: "npm test".to_owned() };
        let [before, after] =
            [before, after].map(|tests| ExecutedTests::of_passed(&command(tests, 0)).unwrap());
        Comparison::new(&job, &before, &after)
    }

    #[test]
    fn fewer_tests_than_on_the_base_are_found() {
        for (before, after, fewer) in
            [(5, Some(4), true), (5, None, true), (5, Some(5), false), (0, None, false)]
        {
            let compared = compared(Some(before), after).unwrap();
            assert_eq!(compared.is_fewer(), fewer, "{compared}");
        }
        assert_eq!(compared(None, Some(5)), None, "the base has no number");
        let fewer = compared(Some(5), Some(4)).unwrap().to_string();
        assert_eq!(fewer, "`npm test` executed 4 tests, 5 on the base");
        let silent = compared(Some(5), None).unwrap().to_string();
        assert_eq!(silent, "`npm test` reported no executed tests, 5 on the base");
    }

    #[test]
    fn number_of_a_failed_command_counts_only_on_the_base() {
        assert_eq!(ExecutedTests::of_passed(&command(Some(3), 1)), None);
        assert_eq!(ExecutedTests::of(&command(Some(3), 1)).total(), 3);
    }

    fn cargo(crates: &[(&str, &[TestResult])]) -> ExecutedTests {
        let program = |results: &[TestResult]| {
            let named = results.iter().enumerate();
            let results: BTreeMap<String, TestResult> =
                named.map(|(number, result)| (format!("t{number}"), *result)).collect();
            let listed = results.keys().cloned().collect();
            let harness = Harness::Standard { listed, results };
            TestProgram { target: "lib".to_owned(), harness, run: result("lib", 0, "") }
        };
        let tests = |(name, results): &(&str, &[TestResult])| CrateTests {
            name: (*name).to_owned(),
            programs: vec![program(results)],
            documentation: None,
        };
        let crates = crates.iter().map(tests).collect();
        ExecutedTests::of(&JobOutcome::Tests { build: Vec::new(), crates })
    }

    #[test]
    fn ignored_tests_and_deleted_crates_count_as_not_executed() {
        use TestResult::{Failed, Ignored, Ok};
        let job = Job::CargoTest { of: Crates::Containing(Vec::new()) };
        let base = cargo(&[("a", &[Ok, Failed]), ("b", &[Ok])]);
        let compared = |after: &ExecutedTests| Comparison::new(&job, &base, after);
        let ignored = compared(&cargo(&[("a", &[Ok, Ignored]), ("b", &[Ok])])).unwrap();
        assert_eq!((ignored.before, ignored.after), (3, Some(2)));
        assert!(compared(&cargo(&[("a", &[Ok, Ok])])).unwrap().is_fewer());
        assert!(!compared(&cargo(&[("a", &[Ok, Ok]), ("moved", &[Ok])])).unwrap().is_fewer());
        assert_eq!(compared(&cargo(&[("new-workspace", &[Ok])])), None);
    }
}
