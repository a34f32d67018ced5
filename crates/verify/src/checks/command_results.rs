//! Verdicts on the jobs that were run.

use super::{Subject, paths};
use crate::facts::Facts;
use crate::job::{
    CommandResult, Crates, Job, JobOutcome, describe, describe_termination, last_lines,
};
use crate::missing;
use crate::verdict::Verdict;

/// How much of an output a verdict shows.
/// Help for a command that writes to the tree that it measures.
const READ_ONLY_TREE_HELP: &str = "help: tracked files are read-only while a check runs, because the tree lands \
                         without such a change; have the command write elsewhere, or commit its output";

/// The crates that the task names, or those that contain the changes.
pub(super) fn crates<Name: ToString>(named: &[Name], subject: &Subject<'_>) -> Crates {
    match named {
        [] => Crates::Containing(paths::sorted(subject)),
        [_, ..] => Crates::Named(named.iter().map(Name::to_string).collect()),
    }
}

/// Passes if every job ran and every command of it exited with 0.
pub(super) fn all_succeeded(jobs: &[Job], facts: &Facts) -> Verdict {
    let (mut succeeded, mut failures) = (Vec::new(), Vec::new());
    for job in jobs {
        match succeeded_commands(job, facts) {
            Ok(results) => {
                succeeded.extend(results.iter().map(|result| format!("`{}`", result.line)))
            }
            Err(verdict) => failures.push(verdict),
        }
    }
    if let Some(verdict) = merge(failures) {
        return verdict;
    }
    if succeeded.is_empty() {
        return Verdict::fail("nothing was run, so nothing was measured");
    }
    Verdict::pass(format!("{} exited with 0", succeeded.join(", ")))
}

/// Merges several failures into one.
fn merge(failures: Vec<Verdict>) -> Option<Verdict> {
    failures.into_iter().reduce(|all, next| match (all, next) {
        (Verdict::Fail { reason, detail }, Verdict::Fail { reason: also, detail: more }) => {
            let detail: Vec<String> = [detail, more].into_iter().flatten().collect();
            let detail = (!detail.is_empty()).then(|| detail.join("\n\n"));
            Verdict::Fail { reason: format!("{reason}; {also}"), detail }
        }
        (all, _) => all,
    })
}

/// The commands of a job if all of them succeeded, otherwise the failure.
fn succeeded_commands<'a>(job: &Job, facts: &'a Facts) -> Result<&'a [CommandResult], Verdict> {
    let name = describe(job);
    match facts.jobs.get(job) {
        None => Err(Verdict::fail(format!("{name} was not run"))),
        Some(JobOutcome::CouldNotRun { why }) => {
            Err(Verdict::fail(format!("{name} could not be run: {why}")))
        }
        Some(JobOutcome::TreeChanged { line, paths }) => Err(tree_changed(line, paths)),
        Some(JobOutcome::Tests { .. }) => {
            Err(Verdict::fail(format!("{name} was run as tests, not as commands")))
        }
        Some(JobOutcome::Commands(results)) => {
            match results.iter().find(|result| !result.succeeded()) {
                Some(failed) => Err(failure(failed)),
                None if results.is_empty() => {
                    Err(Verdict::fail(format!("{name} ran no command: nothing was measured")))
                }
                None => Ok(results),
            }
        }
    }
}

/// The failure of a command that changed the tree that it measures.
pub(super) fn tree_changed(line: &str, changed: &[String]) -> Verdict {
    let paths = changed.join(", ");
    Verdict::fail_with(
        format!("`{line}` changed tracked files: {paths}"),
        READ_ONLY_TREE_HELP.to_owned(),
    )
}

/// Whether a command failed to write to the read-only tree. Its exit code does not say so; its output does.
fn failed_to_write(tail: &str) -> bool {
    ["Read-only file system", "EROFS"].iter().any(|message| tail.contains(message))
}

