//! `bailiwick run`: a task, from its text to a change that has landed or was rejected.

use std::path::PathBuf;

use bailiwick_lifecycle::commit_subject::CommitTitle;
use bailiwick_lifecycle::supervision::budget::Limit;
use bailiwick_model::attempt::Allowance;
use bailiwick_model::event::ExitReason;
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task::Login;
use bailiwick_model::{AgentId, Source};
use bailiwick_runner::checks::OpenSetup;
use bailiwick_runner::supervisor::RunDirectory;
use clap::{Args, ValueEnum as _};
use serde::Serialize;

use super::land::{TITLE, Telling};
use super::spawn::{Naming, spawn_startable};
use crate::agent_names;
use crate::context::Context;
use crate::counted::counted;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::finish::{Asked, Changed};
use crate::running::forbidden_files::left_out_note;
use crate::running::login::LoginOption;
use crate::running::{IfClosed, Running, Start, Wishes, detached, finish, interrupt, recover};
use crate::verifying::{Manner, SandboxLevel, Shown};
use crate::{preconditions, wire};

/// Run an agent on a task: in a sandboxed worktree, supervised, checked, landed
///
/// Creates the worktree, tests that the agent CLI obeys the gate, starts it in a sandbox and shows
/// what it does. Then its work is checked, as it is and merged onto today's base. Work that passes
/// lands if you confirm. Ctrl-C stops the agent and keeps its work.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick run .bailiwick/tasks/example.toml\n  bailiwick run \
                        task.toml --agent-id fix-42 --land auto\n  bailiwick run \
                        task.toml --title 'Fix the lexer'\n  bailiwick run \
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
    /// Run in the background
    #[arg(short, long)]
    detach: bool,
    #[command(flatten)]
    pub(crate) how: How,
    #[command(flatten)]
    format: FormatOption,
}

/// How a run is to be held and ended.
#[derive(Debug, Clone, Default, Args)]
pub struct How {
    /// Whether work that passes lands without a question; default: as in the settings
    #[arg(long, value_name = "WHEN")]
    pub land: Option<LandWhen>,
    /// Do not check the work at the end
    #[arg(long)]
    pub no_verify: bool,
    /// The sandbox level that is required for the agent and its checks
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    pub sandbox: SandboxLevel,
    /// How to pay for the model; default: the setting of the task, else an API key from the
    /// environment
    #[arg(long, value_name = "LOGIN")]
    pub login: Option<LoginOption>,
    /// Run the task's setup without a sandbox if this machine has none
    #[arg(long)]
    pub allow_setup: bool,
}

impl How {
    /// Whether a setup may run as the person where this machine can make no sandbox.
    pub(crate) fn open_setup(&self) -> OpenSetup {
        if self.allow_setup { OpenSetup::Allowed } else { OpenSetup::Refused }
    }

    /// The same as arguments of another process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut all = Vec::new();
        let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map(|value| value.get_name().to_owned())
        };
        if let Some(land) = self.land.and_then(|land| name(&|| land.to_possible_value())) {
            all.extend(["--land".to_owned(), land]);
        }
        if self.no_verify {
            all.push("--no-verify".to_owned());
        }
        if let Some(level) = name(&|| self.sandbox.to_possible_value()) {
            all.extend(["--sandbox".to_owned(), level]);
        }
        if let Some(login) = self.login.and_then(|login| name(&|| login.to_possible_value())) {
            all.extend(["--login".to_owned(), login]);
        }
        if self.allow_setup {
            all.push("--allow-setup".to_owned());
        }
        all
    }
}

/// Whether work that holds lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LandWhen {
    /// After you confirm, on a terminal.
    Ask,
    /// Without a question.
    Auto,
    /// Never; land it later.
    Never,
}

impl From<LandWhen> for AutoLand {
    fn from(when: LandWhen) -> Self {
        match when {
            LandWhen::Ask => Self::Ask,
            LandWhen::Auto => Self::Auto,
            LandWhen::Never => Self::Never,
        }
    }
}

/// What came of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Ran {
    pub(crate) agent_id: String,
    pub(crate) ending: ExitReason,
    pub(crate) detail: String,
    pub(crate) tokens: u64,
    pub(crate) micro_usd: u64,
    pub(crate) turns: u64,
    pub(crate) tool_calls: u64,
    pub(crate) denied: u64,
    pub(crate) session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verification: Option<Shown>,
    /// New files outside of its scope, which do not land.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<String>,
    pub(crate) landed: bool,
}

