//! `quality::no-warnings`: the Rust code compiles without a warning.

use super::{Subject, command_results};
use crate::facts::{Facts, Needs};
use crate::job::{Job, Warnings};
use crate::verdict::Verdict;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    Needs { jobs: vec![job(subject)], ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    command_results::all_succeeded(&[job(subject)], facts)
}

fn job(subject: &Subject<'_>) -> Job {
    let named = subject.task.verification.cargo_check_crates.get();
    Job::CargoCheck { of: command_results::crates(named, subject), warnings: Warnings::Denied }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{added, after, agent, facts, result, subject, task};
    use crate::job::{Crates, JobOutcome};

    #[test]
    fn crates_of_the_task_or_those_with_changes_are_checked() {
        let changes = [added("b/x.rs"), added("a/y.rs"), added(".claude/agents/ag-1/review.md")];
        for (rest, of) in [
            ("", Crates::Containing(vec!["a/y.rs".into(), "b/x.rs".into()])),
            ("[verification]\ncargo-check-crates = [\"one\"]", Crates::Named(vec!["one".into()])),
        ] {
            let (task, agent) = (task(rest), agent());
            let needed = needs(&subject(&task, &agent, &changes)).jobs;
            assert_eq!(needed, [Job::CargoCheck { of, warnings: Warnings::Denied }]);
        }
    }

    #[test]
    fn cargo_must_exit_with_0() {
        let (task, agent) = (task(""), agent());
        let subject = subject(&task, &agent, &[]);
        let outcome = |code| JobOutcome::Commands(vec![result("cargo check", code, "")]);
        assert!(judge(&subject, &after(job(&subject), outcome(0))).is_pass());
        assert!(!judge(&subject, &after(job(&subject), outcome(101))).is_pass());
        assert!(!judge(&subject, &facts()).is_pass());
    }
}
