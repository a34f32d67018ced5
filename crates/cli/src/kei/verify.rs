//! `kei-capability verify NAME`: one capability, whatever the role lists, as the environment says.

use std::path::PathBuf;

use bailiwick_engine::context::variable;
use bailiwick_engine::options::CheckOptions;
use bailiwick_engine::sources;
use bailiwick_engine::verifying::{AgentWork, WorkOptions};
use bailiwick_lifecycle::verification;
use bailiwick_model::capability::RunMode;
use bailiwick_model::{AgentId, CapabilityName};
use bailiwick_verify::Verdict;
use clap::ValueEnum as _;

use super::{kit_root, kit_root_in};
use crate::commands::options;
use crate::commands::verify::Mode;
use crate::failure::Failure;

/// Verifies, and prints `FAIL <name>: <reason>` for each failure.
pub fn run(name: &str) -> Result<(), Failure> {
    let fail = |why: &dyn std::fmt::Display| Failure::usage(format!("FAIL {name}: {why}"));
    let capability = CapabilityName::parse(name).map_err(|error| fail(&error))?;
    let capability = capability.renamed_to().unwrap_or(capability);
    let mode = match variable("RUN_MODE")? {
        Some(text) => {
            let mode = Mode::from_str(&text, false).map_err(|_| {
                fail(&format_args!("RUN_MODE is `{text}`, not worktree, simulated-merge or both"))
            })?;
            Some(RunMode::from(mode))
        }
        None => None,
    };
    let agent = variable("AGENT_ID")?.map(|id| AgentId::parse(&id)).transpose();
    let agent = agent.map_err(|error| fail(&error))?;
    let Some(task) = variable("TASK_TOML")? else {
        return Err(Failure::general(format!("FAIL {name}: TASK_TOML does not name the task")));
    };
    let work_options = WorkOptions {
        worktree: variable("WORKTREE_PATH")?.map(PathBuf::from),
        main_repository: variable("MAIN_REPO")?.map(PathBuf::from),
        ..WorkOptions::default()
    };
    let of_main = work_options.main_repository.as_deref().and_then(kit_root_in);
    let context = options::observe(kit_root(of_main), None)?;
    let subject = AgentWork::of_task(&context, &PathBuf::from(task), agent, &work_options)?;
    let kit = sources::committed_kit(&subject.context, &subject.repository, &subject.kit_commit)?;
    let found = kit.capability(&capability)?;
    let found = found.ok_or_else(|| fail(&"there is no such capability"))?;
    let planned = match verification::of_capability(&found) {
        Ok(planned) => planned,
        // It only decides tool calls and has no check.
        Err(none @ verification::NoCheck::GateOnly { .. }) => {
            crate::output::note(format_args!("{none}"));
            return Ok(());
        }
        Err(error @ verification::NoCheck::Unknown { .. }) => return Err(fail(&error)),
    };
    // The requested trees are checked.
    let mode = mode.unwrap_or(planned.on);
    let planned = verification::PlannedCheck { on: mode, ..planned };
    let done = subject.run_checks(vec![planned], mode, CheckOptions::default(), &mut |_| {})?;
    let mut failures = done.failed().peekable();
    if failures.peek().is_none() && !done.results.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = failures
        .map(|failed| match &failed.verdict {
            Verdict::Fail { reason, detail } => {
                let detail = detail.as_ref().map(|text| format!("\n{text}")).unwrap_or_default();
                format!("FAIL {}: {reason}{detail}", failed.capability)
            }
            Verdict::Pass { .. } => String::new(),
        })
        .collect();
    crate::output::plain_error(&lines.join("\n"));
    Err(Failure::AlreadyReported(2))
}
