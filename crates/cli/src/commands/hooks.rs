//! `bailiwick hooks`: the gate in the settings of agents that people start themselves.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::options::SandboxLevel;
use bailiwick_engine::policy_file::{self, PolicySource};
use bailiwick_engine::preconditions;
use bailiwick_engine::running::sandbox_plan;
use bailiwick_model::RoleName;
use bailiwick_runner::agents::adapter;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::hooks::{
    agent::{Agent, Scope},
    draft::{Change, Draft},
    gate_command,
    install::{self, PlannedInstall, Request, WhenDisarmed},
    limits::{self, Limit},
    places::Places,
    record::{Bound, Commands},
    remove,
    status::{self, InstallState, Report},
};
use crate::output::{self, BOLD, DIM, Format, FormatOption, GREEN, RED, YELLOW, styled};

/// Put the gate into the settings of agents that you start yourself
///
/// For Claude Code, Codex, Gemini CLI and OpenCode. What else is in their settings is kept.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick hooks install claude --role read-only\n  bailiwick \
                        hooks status\n  bailiwick hooks remove all"
)]
pub struct Hooks {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Install(Install),
    Status(Status),
    Remove(Remove),
}

/// Which agent programs are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
    /// All of them
    All,
}

impl Which {
    fn agents(self) -> Vec<Agent> {
        match self {
            Self::Claude => vec![Agent::Claude],
            Self::Codex => vec![Agent::Codex],
            Self::Gemini => vec![Agent::Gemini],
            Self::OpenCode => vec![Agent::OpenCode],
            Self::All => Agent::ALL.to_vec(),
        }
    }
}

/// Put the gate into an agent's settings, with the limits of a role or a task
///
/// From then on the agent asks the gate before every tool call for which its program asks hooks, in
/// this repository or, with --user, wherever you start it. A second install with another role takes
/// the place of the first. The policy and the log of decisions are kept with Bailiwick's state, not
/// in the repository.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick hooks install claude --role developer --files \
                        'src/**' \\\n      --deny 'src/generated/**'\n  bailiwick hooks install all --task \
                        .bailiwick/tasks/example.toml\n  bailiwick hooks install codex --role \
                        read-only --user --dry-run")]
struct Install {
    /// The agent
    agent: Which,
    /// Bind it to this role
    #[arg(long, value_name = "ROLE", conflicts_with = "task")]
    role: Option<RoleName>,
    /// Bind it to this task's role, scope and parameters
    #[arg(long, value_name = "FILE")]
    task: Option<PathBuf>,
    /// Where the role may write, from the repository's root; may be given again
    #[arg(long, value_name = "GLOB", conflicts_with = "task")]
    files: Vec<String>,
    /// Where it may not, from the repository's root; may be given again
    #[arg(long, value_name = "GLOB", conflicts_with = "task")]
    deny: Vec<String>,
    /// For all that you start, in any directory, instead of in this repository
    #[arg(long)]
    user: bool,
    /// Let allowed shell commands run without the sandbox that enforces the limits on paths
    #[arg(long)]
    no_sandbox: bool,
    /// Change settings that keep hooks from running, instead of refusing
    #[arg(long)]
    fix: bool,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// Say whether the gates are there and unchanged
///
/// Looks at this repository and at your own settings. Exit code 1 if a gate that was installed is
/// not intact, or nothing shows that its agent reads it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick hooks status\n  bailiwick hooks status codex -o json"
)]
struct Status {
    /// The agent; all if none is named
    #[arg(default_value = "all", hide_default_value = true)]
    agent: Which,
    #[command(flatten)]
    format: FormatOption,
}

/// Take the gate out of an agent's settings, and nothing else
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick hooks remove claude\n  bailiwick hooks remove all \
                        --user")]
struct Remove {
    /// The agent
    agent: Which,
    /// The gate in your own settings, instead of in this repository's
    #[arg(long)]
    user: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatOption,
}

impl Hooks {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::Install(install) => install.run(context),
            Verb::Status(status) => status.run(context),
            Verb::Remove(remove) => remove.run(context),
        }
    }
}

fn scope(context: &Context, user: bool) -> Result<Scope, Failure> {
    if user {
        return Ok(Scope::User);
    }
    match context.repository() {
        Some(repository) => Ok(Scope::Repository(repository.root().to_owned())),
        None => Err(Failure::general(format!(
            "{} is not in a git repository",
            context.directory.display()
        ))
        .help("go to one, or add --user for all that you start")),
    }
}

#[derive(Debug, Serialize)]
struct FileChange {
    path: PathBuf,
    change: Change,
}

fn file_changes(draft: &Draft) -> Vec<FileChange> {
    let changes = draft.changes().into_iter();
    changes.map(|(path, change)| FileChange { path, change }).collect()
}

