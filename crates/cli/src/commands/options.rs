//! Options that several commands share, and what they mean to services.

use std::io::IsTerminal as _;

use bailiwick_engine::context::Context;
use bailiwick_engine::options::{CheckOptions, RunOptions, SandboxLevel, UserPresence};
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task::Login;
use bailiwick_runner::checks::OpenSetup;
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::output;

/// How much of a sandbox there must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SandboxOption {
    /// Namespaces, Landlock and seccomp.
    #[default]
    Full,
    /// Namespaces, and of the others what this machine has.
    Partial,
    /// None: everything runs as you, with your network and your secrets.
    Off,
}

impl From<SandboxOption> for SandboxLevel {
    fn from(option: SandboxOption) -> Self {
        match option {
            SandboxOption::Full => Self::Full,
            SandboxOption::Partial => Self::Partial,
            SandboxOption::Off => Self::Off,
        }
    }
}

/// How a verification is done.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct CheckArguments {
    /// Run every check again, even if its result on the same tree is known
    #[arg(long)]
    pub fresh: bool,
    /// The sandbox level that is required for checks that run code
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    pub sandbox: SandboxOption,
    /// Run the task's setup with the dependencies that the agent changed; look at the change first
    #[arg(long)]
    pub allow_setup: bool,
}

impl From<CheckArguments> for CheckOptions {
    fn from(arguments: CheckArguments) -> Self {
        let CheckArguments { fresh, sandbox, allow_setup } = arguments;
        Self {
            ignore_stored_verdicts: fresh,
            sandbox: sandbox.into(),
            allow_changed_setup: allow_setup,
            open_setup: OpenSetup::default(),
        }
    }
}

/// How a run is limited and ended.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArguments {
    /// Whether work that passes lands without a question; default: as in the settings
    #[arg(long, value_name = "WHEN")]
    pub land: Option<LandWhen>,
    /// Do not check the work at the end
    #[arg(long)]
    pub no_verify: bool,
    /// The sandbox level that is required for the agent and its checks
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    pub sandbox: SandboxOption,
    /// How to pay for the model; default: the setting of the task, else an API key from the
    /// environment
    #[arg(long, value_name = "LOGIN")]
    pub login: Option<LoginOption>,
    /// Run the task's setup without a sandbox if this machine has none
    #[arg(long)]
    pub allow_setup: bool,
}

impl From<RunArguments> for RunOptions {
    fn from(arguments: RunArguments) -> Self {
        let RunArguments { land, no_verify, sandbox, login, allow_setup } = arguments;
        Self {
            land: land.map(AutoLand::from),
            no_verify,
            sandbox: sandbox.into(),
            login: login.map(Login::from),
            allow_unsandboxed_setup: allow_setup,
        }
    }
}

/// Whether work that passes its checks lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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

/// A login, as options of commands name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoginOption {
    /// An API key of your environment
    ApiKey,
    /// Your Claude subscription, for Claude Code
    Subscription,
    /// Amazon Bedrock, for Claude Code
    Bedrock,
    /// Google Vertex AI, for Claude Code
    Vertex,
}

impl From<LoginOption> for Login {
    fn from(option: LoginOption) -> Self {
        match option {
            LoginOption::ApiKey => Self::ApiKey,
            LoginOption::Subscription => Self::Subscription,
            LoginOption::Bedrock => Self::Bedrock,
            LoginOption::Vertex => Self::Vertex,
        }
    }
}

/// The surroundings of a command, whose services report beside its result.
pub(crate) fn observe(
    kit_root: Option<std::path::PathBuf>,
    database: Option<&str>,
) -> Result<Context, Failure> {
    Ok(Context::observe(kit_root, database, output::notices())?)
}

/// Whether a person is at the terminal.
pub(crate) fn person() -> UserPresence {
    if std::io::stderr().is_terminal() { UserPresence::AtTerminal } else { UserPresence::Absent }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArguments,
    }

    fn parsed(options: &RunOptions) -> RunOptions {
        let words = ["supervise".to_owned()].into_iter().chain(options.arguments());
        Line::parse_from(words).run.into()
    }

    /// The supervisor of a background run gets its options as arguments.
    #[test]
    fn run_options_are_unchanged_after_conversion_to_arguments() {
        let lands = [None, Some(AutoLand::Ask), Some(AutoLand::Auto), Some(AutoLand::Never)];
        let logins = [None, Some(Login::ApiKey), Some(Login::Subscription)];
        let logins = logins.into_iter().chain([Some(Login::Bedrock), Some(Login::Vertex)]);
        for (land, login) in
            lands.into_iter().flat_map(|land| logins.clone().map(move |l| (land, l)))
        {
            for sandbox in [SandboxLevel::Full, SandboxLevel::Partial, SandboxLevel::Off] {
                for flag in [false, true] {
                    let all = RunOptions {
                        land,
                        no_verify: flag,
                        sandbox,
                        login,
                        allow_unsandboxed_setup: !flag,
                    };
                    let read = parsed(&all);
                    assert_eq!(format!("{read:?}"), format!("{all:?}"));
                }
            }
        }
    }
}
