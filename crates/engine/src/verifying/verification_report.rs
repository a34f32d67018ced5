//! A verification as people and programs see it.

use bailiwick_lifecycle::verification::{CheckResult, Verification};
use bailiwick_verify::{Pass, Verdict};
use serde::{Deserialize, Serialize};

use crate::counted::counted;

/// The report for programs. `passed` and `failed` are the fields of the kei tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationReport {
    /// The agent.
    pub agent_id: Option<String>,
    /// The branch that the work is to land on.
    pub base_branch: Option<String>,
    /// Its commit.
    pub base: Option<String>,
    /// The commit with all of the agent's work.
    pub work: Option<String>,
    /// The tree of that commit.
    pub worktree_tree: Option<String>,
    /// The tree that would land.
    pub merged_tree: Option<String>,
    /// Checks that hold.
    pub passed: Vec<Passed>,
    /// Checks that do not.
    pub failed: Vec<Failed>,
    /// Checks that the mode left out.
    pub left_out: Vec<String>,
}

/// A check that passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The capability.
    pub capability: String,
    /// The tree.
    pub pass: Pass,
    /// What was measured.
    pub evidence: String,
    /// Whether the same tree was checked with the same parameters before.
    pub reused: bool,
}

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The capability.
    pub capability: String,
    /// The tree.
    pub pass: Pass,
    /// Why.
    pub reason: String,
    /// What to look at.
    pub detail: Option<String>,
}

impl VerificationReport {
    /// What programs see of a verification.
    pub fn new(agent: Option<String>, verification: &Verification) -> Self {
        let Verification { base, work, merged, results, left_out } = verification;
        let (mut passed, mut failed) = (Vec::new(), Vec::new());
        for CheckResult { capability, pass, verdict, reused } in results.iter().cloned() {
            match verdict {
                Verdict::Pass { evidence } => {
                    passed.push(Passed { capability, pass, evidence, reused });
                }
                Verdict::Fail { reason, detail } => {
                    failed.push(Failed { capability, pass, reason, detail });
                }
            }
        }
        Self {
            agent_id: agent,
            base_branch: base.as_ref().map(|base| base.branch.clone()),
            base: base.as_ref().map(|base| base.tip.to_string()),
            work: work.as_ref().map(|work| work.commit.to_string()),
            worktree_tree: work.as_ref().map(|work| work.tree.to_string()),
            merged_tree: merged.as_ref().map(ToString::to_string),
            passed,
            failed,
            left_out: left_out.clone(),
        }
    }

    /// The failed checks as they were judged.
    pub fn failures(&self) -> Vec<CheckResult> {
        let failure = |failed: &Failed| CheckResult {
            capability: failed.capability.clone(),
            pass: failed.pass,
            verdict: Verdict::Fail { reason: failed.reason.clone(), detail: failed.detail.clone() },
            reused: false,
        };
        self.failed.iter().map(failure).collect()
    }

    /// All of it in a line.
    pub fn summary(&self) -> String {
        let base = self.base.as_deref().unwrap_or("?");
        let failed: Vec<&str> =
            self.failed.iter().map(|failed| failed.capability.as_str()).collect();
        match failed.as_slice() {
            [] => format!("{} on {base:.12}", all_passed(self.passed.len())),
            some => {
                let all = some.len() + self.passed.len();
                format!("{} on {base:.12}: {}", some_failed(some.len(), all), some.join(", "))
            }
        }
    }
}

fn all_passed(all: usize) -> String {
    format!("{} passed", counted(all, "check"))
}

/// How many of all checks failed, in words.
pub fn some_failed(failed: usize, all: usize) -> String {
    format!("{failed} of {} failed", counted(all, "check"))
}
