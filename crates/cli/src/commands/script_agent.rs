//! `bailiwick script-agent`: an agent that needs no model. It runs inside a sandbox and reads its steps from
//! standard input; nobody calls it by hand.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use bailiwick_model::task::ScriptStep;
use bailiwick_runner::agents::script::perform;
use thiserror::Error;

#[derive(Debug, Error)]
enum ScriptError {
    #[error("an argument is not UTF-8")]
    NotUtf8,
    #[error("expected `--` and a gate, or no arguments")]
    Usage,
    #[error("invalid script: {0}")]
    Script(#[from] serde_json::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Plays the script. The gate that it asks before each step follows `--`.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match play(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // A failure of stderr cannot be reported anywhere.
            let _ = writeln!(io::stderr(), "bailiwick script-agent: {error}");
            ExitCode::from(2)
        }
    }
}

fn play(arguments: impl Iterator<Item = OsString>) -> Result<u8, ScriptError> {
    let words: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let words = words.map_err(|_| ScriptError::NotUtf8)?;
    let gate = match words.split_first() {
        None => None,
        Some((first, gate)) if first == "--" && !gate.is_empty() => Some(gate),
        Some(_) => return Err(ScriptError::Usage),
    };
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let steps: Vec<ScriptStep> = serde_json::from_str(&text)?;
    let worktree = std::env::current_dir()?;
    Ok(perform(&steps, gate, &worktree, &mut io::stdout().lock()))
}