fn show_changes(files: &[FileChange], dry_run: bool) {
    for FileChange { path, change } in files {
        let word = match (change, dry_run) {
            (Change::Created, false) => "created",
            (Change::Changed, false) => "changed",
            (Change::Deleted, false) => "deleted",
            (Change::Created, true) => "would create",
            (Change::Changed, true) => "would change",
            (Change::Deleted, true) => "would delete",
        };
        output::line(format_args!("  {}  {}", styled(GREEN, word), path.display()));
    }
}

impl Install {
    fn run(self, context: &Context) -> Result<(), Failure> {
        let scope = scope(context, self.user)?;
        let places = Places::observe(context)?;
        let kit_root = context.kit_root.as_ref().map(|root| context.directory.join(root));
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
        let binding = status::binding_context(context, &scope, kit_root);
        let policy = policy_file::compile(&binding, &what)
            .map_err(|failure| explained(context, &scope, &what, failure.into()))?;
        output::problems(&policy.warnings);
        let disarmed = if self.fix { WhenDisarmed::Mend } else { WhenDisarmed::Refuse };
        let gate = gate_command::program()?;
        let commands = if self.no_sandbox { Commands::Free } else { Commands::Sandboxed };
        if commands == Commands::Sandboxed {
            require_sandbox()?;
            require_versions(context, &self.agent.agents())?;
        }
        let request = Request { what: &what, policy: &policy, gate, disarmed, commands };
        // All are planned before the first is written: what cannot be done stops everything.
        let plan = |agent| {
            let mut draft = Draft::default();
            let planned = install::plan(&mut draft, context, &places, agent, &scope, &request)?;
            Ok((planned, draft))
        };
        let plans: Vec<_> =
            self.agent.agents().into_iter().map(plan).collect::<Result<_, Failure>>()?;
        if !self.dry_run {
            for (_, draft) in &plans {
                draft.apply()?;
            }
        }
        if self.format.format == Format::Json {
            let dry_run = self.dry_run;
            let objects: Result<Vec<_>, Failure> =
                plans.iter().map(|(planned, draft)| installed(planned, draft, dry_run)).collect();
            return output::json(&objects?);
        }
        for (planned, draft) in &plans {
            show_installed(planned, &file_changes(draft), self.dry_run);
        }
        if !self.dry_run {
            output::next_step("restart the agent; then: bailiwick hooks status");
        }
        Ok(())
    }
}

/// The oldest versions whose commands were seen to run in the sandbox, and their hooks outside of it.
const OLDEST: [(Agent, [u64; 3]); 3] =
    [(Agent::Claude, [2, 1, 197]), (Agent::Codex, [0, 166, 0]), (Agent::Gemini, [0, 61, 0])];

/// Refuses an agent's program that is too old to have its commands run in the sandbox.
fn require_versions(context: &Context, agents: &[Agent]) -> Result<(), Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let numbers = |text: &str| -> Vec<u64> {
        text.split('.').map_while(|number| number.parse().ok()).collect()
    };
    for (agent, oldest) in OLDEST.into_iter().filter(|(agent, _)| agents.contains(agent)) {
        let Some(adapter) = adapter(agent.word()) else { continue };
        let found = sandbox_plan::program_on(&path, adapter.as_ref(), &context.state)?;
        let Some(found) = found.filter(|found| numbers(&found.version) < oldest.to_vec()) else {
            continue;
        };
        let oldest = oldest.map(|number| number.to_string()).join(".");
        return Err(Failure::general(format!(
            "{} {} cannot run its commands in a sandbox: {oldest} or newer is needed",
            agent.name(),
            found.version
        ))
        .help("update it, or install with --no-sandbox"));
    }
    Ok(())
}

/// Fails if this machine cannot create a sandbox for shell commands.
fn require_sandbox() -> Result<(), Failure> {
    preconditions::require_sandbox(SandboxLevel::Full).map_err(|failure| {
        let way = "or add --no-sandbox: then only what the gate can read in a command is limited";
        let help = failure.advice().map_or_else(|| way.to_owned(), |help| format!("{help}; {way}"));
        Failure::from(failure).help(help)
    })
}

/// Explains why something cannot be installed for all repositories of a user, if it could be in this one.
fn explained(context: &Context, scope: &Scope, what: &PolicySource, failure: Failure) -> Failure {
    let here = policy_file::compile(context, what).is_ok();
    match scope {
        Scope::User if here => {
            let kit = context.user_kit.display();
            let text =
                "--user cannot use this repository's kit, because it counts in every directory";
            Failure::general(format!("{text}: {failure}")).help(format!(
                "leave --user out, to install it for this repository alone; or put what it needs into {kit}"
            ))
        }
        Scope::User | Scope::Repository(_) => failure,
    }
}

