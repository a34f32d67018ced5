//! `bailiwick run`: a task, from its text to a change that has landed or was rejected.

use std::cell::RefCell;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use bailiwick_engine::background::{self, Input};
use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::landing::LandRequest;
use bailiwick_engine::options::{IfClosed, RunOptions, raise_option};
use bailiwick_engine::running::finish::Changed;
use bailiwick_engine::running::observer::{RunObserver, RunView};
use bailiwick_engine::running::service::{self, FinishedRun, RunRequest, RunResult};
use bailiwick_engine::running::spawn_to_run::spawn_to_run;
use bailiwick_engine::running::{LockedRun, Start, bound_issue, recover};
use bailiwick_engine::spawning::Naming;
use bailiwick_engine::{agent_names, sources};
use bailiwick_lifecycle::commit_subject::CommitTitle;
use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::attempt::Exhausted;
use bailiwick_model::event::ExitReason;
use bailiwick_model::settings::AutoLand;
use bailiwick_model::{AgentId, IssueName, LedgerNote, Source};
use bailiwick_runner::supervisor::{Handle, RunDirectory};
use clap::Args;
use serde_json::json;

use super::land::{LandOutput, land_and_print};
use super::options::{LandWhen, RunArguments, person};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Format, FormatOption};
use crate::view::verification::Live;
use crate::view::{View, forget_typed};

/// Run an agent on a task: in a sandboxed worktree, supervised, checked, landed
///
/// Creates the worktree, tests that the agent CLI obeys the gate, starts it in a sandbox and shows
/// what it does. Then its work is checked, as it is and merged onto the target branch. Work that
/// passes lands on your local branch if you confirm; nothing is pushed. Ctrl-C stops the agent and
/// keeps its work.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick run .bailiwick/tasks/example.toml\n  bailiwick run \
                        task.toml --agent-id fix-42 --land auto\n  bailiwick run \
                        task.toml --title 'Fix the lexer'\n  bailiwick run \
                        task.toml --issue '#3'\n  bailiwick run \
                        task.toml --login subscription\n  bailiwick run -d task.toml; \
                        bailiwick logs -f fix-42"
)]
pub struct Run {
    /// The task file, or an agent that was spawned and has not run yet
    #[arg(value_name = "TASK|AGENT")]
    task: PathBuf,
    /// The agent's id; default: the task's, else generated
    #[arg(long, value_name = "ID")]
    agent_id: Option<AgentId>,
    /// The commit that the agent starts from
    #[arg(long, value_name = "REVISION", default_value = "HEAD")]
    base: String,
    /// Subject of the commit when the work lands; default: the first sentence of the task's body
    #[arg(long, value_name = "TEXT")]
    title: Option<CommitTitle>,
    /// The issue that keeps its state: `#3` in this repository, `owner/name#42` on a forge; default: the task's
    #[arg(long, value_name = "ISSUE")]
    issue: Option<IssueName>,
    /// Run in the background
    #[arg(short, long)]
    detach: bool,
    #[command(flatten)]
    pub(crate) arguments: RunArguments,
    #[command(flatten)]
    format: FormatOption,
}

