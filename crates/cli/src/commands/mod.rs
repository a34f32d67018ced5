//! Every command, one a file.

pub mod agents;
pub mod approvals;
pub mod capabilities;
pub mod claims;
pub mod completions;
pub mod compose;
pub mod cost;
mod database_needs;
pub mod db;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod exec;
pub mod explain;
pub mod fleet;
pub mod gate;
pub mod grouped_help;
pub mod hooks;
pub mod init;
pub mod land;
pub mod ledger;
pub mod lint;
pub mod logs;
pub mod man;
pub mod mcp;
pub mod memory;
pub mod options;
pub mod prepare;
pub mod prune;
pub mod ps;
pub mod reason;
pub mod recover;
pub mod reject;
pub mod replay;
pub mod respawn;
pub mod resume;
pub mod rm;
pub mod roles;
pub mod rollback;
pub mod run;
pub mod sandbox_init;
pub mod script_agent;
pub mod spawn;
pub mod status;
pub mod stop;
pub(crate) mod store;
pub mod supervise;
pub mod ui;
pub mod verify;

use std::path::PathBuf;

use bailiwick_engine::preconditions;
use clap::{Args, FromArgMatches as _, Parser, Subcommand};

use fleet::access::Destination;

use crate::failure::Failure;
use crate::output::{self, Colour};

/// Runs coding agents inside limits that are written down, enforced and tested.
#[derive(Debug, Parser)]
#[command(
    name = "bailiwick",
    version,
    propagate_version = true,
    after_help = "Examples:\n  bailiwick demo            see it work in a throwaway repository\n  \
                  bailiwick init            begin in your own\n  bailiwick run task.toml   have an \
                  agent do a task\n\nExit codes: 0 success; 1 failed; 2 denied, check failed or wrong \
                  usage."
)]
pub struct Bailiwick {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Run as if started in this directory
    #[arg(short = 'C', global = true, value_name = "DIR", help_heading = "Global options")]
    directory: Option<PathBuf>,
    /// Print results and errors only: no notes, no progress, no next step
    #[arg(short, long, global = true, help_heading = "Global options")]
    quiet: bool,
    /// Read the kit from this directory instead of the repository's .bailiwick/
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    kit_root: Option<PathBuf>,
    /// Use this database: a path, or postgres://USER@HOST/NAME [env: KEI_LEDGER_DB]
    #[arg(long, global = true, value_name = "DATABASE", help_heading = "Global options")]
    db: Option<String>,
    /// Send fleet commands to the server of this context; `local` is this machine's database
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    context: Option<String>,
    /// When to use colours
    #[arg(
        long = "color",
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    colour: Colour,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    Status(status::Status),
    Lint(lint::Lint),
    Run(run::Run),
    Exec(exec::Exec),
    Ps(ps::Ps),
    Logs(logs::Logs),
    Mcp(mcp::Mcp),
    Attach(resume::Attach),
    Stop(stop::Stop),
    Resume(resume::Resume),
    Approvals(approvals::Approvals),
    Claims(claims::ClaimsCommand),
    Db(db::DbCommand),
    Memory(memory::Memory),
    Recover(recover::Recover),
    Diff(diff::Diff),
    Cost(cost::Cost),
    Rm(rm::Rm),
    Prune(prune::Prune),
    Prepare(prepare::Prepare),
    Compose(compose::Compose),
    Spawn(spawn::Spawn),
    Verify(verify::Verify),
    Land(land::Land),
    Reject(reject::Reject),
    Respawn(respawn::Respawn),
    Rollback(rollback::Rollback),
    Explain(explain::Explain),
    Replay(replay::Replay),
    Gate(gate::Gate),
    Hooks(hooks::Hooks),
    Agents(agents::Agents),
    Roles(roles::Roles),
    Capabilities(capabilities::Capabilities),
    Ledger(ledger::Ledger),
    Serve(fleet::serve::Serve),
    Ui(ui::Ui),
    Apply(fleet::apply::Apply),
    Get(fleet::get::Get),
    Describe(fleet::describe::Describe),
    Delete(fleet::delete::Delete),
    Wait(fleet::wait::Wait),
    Runs(fleet::runs::Runs),
    Trigger(fleet::trigger::Trigger),
    Workspaces(fleet::workspaces::Workspaces),
    Secrets(fleet::secrets::Secrets),
    Tokens(fleet::tokens::Tokens),
    Worker(fleet::worker::WorkerCommand),
    Workers(fleet::workers::Workers),
    Audit(fleet::audit::Audit),
    Edit(fleet::edit::Edit),
    ApiResources(fleet::api_resources::ApiResources),
    Login(fleet::login::Login),
    Logout(fleet::login::Logout),
    Contexts(fleet::contexts::ContextsCommand),
    Completions(completions::Completions),
    Man(man::Man),
    Supervise(supervise::Supervise),
}

