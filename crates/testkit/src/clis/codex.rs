//! Codex: a provider of our own, a gate that is trusted by its hash, a repository that is not.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::run::{CliRun, Launch};

/// Its own sandbox is off, so that only the gate enforces limits in tests.
pub(super) fn prepare(run: &CliRun) -> Launch {
    let mut config = format!(
        r#"model = "gpt-5.5"
model_provider = "scripted"
web_search = "disabled"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
"#,
        run.base_url
    );
    for root in roots(&run.worktree) {
        // Otherwise it trusts the repository, and reads settings from it.
        let _ = write!(config, "[projects.{}]\ntrust_level = \"untrusted\"\n", quoted(&root));
    }
    if let Some(gate) = &run.gate {
        let hook = json!({"type": "command", "command": gate, "timeout": run.gate_seconds});
        let hooks = json!({"hooks": {"PreToolUse": [{"matcher": ".*", "hooks": [hook]}]}});
        let file = run.write(".codex/hooks.json", &hooks.to_string());
        let file = file.canonicalize().expect("the hooks were written");
        let key = format!("{}:pre_tool_use:0:0", file.display());
        let hash = codex_trusted_hash("pre_tool_use", Some(".*"), gate, run.gate_seconds);
        let key = quoted(Path::new(&key));
        let _ = write!(config, "[hooks.state.{key}]\ntrusted_hash = \"{hash}\"\n");
    }
    config.push_str(run.settings.as_deref().unwrap_or_default());
    run.write(".codex/config.toml", &config);
    let arguments = [
        "exec",
        "--json",
        "-s",
        "danger-full-access",
        "-c",
        "features.hooks=true",
        "--disable",
        "plugins",
        "--disable",
        "apps",
    ];
    Launch {
        arguments: arguments.map(str::to_owned).to_vec(),
        variables: vec![
            ("CODEX_HOME", run.home().join(".codex").display().to_string()),
            ("SCRIPTED_KEY", "dummy".to_owned()),
        ],
    }
}

/// The hash under `hooks.state.<file>:<event>:<place>:<place>` by which Codex knows a hook that the
/// person trusts; a hook that it does not know it passes over without a word. Some events, such as
/// `stop`, have no matcher.
pub fn codex_trusted_hash(
    event: &str,
    matcher: Option<&str>,
    command: &str,
    timeout: u64,
) -> String {
    // The keys are in alphabetical order, because that is hashed.
    let hook = json!({"async": false, "command": command, "timeout": timeout, "type": "command"});
    let mut entry = json!({"event_name": event, "hooks": [hook]});
    if let Some(matcher) = matcher {
        entry["matcher"] = json!(matcher);
    }
    let digest = Sha256::digest(entry.to_string());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// The worktree, and the root of the repository that it belongs to.
fn roots(worktree: &Path) -> Vec<PathBuf> {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--path-format=absolute", "--git-common-dir"]).current_dir(worktree);
    let said = git.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).output();
    let said = said.expect("git").stdout;
    let mut roots = vec![worktree.to_owned()];
    let common = PathBuf::from(String::from_utf8_lossy(&said).trim());
    if let Some(main) =
        common.parent().filter(|main| !main.as_os_str().is_empty() && *main != worktree)
    {
        roots.push(main.to_owned());
    }
    roots
}

/// A TOML key or text; a JSON text is one.
fn quoted(path: &Path) -> String {
    json!(path.display().to_string()).to_string()
}
