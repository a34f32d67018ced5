//! Whether the outcome that a worker sent answers its job, and does not contradict itself.

use std::collections::BTreeSet;

use bailiwick_verify::job::{CommandResult, CrateTests, Crates, Harness, TestResult};
use bailiwick_verify::{Job, JobOutcome};
use thiserror::Error;

/// What is wrong with an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Contradiction {
    #[error("it is the outcome of another kind of job")]
    OtherKind,
    #[error("it is about the command `{0}`")]
    OtherCommand(String),
    #[error("it has no result")]
    Nothing,
    #[error("a command ran after one that had failed")]
    AfterFailure,
    #[error("tests ran after a build that had failed")]
    TestsWithoutBuild,
    #[error("it has no tests of {0}")]
    MissingCrate(String),
    #[error("{0} has a result for a test that it did not list")]
    UnlistedTest(String),
    #[error("{0} exited with 0, although a test of it failed")]
    HiddenFailure(String),
}

/// Fails unless the outcome is one that this job can have.
pub(super) fn require_answer(job: &Job, outcome: &JobOutcome) -> Result<(), Contradiction> {
    match (job, outcome) {
        // Both are failures of any job.
        (_, JobOutcome::CouldNotRun { .. } | JobOutcome::TreeChanged { .. }) => Ok(()),
        (Job::Command { line }, JobOutcome::Commands(ran)) => match ran.as_slice() {
            [] => Err(Contradiction::Nothing),
            [one] if one.line == *line => Ok(()),
            [other, ..] => Err(Contradiction::OtherCommand(other.line.clone())),
        },
        (Job::CargoCheck { .. }, JobOutcome::Commands(ran)) => match ran.is_empty() {
            true => Err(Contradiction::Nothing),
            false => require_order(ran),
        },
        (Job::CargoTest { of }, JobOutcome::Tests { build, crates }) => {
            require_order(build)?;
            require_tests(of, build, crates)
        }
        (Job::Command { .. } | Job::CargoCheck { .. }, JobOutcome::Tests { .. })
        | (Job::CargoTest { .. }, JobOutcome::Commands(_)) => Err(Contradiction::OtherKind),
    }
}

/// Commands end with the first that fails.
fn require_order(ran: &[CommandResult]) -> Result<(), Contradiction> {
    let before_last = ran.get(..ran.len().saturating_sub(1)).unwrap_or_default();
    match before_last.iter().all(CommandResult::succeeded) {
        true => Ok(()),
        false => Err(Contradiction::AfterFailure),
    }
}

fn require_tests(
    of: &Crates,
    build: &[CommandResult],
    crates: &[CrateTests],
) -> Result<(), Contradiction> {
    if !build.iter().all(CommandResult::succeeded) {
        return match crates.is_empty() {
            true => Ok(()),
            false => Err(Contradiction::TestsWithoutBuild),
        };
    }
    if build.is_empty() || crates.is_empty() {
        return Err(Contradiction::Nothing);
    }
    let names: BTreeSet<&str> = crates.iter().map(|one| one.name.as_str()).collect();
    if let Crates::Named(wanted) = of
        && let Some(missing) = wanted.iter().find(|name| !names.contains(name.as_str()))
    {
        return Err(Contradiction::MissingCrate(missing.clone()));
    }
    for program in crates.iter().flat_map(|one| &one.programs) {
        let Harness::Standard { listed, results } = &program.harness else { continue };
        if results.keys().any(|test| !listed.contains(test)) {
            return Err(Contradiction::UnlistedTest(program.target.clone()));
        }
        let has_failed = results.values().any(|result| *result == TestResult::Failed);
        if has_failed && program.run.succeeded() {
            return Err(Contradiction::HiddenFailure(program.target.clone()));
        }
    }
    Ok(())
}

