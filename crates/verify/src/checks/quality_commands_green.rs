//! `quality::commands-green`: every command that the task names exits 0.

use super::{Subject, command, ran};
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
    all_succeeded(&jobs, facts)
}

/// Whether every one of these jobs ran and succeeded.
pub(super) fn all_succeeded(jobs: &[Job], facts: &Facts) -> Verdict {
    ran::all_succeeded(jobs, facts)
}

fn jobs(subject: &Subject<'_>) -> Vec<Job> {
    let commands = subject.task.verification.commands.get();
    commands.iter().map(|line| command(line.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::example::{agent, facts, ran, reason, subject, task};
    use crate::job::Outcome;

    #[test]
    fn every_command_of_the_task_must_succeed() {
        let task = task("[verification]\ncommands = [\"make\", \"make test\"]");
        let agent = agent();
        let subject = subject(&task, &agent, &[]);
        let jobs = needs(&subject).jobs;
        assert_eq!(jobs.len(), 2);
        let with = |codes: &[i32]| {
            let outcomes = jobs
                .iter()
                .zip(codes)
                .map(|(job, code)| (job.clone(), Outcome::Commands(vec![ran("make", *code, "")])));
            Facts { jobs: BTreeMap::from_iter(outcomes), ..facts() }
        };
        assert!(judge(&subject, &with(&[0, 0])).holds());
        assert!(!judge(&subject, &with(&[0, 1])).holds());
        let both = judge(&subject, &with(&[1, 2]));
        assert_eq!(reason(&both), "`make` ended with 1; `make` ended with 2", "each is named");
        assert!(reason(&judge(&subject, &with(&[0]))).contains("`make test` was not run"));
    }

    #[test]
    fn a_task_without_commands_passes_and_says_that_nothing_was_run() {
        let (task, agent) = (task(""), agent());
        let verdict = judge(&subject(&task, &agent, &[]), &facts());
        assert_eq!(verdict, Verdict::pass("the task names no command, so none was run"));
    }
}
