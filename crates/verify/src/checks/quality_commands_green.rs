//! `quality::commands-green`: every command of the task exits with 0.

use super::{Subject, command, command_results};
use crate::facts::{Facts, Needs};
use crate::job::Job;
use crate::verdict::Verdict;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    Needs { jobs: jobs(subject), ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let jobs = jobs(subject);
    if jobs.is_empty() {
        return Verdict::pass("the task names no command, so none was run");
    }
    command_results::all_succeeded(&jobs, facts)
}

fn jobs(subject: &Subject<'_>) -> Vec<Job> {
    let commands = subject.task.verification.commands.get();
    commands.iter().map(|line| command(line.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::example::{agent, facts, reason, result, subject, task};
    use crate::job::JobOutcome;

    #[test]
    fn every_command_of_the_task_must_succeed() {
        let task = task("[verification]\ncommands = [\"make\", \"make test\"]");
        let agent = agent();
        let subject = subject(&task, &agent, &[]);
        let jobs = needs(&subject).jobs;
        assert_eq!(jobs.len(), 2);
        let with = |codes: &[i32]| {
            let outcomes = jobs.iter().zip(codes).map(|(job, code)| {
                (job.clone(), JobOutcome::Commands(vec![result("make", *code, "")]))
            });
            Facts { jobs: BTreeMap::from_iter(outcomes), ..facts() }
        };
        assert!(judge(&subject, &with(&[0, 0])).is_pass());
        assert!(!judge(&subject, &with(&[0, 1])).is_pass());
        let both = judge(&subject, &with(&[1, 2]));
        assert_eq!(
            reason(&both),
            "`make` exited with 1; `make` exited with 2",
            "each command is named"
        );
        assert!(reason(&judge(&subject, &with(&[0]))).contains("`make test` was not run"));
    }

    #[test]
    fn task_without_commands_passes_and_says_that_none_ran() {
        let (task, agent) = (task(""), agent());
        let verdict = judge(&subject(&task, &agent, &[]), &facts());
        assert_eq!(verdict, Verdict::pass("the task names no command, so none was run"));
    }
}
