//! What was run, as a verdict tells of it.

use super::{Subject, paths};
use crate::facts::Facts;
use crate::job::{Crates, Ended, Job, Outcome, Ran};
use crate::missing;
use crate::verdict::Verdict;

/// How much of an output a verdict shows.
const LINES: usize = 40;
const BYTES: usize = 4096;
/// What to do about a command that writes to the tree that it measures.
const KEEP_TREE: &str = "help: tracked files can only be read while a check runs, because what lands is the \
                         tree without such a change; have the command write elsewhere, or commit what it makes";

/// The crates that a task names, or those around what was changed.
pub(super) fn crates<Name: ToString>(named: &[Name], subject: &Subject<'_>) -> Crates {
    match named {
        [] => Crates::Holding(paths::sorted(subject)),
        [_, ..] => Crates::Named(named.iter().map(Name::to_string).collect()),
    }
}

/// Whether every one of these jobs ran and every command of it ended with 0.
pub(super) fn all_succeeded(jobs: &[Job], facts: &Facts) -> Verdict {
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    for job in jobs {
        match commands(job, facts) {
            Ok(ran) => lines.extend(ran.iter().map(|ran| format!("`{}`", ran.line))),
            Err(verdict) => failures.push(verdict),
        }
    }
    if let Some(verdict) = together(failures) {
        return verdict;
    }
    if lines.is_empty() {
        return Verdict::fail("nothing was run, and so nothing was measured");
    }
    Verdict::pass(format!("{} ended with 0", lines.join(", ")))
}

/// Several failures as one.
fn together(failures: Vec<Verdict>) -> Option<Verdict> {
    failures.into_iter().reduce(|all, next| match (all, next) {
        (Verdict::Fail { reason, detail }, Verdict::Fail { reason: also, detail: more }) => {
            let detail: Vec<String> = [detail, more].into_iter().flatten().collect();
            let detail = (!detail.is_empty()).then(|| detail.join("\n\n"));
            Verdict::Fail { reason: format!("{reason}; {also}"), detail }
        }
        (all, _) => all,
    })
}

/// The commands of a job, all of which succeeded.
fn commands<'a>(job: &Job, facts: &'a Facts) -> Result<&'a [Ran], Verdict> {
    let name = name(job);
    match facts.jobs.get(job) {
        None => Err(Verdict::fail(format!("{name} was not run"))),
        Some(Outcome::CouldNotRun { why }) => {
            Err(Verdict::fail(format!("{name} could not be run: {why}")))
        }
        Some(Outcome::TreeChanged { line, paths }) => Err(tree_changed(line, paths)),
        Some(Outcome::Tests { .. }) => {
            Err(Verdict::fail(format!("{name} was run as tests, which say nothing about it")))
        }
        Some(Outcome::Commands(ran)) => match ran.iter().find(|ran| !ran.succeeded()) {
            Some(failed) => Err(failure(failed)),
            None if ran.is_empty() => {
                Err(Verdict::fail(format!("{name} ran no command: nothing was measured")))
            }
            None => Ok(ran),
        },
    }
}

/// That a program changed the tree that it was to measure.
pub(super) fn tree_changed(line: &str, changed: &[String]) -> Verdict {
    let paths = changed.join(", ");
    Verdict::fail_with(format!("`{line}` changed tracked files: {paths}"), KEEP_TREE.to_owned())
}

/// Whether a program says that it could not write where files can only be read.
fn wrote_read_only(tail: &str) -> bool {
    ["Read-only file system", "EROFS"].iter().any(|words| tail.contains(words))
}

/// That a program did not succeed, with the end of what it printed.
pub(super) fn failure(ran: &Ran) -> Verdict {
    let (line, how, printed) = (&ran.line, ended(&ran.ended), tail(&ran.tail));
    match missing::diagnose(ran) {
        None => {
            let help =
                if wrote_read_only(&ran.tail) { format!("\n\n{KEEP_TREE}") } else { String::new() };
            Verdict::fail_with(format!("`{line}` {how}"), printed + &help)
        }
        Some(missing) => Verdict::fail_with(
            format!("`{line}` {how}: {}", missing.what()),
            format!("{printed}\n\nhelp: {}", missing.remedy()).trim_start().to_owned(),
        ),
    }
}

