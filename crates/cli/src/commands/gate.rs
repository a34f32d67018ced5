//! `bailiwick gate`: the hook program, for those who have no second binary.

use std::ffi::OsString;

use clap::Args;

use crate::failure::Failure;

/// Decide one tool call: payload on standard input, exit code 0 or 2
///
/// The same as the program `bailiwick-gate`. `hooks install` writes the whole command into the
/// settings of a CLI. Any failure is a denial: exit code 2 with the reason on standard error.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  bailiwick gate --help\n  bailiwick gate --dialect claude --policy \
                  policy.json \\\n      \
                  --digest 6ab1… --root . < payload.json"
)]
pub struct Gate {
    /// Arguments of the gate; see `bailiwick gate --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

impl Gate {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match bailiwick_gate::run(self.arguments.into_iter()) {
            code if code == std::process::ExitCode::SUCCESS => Ok(()),
            _ => Err(Failure::AlreadyReported(2)),
        }
    }
}
