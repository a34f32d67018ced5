//! The result of a verification, as people read it.

use bailiwick_engine::verifying::VerificationReport;
use bailiwick_engine::verifying::verification_report::some_failed;
use bailiwick_verify::Pass;

use crate::failure::Failure;

use super::{Column, DIM, GREEN, RED, line, note, styled, table, wrapped};

/// Prints a table, and the details below it.
pub fn print_verification(shown: &VerificationReport) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for passed in &shown.passed {
        let again = if passed.reused { "checked before: " } else { "" };
        let what = format!("{again}{}", passed.evidence);
        rows.push(row("pass", &passed.capability, passed.pass, &what));
    }
    for failed in &shown.failed {
        rows.push(row("FAIL", &failed.capability, failed.pass, "see below"));
    }
    let columns = [
        Column::fixed(""),
        Column::fixed("CAPABILITY"),
        Column::fixed("TREE"),
        Column::folded("MEASURED"),
    ];
    table(&columns, &rows);
    for failed in &shown.failed {
        let title = format!("{} ({})", failed.capability, short(failed.pass));
        line(format_args!("\n{}", styled(RED.bold(), title)));
        wrapped("  ", &failed.reason);
        for text in failed.detail.iter().flat_map(|detail| detail.lines()) {
            line(format_args!("  {}", styled(DIM, text)));
        }
    }
    if !shown.left_out.is_empty() {
        note(format_args!("not run in this mode: {}", shown.left_out.join(", ")));
    }
    let base = shown.base.as_deref().unwrap_or("?");
    let branch = shown.base_branch.as_deref().unwrap_or("?");
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    line(match shown.failed.len() {
        0 => {
            format!("\n{}", styled(GREEN, format_args!("all checks passed on {branch} {base:.12}")))
        }
        some => format!("\n{}", styled(RED, some_failed(some, some + shown.passed.len()))),
    });
}

/// An error if a verification found anything, or had nothing to check.
pub fn verification_outcome(shown: &VerificationReport) -> Result<(), Failure> {
    match (shown.failed.is_empty(), shown.passed.is_empty()) {
        (true, false) => Ok(()),
        (true, true) => {
            Err(Failure::usage("nothing was checked: the role has no check that runs in this mode"))
        }
        (false, _) => Err(Failure::AlreadyReported(2)),
    }
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
