//! `bailiwick recover`: continuing on a machine that knows nothing but the forge.

use bailiwick_engine::context::Context;
use bailiwick_engine::issue_recovery::{self, RecoveredIssue, RecoveryTarget};
use bailiwick_memory::{ChainResult, NextStep};
use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Rebuild runs, budgets, claims and the next step from issues alone
///
/// For a machine whose database is empty, because another machine was lost. Records the runs that left
/// their results in the issues, and prints what comes next. Repeating it records nothing twice.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick recover --from-forge acme/app\n  bailiwick recover --from-forge acme/app#42 \
                  --release-lost --continue\n  bailiwick recover --from-forge '#1'"
)]
pub struct Recover {
    /// All open issues of `owner/name`, one issue `owner/name#42`, issue `#3` of this repository, or `.` for all of them
    #[arg(long, value_name = "REPOSITORY[#N]")]
    from_forge: RecoveryTarget,
    /// Give back paths and tokens of runs that left no result: no other machine works on these issues
    #[arg(long)]
    release_lost: bool,
    /// Start the next agent: set its label again, which the rules of the control plane answer
    #[arg(long = "continue")]
    is_continued: bool,
    #[command(flatten)]
    format: FormatOption,
}

impl Recover {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let mut recovered = issue_recovery::recover(context, &self.from_forge)?;
        if self.release_lost {
            for issue in &recovered {
                issue_recovery::release_lost(context, issue)?;
            }
            let new: Vec<usize> = recovered.iter().map(|issue| issue.new_runs).collect();
            recovered = issue_recovery::recover(context, &self.from_forge)?;
            for (issue, new) in recovered.iter_mut().zip(new) {
                issue.new_runs += new;
            }
        }
        let mut continued = Vec::new();
        if self.is_continued {
            for issue in &recovered {
                if issue_recovery::hand_on_again(context, issue)? {
                    continued.push(&issue.name);
                }
            }
        }
        if self.format.format == Format::Json {
            let shown: Vec<_> = recovered
                .iter()
                .map(|issue| value(issue, continued.contains(&&issue.name)))
                .collect();
            return output::json(&shown);
        }
        if recovered.is_empty() {
            output::note("no run has worked on an open issue there");
        }
        for issue in &recovered {
            print(issue, continued.contains(&&issue.name));
        }
        Ok(())
    }
}

fn value(issue: &RecoveredIssue, is_continued: bool) -> serde_json::Value {
    json!({
        "issue": issue.name,
        "new_runs": issue.new_runs,
        "continued": is_continued,
        "work": issue.work,
        "digest": issue.work.digest(),
    })
}

fn print(issue: &RecoveredIssue, is_continued: bool) {
    let (name, work) = (&issue.name, &issue.work);
    output::line(format_args!("issue     {name}  {}", work.title));
    if let Some(budget) = work.budget {
        output::line(format_args!(
            "budget    {} of {} tokens used, {} left",
            budget.consumed, budget.total, budget.remaining
        ));
    }
    for run in &work.runs {
        let result = match run.result {
            ChainResult::Pass => "passed",
            ChainResult::Fail => "failed",
            ChainResult::Blocked => "was stopped",
        };
        output::line(format_args!(
            "run       {} ({}) {result}, {} tokens",
            run.id, run.agent, run.tokens
        ));
    }
    for claim in &work.claims {
        let paths: Vec<String> = claim.resources.iter().map(ToString::to_string).collect();
        output::line(format_args!("claim     {} has {}", claim.agent, paths.join(", ")));
    }
    for one in &work.reservations {
        output::line(format_args!(
            "reserved  {} may use {} tokens until {}",
            one.agent, one.tokens, one.reserved_until
        ));
    }
    output::line(format_args!("digest    {}", work.digest()));
    match &work.next {
        NextStep::Start { agent } if is_continued => {
            output::line(format_args!("next      {agent}, whose label was set again"));
        }
        NextStep::Start { agent } => {
            output::line(format_args!("next      {agent}"));
            if name.repository.is_some() {
                output::next_step(format_args!(
                    "bailiwick recover --from-forge '{name}' --continue"
                ));
            } else {
                output::next_step(format_args!(
                    "bailiwick run TASK --issue '{name}'   with a task for the role {agent}"
                ));
            }
        }
        NextStep::Decide => output::line("next      -"),
        NextStep::Stopped { why } => output::line(format_args!("next      none: {why}")),
        NextStep::Closed => output::line("next      nothing: the issue is closed"),
    }
}
