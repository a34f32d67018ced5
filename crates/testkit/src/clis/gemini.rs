//! Gemini CLI: user settings, and an untrusted folder without settings.

use serde_json::json;

use super::run::{CliRun, Launch};

pub(super) fn prepare(run: &CliRun) -> Launch {
    let mut settings = json!({
        "security": {
            "auth": {"selectedType": "gemini-api-key"},
            "folderTrust": {"enabled": true},
        },
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"enableAutoUpdate": false},
        "hooksConfig": {"enabled": true},
    });
    if let Some(gate) = &run.gate {
        // Its times are in thousandths of a second.
        let timeout = run.gate_seconds * 1000;
        let hook = json!({"name": "gate", "type": "command", "command": gate, "timeout": timeout});
        settings["hooks"] = json!({"BeforeTool": [{"matcher": ".*", "hooks": [hook]}]});
    }
    run.write(".gemini/settings.json", &run.merged(settings));
    let arguments = [
        "--output-format",
        "stream-json",
        "-m",
        "gemini-2.5-flash",
        "--approval-mode",
        "yolo",
        "--skip-trust",
    ];
    Launch {
        arguments: arguments.map(str::to_owned).to_vec(),
        variables: vec![
            ("GOOGLE_GEMINI_BASE_URL", run.base_url.clone()),
            ("GEMINI_API_KEY", "dummy".to_owned()),
            // Otherwise it starts itself a second time, with more memory.
            ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
        ],
    }
}
