//! The plugin that asks the gate for OpenCode, which has no hooks.

use bailiwick_policy::protocol::GATE_COULD_NOT_RUN;

use super::places::StateFiles;
use super::record::{Commands, Record};
use crate::failure::Failure;

/// The beginning of our file; a file that begins otherwise is not ours.
pub const HEAD: &str = "// Written by `bailiwick hooks install opencode`;";

const BODY: &str = r#"
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";

// A plugin that fails while it is loaded is ignored silently: so this one announces itself, and a failure of that
// does not disable the gate.
const announce = (directory) => {
  try {
    const said = { digest, pid: process.pid, directory, loaded: new Date().toISOString() };
    writeFileSync(announcement, JSON.stringify(said) + "\n", { mode: 0o600 });
  } catch {}
};

const ask = (payload, cwd) => {
  try {
    const [program, ...words] = gate;
    const input = JSON.stringify(payload);
    const limits = { timeout: 60000, killSignal: "SIGKILL", maxBuffer: 16777216 };
    return spawnSync(program, words, { input, cwd, encoding: "utf8", ...limits });
  } catch (error) {
    return { error };
  }
};

export const BailiwickGate = async ({ directory }) => {
  announce(directory);
  // Its shell commands run through this, in a sandbox.
  if (shell) process.env.SHELL = shell;
  return {
    "tool.execute.before": async ({ tool, sessionID, callID }, output) => {
      const payload = { tool, sessionID, callID, args: output.args, cwd: directory };
      const ran = ask(payload, directory);
      if (!ran.error && !ran.signal && ran.status === 0) return;
      const denied = !ran.error && ran.status === 2 ? String(ran.stderr ?? "").trim() : "";
      throw new Error(denied || couldNotRun);
    },
  };
};
"#;

/// The plugin's file.
pub fn text(record: &Record, kept: &StateFiles) -> Result<String, Failure> {
    let unwritten = |error| Failure::general(format!("the plugin cannot be written: {error}"));
    let announcement = super::gate_command::text(&kept.announcement())?;
    let gate = serde_json::to_string(&record.arguments(kept)?).map_err(unwritten)?;
    let words = [("announcement", announcement.as_str()), ("digest", record.digest.as_str())];
    let mut text = format!("{HEAD}\n// `bailiwick hooks remove opencode` takes it away.\n");
    text += &format!("const gate = {gate};\n");
    let shell = match record.commands {
        Commands::Sandboxed => Some(super::gate_command::text(&kept.shell())?),
        Commands::Free => None,
    };
    let shell = serde_json::to_string(&shell).map_err(unwritten)?;
    text += &format!("const shell = {shell};\n");
    for (name, value) in words.into_iter().chain([("couldNotRun", GATE_COULD_NOT_RUN)]) {
        let value = serde_json::to_string(value).map_err(unwritten)?;
        text += &format!("const {name} = {value};\n");
    }
    Ok(text + BODY)
}

/// Whether the plugin has reported that it was loaded with this policy.
pub fn has_announced(said: Option<&str>, record: &Record) -> bool {
    let said = said.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    said.is_some_and(|said| said.get("digest").and_then(|d| d.as_str()) == Some(&record.digest))
}