impl Command {
    /// Whether it works on a repository with git, and so cannot begin with one that is too old.
    fn needs_git(&self) -> bool {
        match self {
            Self::Demo(_)
            | Self::Run(_)
            | Self::Exec(_)
            | Self::Mcp(_)
            | Self::Attach(_)
            | Self::Resume(_)
            | Self::Claims(_)
            | Self::Memory(_)
            | Self::Recover(_)
            | Self::Diff(_)
            | Self::Rm(_)
            | Self::Prune(_)
            | Self::Prepare(_)
            | Self::Compose(_)
            | Self::Spawn(_)
            | Self::Verify(_)
            | Self::Land(_)
            | Self::Reject(_)
            | Self::Respawn(_)
            | Self::Rollback(_)
            | Self::Hooks(_)
            | Self::Serve(_)
            | Self::Ui(_)
            | Self::Worker(_)
            | Self::Workspaces(_)
            | Self::Supervise(_) => true,
            // `doctor` reports the version; the others show, write or ask, and merge nothing.
            Self::Doctor(_)
            | Self::Init(_)
            | Self::Lint(_)
            | Self::Ps(_)
            | Self::Status(_)
            | Self::Logs(_)
            | Self::Stop(_)
            | Self::Approvals(_)
            | Self::Cost(_)
            | Self::Db(_)
            | Self::Explain(_)
            | Self::Replay(_)
            | Self::Gate(_)
            | Self::Agents(_)
            | Self::Roles(_)
            | Self::Capabilities(_)
            | Self::Ledger(_)
            | Self::Apply(_)
            | Self::Get(_)
            | Self::Describe(_)
            | Self::Delete(_)
            | Self::Wait(_)
            | Self::Runs(_)
            | Self::Trigger(_)
            | Self::Secrets(_)
            | Self::Tokens(_)
            | Self::Workers(_)
            | Self::Audit(_)
            | Self::Edit(_)
            | Self::ApiResources(_)
            | Self::Login(_)
            | Self::Logout(_)
            | Self::Contexts(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
}

impl Bailiwick {
    /// Reads the command line of this process; wrong usage and `--help` end it.
    pub fn from_command_line() -> Self {
        let colour = Colour::of_arguments(std::env::args_os().skip(1)).of_help();
        let matches = grouped_help::command_line(output::width()).color(colour).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        self.global.colour.choose();
        let Global { directory, quiet, kit_root, db, context, .. } = self.global;
        output::choose_quiet(quiet);
        if let Some(directory) = directory {
            std::env::set_current_dir(&directory).map_err(|error| {
                Failure::usage(format!("cannot change to {}: {error}", directory.display()))
            })?;
        }
        if self.command.needs_git() {
            preconditions::require_git()?;
        }
        if let (Some(named), true) = (&db, self.command.needs_database()) {
            database_needs::require(named)?;
        }
        let destination = Destination { context, database: db };
        let observe = || options::observe(kit_root.clone(), destination.database.as_deref());
        let context = || {
            destination.require_local()?;
            observe()
        };
        let fleet = || destination.find(observe()?);
        match self.command {
            Command::Init(command) => command.run(&context()?),
            Command::Demo(command) => command.run(),
            Command::Doctor(command) => command.run(&context()?),
            Command::Status(command) => command.run(&context()?),
            Command::Lint(command) => command.run(&context()?),
            Command::Run(command) => command.run(&context()?),
            Command::Exec(command) => command.run(&context()?),
            Command::Ps(command) => command.run(&context()?),
            Command::Logs(command) => command.run(&context()?),
            Command::Mcp(command) => command.run(&context()?),
            Command::Attach(command) => command.run(&context()?),
            Command::Stop(command) => command.run(&context()?),
            Command::Resume(command) => command.run(&context()?),
            Command::Approvals(command) => command.run(&fleet()?),
            Command::Claims(command) => command.run(&context()?),
            Command::Db(command) => command.run(&context()?),
            Command::Memory(command) => command.run(&context()?),
            Command::Recover(command) => command.run(&context()?),
            Command::Diff(command) => command.run(observe()?, &destination),
            Command::Cost(command) => command.run(&context()?),
            Command::Rm(command) => command.run(&context()?),
            Command::Prune(command) => command.run(&context()?),
            Command::Supervise(command) => command.run(&context()?),
            Command::Serve(command) => command.run(&context()?),
            Command::Ui(command) => command.run(&context()?),
            Command::Apply(command) => command.run(&fleet()?),
            Command::Get(command) => command.run(&fleet()?),
            Command::Describe(command) => command.run(&fleet()?),
            Command::Delete(command) => command.run(&fleet()?),
            Command::Wait(command) => command.run(&fleet()?),
            Command::Runs(command) => command.run(&fleet()?),
            Command::Trigger(command) => command.run(&fleet()?),
            Command::Workspaces(command) => command.run(&fleet()?),
            Command::Secrets(command) => command.run(&fleet()?),
            Command::Tokens(command) => command.run(&fleet()?),
            Command::Worker(command) => command.run(&observe()?),
            Command::Workers(command) => command.run(&fleet()?.require_database()?),
            Command::Audit(command) => command.run(&fleet()?),
            Command::Edit(command) => command.run(&fleet()?),
            Command::ApiResources(command) => command.run(),
            Command::Login(command) => command.run(&observe()?, destination.context.as_deref()),
            Command::Logout(command) => command.run(&observe()?, destination.context.as_deref()),
            Command::Contexts(command) => command.run(&context()?),
            Command::Prepare(command) => command.run(&context()?),
            Command::Compose(command) => command.run(&context()?),
            Command::Spawn(command) => command.run(&context()?),
            Command::Verify(command) => command.run(&context()?),
            Command::Land(command) => command.run(&context()?),
            Command::Reject(command) => command.run(&context()?),
            Command::Respawn(command) => command.run(&context()?),
            Command::Rollback(command) => command.run(&context()?),
            Command::Explain(command) => command.run(observe()?, &destination),
            Command::Replay(command) => command.run(&context()?),
            Command::Gate(command) => command.run(),
            Command::Hooks(command) => command.run(&context()?),
            Command::Agents(command) => command.run(&context()?),
            Command::Roles(command) => command.run(&context()?),
            Command::Capabilities(command) => command.run(&context()?),
            Command::Ledger(command) => command.run(&context()?),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(&context()?),
        }
    }
}
