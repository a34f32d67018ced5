//! `quality::tests-green`: the tests pass, and there are enough of them.
//!
//! The output of a program proves nothing: a test counts if it was listed before the run and has its
//! own result after it.

use super::{Subject, command_results, disabled_tests};
use crate::facts::{Facts, Needs};
use crate::job::{Job, JobOutcome};
use crate::test_tally::{Tally, tally};
use crate::verdict::Verdict;

/// How many tests must pass if the task sets no minimum.
const DEFAULT_MINIMUM: u32 = 1;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    let texts = disabled_tests::manifests(subject).map(|change| change.path.clone()).collect();
    Needs { jobs: vec![job(subject)], texts, ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let job = job(subject);
    let name = crate::job::describe(&job);
    let (outcome, tally) = match facts.jobs.get(&job).map(|outcome| (outcome, tally(outcome))) {
        None => return Verdict::fail(format!("{name} was not run")),
        Some((JobOutcome::CouldNotRun { why }, _)) => {
            return Verdict::fail(format!("{name} could not be run: {why}"));
        }
        Some((JobOutcome::TreeChanged { line, paths }, _)) => {
            return command_results::tree_changed(line, paths);
        }
        Some((_, None)) => {
            return Verdict::fail(format!("{name}: only commands ran, without results of tests"));
        }
        Some((outcome, Some(tally))) => (outcome, tally),
    };
    if let Some(verdict) = failure(&tally) {
        return verdict;
    }
    if let Some(missing) = unmeasured(subject, outcome) {
        return Verdict::fail(missing);
    }
    match disabled_tests::find(subject, facts) {
        Ok(disabled) if disabled.is_empty() => {}
        Ok(disabled) => {
            let reason = format!("the change disables tests: {}", disabled.join(", "));
            let help = "help: undo it; disabling tests is decided by a person on the base branch";
            return Verdict::fail_with(reason, help.to_owned());
        }
        Err(error) => return Verdict::fail(error.to_string()),
    }
    let minimum = subject.task.verification.test_count_min.as_ref();
    let minimum = minimum.map_or(DEFAULT_MINIMUM, |minimum| *minimum.get_ref());
    let Tally { passed, ignored, programs, .. } = tally;
    if u32::try_from(passed).is_ok_and(|passed| passed < minimum) {
        return Verdict::fail(match passed {
            0 => format!("no test ran: at least {minimum} must pass ({ignored} were ignored)"),
            _ => format!("{passed} tests passed, fewer than the required {minimum}"),
        });
    }
    Verdict::pass(format!(
        "{passed} tests passed in {programs} programs, {ignored} were ignored; at least {minimum} \
         must pass"
    ))
}

/// The failure that the tests show, if any.
fn failure(tally: &Tally) -> Option<Verdict> {
    let fault = tally.faults.first();
    if let Some(first) = tally.failed.first() {
        let count = tally.failed.len();
        let named = tally.failed.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let reason = match count {
            1 => format!("a test failed: {first}"),
            2..=5 => format!("{count} tests failed: {named}"),
            _ => format!("{count} tests failed, among them {named}"),
        };
        let faults = tally.faults.iter().map(|(message, _)| message.clone());
        let detail: Vec<String> = tally.failed.iter().take(40).cloned().chain(faults).collect();
        return Some(Verdict::fail_with(reason, detail.join("\n")));
    }
    fault.map(|(message, output)| Verdict::fail_with(message.clone(), output.clone()))
}

/// The part that was not measured, if any.
fn unmeasured(subject: &Subject<'_>, outcome: &JobOutcome) -> Option<String> {
    let (build, crates) = match outcome {
        JobOutcome::Tests { build, crates } => (build, crates),
        JobOutcome::CouldNotRun { .. }
        | JobOutcome::TreeChanged { .. }
        | JobOutcome::Commands(_) => {
            return None;
        }
    };
    let named = subject.task.verification.cargo_test_crates.get();
    let missing = named.iter().find(|name| !crates.iter().any(|tests| tests.name == name.as_str()));
    match missing {
        Some(name) => Some(format!("the tests of `{name}` were not run")),
        None if build.is_empty() && crates.is_empty() => {
            Some("nothing was built and no test ran: nothing was measured".to_owned())
        }
        None => None,
    }
}