impl Run {
    /// A run that prints JSON and lands nothing.
    pub(crate) fn json_without_landing(task: PathBuf) -> Self {
        let arguments = RunArguments { land: Some(LandWhen::Never), ..RunArguments::default() };
        let format = FormatOption { format: Format::Json };
        let base = "HEAD".to_owned();
        Self {
            task,
            agent_id: None,
            base,
            title: None,
            issue: None,
            detach: false,
            arguments,
            format,
        }
    }

    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        recover::record_interrupted_runs(context)?;
        bound_issue::complete_pending(context);
        interrupt::set_notice(
            "stopped; the agent has not started: run the same command again".to_owned(),
        );
        let options = RunOptions::from(self.arguments.clone());
        let id = match self.spawned(context)? {
            Some(id) => id,
            None => {
                let task = sources::read_task(context, &self.task)?;
                // Before it is spawned: a refused run must not use up its id.
                if let Some(issue) = &self.issue {
                    bound_issue::require_open(context, issue)?;
                }
                self.spawn(context, &task, &options)?
            }
        };
        if let Some(title) = &self.title {
            context.with_store(async |store| {
                Ok(store.append_run_note(&id, LedgerNote::Title, title.as_str()).await?)
            })?;
        }
        if let Some(issue) = &self.issue {
            bound_issue::bind(context, &id, issue)?;
        }
        if self.detach {
            service::require_startable(context, &id, &Start::Fresh)?;
            let log = background::begin(context, &id, &options, Input::Nothing)?;
            return print_started(context, &id, &log, self.format.format);
        }
        interrupt::set_notice(
            "stopped before the agent began its work; the next command: bailiwick status"
                .to_owned(),
        );
        let format = self.format.format;
        let request = RunRequest {
            start: Start::Fresh,
            options,
            budget: None,
            if_closed: IfClosed::default(),
            quiet: format == Format::Json,
        };
        run_and_print(context, &id, &request, format)
    }

    /// The agent that is named, if it is one of the ledger.
    fn spawned(&self, context: &Context) -> Result<Option<AgentId>, Failure> {
        use bailiwick_lifecycle::ports::RunStore as _;
        let named = self.task.to_str().and_then(|name| AgentId::parse(name).ok());
        let Some(id) = named.filter(|_| !context.directory.join(&self.task).is_file()) else {
            return Ok(None);
        };
        let name = id;
        let id = agent_names::resolve(context, &name)?;
        let run = context.with_store(async |store| Ok(store.find(&id).await?))?;
        match run {
            Some(run) => Ok(Some(run.id)),
            None if self.task.extension().is_some() => Ok(None),
            None => {
                Err(Failure::usage(format!("there is neither a task file nor an agent `{name}`"))
                    .help(agent_names::suggestion(context, &name)?))
            }
        }
    }

    fn spawn(
        &self,
        context: &Context,
        source: &Source,
        options: &RunOptions,
    ) -> Result<AgentId, Failure> {
        let naming = Naming::Name(self.agent_id.as_ref());
        let spawned = spawn_to_run(context, source, naming, &self.base, options, person())?;
        if self.format.format == Format::Human {
            output::note(format_args!(
                "agent {} in {}",
                spawned.agent_id,
                spawned.worktree.display()
            ));
        }
        AgentId::parse(&spawned.agent_id).map_err(|error| Failure::general(error.to_string()))
    }
}

/// Runs an agent until it has ended, checks its work, lands it and prints the result.
pub(crate) fn run_and_print(
    context: &Context,
    id: &AgentId,
    request: &RunRequest,
    format: Format,
) -> Result<(), Failure> {
    let observer = Observer { id, quiet: request.quiet, live: RefCell::default() };
    let ended = service::run(context, id, request, &observer)?;
    drop(observer);
    if let (Some(shown), false) = (&ended.result.verification, request.quiet) {
        output::print_verification(shown);
    }
    conclude(context, ended, request, format)
}

/// Shows a run at the terminal, and lets a signal stop it.
struct Observer<'a> {
    id: &'a AgentId,
    quiet: bool,
    live: RefCell<Option<Live>>,
}

impl RunObserver for Observer<'_> {
    fn view(&self, directory: &RunDirectory) -> Box<dyn RunView> {
        Box::new(View::start(self.quiet, directory.clone()))
    }

    fn started(&self, handle: Handle) {
        // The notice first: a signal between the two must not report that nothing has started.
        interrupt::set_notice(format!(
            "left before the agent had stopped; its work is kept: bailiwick resume {}",
            self.id
        ));
        interrupt::set_attempt(handle);
    }

    fn ended(&self) {
        interrupt::clear_attempt();
    }

    fn checking(&self, id: &AgentId) {
        interrupt::set_notice(format!(
            "the checks were stopped; the work is kept: bailiwick verify {id}, bailiwick land {id}"
        ));
        *self.live.borrow_mut() = Some(Live::start(self.quiet));
    }

    fn check_progress(&self, progress: &Progress<'_>) {
        if let Some(live) = &mut *self.live.borrow_mut() {
            live.tell(progress);
        }
    }
}

