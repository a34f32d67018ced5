//! Jobs that another machine runs: it gives their outcomes, and the checks are judged here.

use std::collections::BTreeSet;

use bailiwick_model::{CommitId, TreeId};
use bailiwick_verify::{Job, JobOutcome, Pass};
use thiserror::Error;

use super::run::{RunningVerification, Tree};
use super::{Request, VerificationPorts};
use crate::ports::{Base, Snapshot, Work};

/// Why a job without an outcome counts as failed.
const NOT_RUN_YET: &str = "no worker has run it yet";

/// A tree on which a job is run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobTree {
    /// The tree before the agent's changes.
    pub before: TreeId,
    pub tree: TreeId,
}

/// What is known of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// Another machine has run it.
    Outcome(JobOutcome),
    /// Another machine is to run it. Until then it counts as failed.
    Awaited,
    /// It is run here.
    RunHere,
}

/// Outcomes of jobs that other machines have run.
pub trait JobEvidence {
    /// What is known of a job on a tree.
    fn find(&mut self, job: &Job, tree: &JobTree) -> Evidence;
}

/// The two commits of a job that is run for a verification on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCommits {
    /// The commit before the agent's changes.
    pub base: CommitId,
    pub base_tree: TreeId,
    /// The commit that the agent has checked out.
    pub head: CommitId,
    /// The commit with all changes.
    pub commit: CommitId,
    pub tree: TreeId,
}

/// Why a job was not run. It says nothing about the tree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct JobNotRun(pub String);

/// Runs a job on the tree of the commit, for a verification on another machine.
pub fn run_job<W: Work>(
    request: &Request<'_>,
    world: VerificationPorts<'_, W>,
    commits: JobCommits,
    job: &Job,
) -> Result<JobOutcome, JobNotRun> {
    let JobCommits { base, base_tree, head, commit, tree } = commits;
    let work = Snapshot {
        head: head.clone(),
        commit,
        tree: tree.clone(),
        merge_base: base.clone(),
        merge_base_tree: base_tree.clone(),
    };
    let before = base_tree.clone();
    let base = Base {
        branch: base.to_string(),
        tip: base,
        tree: base_tree,
        found: "named by the server".to_owned(),
    };
    let tree =
        Tree { pass: Pass::Worktree, before, tree, parents: vec![head], base: &base, work: &work };
    let mut running = RunningVerification::new(request, world);
    let outcome = running.run(job, &tree);
    match running.trouble {
        Some(why) => Err(JobNotRun(why)),
        None => Ok(outcome),
    }
}

/// Jobs that other machines have run in this verification, each on a tree: their outcomes are not kept as ours.
#[derive(Default)]
pub(super) struct JobsElsewhere(BTreeSet<(Job, JobTree)>);

impl JobsElsewhere {
    pub(super) fn contains(&self, job: &Job, tree: &Tree<'_>) -> bool {
        self.0.contains(&(job.clone(), tree.place()))
    }
}

impl Tree<'_> {
    fn place(&self) -> JobTree {
        JobTree { before: self.before.clone(), tree: self.tree.clone() }
    }
}

impl<W: Work> RunningVerification<'_, '_, W> {
    /// The outcome of a job that is not run here; `None` if it is.
    pub(super) fn outcome_elsewhere(&mut self, job: &Job, tree: &Tree<'_>) -> Option<JobOutcome> {
        let evidence = self.world.evidence.as_deref_mut()?;
        let place = tree.place();
        let outcome = match evidence.find(job, &place) {
            Evidence::RunHere => return None,
            Evidence::Outcome(outcome) => outcome,
            Evidence::Awaited => JobOutcome::CouldNotRun { why: NOT_RUN_YET.to_owned() },
        };
        self.elsewhere.0.insert((job.clone(), place));
        Some(outcome)
    }
}
