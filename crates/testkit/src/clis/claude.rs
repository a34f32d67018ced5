//! Claude Code: settings by argument, nothing read from the repository.

use serde_json::json;

use super::run::{CliRun, Launch};

/// What neither the settings nor the gate allows is denied (`dontAsk`).
pub(super) fn prepare(run: &CliRun) -> Launch {
    let mut settings = json!({});
    if let Some(gate) = &run.gate {
        let hook = json!({"type": "command", "command": gate, "timeout": run.gate_seconds});
        settings["hooks"] = json!({"PreToolUse": [{"matcher": "*", "hooks": [hook]}]});
    }
    let settings = run.write("settings.json", &run.merged(settings));
    let tools = "Bash,Read,Edit,Write,NotebookEdit,Agent";
    let arguments = [
        "--output-format",
        "stream-json",
        "--verbose",
        "--settings",
        &settings.display().to_string(),
        "--setting-sources",
        "",
        "--strict-mcp-config",
        "--permission-mode",
        "dontAsk",
        "--tools",
        tools,
    ];
    Launch {
        arguments: arguments.map(str::to_owned).to_vec(),
        variables: vec![
            ("ANTHROPIC_BASE_URL", run.base_url.clone()),
            ("ANTHROPIC_API_KEY", "dummy".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("CLAUDE_CODE_MAX_RETRIES", "2".to_owned()),
        ],
    }
}
