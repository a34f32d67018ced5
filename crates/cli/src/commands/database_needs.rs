//! Which commands work on what a database has. With `--db` they refuse a file that does not exist: it is a
//! mistyped path.

use std::path::Path;

use bailiwick_store::Location;

use super::Command;
use crate::failure::Failure;

/// Refuses a file of `--db` that does not exist.
pub(super) fn require(named: &str) -> Result<(), Failure> {
    // Another command reports an invalid location.
    let location = Location::parse(named, Path::new(""));
    let missing = |file: &Path| !file.try_exists().unwrap_or(true);
    match location.ok().as_ref().and_then(Location::sqlite_file).filter(|file| missing(file)) {
        None => Ok(()),
        Some(file) => Err(Failure::usage(format!("there is no database {}", file.display())).help(
            "check the path; a new database is created by serve, apply, secrets set, tokens new, \
                 spawn and run",
        )),
    }
}

impl Command {
    /// Whether it works on what a database has.
    pub(super) fn needs_database(&self) -> bool {
        match self {
            Self::Status(_)
            | Self::Ps(_)
            | Self::Logs(_)
            | Self::Attach(_)
            | Self::Stop(_)
            | Self::Resume(_)
            | Self::Approvals(_)
            | Self::Claims(_)
            | Self::Diff(_)
            | Self::Cost(_)
            | Self::Rm(_)
            | Self::Prune(_)
            | Self::Land(_)
            | Self::Reject(_)
            | Self::Respawn(_)
            | Self::Rollback(_)
            | Self::Ui(_)
            | Self::Get(_)
            | Self::Describe(_)
            | Self::Delete(_)
            | Self::Wait(_)
            | Self::Runs(_)
            | Self::Trigger(_)
            | Self::Workers(_)
            | Self::Workspaces(_)
            | Self::Audit(_)
            | Self::Edit(_) => true,
            Self::Db(command) => command.needs_database(),
            Self::Ledger(command) => command.needs_database(),
            Self::Secrets(command) => command.needs_database(),
            Self::Tokens(command) => command.needs_database(),
            Self::Agents(command) => command.needs_database(),
            // They begin a database, or can do without one.
            Self::Init(_)
            | Self::Demo(_)
            | Self::Doctor(_)
            | Self::Lint(_)
            | Self::Run(_)
            | Self::Exec(_)
            | Self::Mcp(_)
            | Self::Memory(_)
            | Self::Recover(_)
            | Self::Prepare(_)
            | Self::Compose(_)
            | Self::Spawn(_)
            | Self::Verify(_)
            | Self::Explain(_)
            | Self::Replay(_)
            | Self::Gate(_)
            | Self::Hooks(_)
            | Self::Roles(_)
            | Self::Capabilities(_)
            | Self::Serve(_)
            | Self::Worker(_)
            | Self::Apply(_)
            | Self::ApiResources(_)
            | Self::Login(_)
            | Self::Logout(_)
            | Self::Contexts(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Supervise(_) => false,
        }
    }
}
