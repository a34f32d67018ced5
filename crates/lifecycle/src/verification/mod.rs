//! Verification: which checks run on which tree, and the results.
//!
//! ```text
//!  Request ──plan()──▶ checks per pass ──verify()──▶ Verification
//!            worktree: the agent's work, on the base that it started from
//!            simulated-merge: the same merged onto today's base, which is what would land
//! ```

mod commits;
mod evidence;
mod executed_tests;
mod plan;
mod reuse;
mod run;
mod set_up;

use bailiwick_model::capability::RunMode;
use bailiwick_model::{AgentId, Task, TreeId};
use bailiwick_verify::{Check, Pass};

use crate::ports::{Base, Preparation, Snapshot};

pub use crate::check_result::CheckResult;
pub use evidence::{Evidence, JobCommits, JobEvidence, JobNotRun, JobTree, run_job};
pub use plan::{NoCheck, of_capability, of_role};
pub use reuse::Verdicts;
pub use run::{TreeCheckOutcome, VerificationPorts, check_tree, nothing_found, verify};
pub use set_up::ChangedSetup;

/// The name under which a merge conflict is reported.
pub const TRIAL_MERGE: &str = "bailiwick::trial-merge";

/// The work to verify.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The agent, if it has an ID.
    pub agent: Option<&'a AgentId>,
    /// Its task.
    pub task: &'a Task,
    /// The checks, in the order of the role.
    pub checks: Vec<PlannedCheck>,
    /// On which trees.
    pub mode: RunMode,
    /// How a tree is prepared for checks that run code.
    pub preparation: Preparation,
    /// Whether the setup runs with dependencies that the agent changed.
    pub changed_setup: ChangedSetup,
    /// What verdicts depend on besides tree, check and task: the version of Bailiwick, the toolchain, the sandbox.
    pub machine_key: String,
}

/// A check and the trees to run it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCheck {
    /// The check.
    pub check: Check,
    /// On which trees.
    pub on: RunMode,
}

impl PlannedCheck {
    fn runs_in(&self, pass: Pass, mode: RunMode) -> bool {
        includes(self.on, pass) && includes(mode, pass)
    }
}

/// Whether a mode has this pass.
pub(crate) fn includes(mode: RunMode, pass: Pass) -> bool {
    match (mode, pass) {
        (RunMode::Both, Pass::Worktree | Pass::SimulatedMerge)
        | (RunMode::Worktree, Pass::Worktree)
        | (RunMode::SimulatedMerge, Pass::SimulatedMerge) => true,
        (RunMode::Worktree, Pass::SimulatedMerge) | (RunMode::SimulatedMerge, Pass::Worktree) => {
            false
        }
    }
}

/// The results of all checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The branch that the work is to land on; not known if it could not be found out.
    pub base: Option<Base>,
    /// The work.
    pub work: Option<Snapshot>,
    /// The tree that would land, if there was a trial merge and it was clean.
    pub merged: Option<TreeId>,
    /// The verdicts, in the order in which they were reached.
    pub results: Vec<CheckResult>,
    /// Checks that the mode left out.
    pub left_out: Vec<String>,
}

impl Verification {
    /// Whether all checks passed, and there was one.
    pub fn all_passed(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|result| result.verdict.is_pass())
    }

    /// The passed checks.
    pub fn passed(&self) -> impl Iterator<Item = &CheckResult> {
        self.results.iter().filter(|result| result.verdict.is_pass())
    }

    /// The verdicts that do not.
    pub fn failed(&self) -> impl Iterator<Item = &CheckResult> {
        self.results.iter().filter(|result| !result.verdict.is_pass())
    }
}

/// Progress of a verification, for an observer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The work is being read.
    Snapshot,
    /// A pass begins.
    Pass(Pass),
    /// A tree is written into a directory and prepared.
    Preparing(&'a str),
    /// A check begins.
    Check(&'a str),
    /// A command of it begins.
    Running(&'a str),
    /// A check is done.
    Done(&'a CheckResult),
}
