//! The plugin that asks the gate for OpenCode, which has no hooks.

use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::protocol::GATE_COULD_NOT_RUN;
use serde_json::json;

use super::super::adapter::Gate;
use super::super::gate_setup::{gate_argv_with_timeout, hook_timeout};

/// It starts the gate, and throws unless the answer is an explicit approval. A plugin that fails while it is loaded
/// is ignored silently, so it announces itself at once.
const BODY: &str = r#"
import { spawnSync } from "node:child_process";

const run = ([program, ...rest], payload, cwd) => {
  try {
    const input = JSON.stringify(payload) + "\n";
    const limits = { timeout: patience, killSignal: "SIGKILL", maxBuffer: 16777216 };
    return spawnSync(program, rest, { input, cwd, encoding: "utf8", ...limits });
  } catch (error) {
    return { error };
  }
};

export const BailiwickGate = async ({ directory }) => {
  run(announcement, {}, directory);
  return {
    "tool.execute.before": async ({ tool, sessionID, callID }, output) => {
      const payload = { tool, sessionID, callID, args: output.args, cwd: directory };
      const ran = run(gate, payload, directory);
      if (!ran.error && !ran.signal && ran.status === 0) return;
      const denied = !ran.error && ran.status === 2 ? String(ran.stderr ?? "").trim() : "";
      throw new Error(denied || couldNotRun);
    },
  };
};
"#;

/// The plugin's file.
pub(super) fn text(gate: &Gate, servers: &[&str]) -> String {
    let named: Vec<&str> = servers.iter().flat_map(|server| ["--mcp-server", server]).collect();
    let asks = json!(gate_argv_with_timeout(gate, Dialect::OpenCode, &named));
    let announces = json!(gate_argv_with_timeout(gate, Dialect::OpenCode, &["--announce"]));
    let limit = hook_timeout(gate).saturating_mul(1000);
    format!(
        "const gate = {asks};\nconst announcement = {announces};\nconst patience = {limit};\n\
         const couldNotRun = {};\n{BODY}",
        json!(GATE_COULD_NOT_RUN)
    )
}

/// With a plugin it gets a package from the network at every start, unless it finds it in place; ours
/// imports nothing from the package, so what is in it does not matter.
pub(super) fn package(version: &str) -> Vec<(String, String)> {
    let name = "@opencode-ai/plugin";
    let dependencies = json!({"dependencies": {name: version}});
    let lock = json!({
        "name": "opencode", "lockfileVersion": 3, "requires": true,
        "packages": {"": dependencies, format!("node_modules/{name}"): {"version": version}},
    });
    let package = json!({"name": name, "version": version});
    vec![
        ("package.json".to_owned(), dependencies.to_string()),
        ("package-lock.json".to_owned(), lock.to_string()),
        (format!("node_modules/{name}/package.json"), package.to_string()),
    ]
}