/// How a program ended, behind its name.
pub(super) fn ended(ended: &Ended) -> String {
    match ended {
        Ended::Exit(code) => format!("ended with {code}"),
        Ended::Signal(signal) => format!("was ended by signal {signal}"),
        Ended::TimedOut(limit) => format!("was stopped after {} s", limit.as_secs()),
        Ended::TooMuchOutput(bytes) => format!("was stopped: it printed more than {bytes} bytes"),
    }
}

/// The end of an output.
pub(super) fn tail(output: &str) -> String {
    let output = output.trim_end();
    let mut start = output.len().saturating_sub(BYTES);
    while !output.is_char_boundary(start) {
        start += 1;
    }
    let end = output.get(start..).unwrap_or_default();
    let lines: Vec<&str> = end.lines().collect();
    let skipped = lines.len().saturating_sub(LINES);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}

/// A job in a few words.
pub(super) fn name(job: &Job) -> String {
    match job {
        Job::Command { line } => format!("`{line}`"),
        Job::CargoCheck { of, .. } => format!("cargo check of {}", about(of)),
        Job::CargoTest { of } => format!("cargo test of {}", about(of)),
    }
}

fn about(crates: &Crates) -> String {
    match crates {
        Crates::Named(names) => names.join(", "),
        Crates::Holding(_) => "the workspaces around the changes".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::example::{after, detail, evidence, facts, ran, reason};

    fn job() -> Job {
        Job::Command { line: "make".to_owned() }
    }

    fn judged(outcome: Outcome) -> Verdict {
        all_succeeded(&[job()], &after(job(), outcome))
    }

    #[test]
    fn everything_must_have_run_and_ended_with_0() {
        let good = judged(Outcome::Commands(vec![ran("a", 0, ""), ran("b", 0, "")]));
        assert_eq!(evidence(&good), "`a`, `b` ended with 0");
        let bad = judged(Outcome::Commands(vec![ran("a", 0, "fine"), ran("b", 3, "no\nnever\n")]));
        assert_eq!((reason(&bad), detail(&bad)), ("`b` ended with 3".into(), "no\nnever".into()));
    }

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let bad =
            judged(Outcome::Commands(vec![ran("npm test", 127, "sh: 1: mocha: not found\n")]));
        assert_eq!(reason(&bad), "`npm test` ended with 127: the program `mocha` was not found");
        let detail = detail(&bad);
        assert!(detail.starts_with("sh: 1: mocha: not found\n\nhelp: "), "{detail}");
        assert!(detail.contains("`setup = [\"npm ci\"]`"), "{detail}");
    }

    #[test]
    fn what_was_not_measured_fails() {
        let paths = ["a", "b"].map(str::to_owned).to_vec();
        let tree_changed = Outcome::TreeChanged { line: "make".to_owned(), paths };
        for (verdict, told) in [
            (all_succeeded(&[job()], &facts()), "was not run"),
            (all_succeeded(&[], &facts()), "nothing was measured"),
            (judged(Outcome::Commands(vec![])), "nothing was measured"),
            (judged(Outcome::CouldNotRun { why: "no cargo".into() }), "no cargo"),
            (judged(tree_changed), "`make` changed tracked files: a, b"),
            (judged(Outcome::Tests { build: vec![], crates: vec![] }), "as tests"),
        ] {
            assert!(reason(&verdict).contains(told), "{}", reason(&verdict));
        }
    }

    #[test]
    fn every_other_end_is_a_failure_with_its_name() {
        for (end, told) in [
            (Ended::Signal(9), "signal 9"),
            (Ended::TimedOut(Duration::from_secs(60)), "after 60 s"),
            (Ended::TooMuchOutput(7), "more than 7 bytes"),
            (Ended::Exit(-1), "with -1"),
        ] {
            let ended = Ran { ended: end, ..ran("make", 0, "") };
            assert!(reason(&judged(Outcome::Commands(vec![ended]))).contains(told));
        }
    }

    #[test]
    fn a_command_that_could_not_write_to_the_tree_is_told_why() {
        let with = |tail| detail(&judged(Outcome::Commands(vec![ran("make fmt", 1, tail)])));
        assert!(with("cannot create a.c: Read-only file system").contains("help: tracked files"));
        assert!(!with("a.c: error").contains("help:"));
    }

    #[test]
    fn the_end_of_an_output_is_short_and_whole_characters() {
        let long = "ä".repeat(9000);
        assert!(tail(&long).len() <= BYTES && !tail(&long).is_empty());
        let many: String = (0..500).map(|number| format!("{number}\n")).collect();
        assert_eq!(tail(&many).lines().count(), LINES);
        assert!(tail(&many).ends_with("499"));
    }
}