/// Whether work that passed lands, or a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LandChoice {
    Land,
    AskPerson,
    DoNotLand,
}

/// Whether passing work lands. A person is not asked about work that cannot land.
fn land_choice(running: &LockedRun, setting: AutoLand, quiet: bool) -> Result<LandChoice, Failure> {
    match setting {
        AutoLand::Auto => return Ok(LandChoice::Land),
        AutoLand::Never => return Ok(LandChoice::DoNotLand),
        AutoLand::Ask => {}
    }
    if quiet || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(LandChoice::DoNotLand);
    }
    if let Err(error) = running.subject.git_work()?.check_landing(None) {
        output::note(format_args!("it cannot land yet: {error}"));
        return Ok(LandChoice::DoNotLand);
    }
    output::aside(running.subject.diffstat(output::width())?.trim_end());
    Ok(LandChoice::AskPerson)
}

/// Whether it lands now; asks the person if the choice is theirs.
fn confirm_landing(choice: LandChoice) -> bool {
    match choice {
        LandChoice::Land => true,
        LandChoice::DoNotLand => false,
        LandChoice::AskPerson => {
            // An Enter that was meant for the agent's questions must not answer this one.
            forget_typed(&std::io::stdin());
            let _ = write!(anstream::stderr(), "all checks passed. Land it? [y/N] ");
            let mut said = String::new();
            let _ = std::io::stdin().lock().read_line(&mut said);
            matches!(said.trim(), "y" | "Y" | "yes")
        }
    }
}

/// Lands what passed, and prints the result.
fn conclude(
    context: &Context,
    ended: FinishedRun,
    request: &RunRequest,
    format: Format,
) -> Result<(), Failure> {
    let FinishedRun { locked_run, mut result, changed } = ended;
    let quiet = request.quiet;
    let chosen = request.options.land.unwrap_or(locked_run.subject.settings.run.land);
    let passed = result.verification.as_ref().map(|shown| shown.failed.is_empty());
    let choice = match (passed, changed) {
        (Some(true), Changed::Something) => land_choice(&locked_run, chosen, quiet)?,
        (Some(_) | None, _) => LandChoice::DoNotLand,
    };
    let (_, id) = locked_run.release();
    interrupt::set_notice(format!("not landed; the work is kept: bailiwick land {id}"));
    if confirm_landing(choice) {
        let printed = match choice {
            _ if quiet => LandOutput::Nothing,
            LandChoice::AskPerson => LandOutput::Result,
            LandChoice::Land | LandChoice::DoNotLand => LandOutput::Change,
        };
        let land = LandRequest::of(id.clone(), request.checks());
        land_and_print(context, &land, printed, Format::Human)?;
        result.landed = true;
    }
    if format == Format::Json {
        output::json(&result)?;
    } else if !result.landed {
        print_result(context, &id, &result, (passed, changed));
    }
    match (result.ending, passed) {
        (ExitReason::Completed, Some(true) | None) => Ok(()),
        (ExitReason::Completed, Some(false))
        | (ExitReason::EnforcementLost | ExitReason::Denied, _) => Err(Failure::AlreadyReported(2)),
        (
            ExitReason::Failed
            | ExitReason::Stopped
            | ExitReason::TimedOut
            | ExitReason::BudgetExhausted
            | ExitReason::CutOff,
            _,
        ) => Err(Failure::AlreadyReported(1)),
    }
}

