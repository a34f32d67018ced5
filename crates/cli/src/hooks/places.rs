//! The paths of the settings of each agent CLI, and of our files.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::{Context, variable};
use bailiwick_engine::verifying::cache_key;
use bailiwick_source_control::Repository;

use super::agent::{Agent, Scope};
use crate::failure::Failure;

/// The directories of this user.
#[derive(Debug, Clone)]
pub struct Places {
    state: PathBuf,
    claude: PathBuf,
    codex: PathBuf,
    gemini: PathBuf,
    opencode: PathBuf,
}

impl Places {
    /// Reads the surroundings.
    pub fn observe(context: &Context) -> Result<Self, Failure> {
        let named = |name: &str| -> Result<Option<PathBuf>, Failure> {
            Ok(variable(name)?.map(|path| context.directory.join(path)))
        };
        let home = named("HOME")?.ok_or_else(|| {
            Failure::general("HOME is not set, so the settings of the agents cannot be found")
                .help("set HOME to your home directory")
        })?;
        let or_home = |named: Option<PathBuf>, name: &str| named.unwrap_or_else(|| home.join(name));
        Ok(Self {
            state: context.state.join("hooks"),
            claude: or_home(named("CLAUDE_CONFIG_DIR")?, ".claude"),
            codex: or_home(named("CODEX_HOME")?, ".codex"),
            gemini: named("GEMINI_CLI_HOME")?.unwrap_or_else(|| home.clone()).join(".gemini"),
            opencode: or_home(named("XDG_CONFIG_HOME")?, ".config").join("opencode"),
        })
    }

    /// The file that the gate is put into.
    pub fn settings(&self, agent: Agent, scope: &Scope) -> PathBuf {
        match (agent, scope) {
            (Agent::Claude, Scope::User) => self.claude.join("settings.json"),
            (Agent::Claude, Scope::Repository(root)) => root.join(".claude/settings.local.json"),
            (Agent::Codex, Scope::User) => self.codex.join("hooks.json"),
            (Agent::Codex, Scope::Repository(root)) => root.join(".codex/hooks.json"),
            (Agent::Gemini, Scope::User) => self.gemini.join("settings.json"),
            (Agent::Gemini, Scope::Repository(root)) => root.join(".gemini/settings.json"),
            (Agent::OpenCode, Scope::User) => self.opencode.join("plugin/bailiwick-gate.js"),
            (Agent::OpenCode, Scope::Repository(root)) => {
                root.join(".opencode/plugin/bailiwick-gate.js")
            }
        }
    }

    /// Every settings file that affects whether hooks run, highest precedence first.
    pub fn deciding(&self, agent: Agent, repository: Option<&Path>) -> Vec<PathBuf> {
        let below = |path: &str| repository.map(|root| root.join(path));
        let (system, inside, user) = match agent {
            Agent::Claude => (
                Some(PathBuf::from("/etc/claude-code/managed-settings.json")),
                vec![below(".claude/settings.local.json"), below(".claude/settings.json")],
                Some(self.claude.join("settings.json")),
            ),
            Agent::Codex => (None, vec![below(".codex/config.toml")], Some(self.codex_config())),
            Agent::Gemini => (
                Some(PathBuf::from("/etc/gemini-cli/settings.json")),
                vec![below(".gemini/settings.json")],
                Some(self.gemini.join("settings.json")),
            ),
            Agent::OpenCode => (None, Vec::new(), None),
        };
        system.into_iter().chain(inside.into_iter().flatten()).chain(user).collect()
    }

    /// The directory of this user's settings.
    pub fn home(&self, agent: Agent) -> PathBuf {
        let home = match agent {
            Agent::Claude => &self.claude,
            Agent::Codex => &self.codex,
            Agent::Gemini => &self.gemini,
            Agent::OpenCode => &self.opencode,
        };
        home.clone()
    }

    /// Codex's configuration, which contains its trust.
    pub fn codex_config(&self) -> PathBuf {
        self.codex.join("config.toml")
    }

    /// Gemini CLI's own settings of this user.
    pub fn gemini_settings(&self) -> PathBuf {
        self.gemini.join("settings.json")
    }

    /// The folders that Gemini CLI trusts.
    pub fn gemini_folders(&self) -> PathBuf {
        self.gemini.join("trustedFolders.json")
    }

    /// Our own directory for one program and scope.
    pub fn kept(&self, agent: Agent, scope: &Scope) -> StateFiles {
        StateFiles { directory: self.state.join(scope.id(agent)) }
    }
}

/// Our own files for one program and scope.
#[derive(Debug, Clone)]
pub struct StateFiles {
    /// Their directory.
    pub directory: PathBuf,
}

impl StateFiles {
    /// The policy that the gate decides by.
    pub fn policy(&self) -> PathBuf {
        self.directory.join("policy.json")
    }

    /// The log of decisions.
    pub fn log(&self) -> PathBuf {
        self.directory.join("decisions.jsonl")
    }

    /// The record of the installation.
    pub fn record(&self) -> PathBuf {
        self.directory.join("install.json")
    }

    /// The scratch space of shell commands, for all repositories.
    pub fn scratch(&self) -> PathBuf {
        self.directory.join("scratch")
    }

    /// The same for one repository.
    pub fn scratch_of(&self, repository: &Repository) -> PathBuf {
        self.scratch().join(cache_key(repository))
    }

    /// Forbidden new files of shell commands, each in a separate directory.
    pub fn removed(&self) -> PathBuf {
        self.directory.join("removed")
    }

    /// Shell commands on their way into the sandbox.
    pub fn commands(&self) -> PathBuf {
        self.directory.join("commands")
    }

    /// The marker for a command that ran without the sandbox.
    pub fn bypassed(&self) -> PathBuf {
        super::pending_command::Commands::of(self.commands()).bypassed()
    }

    /// The wrapper of shell commands.
    pub fn shell(&self) -> PathBuf {
        self.directory.join(super::sandboxed_shell::FILE)
    }

    /// The announcement of the plugin.
    pub fn announcement(&self) -> PathBuf {
        self.directory.join("loaded.json")
    }
}
