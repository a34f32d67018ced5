//! A verification as people and programs see it.

use bailiwick_lifecycle::verification::{CheckResult, Verification};
use bailiwick_verify::{Pass, Verdict};
use serde::{Deserialize, Serialize};

use crate::counted::counted;
use crate::failure::Failure;
use crate::output::{self, Column, DIM, GREEN, RED, styled};

/// What programs see; `passed` and `failed` are the seed's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
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

/// A check that holds.
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

impl Shown {
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
            base: base.as_ref().map(|base| base.tip.clone()),
            work: work.as_ref().map(|work| work.commit.clone()),
            worktree_tree: work.as_ref().map(|work| work.tree.clone()),
            merged_tree: merged.clone(),
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

    /// Prints a table, and what to look at below it.
    pub fn print(&self) {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for passed in &self.passed {
            let again = if passed.reused { "checked before: " } else { "" };
            let what = format!("{again}{}", passed.evidence);
            rows.push(row("pass", &passed.capability, passed.pass, &what));
        }
        for failed in &self.failed {
            rows.push(row("FAIL", &failed.capability, failed.pass, "see below"));
        }
        let columns = [
            Column::fixed(""),
            Column::fixed("CAPABILITY"),
            Column::fixed("TREE"),
            Column::folded("MEASURED"),
        ];
        output::table(&columns, &rows);
        for failed in &self.failed {
            let title = format!("{} ({})", failed.capability, short(failed.pass));
            output::line(format_args!("\n{}", styled(RED.bold(), title)));
            output::wrapped("  ", &failed.reason);
            for line in failed.detail.iter().flat_map(|detail| detail.lines()) {
                output::line(format_args!("  {}", styled(DIM, line)));
            }
        }
        if !self.left_out.is_empty() {
            output::note(format_args!("not run in this mode: {}", self.left_out.join(", ")));
        }
        let base = self.base.as_deref().unwrap_or("?");
        let branch = self.base_branch.as_deref().unwrap_or("?");
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        output::line(match self.failed.len() {
            0 => format!(
                "\n{}",
                styled(GREEN, format_args!("all checks passed on {branch} {base:.12}"))
            ),
            some => format!("\n{}", styled(RED, some_failed(some, some + self.passed.len()))),
        });
    }

    /// Nothing, or the exit code of a verification that failed.
    pub fn outcome(&self) -> Result<(), Failure> {
        match (self.failed.is_empty(), self.passed.is_empty()) {
            (true, false) => Ok(()),
            (true, true) => Err(Failure::usage(
                "nothing was checked: the role has no check that runs in this mode",
            )),
            (false, _) => Err(Failure::Said(2)),
        }
    }
}

fn all_passed(all: usize) -> String {
    format!("{} passed", counted(all, "check"))
}

fn some_failed(failed: usize, all: usize) -> String {
    format!("{failed} of {} failed", counted(all, "check"))
}

fn row(verdict: &str, capability: &str, pass: Pass, what: &str) -> Vec<String> {
    let first = what.lines().next().unwrap_or_default();
    [verdict, capability, short(pass), first].map(str::to_owned).to_vec()
}

/// A pass in a word that leaves room for what was measured.
fn short(pass: Pass) -> &'static str {
    match pass {
        Pass::Worktree => "worktree",
        Pass::SimulatedMerge => "merged",
    }
}