impl Run {
    /// A run that prints JSON and lands nothing.
    pub(crate) fn plain(task: PathBuf) -> Self {
        let how = How { land: Some(LandWhen::Never), ..How::default() };
        let format = FormatOption { format: Format::Json };
        let base = "HEAD".to_owned();
        Self { task, agent_id: None, base, title: None, detach: false, how, format }
    }

    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        recover::find(context)?;
        interrupt::announce(
            "stopped; the agent has not started: run the same command again".to_owned(),
        );
        let id = match self.spawned(context)? {
            Some(id) => id,
            None => self.spawn(context, &wire::read_task(context, &self.task)?)?,
        };
        if let Some(title) = &self.title {
            wire::with_store(context, async |store| {
                Ok(store.append_run_note(&id, TITLE, title.as_str()).await?)
            })?;
        }
        if self.detach {
            return detached::start(context, &id, &self.how, self.format.format);
        }
        let wanted = Wanted::default();
        interrupt::announce(
            "stopped before the agent began its work; the next command: bailiwick status"
                .to_owned(),
        );
        hold(context, &id, &Start::Fresh, &self.how, wanted, self.format.format)
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
        let run = wire::with_store(context, async |store| Ok(store.find(&id).await?))?;
        match run {
            Some(run) => Ok(Some(run.id)),
            None if self.task.extension().is_some() => Ok(None),
            None => {
                Err(Failure::usage(format!("there is neither a task file nor an agent `{name}`"))
                    .help(agent_names::suggestion(context, &name)?))
            }
        }
    }

    fn spawn(&self, context: &Context, source: &Source) -> Result<AgentId, Failure> {
        let naming = Naming::Name(self.agent_id.as_ref());
        let spawned = spawn_startable(context, source, naming, &self.base, &self.how)?;
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

/// What is wanted of a run besides how it is held.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// What may be spent from now on, in the place of what the task says.
    pub(crate) budget: Option<Allowance>,
    /// Whether it begins if it was closed.
    pub(crate) if_closed: IfClosed,
}

/// Holds a run until its agent has ended, checks its work and lands it.
pub(crate) fn hold(
    context: &Context,
    id: &AgentId,
    start: &Start,
    how: &How,
    Wanted { budget, if_closed }: Wanted,
    format: Format,
) -> Result<(), Failure> {
    let quiet = format == Format::Json;
    preconditions::require_sandbox(how.sandbox)?;
    let mut running = Running::hold(context, id)?;
    let login = how.login.map(Login::from);
    let open_setup = how.open_setup();
    let wishes = Wishes { sandbox: how.sandbox, budget, login, open_setup, quiet, if_closed };
    let mut start = start.clone();
    let outcome = loop {
        let directory = running.directory.clone();
        let Told { start: with, words, mut unheard } = with_unheard(&directory, &start)?;
        let before = running.turns();
        let outcome = running.attempt(&with, &wishes, |handle| {
            // What was said before is written down already, as what people say while it works is.
            if let Some(words) = words {
                // It waits with those, and is the last of them: nobody says more before this returns.
                unheard += usize::from(directory.say(&words).is_ok());
                handle.said(&words);
            }
            interrupt::stops(handle);
        });
        interrupt::over();
        let outcome = outcome?;
        if has_heard(outcome.ending, before, outcome.progress.used.turns) {
            // What stays would be heard twice, which is better than not at all.
            let _ = directory.heard(unheard);
        }
        if outcome.ending != ExitReason::Completed || outcome.messages.is_empty() {
            break outcome;
        }
        // What people have said meanwhile is heard now.
        start = Start::Resume(None);
    };
    running.import()?;
    let changed = finish::note_changes(&running)?;
    let mut ran = Ran {
        agent_id: id.to_string(),
        ending: outcome.ending,
        detail: outcome.detail,
        tokens: outcome.progress.used.tokens,
        micro_usd: outcome.progress.used.micro_usd,
        turns: outcome.progress.used.turns,
        tool_calls: outcome.progress.used.tool_calls,
        denied: outcome.progress.used.denied,
        session: outcome.progress.session,
        verification: None,
        left_out: running.left_out()?,
        landed: false,
    };
    if !quiet && !ran.left_out.is_empty() {
        output::note(left_out_note(&ran.left_out));
    }
    let holds = ran.ending == ExitReason::Completed && !how.no_verify;
    let manner = Manner { sandbox: how.sandbox, open_setup, ..Manner::default() };
    if holds {
        interrupt::announce(format!(
            "the checks were stopped; the work is kept: bailiwick verify {id}, bailiwick land {id}"
        ));
        ran.verification = Some(finish::verify(&running, manner, quiet)?);
    }
    conclude(context, running, (ran, changed), how, manner, format)
}