/// The failure of a command, with the end of its output.
pub(super) fn failure(result: &CommandResult) -> Verdict {
    let (line, output) = (&result.line, last_lines(&result.tail));
    let termination = describe_termination(&result.ended);
    match missing::diagnose(result) {
        None => {
            let help = if failed_to_write(&result.tail) {
                format!("\n\n{READ_ONLY_TREE_HELP}")
            } else {
                String::new()
            };
            Verdict::fail_with(format!("`{line}` {termination}"), output + &help)
        }
        Some(missing) => Verdict::fail_with(
            format!("`{line}` {termination}: {}", missing.summary()),
            format!("{output}\n\nhelp: {}", missing.remedy()).trim_start().to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::example::{after, detail, evidence, facts, reason, result};
    use crate::job::Termination;

    fn job() -> Job {
        Job::Command { line: "make".to_owned() }
    }

    fn judged(outcome: JobOutcome) -> Verdict {
        all_succeeded(&[job()], &after(job(), outcome))
    }

    #[test]
    fn every_command_must_have_run_and_exited_with_0() {
        let passed = judged(JobOutcome::Commands(vec![result("a", 0, ""), result("b", 0, "")]));
        assert_eq!(evidence(&passed), "`a`, `b` exited with 0");
        let failed = judged(JobOutcome::Commands(vec![
            result("a", 0, "fine"),
            result("b", 3, "no\nnever\n"),
        ]));
        assert_eq!(
            (reason(&failed), detail(&failed)),
            ("`b` exited with 3".into(), "no\nnever".into())
        );
    }

    #[test]
    fn missing_program_is_named_with_help() {
        let failed = judged(JobOutcome::Commands(vec![result(
            "npm test",
            127,
            "sh: 1: mocha: not found\n",
        )]));
        assert_eq!(
            reason(&failed),
            "`npm test` exited with 127: the program `mocha` was not found"
        );
        let detail = detail(&failed);
        assert!(detail.starts_with("sh: 1: mocha: not found\n\nhelp: "), "{detail}");
        assert!(detail.contains("`setup = [\"npm ci\"]`"), "{detail}");
    }

    #[test]
    fn job_without_results_fails() {
        let paths = ["a", "b"].map(str::to_owned).to_vec();
        let tree_changed = JobOutcome::TreeChanged { line: "make".to_owned(), paths };
        for (verdict, message) in [
            (all_succeeded(&[job()], &facts()), "was not run"),
            (all_succeeded(&[], &facts()), "nothing was measured"),
            (judged(JobOutcome::Commands(vec![])), "nothing was measured"),
            (judged(JobOutcome::CouldNotRun { why: "no cargo".into() }), "no cargo"),
            (judged(tree_changed), "`make` changed tracked files: a, b"),
            (judged(JobOutcome::Tests { build: vec![], crates: vec![] }), "as tests"),
        ] {
            assert!(reason(&verdict).contains(message), "{}", reason(&verdict));
        }
    }

    #[test]
    fn every_other_termination_is_a_failure_that_names_it() {
        for (end, message) in [
            (Termination::Signal(9), "signal 9"),
            (Termination::TimedOut(Duration::from_secs(60)), "after 60 s"),
            (Termination::TooMuchOutput(7), "more than 7 bytes"),
            (Termination::Exit(-1), "with -1"),
        ] {
            let ended = CommandResult { ended: end, ..result("make", 0, "") };
            assert!(reason(&judged(JobOutcome::Commands(vec![ended]))).contains(message));
        }
    }

    #[test]
    fn command_that_could_not_write_to_the_tree_fails_with_help() {
        let detail_of =
            |tail| detail(&judged(JobOutcome::Commands(vec![result("make fmt", 1, tail)])));
        assert!(
            detail_of("cannot create a.c: Read-only file system").contains("help: tracked files")
        );
        assert!(!detail_of("a.c: error").contains("help:"));
    }

    #[test]
    fn end_of_an_output_is_short_and_has_complete_characters() {
        let long_output = "ä".repeat(9000);
        assert!(
            last_lines(&long_output).len() <= crate::job::MAX_OUTPUT_BYTES
                && !last_lines(&long_output).is_empty()
        );
        let many_lines: String = (0..500).map(|number| format!("{number}\n")).collect();
        assert_eq!(last_lines(&many_lines).lines().count(), crate::job::MAX_OUTPUT_LINES);
        assert!(last_lines(&many_lines).ends_with("499"));
    }
}
