//! The agent programs that a gate can be put into, and for whom.

use std::fmt;
use std::path::PathBuf;

use bailiwick_model::Sha256Hex;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// An agent program that people start themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::OpenCode];

    /// The name of its dialect for the gate and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
        }
    }

    /// How its shell commands are started through a program of ours.
    pub fn wrapping(self) -> Wrapping {
        match self {
            Self::Claude | Self::OpenCode => Wrapping::Setting,
            Self::Codex | Self::Gemini => Wrapping::ChangedInput,
        }
    }

    /// The product name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::OpenCode => "OpenCode",
        }
    }
}

/// How shell commands are started through a program of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapping {
    /// The program has a setting for it.
    Setting,
    /// The hook puts another command in the place of each.
    ChangedInput,
}

/// The tool calls that the gate decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// In one repository.
    Repository(PathBuf),
    /// For all repositories of this user.
    User,
}

impl Scope {
    /// `repository` or `user`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Repository(_) => "repository",
            Self::User => "user",
        }
    }

    /// The repository's root.
    pub fn root(&self) -> Option<&PathBuf> {
        match self {
            Self::Repository(root) => Some(root),
            Self::User => None,
        }
    }

    /// A name that stays the same for the same program and scope.
    pub fn id(&self, agent: Agent) -> String {
        match self {
            Self::User => format!("{}-user", agent.word()),
            Self::Repository(root) => {
                let digest = Sha256Hex::of(root.as_os_str().as_encoded_bytes());
                format!("{}-repository-{}", agent.word(), digest.prefix(12))
            }
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository(root) => write!(out, "the repository {}", root.display()),
            Self::User => out.write_str("you, in every directory"),
        }
    }
}
