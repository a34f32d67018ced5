//! `bailiwick exec`: an agent program in the person's own terminal, under the gate and in the sandbox.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::policy_file::{self, PolicySource};
use bailiwick_engine::running::interactive::{
    self, SessionObserver, SessionRequest, SessionResult,
};
use bailiwick_model::RoleName;
use bailiwick_model::event::ExitReason;
use bailiwick_model::task::Login;
use bailiwick_runner::supervisor::{Handle, Screen};
use clap::Args;

use super::options::{LoginOption, SandboxOption};
use crate::failure::Failure;
use crate::output::{self, RED, shortened, styled};
use crate::{interrupt, view};

/// Run an agent CLI in your terminal, under the gate and in the sandbox
///
/// Starts Claude Code, Codex, Gemini CLI or OpenCode with your arguments in this checkout. The role
/// or task decides every tool call, and the program sees no more of this machine than an agent of
/// `bailiwick run`. The CLI still asks you its own questions. The session is recorded: `bailiwick
/// logs ID`. Exits with the exit code of the program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick exec --role read-only -- claude\n  bailiwick exec \
                        --role developer --files 'src/**' -- \\\n      \
                        claude --permission-mode acceptEdits\n  bailiwick exec --task .bailiwick/tasks/example.toml -- codex")]
pub struct Exec {
    /// Apply this role
    #[arg(long, value_name = "ROLE", conflicts_with = "task")]
    role: Option<RoleName>,
    /// Apply this task: its role, scope, budget, model, hosts, MCP servers and secrets
    #[arg(long, value_name = "FILE")]
    task: Option<PathBuf>,
    /// Files that may be written, relative to the repository root (repeatable)
    #[arg(long, value_name = "GLOB", conflicts_with = "task")]
    files: Vec<String>,
    /// Files that may not be written, relative to the repository root (repeatable)
    #[arg(long, value_name = "GLOB", conflicts_with = "task")]
    deny: Vec<String>,
    /// The sandbox level that is required
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    sandbox: SandboxOption,
    /// The agent CLI, if its file name does not tell
    #[arg(long, value_name = "NAME")]
    cli: Option<String>,
    /// How to pay for the model; default: the setting of the task, else an API key from the
    /// environment
    #[arg(long, value_name = "LOGIN")]
    login: Option<LoginOption>,
    /// The program and its own arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "PROGRAM")]
    command: Vec<String>,
}

impl Exec {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(Failure::usage("no program was given"));
        };
        let what = match (&self.role, &self.task) {
            (Some(role), _) => PolicySource::Role {
                role: role.clone(),
                files: self.files.clone(),
                deny: self.deny.clone(),
            },
            (None, Some(task)) => PolicySource::Task(context.directory.join(task)),
            (None, None) => return Err(policy_file::unnamed(context)?.into()),
        };
        policy_file::note_root(context, &[&self.files, &self.deny]);
        let request = SessionRequest {
            what,
            sandbox: self.sandbox.into(),
            cli: self.cli.clone(),
            login: self.login.map(Login::from),
            program: program.clone(),
            arguments: arguments.to_vec(),
        };
        let screen = screen(context)?;
        interrupt::begin();
        tell(context, &interactive::run_session(context, &request, &screen, &Signals)?)
    }
}

/// A signal stops the session.
struct Signals;

impl SessionObserver for Signals {
    fn started(&self, handle: Handle) {
        interrupt::set_attempt(handle);
    }

    fn ended(&self) {
        interrupt::clear_attempt();
    }
}

fn screen(context: &Context) -> Result<Screen, Failure> {
    let directory = std::fs::canonicalize(&context.directory);
    let directory = directory
        .map_err(|error| Failure::general(format!("this directory cannot be used: {error}")))?;
    let screen = Screen::of_process(directory)
        .map_err(|error| Failure::general(format!("the terminal cannot be used: {error}")))?;
    screen.ok_or_else(|| {
        Failure::usage("exec needs a terminal on standard input and output")
            .help("without one, give the agent a task: bailiwick run TASK.toml")
    })
}

/// Prints the notes for the person, after the terminal is theirs again.
fn tell(context: &Context, told: &SessionResult) -> Result<(), Failure> {
    let SessionResult { id, outcome, denied } = told;
    let (used, global_options) = (&outcome.progress.used, &context.global_options);
    for line in denied.iter().filter_map(view::line) {
        output::note(shortened(&line, 200.max(output::width())));
    }
    if used.denied > 0 {
        let calls = counted(used.tool_calls, "tool call");
        let verb = if used.tool_calls == 1 { "was" } else { "were" };
        output::note(format_args!("{} of {calls} {verb} denied", used.denied));
    }
    output::note(format_args!("see all of it: bailiwick logs {id}{global_options}"));
    let ended = |word: &str| {
        let why = output::first_line(&outcome.detail);
        output::note(format_args!("{} ({word}): {why}", styled(RED, "the program was ended")));
    };
    match (outcome.ending, outcome.code) {
        (ExitReason::EnforcementLost | ExitReason::Denied, _) => {
            ended(outcome.ending.as_str());
            Err(Failure::AlreadyReported(2))
        }
        // The CLI exited and has reported why.
        (ExitReason::Completed | ExitReason::Failed, Some(code)) => match u8::try_from(code) {
            Ok(0) => Ok(()),
            Ok(code) => Err(Failure::AlreadyReported(code)),
            Err(_) => Err(Failure::AlreadyReported(1)),
        },
        (
            ExitReason::Completed
            | ExitReason::Failed
            | ExitReason::Stopped
            | ExitReason::TimedOut
            | ExitReason::BudgetExhausted
            | ExitReason::CutOff,
            _,
        ) => {
            ended(outcome.ending.as_str());
            Err(Failure::AlreadyReported(1))
        }
    }
}
