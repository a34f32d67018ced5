//! `bailiwick completions`: for the shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Bailiwick;
use crate::failure::Failure;
use crate::output;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bailiwick completions bash > \\\n      \
                        ~/.local/share/bash-completion/completions/bailiwick")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Bailiwick::command(), "bailiwick", &mut script);
        output::plain(&String::from_utf8_lossy(&script));
        Ok(())
    }
}
