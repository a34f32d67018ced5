//! OpenCode: our own provider, and the gate as a plugin that starts a command.

use serde_json::json;

use super::Cli;
use super::run::{CliRun, Launch};

const CONFIG: &str = ".config/opencode";

pub(super) fn prepare(run: &CliRun) -> Launch {
    let config = json!({
        "model": "scripted/model",
        "provider": {
            "scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "scripted",
                "options": {"baseURL": format!("{}/v1", run.base_url), "apiKey": "dummy"},
                "models": {"model": {"name": "model", "tool_call": true}},
            },
        },
    });
    run.write(&format!("{CONFIG}/opencode.json"), &run.merged(config));
    if let Some(gate) = &run.gate {
        let plugin = PLUGIN.replace("GATE_COMMAND", &json!(gate).to_string());
        run.write(&format!("{CONFIG}/plugin/gate.js"), &plugin);
    }
    pretend_installed(run);
    let arguments = ["run", "--format", "json"];
    let quiet = [
        "OPENCODE_DISABLE_PROJECT_CONFIG",
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    ];
    Launch {
        arguments: arguments.map(str::to_owned).to_vec(),
        variables: quiet.map(|name| (name, "1".to_owned())).to_vec(),
    }
}

/// Hands each call to the command as one line of JSON, in the shape of the plugin that `bailiwick
/// hooks install` writes, and throws unless it exits 0.
const PLUGIN: &str = r#"import { spawnSync } from "node:child_process";
export const Gate = async ({ directory }) => ({
  "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
    const call = { tool, sessionID, callID, args, cwd: directory };
    const asked = spawnSync("/bin/sh", ["-c", GATE_COMMAND], { input: JSON.stringify(call) + "\n" });
    if (asked.status !== 0) {
      throw new Error(String(asked.stderr ?? "").trim() || "the gate could not run");
    }
  },
});
"#;

/// With a plugin it gets a package from the network at every start, unless it finds it in place;
/// plugins that import nothing from the package do not need what is in it.
fn pretend_installed(run: &CliRun) {
    let (name, version) = ("@opencode-ai/plugin", Cli::OpenCode.version());
    let wanted = json!({"dependencies": {name: version}});
    let package = json!({"name": name, "version": version});
    let lock = json!({
        "name": "opencode", "lockfileVersion": 3, "requires": true,
        "packages": {
            "": wanted,
            format!("node_modules/{name}"): {"version": version},
        },
    });
    run.write(&format!("{CONFIG}/package.json"), &wanted.to_string());
    run.write(&format!("{CONFIG}/package-lock.json"), &lock.to_string());
    run.write(&format!("{CONFIG}/node_modules/{name}/package.json"), &package.to_string());
}