fn installed(
    planned: &PlannedInstall,
    draft: &Draft,
    dry_run: bool,
) -> Result<serde_json::Value, Failure> {
    let PlannedInstall { record, kept, mended, notes } = planned;
    let scope = record.scope();
    let notes: Vec<_> =
        notes.iter().map(|(text, advice)| json!({"text": text, "advice": advice})).collect();
    Ok(json!({
        "agent": record.agent,
        "scope": scope.word(),
        "root": record.root,
        "dry_run": dry_run,
        "bound": record.what,
        "digest": record.digest,
        "gate": record.arguments(kept)?,
        "settings": record.settings,
        "commands": record.commands,
        "policy": kept.policy(),
        "log": kept.log(),
        "files": file_changes(draft),
        "mended": mended,
        "notes": notes,
        "holds": limits::holds(record.agent),
        "limits": limits::limits(record.agent, &scope, record.commands),
    }))
}

fn show_installed(planned: &PlannedInstall, files: &[FileChange], dry_run: bool) {
    let PlannedInstall { record, kept, mended, notes } = planned;
    let scope = record.scope();
    let head = format!("{}: {} for {scope}", record.agent.name(), record.what.shown());
    output::line(styled(BOLD, head));
    show_changes(files, dry_run);
    if files.is_empty() {
        output::line(format_args!("  {}  nothing changed", styled(DIM, "is installed already")));
    }
    for what in mended {
        output::line(format_args!("  {}  {what}", styled(YELLOW, "taken back")));
    }
    output::wrapped("  covers  ", limits::holds(record.agent));
    output::wrapped("  shell   ", limits::commands(record.commands));
    output::line(format_args!("  log     {}", kept.log().display()));
    for Limit { cannot, instead } in limits::limits(record.agent, &scope, record.commands) {
        output::wrapped("  warning ", cannot);
        output::wrapped("          → ", instead);
    }
    for (text, advice) in notes {
        output::note(format_args!("{text}; {advice}"));
    }
}

impl Status {
    fn run(self, context: &Context) -> Result<(), Failure> {
        let places = Places::observe(context)?;
        let here = context.repository().map(|found| Scope::Repository(found.root().to_owned()));
        let mut reports = Vec::new();
        for agent in self.agent.agents() {
            for scope in here.iter().chain([&Scope::User]) {
                reports.push(status::report(context, &places, agent, scope)?);
            }
        }
        let good = reports.iter().all(|report| report.standing <= InstallState::Intact);
        match self.format.format {
            Format::Json => output::json(&json!({"intact": good, "hooks": reports}))?,
            Format::Human => reports.iter().for_each(show_report),
        }
        if good { Ok(()) } else { Err(Failure::AlreadyReported(1)) }
    }
}

fn show_report(report: &Report) {
    let standing = match report.standing {
        InstallState::Absent => styled(DIM, "not installed"),
        InstallState::Intact => styled(GREEN, "intact       "),
        InstallState::Unproven => styled(YELLOW, "unproven     "),
        InstallState::Drifted => styled(RED, "drifted      "),
    };
    let bound = report.bound.as_ref().map(Bound::shown).unwrap_or_default();
    let name = report.agent.word();
    let free = match report.commands {
        Some(Commands::Free) => "  (shell commands without a sandbox)",
        Some(Commands::Sandboxed) | None => "",
    };
    let line = format!("{standing}  {name:8}  {:10}  {bound}{free}", report.scope);
    output::line(line.trim_end());
    if let Some((count, place)) = &report.moved {
        let files = counted(*count, "new file");
        output::wrapped(
            "    ",
            &format!("{files} that the agent may not make: in {}", place.display()),
        );
    }
    for finding in &report.findings {
        output::wrapped("    ", &finding.text);
        output::wrapped("      → ", &finding.advice);
    }
}

impl Remove {
    fn run(self, context: &Context) -> Result<(), Failure> {
        let scope = scope(context, self.user)?;
        let places = Places::observe(context)?;
        let plan = |agent| {
            let mut draft = Draft::default();
            let left = remove::plan(&mut draft, &places, agent, &scope)?;
            Ok((agent, draft, left))
        };
        let plans: Vec<_> =
            self.agent.agents().into_iter().map(plan).collect::<Result<_, Failure>>()?;
        if !self.dry_run {
            for (_, draft, left) in &plans {
                draft.apply()?;
                left.tidy();
            }
        }
        if self.format.format == Format::Json {
            let objects = plans.iter().map(|(agent, draft, left)| {
                json!({
                    "agent": agent,
                    "scope": scope.word(),
                    "root": scope.root(),
                    "dry_run": self.dry_run,
                    "files": file_changes(draft),
                    "log": left.log,
                })
            });
            return output::json(&objects.collect::<Vec<_>>());
        }
        for (agent, draft, left) in &plans {
            output::line(styled(BOLD, format_args!("{} for {scope}", agent.name())));
            let files = file_changes(draft);
            show_changes(&files, self.dry_run);
            if files.is_empty() {
                output::line(format_args!("  {}  nothing changed", styled(DIM, "not installed")));
            }
            if let Some(log) = &left.log {
                output::line(format_args!("  {}  {}", styled(DIM, "kept"), log.display()));
            }
        }
        Ok(())
    }
}