fn print_result(
    context: &Context,
    id: &AgentId,
    result: &RunResult,
    found: (Option<bool>, Changed),
) {
    let (passed, changed) = found;
    let global_options = &context.global_options;
    output::line(format_args!("agent     {id}"));
    let detail = match output::first_line(&result.detail) {
        none if none.is_empty() => none,
        detail => format!(": {detail}"),
    };
    output::line(format_args!("ended     {}{detail}", result.ending));
    output::line(format_args!(
        "used      {}, {}, {}, {} denied",
        counted(result.tokens, "token"),
        counted(result.turns, "turn"),
        counted(result.tool_calls, "tool call"),
        result.denied
    ));
    match (result.ending, passed) {
        (ExitReason::Completed, Some(true) | None) if changed == Changed::Nothing => {
            output::line("changed   nothing, so there is nothing to land");
            output::next_step(format_args!(
                "bailiwick logs {id}{global_options}; bailiwick rm {id}{global_options}"
            ));
        }
        (ExitReason::Completed, passed) => advise(id, passed.unwrap_or(true), global_options),
        (ExitReason::EnforcementLost | ExitReason::Denied, _) => {
            output::next_step(format_args!(
                "bailiwick logs {id}{global_options}; bailiwick respawn {id}{global_options}"
            ));
        }
        (ExitReason::BudgetExhausted, _) => {
            let (first, option) = next_step_for_budget(result.exhausted);
            output::next_step(format_args!(
                "{first}: bailiwick resume {id}{option}{global_options}"
            ));
        }
        (
            ExitReason::Failed | ExitReason::Stopped | ExitReason::TimedOut | ExitReason::CutOff,
            _,
        ) => {
            output::next_step(format_args!("resume it: bailiwick resume {id}{global_options}"));
        }
    }
}

/// Prints the next steps for work that did not land.
fn advise(id: &AgentId, passed: bool, global_options: &str) {
    if passed {
        output::next_step(format_args!("bailiwick land {id}{global_options}"));
    } else {
        output::next_step(format_args!(
            "bailiwick respawn {id}{global_options}, or bailiwick reject {id}{global_options}"
        ));
    }
}

/// What to do before a run with an exhausted budget continues, and the option for it.
fn next_step_for_budget(exhausted: Option<Exhausted>) -> (&'static str, String) {
    let first = match (exhausted, exhausted.and_then(raise_option)) {
        (_, Some(option)) => return ("raise it and resume", format!(" {option}")),
        // A budget in dollars needs a price.
        (Some(Exhausted::Price), None) => {
            "say what its model costs in `[prices]` of .bailiwick/settings.toml, and resume"
        }
        (Some(Exhausted::Disk), None) => {
            "make room, or raise `[run] disk-mib` of .bailiwick/settings.toml, and resume"
        }
        (Some(_) | None, None) => "resume it",
    };
    (first, String::new())
}

/// Prints that a run continues in the background.
pub(crate) fn print_started(
    context: &Context,
    id: &AgentId,
    log: &Path,
    format: Format,
) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(&json!({"agent_id": id.as_str(), "log": log}));
    }
    output::line(id);
    output::next_step(format_args!("bailiwick logs -f {id}{}", context.global_options));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_limit_names_its_option() {
        for (exhausted, option) in [
            (Exhausted::Tokens, "--tokens N"),
            (Exhausted::Usd, "--usd AMOUNT"),
            (Exhausted::Turns, "--turns N"),
            (Exhausted::Minutes, "--minutes N"),
            (Exhausted::ToolCalls, "--tool-calls N"),
        ] {
            let raised = ("raise it and resume", format!(" {option}"));
            assert_eq!(next_step_for_budget(Some(exhausted)), raised);
        }
    }

    #[test]
    fn limit_without_an_option_has_other_advice() {
        for (exhausted, first) in [
            (Some(Exhausted::Price), "say what its model costs"),
            (Some(Exhausted::Disk), "make room"),
            (None, "resume it"),
        ] {
            let (message, option) = next_step_for_budget(exhausted);
            assert!(
                message.starts_with(first) && option.is_empty(),
                "{exhausted:?}: {message}{option}"
            );
        }
    }
}
