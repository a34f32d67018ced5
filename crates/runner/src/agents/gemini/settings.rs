//! Gemini CLI's `settings.json`.

use bailiwick_model::task::Login;
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

use super::super::adapter::{Assignment, Gate, PlanError};
use super::super::gate_setup::{announcing, gate_command, hook_timeout, known_effort};
use super::super::tools;
use super::{EFFORTS, MODELS, NAME, TOOLS};

/// All of its settings.
pub(super) fn all(assignment: &Assignment) -> Result<Value, PlanError> {
    let login = match assignment.login {
        Login::ApiKey | Login::Bedrock => "gemini-api-key",
        Login::Subscription => "oauth-personal",
        Login::Vertex => "vertex-ai",
    };
    let mut settings = json!({
        // The settings of a folder that is trusted for one session are ignored.
        "security": {"auth": {"selectedType": login}, "folderTrust": {"enabled": true}},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"enableAutoUpdate": false},
        "hooksConfig": {"enabled": true},
        // With skills of ours it lists the worktree's own as well.
        "skills": {"enabled": !assignment.skills.is_empty()},
    });
    let fields = settings.as_object_mut();
    let mut set = {
        let mut fields = fields;
        move |key: &str, value: Value| {
            if let Some(fields) = fields.as_mut() {
                fields.insert(key.to_owned(), value);
            }
        }
    };
    if let Some(gate) = &assignment.gate {
        set("hooks", hooks(gate));
    }
    if let Some(turns) = assignment.turns {
        set("model", json!({"maxSessionTurns": turns}));
    }
    if let Some(allowed) = &assignment.tools {
        // This list is of all tools: those of servers have to be named, and the gate decides on them.
        let servers = assignment.mcp_servers.keys().map(|name| format!("mcp_{name}_*"));
        let core = tools::allowed(&TOOLS, allowed).into_iter().map(str::to_owned);
        set("tools", json!({"core": core.chain(servers).collect::<Vec<_>>()}));
    }
    if let Some(effort) = &assignment.effort {
        set("modelConfigs", json!({"customOverrides": overrides(assignment, effort)?}));
    }
    if !assignment.mcp_servers.is_empty() {
        set("mcpServers", servers(assignment));
    }
    Ok(settings)
}

fn hooks(gate: &Gate) -> Value {
    // Its times are in thousandths of a second.
    let timeout = hook_timeout(gate).saturating_mul(1000);
    let hook = |name: &str, command: String| json!([{"name": name, "type": "command", "command": command, "timeout": timeout}]);
    json!({
        "BeforeTool": [{"matcher": ".*", "hooks": hook("gate", gate_command(gate, Dialect::Gemini, &[]))}],
        "SessionStart": [{"hooks": hook("announcement", announcing(gate, Dialect::Gemini))}],
    })
}

/// It has no setting for effort: models before Gemini 3 have a number, later ones a level. Each model is named,
/// because it may use another than the assigned one.
fn overrides(assignment: &Assignment, effort: &str) -> Result<Vec<Value>, PlanError> {
    known_effort(NAME, &EFFORTS.map(|(name, _, _)| name), effort)?;
    let known = EFFORTS.iter().find(|(name, _, _)| *name == effort);
    let one = |model: &str| {
        let thinking = known.map(|(_, level, budget)| match model.starts_with("gemini-2") {
            true => json!({"thinkingBudget": budget}),
            false => json!({"thinkingLevel": level}),
        });
        let config = json!({"generateContentConfig": {"thinkingConfig": thinking}});
        json!({"match": {"model": model}, "modelConfig": config})
    };
    let other_model = assignment.model.as_deref().filter(|model| !MODELS.contains(model));
    Ok(MODELS.into_iter().chain(other_model).map(one).collect())
}

fn servers(assignment: &Assignment) -> Value {
    let one = |(name, server): (&String, &Value)| {
        let mut server = server.clone();
        if let Some(fields) = server.as_object_mut() {
            // Its word for a server behind an address.
            if let Some(url) = fields.remove("url") {
                fields.insert("httpUrl".to_owned(), url);
            }
            fields.remove("type");
            fields.insert("trust".to_owned(), json!(true));
            // As long as one may wait for agents.
            fields.insert("timeout".to_owned(), json!(1_900_000));
        }
        (name.clone(), server)
    };
    assignment.mcp_servers.iter().map(one).collect::<serde_json::Map<_, _>>().into()
}