/// What an agent is told as it begins.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// With all that it is told.
    start: Start,
    /// What it is told now.
    words: Option<String>,
    /// How many of those it is told besides were said before, and wait until it has heard them.
    unheard: usize,
}

/// A start with what was said to the agent and it has not heard, before what it is told now.
fn with_unheard(directory: &RunDirectory, start: &Start) -> Result<Told, Failure> {
    let Start::Resume(words) = start else {
        return Ok(Told { start: start.clone(), words: None, unheard: 0 });
    };
    let mut all = directory.not_heard().map_err(|error| {
        Failure::general(format!("what it has not heard cannot be read: {error}"))
    })?;
    let unheard = all.len();
    all.extend(words.clone());
    let told = (!all.is_empty()).then(|| all.join("\n\n"));
    Ok(Told { start: Start::Resume(told), words: words.clone(), unheard })
}

/// Whether an agent has heard what an attempt began with, by the answers of its model before and after it.
fn has_heard(ending: ExitReason, before: u64, after: u64) -> bool {
    match after {
        // Nobody counts the answers of some programs, or they have no model.
        0 => ending == ExitReason::Completed,
        1.. => after > before,
    }
}

/// Lands what holds, and tells what came of it.
fn conclude(
    context: &Context,
    running: Running,
    (mut ran, changed): (Ran, Changed),
    how: &How,
    manner: Manner,
    format: Format,
) -> Result<(), Failure> {
    let quiet = format == Format::Json;
    let chosen = how.land.map_or(running.subject.settings.run.land, AutoLand::from);
    let holds = ran.verification.as_ref().map(|shown| shown.failed.is_empty());
    let asked = match (holds, changed) {
        (Some(true), Changed::Something) => finish::asks(&running, chosen, quiet)?,
        (Some(_) | None, _) => Asked::Not,
    };
    let (_, id) = running.release();
    interrupt::announce(format!("not landed; the work is kept: bailiwick land {id}"));
    if finish::lands(asked) {
        let telling = match asked {
            _ if quiet => Telling::Nothing,
            Asked::Yes => Telling::Result,
            Asked::No | Asked::Not => Telling::Change,
        };
        finish::land(context, &id, manner, telling)?;
        ran.landed = true;
    }
    if quiet {
        output::json(&ran)?;
    } else if !ran.landed {
        tell(context, &id, &ran, (holds, changed));
    }
    match (ran.ending, holds) {
        (ExitReason::Completed, Some(true) | None) => Ok(()),
        (ExitReason::Completed, Some(false))
        | (ExitReason::EnforcementLost | ExitReason::Denied, _) => Err(Failure::Said(2)),
        (
            ExitReason::Failed
            | ExitReason::Stopped
            | ExitReason::TimedOut
            | ExitReason::BudgetExhausted
            | ExitReason::CutOff,
            _,
        ) => Err(Failure::Said(1)),
    }
}

fn tell(context: &Context, id: &AgentId, ran: &Ran, found: (Option<bool>, Changed)) {
    let (holds, changed) = found;
    let repeated = &context.repeated;
    output::line(format_args!("agent     {id}"));
    let detail = match output::first_line(&ran.detail) {
        none if none.is_empty() => none,
        detail => format!(": {detail}"),
    };
    output::line(format_args!("ended     {}{detail}", ran.ending));
    output::line(format_args!(
        "used      {}, {}, {}, {} denied",
        counted(ran.tokens, "token"),
        counted(ran.turns, "turn"),
        counted(ran.tool_calls, "tool call"),
        ran.denied
    ));
    match (ran.ending, holds) {
        (ExitReason::Completed, Some(true) | None) if changed == Changed::Nothing => {
            output::line("changed   nothing, so there is nothing to land");
            output::next_step(format_args!(
                "bailiwick logs {id}{repeated}; bailiwick rm {id}{repeated}"
            ));
        }
        (ExitReason::Completed, holds) => finish::advise(id, holds.unwrap_or(true), repeated),
        (ExitReason::EnforcementLost | ExitReason::Denied, _) => {
            output::next_step(format_args!(
                "bailiwick logs {id}{repeated}; bailiwick respawn {id}{repeated}"
            ));
        }
        (ExitReason::BudgetExhausted, _) => {
            let (first, option) = mended(&ran.detail);
            output::next_step(format_args!("{first}: bailiwick resume {id}{option}{repeated}"));
        }
        (
            ExitReason::Failed | ExitReason::Stopped | ExitReason::TimedOut | ExitReason::CutOff,
            _,
        ) => {
            output::next_step(format_args!("go on with it: bailiwick resume {id}{repeated}"));
        }
    }
}

