//! `bailiwick script-agent`: the agent program that needs no model. It runs inside of a sandbox, and
//! reads what to do from standard input; nobody calls it by hand.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use bailiwick_model::task::ScriptStep;
use bailiwick_runner::agents::script::perform;

/// Plays the script. Behind `--` stands the gate that it asks before each step.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match play(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            // There is nobody else to tell.
            let _ = writeln!(io::stderr(), "bailiwick script-agent: {why}");
            ExitCode::from(2)
        }
    }
}

fn play(arguments: impl Iterator<Item = OsString>) -> Result<u8, String> {
    let words: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let words = words.map_err(|_| "an argument is not UTF-8".to_owned())?;
    let gate = match words.split_first() {
        None => None,
        Some((first, gate)) if first == "--" && !gate.is_empty() => Some(gate),
        Some(_) => return Err("it takes `--` and a gate, or nothing".to_owned()),
    };
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let steps: Vec<ScriptStep> =
        serde_json::from_str(&text).map_err(|error| format!("no script: {error}"))?;
    let worktree = std::env::current_dir().map_err(|error| error.to_string())?;
    Ok(perform(&steps, gate, &worktree, &mut io::stdout().lock()))
}
