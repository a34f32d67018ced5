//! How many tests the jobs of a pass executed, compared with the base. A job runs on the base once: its number
//! is kept by tree.

use std::collections::BTreeSet;

use bailiwick_verify::checks::{Subject, needs};
use bailiwick_verify::executed_tests::Comparison;
use bailiwick_verify::{ExecutedTests, Facts, Job, JobOutcome, Pass};

use super::reuse;
use super::run::{RunningVerification, Tree};
use crate::ports::Work;

impl<W: Work> RunningVerification<'_, '_, W> {
    /// The executed tests of each job that passed on this tree, compared with the base.
    pub(super) fn executed_tests(
        &mut self,
        tree: &Tree<'_>,
        subject: &Subject<'_>,
        facts: &Facts,
    ) -> Vec<Comparison> {
        if tree.before == tree.tree {
            return Vec::new();
        }
        let passed: Vec<&str> = self
            .results
            .iter()
            .filter(|result| result.pass == tree.pass && result.verdict.is_pass())
            .map(|result| result.capability.as_str())
            .collect();
        let checks = self.request.checks.iter().map(|planned| &planned.check);
        let checks = checks.filter(|check| passed.contains(&check.capability.to_string().as_str()));
        let jobs: BTreeSet<Job> = checks.flat_map(|check| needs(check, subject).jobs).collect();
        let base = tree.base_of();
        let mut compared = Vec::new();
        for job in jobs.iter().filter(|job| can_have_tests(job)) {
            let Some(after) = self.executed_on(tree, job, facts.jobs.get(job)) else { continue };
            // A base that cannot run the job has no number to compare with, and is no trouble.
            let trouble = self.trouble.take();
            let before = self.executed_on(&base, job, None).unwrap_or_default();
            self.trouble = trouble;
            compared.extend(Comparison::new(job, &before, &after));
        }
        compared
    }

    /// The executed tests of a job on a tree, which is run only if they are not known. With an outcome,
    /// only those of a job that passed.
    fn executed_on(
        &mut self,
        tree: &Tree<'_>,
        job: &Job,
        outcome: Option<&JobOutcome>,
    ) -> Option<ExecutedTests> {
        let copied = self.copied_files();
        let key =
            copied.map(|copied| reuse::executed_tests_key(self.request, job, &tree.tree, &copied));
        let tests = match outcome {
            Some(outcome) => ExecutedTests::of_passed(outcome)?,
            None => {
                let found =
                    key.as_deref().and_then(|key| self.world.verdicts.find_executed_tests(key));
                if found.is_some() {
                    return found;
                }
                match self.run(job, tree) {
                    JobOutcome::CouldNotRun { .. } | JobOutcome::TreeChanged { .. } => return None,
                    outcome @ (JobOutcome::Commands(_) | JobOutcome::Tests { .. }) => {
                        ExecutedTests::of(&outcome)
                    }
                }
            }
        };
        if let Some(key) = key.filter(|_| !self.elsewhere.contains(job, tree)) {
            self.world.verdicts.keep_executed_tests(&key, &tests);
        }
        Some(tests)
    }
}

impl Tree<'_> {
    /// The tree before the change.
    fn base_of(&self) -> Self {
        let parent = match self.pass {
            Pass::Worktree => self.work.merge_base.clone(),
            Pass::SimulatedMerge => self.base.tip.clone(),
        };
        Self {
            pass: self.pass,
            before: self.before.clone(),
            tree: self.before.clone(),
            parents: vec![parent],
            base: self.base,
            work: self.work,
        }
    }
}

fn can_have_tests(job: &Job) -> bool {
    match job {
        Job::Command { .. } | Job::CargoTest { .. } => true,
        Job::CargoCheck { .. } => false,
    }
}