/// What a person does before a run whose budget is spent goes on, and the option with which it does.
fn mended(detail: &str) -> (&'static str, String) {
    let first = match raised(detail) {
        Some(option) => return ("raise it and go on", format!(" {option}")),
        // A budget in dollars says nothing where nobody knows a price.
        None if detail.contains("dollars") => {
            "say what its model costs in `[prices]` of .bailiwick/settings.toml, and go on"
        }
        None if detail.contains("disk") => {
            "make room, or raise `[run] disk-mib` of .bailiwick/settings.toml, and go on"
        }
        None => "go on with it",
    };
    (first, String::new())
}

/// The option that raises what is spent, by the words in which a run says what that is; nothing if it is nothing
/// that an option raises.
pub(crate) fn raised(detail: &str) -> Option<&'static str> {
    let spent = detail.rsplit(": ").next().unwrap_or_default();
    let limit = Limit::ALL.into_iter().find(|limit| limit.as_str() == spent)?;
    Some(match limit {
        Limit::Money => "--usd AMOUNT",
        Limit::Turns => "--turns N",
        Limit::Time => "--minutes N",
        Limit::ToolCalls => "--tool-calls N",
        Limit::Tokens => "--tokens N",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_waits_until_an_attempt_has_had_an_answer() {
        for (ending, before, after, heard) in [
            (ExitReason::Completed, 3, 4, true),
            (ExitReason::Stopped, 3, 4, true),
            (ExitReason::Failed, 0, 1, true),
            (ExitReason::Failed, 3, 3, false),
            (ExitReason::Stopped, 0, 0, false),
            (ExitReason::Completed, 3, 3, false),
            (ExitReason::Completed, 0, 0, true),
        ] {
            assert_eq!(has_heard(ending, before, after), heard, "{ending} {before} {after}");
        }
    }

    #[test]
    fn what_was_said_before_comes_first_and_stays_until_it_is_heard() {
        let state = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(state.path(), "one");
        directory.make().unwrap();
        directory.say("first").unwrap();
        directory.say("second").unwrap();
        let resumed = |words: Option<&str>| Start::Resume(words.map(ToOwned::to_owned));
        for (start, told, words, unheard) in [
            (Start::Fresh, Start::Fresh, None, 0),
            (resumed(None), resumed(Some("first\n\nsecond")), None, 2),
            (resumed(Some("now")), resumed(Some("first\n\nsecond\n\nnow")), Some("now"), 2),
        ] {
            let words = words.map(ToOwned::to_owned);
            let expected = Told { start: told, words, unheard };
            assert_eq!(with_unheard(&directory, &start).unwrap(), expected);
            assert_eq!(directory.not_heard().unwrap(), ["first", "second"]);
        }
    }

    #[test]
    fn what_is_spent_is_what_can_be_raised() {
        for (limit, option) in [
            (Limit::Tokens, "--tokens N"),
            (Limit::Money, "--usd AMOUNT"),
            (Limit::Turns, "--turns N"),
            (Limit::Time, "--minutes N"),
            (Limit::ToolCalls, "--tool-calls N"),
        ] {
            let detail = format!("the budget is spent: {}", limit.as_str());
            assert_eq!(raised(&detail), Some(option));
            assert_eq!(mended(&detail), ("raise it and go on", format!(" {option}")));
        }
    }

    #[test]
    fn what_no_option_raises_is_mended_otherwise() {
        for (detail, first) in [
            ("nothing says what x costs, and the budget is in dollars", "say what its model costs"),
            ("the budget is spent: disk, of which it may add 16 MiB in an attempt", "make room"),
            ("the budget is spent: disk, to which it may add 9 files in an attempt", "make room"),
            ("the disk has less than 512 MiB left", "make room"),
            ("spent", "go on with it"),
        ] {
            assert_eq!(raised(detail), None, "{detail}");
            let (said, option) = mended(detail);
            assert!(said.starts_with(first) && option.is_empty(), "{detail}: {said}{option}");
        }
    }
}
