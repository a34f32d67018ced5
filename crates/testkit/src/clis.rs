//! The real agent CLIs, pinned, each separate from the person's own: with an empty environment, its own HOME, dummy
//! keys, and a scripted model as its endpoint.

mod claude;
mod codex;
mod gemini;
mod install;
mod newest;
mod opencode;
mod run;

use std::path::PathBuf;

pub use codex::codex_trusted_hash;
pub use run::{CliRun, Prepared};

/// Which versions of the CLIs are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// Those that the tests name.
    Pinned,
    /// The newest published ones.
    Newest,
}

impl Versions {
    /// Reads `CLI_VERSIONS`; an unknown word is an error, not a default.
    pub fn from_env() -> Self {
        match std::env::var("CLI_VERSIONS").as_deref() {
            Err(_) | Ok("" | "pinned") => Self::Pinned,
            Ok("newest") => Self::Newest,
            Ok(other) => panic!("CLI_VERSIONS must be pinned or newest, not {other:?}"),
        }
    }
}

/// An agent CLI that is tested against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cli {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    OpenCode,
}

impl Cli {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::OpenCode];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
        }
    }

    /// Its npm package.
    pub fn package(self) -> &'static str {
        match self {
            Self::Claude => "@anthropic-ai/claude-code",
            Self::Codex => "@openai/codex",
            Self::Gemini => "@google/gemini-cli",
            Self::OpenCode => "opencode-ai",
        }
    }

    /// The version under test: the pinned one, or with `CLI_VERSIONS=newest` the newest published one.
    pub fn version(self) -> &'static str {
        match Versions::from_env() {
            Versions::Pinned => self.pinned(),
            Versions::Newest => newest::version(self),
        }
    }

    /// The version that the tests are written for.
    fn pinned(self) -> &'static str {
        match self {
            Self::Claude => "2.1.197",
            Self::Codex => "0.166.0",
            Self::Gemini => "0.61.0",
            Self::OpenCode => "1.18.33",
        }
    }

    /// The program; installed into the person's cache if it is not there yet.
    ///
    /// Panics if it cannot be had: a test that needs it has then not passed.
    pub fn program(self) -> PathBuf {
        install::program(self)
    }
}
