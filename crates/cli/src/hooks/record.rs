//! The record of an installation, to check and remove it.

use std::path::PathBuf;

use bailiwick_engine::policy_file::PolicySource;
use bailiwick_model::RoleName;
use serde::{Deserialize, Serialize};

use super::agent::{Agent, Scope, Wrapping};
use super::codex_trust::Trust;
use super::draft::Draft;
use super::gate_command::{arguments, hook_command, text};
use super::hooked_call::SEPARATOR;
use super::places::StateFiles;
use super::settings_entry::Made;
use crate::failure::Failure;

/// The version of the file's form.
pub const VERSION: u32 = 1;

/// One gate in the settings of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the file's form.
    pub version: u32,
    /// The program.
    pub agent: Agent,
    /// The repository; none if it is for the user.
    pub root: Option<PathBuf>,
    /// The source of the policy.
    pub what: Bound,
    /// The kit that was named on the command line.
    pub kit_root: Option<PathBuf>,
    /// The policy's digest.
    pub digest: String,
    /// The gate, without the arguments that are the same for every gate.
    pub gate: Vec<String>,
    /// The file that it was put into.
    pub settings: PathBuf,
    /// What was created in that file for it.
    pub made: Made,
    /// The directories that were created for it, outermost first.
    pub made_directories: Vec<PathBuf>,
    /// The trust of Codex.
    pub trust: Option<Trust>,
    /// Whether allowed shell commands run in a sandbox.
    #[serde(default)]
    pub commands: Commands,
    /// The program that runs them there.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// The directory of the person's own settings.
    #[serde(default)]
    pub home: Option<PathBuf>,
    /// The trust of Codex in the hook after a call.
    #[serde(default)]
    pub after_trust: Option<Trust>,
    /// The directories that commands may write to in Codex's own sandbox, by our configuration.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
}

/// How allowed shell commands run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Commands {
    /// As the agent's program runs them.
    #[default]
    Free,
    /// In a sandbox that enforces the limits on paths.
    Sandboxed,
}

/// The source of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bound {
    /// A role.
    Role {
        /// Its name.
        role: String,
        /// The writable files.
        files: Vec<String>,
        /// The exceptions.
        deny: Vec<String>,
    },
    /// A task.
    Task {
        /// Its file.
        task: PathBuf,
    },
}

impl Bound {
    /// The same, to compile.
    pub fn what(&self) -> Result<PolicySource, Failure> {
        match self {
            Self::Task { task } => Ok(PolicySource::Task(task.clone())),
            Self::Role { role, files, deny } => Ok(PolicySource::Role {
                role: RoleName::parse(role).map_err(|error| Failure::general(error.to_string()))?,
                files: files.clone(),
                deny: deny.clone(),
            }),
        }
    }

    /// For people: `role developer`, `task x.toml`.
    pub fn shown(&self) -> String {
        match self {
            Self::Role { role, .. } => format!("role {role}"),
            Self::Task { task } => format!("task {}", task.display()),
        }
    }
}

impl From<&PolicySource> for Bound {
    fn from(what: &PolicySource) -> Self {
        match what {
            PolicySource::Task(task) => Self::Task { task: task.clone() },
            PolicySource::Role { role, files, deny } => {
                Self::Role { role: role.to_string(), files: files.clone(), deny: deny.clone() }
            }
        }
    }
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("it has version {0}, and {VERSION} is known here")]
    Version(u32),
}

/// Parses a stored record.
pub fn parse(text: &str) -> Result<Record, RecordError> {
    let record = serde_json::from_str::<Record>(text)?;
    match record.version {
        VERSION => Ok(record),
        other => Err(RecordError::Version(other)),
    }
}

impl Record {
    /// The stored record, if it is readable.
    pub fn read(
        draft: &mut Draft,
        kept: &StateFiles,
    ) -> Result<Option<Result<Self, RecordError>>, Failure> {
        let Some(text) = draft.text(&kept.record())? else { return Ok(None) };
        Ok(Some(parse(&text)))
    }

    /// For whom it is.
    pub fn scope(&self) -> Scope {
        self.root.clone().map_or(Scope::User, Scope::Repository)
    }

    /// The gate with its arguments.
    pub fn arguments(&self, kept: &StateFiles) -> Result<Vec<String>, Failure> {
        let mut words = arguments(&self.gate, self.agent, &self.scope(), kept, &self.digest)?;
        let sandboxed = self.commands == Commands::Sandboxed;
        if sandboxed && self.agent.wrapping() == Wrapping::Setting {
            words.extend(["--sandbox-record".to_owned(), text(&kept.commands())?]);
        }
        Ok(words)
    }

    /// Whether its hook changes shell commands, and looks after each whether it was that which ran.
    pub fn changes_commands(&self) -> bool {
        let sandboxed = self.commands == Commands::Sandboxed;
        sandboxed && self.agent.wrapping() == Wrapping::ChangedInput
    }

    /// The command of its hooks.
    pub fn command(&self, kept: &StateFiles) -> Result<String, Failure> {
        let gate = self.arguments(kept)?;
        if !self.changes_commands() {
            return Ok(hook_command(self.agent, &gate));
        }
        let none = || Failure::general("the record does not name the program: install again");
        let program = text(self.program.as_ref().ok_or_else(none)?)?;
        let ours = [program, "hooked-call".to_owned(), text(&kept.directory)?];
        let words = ours.into_iter().chain([SEPARATOR.to_owned()]).chain(gate);
        Ok(hook_command(self.agent, &words.collect::<Vec<_>>()))
    }

    /// The file's text.
    pub fn text(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Failure::general(format!("the record cannot be written: {error}")))?;
        Ok(text + "\n")
    }
}