fn job(subject: &Subject<'_>) -> Job {
    let named = subject.task.verification.cargo_test_crates.get();
    Job::CargoTest { of: command_results::crates(named, subject) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::example::{after, agent, detail, evidence, facts, reason, result, subject, task};
    use crate::job::{CommandResult, CrateTests, Harness, TestProgram, TestResult};

    fn program(listed: &[&str], results: &[(&str, TestResult)], run: CommandResult) -> TestProgram {
        let results = results.iter().map(|(name, result)| ((*name).to_owned(), *result));
        let harness = Harness::Standard {
            listed: listed.iter().map(|name| (*name).to_owned()).collect(),
            results: BTreeMap::from_iter(results),
        };
        TestProgram { target: "lib".to_owned(), harness, run }
    }

    fn outcome(programs: Vec<TestProgram>) -> JobOutcome {
        let crates = vec![CrateTests { name: "one".to_owned(), programs, documentation: None }];
        JobOutcome::Tests { build: vec![result("cargo test --no-run", 0, "")], crates }
    }

    fn judged(rest: &str, outcome: JobOutcome) -> Verdict {
        let (task, agent) = (task(rest), agent());
        let subject = subject(&task, &agent, &[]);
        judge(&subject, &after(job(&subject), outcome))
    }

    fn minimum(number: u32) -> String {
        format!("[verification]\ncargo-test-crates = [\"one\"]\ntest-count-min = {number}")
    }

    const OK: TestResult = TestResult::Ok;

    #[test]
    fn listed_tests_that_passed_are_counted() {
        let green = program(
            &["a", "b", "c"],
            &[("a", OK), ("b", OK), ("c", TestResult::Ignored)],
            result("lib", 0, ""),
        );
        let verdict = judged(&minimum(2), outcome(vec![green.clone()]));
        assert!(evidence(&verdict).contains("2 tests passed in 1 programs, 1 were ignored"));
        let fewer = judged(&minimum(3), outcome(vec![green]));
        assert!(reason(&fewer).contains("2 tests passed, fewer than the required 3"));
    }

    #[test]
    fn fault_6_printing_999_passed_proves_nothing() {
        let forged = "test result: ok. 999 passed; 0 failed";
        let results: Vec<(String, TestResult)> =
            (0..999).map(|number| (format!("made_up_{number}"), OK)).collect();
        let results: Vec<(&str, TestResult)> =
            results.iter().map(|(name, result)| (name.as_str(), *result)).collect();
        let spoof = program(&["real"], &[("real", OK)], result("lib", 0, forged));
        assert!(!judged(&minimum(2), outcome(vec![spoof])).is_pass());
        let unlisted = program(&[], &results, result("lib", 0, forged));
        assert!(reason(&judged(&minimum(1), outcome(vec![unlisted]))).contains("no test ran"));
    }

    #[test]
    fn fault_6_program_that_exits_early_with_0_fails() {
        let early = program(&["a", "b"], &[("a", OK)], result("lib", 0, "bye"));
        let verdict = judged(&minimum(1), outcome(vec![early]));
        assert!(reason(&verdict).contains("no result") && reason(&verdict).contains("(b)"));
        assert_eq!(detail(&verdict), "bye");
    }

    #[test]
    fn failing_tests_are_named() {
        let red =
            program(&["a", "b"], &[("a", OK), ("b", TestResult::Failed)], result("x", 101, ""));
        let verdict = judged(&minimum(1), outcome(vec![red]));
        assert_eq!(reason(&verdict), "a test failed: one lib b");
        let crashed = program(&["a"], &[("a", OK)], result("x", 101, "abort"));
        assert!(reason(&judged(&minimum(1), outcome(vec![crashed]))).contains("exited with 101"));
    }

    #[test]
    fn custom_harness_is_one_test_by_its_exit_code() {
        let custom = |code| TestProgram {
            target: "tests/own".to_owned(),
            harness: Harness::Custom,
            run: result("own", code, "999 passed"),
        };
        assert!(judged(&minimum(1), outcome(vec![custom(0)])).is_pass());
        assert!(!judged(&minimum(2), outcome(vec![custom(0)])).is_pass());
        assert!(reason(&judged(&minimum(1), outcome(vec![custom(1)]))).contains("one tests/own"));
    }

    #[test]
    fn program_that_forges_results_fails() {
        let (harness, run) = (Harness::Forged { test: "a_1f".to_owned() }, result("lib", 0, ""));
        let forged = TestProgram { target: "lib".to_owned(), harness, run };
        let green = program(&["a"], &[("a", OK)], result("x", 0, ""));
        let verdict = judged(&minimum(1), outcome(vec![green, forged]));
        assert!(reason(&verdict).contains("reported `a_1f`"), "{}", reason(&verdict));
    }

    #[test]
    fn change_that_disables_tests_fails_though_the_others_pass() {
        use crate::example::{changed, texts};
        let (task, agent, changes) = (task(&minimum(1)), agent(), [changed("Cargo.toml")]);
        let subject = subject(&task, &agent, &changes);
        assert_eq!(needs(&subject).texts, ["Cargo.toml"]);
        let judge_with = |manifest: &str| {
            let green = program(&["a"], &[("a", OK)], result("lib", 0, ""));
            let mut facts = after(job(&subject), outcome(vec![green]));
            let texts = texts(Some("[package]\n"), Some(manifest));
            facts.texts.insert("Cargo.toml".to_owned(), texts);
            judge(&subject, &facts)
        };
        assert!(judge_with("[package]\nversion = \"2.0.0\"\n").is_pass());
        let disabled = judge_with("[package]\nautotests = false\n");
        assert!(reason(&disabled).ends_with("package.autotests = false"), "{}", reason(&disabled));
    }

    #[test]
    fn documentation_tests_must_pass_and_are_not_counted() {
        let outcome_with = |code| {
            let documentation = Some(result("cargo test --doc", code, "doc"));
            let programs = vec![program(&["a"], &[("a", OK)], result("lib", 0, ""))];
            let tests = CrateTests { name: "one".to_owned(), programs, documentation };
            JobOutcome::Tests { build: vec![result("build", 0, "")], crates: vec![tests] }
        };
        assert!(judged(&minimum(1), outcome_with(0)).is_pass());
        assert!(!judged(&minimum(2), outcome_with(0)).is_pass());
        assert!(
            reason(&judged(&minimum(1), outcome_with(101))).contains("documentation tests of one")
        );
    }

    #[test]
    fn run_without_tests_fails_unless_the_minimum_is_0() {
        let empty = || outcome(vec![program(&[], &[], result("lib", 0, ""))]);
        assert!(reason(&judged("", empty())).contains("no test ran"));
        assert!(judged(&minimum(0), empty()).is_pass());
        let nothing = JobOutcome::Tests { build: vec![], crates: vec![] };
        assert!(!judged("[verification]\ntest-count-min = 0", nothing).is_pass());
    }

    #[test]
    fn missing_results_fail() {
        let (task, agent) = (task(&minimum(1)), agent());
        let subject = subject(&task, &agent, &[]);
        assert!(reason(&judge(&subject, &facts())).contains("was not run"));
        let not_run = JobOutcome::CouldNotRun { why: "no such crate".into() };
        assert!(reason(&judged(&minimum(1), not_run)).contains("no such crate"));
        let (line, paths) = ("cargo test --no-run".to_owned(), vec!["tests/it.rs".to_owned()]);
        let changed = judged(&minimum(1), JobOutcome::TreeChanged { line, paths });
        assert!(reason(&changed).ends_with("changed tracked files: tests/it.rs"));
        let commands = JobOutcome::Commands(vec![result("cargo test", 0, "")]);
        assert!(!judged(&minimum(1), commands).is_pass());
        let broken =
            JobOutcome::Tests { build: vec![result("build", 101, "E0308")], crates: vec![] };
        assert_eq!(detail(&judged(&minimum(1), broken)), "E0308");
        let other = "[verification]\ncargo-test-crates = [\"one\", \"two\"]";
        let one_crate = outcome(vec![program(&["a"], &[("a", OK)], result("lib", 0, ""))]);
        assert!(reason(&judged(other, one_crate)).contains("`two` were not run"));
    }
}
