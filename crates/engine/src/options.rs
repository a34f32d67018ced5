//! Options of runs and verifications.

use bailiwick_model::attempt::Exhausted;
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task::Login;
use bailiwick_runner::checks::OpenSetup;
use bailiwick_runner::sandbox::Level;

/// The required sandbox level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxLevel {
    /// The full sandbox.
    #[default]
    Full,
    /// What this machine supports.
    Partial,
    /// None: agents and checks run as the person, with their network and their secrets.
    Off,
}

impl SandboxLevel {
    /// The word for it on a command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::Off => "off",
        }
    }
}

impl From<SandboxLevel> for Level {
    fn from(level: SandboxLevel) -> Self {
        match level {
            SandboxLevel::Full => Self::Full,
            SandboxLevel::Partial => Self::Partial,
            SandboxLevel::Off => Self::Off,
        }
    }
}

impl From<Level> for SandboxLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Full => Self::Full,
            Level::Partial => Self::Partial,
            Level::Off => Self::Off,
        }
    }
}

/// Options of a verification.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckOptions {
    /// Ignore stored verdicts on the same tree.
    pub ignore_stored_verdicts: bool,
    /// How much of a sandbox there must be around checks that run code.
    pub sandbox: SandboxLevel,
    /// The task's setup runs with the dependencies that the agent changed.
    pub allow_changed_setup: bool,
    /// Whether a setup may run as the person where this machine can make no sandbox.
    pub open_setup: OpenSetup,
}

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Whether work that passes lands; as the settings say if unset.
    pub land: Option<AutoLand>,
    /// The work is not checked at the end.
    pub no_verify: bool,
    /// How much of a sandbox there must be for the agent and its checks.
    pub sandbox: SandboxLevel,
    /// How the model is paid for; as the task says if unset.
    pub login: Option<Login>,
    /// The task's setup may run without a sandbox if this machine has none.
    pub allow_unsandboxed_setup: bool,
}

impl RunOptions {
    /// Whether a setup may run as the person where this machine can make no sandbox.
    pub fn open_setup(&self) -> OpenSetup {
        if self.allow_unsandboxed_setup { OpenSetup::Allowed } else { OpenSetup::Refused }
    }

    /// The same as arguments of `bailiwick supervise`.
    pub fn arguments(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(land) = self.land {
            all.extend(["--land", land_word(land)]);
        }
        if self.no_verify {
            all.push("--no-verify");
        }
        all.extend(["--sandbox", self.sandbox.as_str()]);
        if let Some(login) = self.login {
            all.extend(["--login", login.as_str()]);
        }
        if self.allow_unsandboxed_setup {
            all.push("--allow-setup");
        }
        all.into_iter().map(str::to_owned).collect()
    }
}

fn land_word(land: AutoLand) -> &'static str {
    match land {
        AutoLand::Ask => "ask",
        AutoLand::Auto => "auto",
        AutoLand::Never => "never",
    }
}

/// Whether a run begins that an agent above it has closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfClosed {
    /// It does: a person wants it.
    #[default]
    Begin,
    /// It does not: it was started for an agent that no longer waits for it.
    Refuse,
}

/// Whether a person can answer questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserPresence {
    /// A person is at the terminal.
    AtTerminal,
    /// No person is at the terminal.
    Absent,
}

/// The option of `bailiwick resume` that raises what is spent; `None` if no option does.
pub fn raise_option(exhausted: Exhausted) -> Option<&'static str> {
    match exhausted {
        Exhausted::Tokens => Some("--tokens N"),
        Exhausted::Usd => Some("--usd AMOUNT"),
        Exhausted::Turns => Some("--turns N"),
        Exhausted::Minutes => Some("--minutes N"),
        Exhausted::ToolCalls => Some("--tool-calls N"),
        Exhausted::Price | Exhausted::Disk => None,
    }
}