/// Whether nothing of it failed.
pub(super) fn is_success(outcome: &JobOutcome) -> bool {
    match outcome {
        JobOutcome::CouldNotRun { .. } | JobOutcome::TreeChanged { .. } => false,
        JobOutcome::Commands(ran) => ran.iter().all(CommandResult::succeeded),
        JobOutcome::Tests { build, crates } => {
            let documentation = crates.iter().filter_map(|one| one.documentation.as_ref());
            let programs = crates.iter().flat_map(|one| &one.programs);
            build.iter().chain(documentation).all(CommandResult::succeeded)
                && programs.into_iter().all(|program| {
                    program.run.succeeded() && !matches!(program.harness, Harness::Forged { .. })
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use bailiwick_verify::job::{Termination, TestProgram, Warnings};

    use super::*;

    fn ran(line: &str, code: i32) -> CommandResult {
        CommandResult {
            line: line.to_owned(),
            ended: Termination::Exit(code),
            tail: String::new(),
            took: Duration::ZERO,
            executed_tests: None,
        }
    }

    fn tests(name: &str, listed: &[&str], results: &[(&str, TestResult)], code: i32) -> CrateTests {
        let results: BTreeMap<String, TestResult> =
            results.iter().map(|(test, result)| ((*test).to_owned(), *result)).collect();
        let listed = listed.iter().map(|test| (*test).to_owned()).collect();
        let program = TestProgram {
            target: "lib".to_owned(),
            harness: Harness::Standard { listed, results },
            run: ran("lib", code),
        };
        CrateTests { name: name.to_owned(), programs: vec![program], documentation: None }
    }

    #[test]
    fn outcome_must_fit_its_job() {
        use Contradiction as No;
        use TestResult::{Failed, Ok as Passed};
        let command = Job::Command { line: "make".to_owned() };
        let check = Job::CargoCheck { of: Crates::Named(Vec::new()), warnings: Warnings::Allowed };
        let test = Job::CargoTest { of: Crates::Named(vec!["a".to_owned()]) };
        let commands = |all: &[(&str, i32)]| {
            JobOutcome::Commands(all.iter().map(|(line, code)| ran(line, *code)).collect())
        };
        let tested = |code: i32, crates: Vec<CrateTests>| JobOutcome::Tests {
            build: vec![ran("build", code)],
            crates,
        };
        let passed = tests("a", &["t"], &[("t", Passed)], 0);
        let cases = [
            (&command, commands(&[("make", 0)]), Ok(())),
            (&command, commands(&[("make", 1)]), Ok(())),
            (&command, JobOutcome::CouldNotRun { why: "no room".to_owned() }, Ok(())),
            (&command, commands(&[]), Err(No::Nothing)),
            (&command, commands(&[("true", 0)]), Err(No::OtherCommand("true".to_owned()))),
            (
                &command,
                commands(&[("make", 0), ("make", 0)]),
                Err(No::OtherCommand("make".to_owned())),
            ),
            (&command, tested(0, vec![passed.clone()]), Err(No::OtherKind)),
            (&check, commands(&[("one", 0), ("two", 1)]), Ok(())),
            (&check, commands(&[("one", 1), ("two", 0)]), Err(No::AfterFailure)),
            (&check, commands(&[]), Err(No::Nothing)),
            (&test, tested(0, vec![passed.clone()]), Ok(())),
            (&test, tested(1, Vec::new()), Ok(())),
            (&test, commands(&[("cargo test", 0)]), Err(No::OtherKind)),
            (&test, tested(1, vec![passed.clone()]), Err(No::TestsWithoutBuild)),
            (&test, tested(0, Vec::new()), Err(No::Nothing)),
            (
                &test,
                tested(0, vec![tests("b", &[], &[], 0)]),
                Err(No::MissingCrate("a".to_owned())),
            ),
            (
                &test,
                tested(0, vec![tests("a", &[], &[("t", Passed)], 0)]),
                Err(No::UnlistedTest("lib".to_owned())),
            ),
            (
                &test,
                tested(0, vec![tests("a", &["t"], &[("t", Failed)], 0)]),
                Err(No::HiddenFailure("lib".to_owned())),
            ),
        ];
        for (job, outcome, expected) in cases {
            assert_eq!(require_answer(job, &outcome), expected, "{job:?} {outcome:?}");
        }
        assert!(is_success(&tested(0, vec![passed])) && is_success(&commands(&[("a", 0)])));
        for failure in [
            commands(&[("a", 0), ("b", 1)]),
            tested(1, Vec::new()),
            tested(0, vec![tests("a", &["t"], &[("t", Failed)], 101)]),
            JobOutcome::CouldNotRun { why: String::new() },
        ] {
            assert!(!is_success(&failure), "{failure:?}");
        }
    }
}
