//! `bailiwick spawn`: the agent's task, branch and worktree, recorded in the ledger.

use std::path::PathBuf;

use bailiwick_engine::background::{self, Input};
use bailiwick_engine::claiming::ClaimWait;
use bailiwick_engine::context::Context;
use bailiwick_engine::options::RunOptions;
use bailiwick_engine::running::spawn_to_run::spawn_to_run;
use bailiwick_engine::sources;
use bailiwick_engine::spawning::{
    Naming, PlannedAgent, SetupIn, SpawnBindings, Spawned, spawn_checked,
};
use bailiwick_engine::verifying::worktree_setup;
use bailiwick_model::AgentId;
use bailiwick_runner::checks::OpenSetup;
use clap::Args;

use super::options::person;
use super::run::print_started;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Create an agent's worktree on its own branch and record it in the ledger
///
/// Reads the kit from the commit that the agent starts from, never from the working copy. An
/// interrupted spawn continues when the same task is spawned with the same id.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick spawn .bailiwick/tasks/example.toml\n  bailiwick \
                        spawn task.toml --agent-id fix-42 --base origin/main")]
pub struct Spawn {
    /// The task
    pub(crate) task: PathBuf,
    /// The agent's id; default: the task's, else generated
    #[arg(long, value_name = "ID")]
    pub(crate) agent_id: Option<AgentId>,
    /// The commit that the agent starts from
    #[arg(long, value_name = "REVISION", default_value = "HEAD")]
    pub(crate) base: String,
    /// Start the agent in the background, supervised as by `run`
    #[arg(long)]
    pub(crate) start: bool,
    /// Run the task's setup without a sandbox if this machine has none
    #[arg(long)]
    pub(crate) allow_setup: bool,
    #[command(flatten)]
    pub(crate) format: FormatOption,
}

impl Spawn {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let format = self.format.format;
        let (start, allow_setup) = (self.start, self.allow_setup);
        let spawned = self.spawn(context)?;
        if start {
            let id = AgentId::parse(&spawned.agent_id)
                .map_err(|error| Failure::general(error.to_string()))?;
            let options =
                RunOptions { allow_unsandboxed_setup: allow_setup, ..RunOptions::default() };
            let log = background::begin(context, &id, &options, Input::Nothing)?;
            return print_started(context, &id, &log, format);
        }
        if format == Format::Json {
            return output::json(&spawned);
        }
        print(&spawned, context);
        Ok(())
    }

    pub(crate) fn spawn(self, context: &Context) -> Result<Spawned, Failure> {
        context.require_repository()?;
        let source = sources::read_task(context, &self.task)?;
        let naming = Naming::Name(self.agent_id.as_ref());
        if self.start {
            let options = RunOptions::default();
            return Ok(spawn_to_run(context, &source, naming, &self.base, &options, person())?);
        }
        // A person who starts an agent by hand has no sandbox that shows the result of a setup.
        let open = if self.allow_setup { OpenSetup::Allowed } else { OpenSetup::Refused };
        let bindings = SpawnBindings { setup: SetupIn::Worktree(open), ..SpawnBindings::default() };
        let check = |planned: &PlannedAgent<'_>| match planned.bound.task.workspace.setup.is_empty()
        {
            true => Ok(()),
            false => worktree_setup::require_allowed(open),
        };
        let wait = ClaimWait::default();
        Ok(spawn_checked(context, &source, naming, &self.base, bindings, wait, &check)?)
    }
}

/// Prints the result for a person.
pub(crate) fn print(spawned: &Spawned, context: &Context) {
    output::line(format_args!("agent     {}", spawned.name));
    if spawned.name != spawned.agent_id {
        output::line(format_args!(
            "id        {} (another repository has an agent `{}`)",
            spawned.agent_id, spawned.name
        ));
    }
    output::line(format_args!("dna       {}", spawned.dna.as_deref().unwrap_or("-")));
    output::line(format_args!("branch    {} on {:.12}", spawned.branch, spawned.base));
    output::line(format_args!("worktree  {}", spawned.worktree.display()));
    output::line(format_args!("prompt    {}", spawned.prompt.display()));
    output::line(format_args!("policy    {}", spawned.policy.display()));
    output::next_step(format_args!("bailiwick run {}{}", spawned.name, context.global_options));
}
