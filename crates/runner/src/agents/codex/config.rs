//! Codex's `config.toml` and `hooks.json`.

use std::path::Path;

use bailiwick_model::task::Login;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toml::Table;

use super::super::adapter::{Assignment, PlanError};
use super::super::gate_setup::{MCP_START_TIMEOUT_SECONDS, at_home};
use super::super::texts::pretty;
use super::super::tools;
use super::questions::{SECONDS, SERVER, announcing, gate_hook};
use super::{HOME, KEY, NAME, TABLES};
use crate::proxy::GATE_PATH;

const PROVIDER: &str = "bailiwick";

/// `config.toml`
pub(super) fn text(assignment: &Assignment) -> Result<String, PlanError> {
    let mut config = Table::new();
    let mut set = |key: &str, value: toml::Value| config.insert(key.to_owned(), value);
    if let Some(model) = &assignment.model {
        set("model", model.as_str().into());
    }
    if let Some(effort) = &assignment.effort {
        set("model_reasoning_effort", effort.as_str().into());
    }
    if let Some(text) = &assignment.system_prompt {
        set("developer_instructions", text.as_str().into());
    }
    set("model_provider", PROVIDER.into());
    set("model_providers", table(PROVIDER, provider(assignment).into()).into());
    set("sqlite_home", at_home(assignment, &format!("{HOME}/{TABLES}")).into());
    set("check_for_update_on_startup", false.into());
    set("analytics", table("enabled", false.into()).into());
    // Its list of skills has the worktree's own in it, which the agent can write.
    let mut skills = table("include_instructions", false.into());
    skills.insert("bundled".to_owned(), table("enabled", false.into()).into());
    set("skills", skills.into());
    let named = assignment.tools.as_ref().is_some_and(|list| tools::allows(list, "web_search"));
    // The model's side would search: no hook sees it.
    let searches = assignment.searches && named;
    set("web_search", if searches { "live" } else { "disabled" }.into());
    set("projects", projects(assignment).into());
    if assignment.gate.is_some() {
        set("hooks", table("state", trusted(assignment).into()).into());
    }
    let servers = servers(assignment)?;
    if !servers.is_empty() {
        set("mcp_servers", servers.into());
    }
    Ok(config.to_string())
}

fn table(key: &str, value: toml::Value) -> Table {
    Table::from_iter([(key.to_owned(), value)])
}

fn provider(assignment: &Assignment) -> Table {
    let mut provider = table("name", PROVIDER.into());
    let mut set = |key: &str, value: toml::Value| provider.insert(key.to_owned(), value);
    set("wire_api", "responses".into());
    match assignment.login {
        Login::Subscription => {
            set("base_url", format!("{}/backend-api/codex", assignment.model_url).into());
            set("requires_openai_auth", true.into());
        }
        Login::ApiKey | Login::Bedrock | Login::Vertex => {
            set("base_url", format!("{}/v1", assignment.model_url).into());
            set("env_key", KEY.into());
        }
    }
    provider
}

/// Otherwise it trusts the repository, and reads settings from it that disable the hooks.
fn projects(assignment: &Assignment) -> Table {
    let untrusted =
        |path: &Path| (path.display().to_string(), table("trust_level", "untrusted".into()).into());
    [&assignment.worktree, &assignment.repository].into_iter().map(|path| untrusted(path)).collect()
}

/// `hooks.json`
pub(super) fn hooks(assignment: &Assignment) -> String {
    if assignment.gate.is_none() {
        return pretty(&json!({"hooks": {}}));
    }
    pretty(&json!({"hooks": {
        "PreToolUse": [{"matcher": MATCHER, "hooks": [gate_hook()]}],
        "SessionStart": [{"hooks": [announcing()]}],
    }}))
}

const MATCHER: &str = ".*";

/// The hashes of its hooks; it ignores a hook without a known hash silently.
fn trusted(assignment: &Assignment) -> Table {
    let file = at_home(assignment, &format!("{HOME}/hooks.json"));
    let one = |event: &str, hash: String| {
        (format!("{file}:{event}:0:0"), table("trusted_hash", hash.into()).into())
    };
    Table::from_iter([
        one("pre_tool_use", hash("pre_tool_use", Some(MATCHER), &gate_hook())),
        one("session_start", hash("session_start", None, &announcing())),
    ])
}

fn hash(event: &str, matcher: Option<&str>, hook: &Value) -> String {
    // The keys are in alphabetical order, because that is hashed.
    let mut entry = serde_json::Map::new();
    entry.insert("event_name".to_owned(), json!(event));
    entry.insert("hooks".to_owned(), json!([hook]));
    if let Some(matcher) = matcher {
        entry.insert("matcher".to_owned(), json!(matcher));
    }
    let digest = Sha256::digest(Value::Object(entry).to_string());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// The gate server; Codex does not start without it.
fn gate(assignment: &Assignment) -> Table {
    let mut server = table("url", format!("{}{GATE_PATH}", assignment.model_url).into());
    server.insert("required".to_owned(), true.into());
    server.insert("startup_timeout_sec".to_owned(), MCP_START_TIMEOUT_SECONDS.into());
    server.insert("tool_timeout_sec".to_owned(), toml::Value::Integer(SECONDS.cast_signed()));
    server
}

/// MCP servers, from the words of `.mcp.json` to its own.
fn servers(assignment: &Assignment) -> Result<Table, PlanError> {
    let one = |(name, server): (&String, &Value)| {
        let mut table = Table::new();
        for (theirs, ours) in [
            ("command", "command"),
            ("args", "args"),
            ("env", "env"),
            ("url", "url"),
            ("headers", "http_headers"),
        ] {
            if let Some(value) = server.get(theirs) {
                let value = toml::Value::try_from(value).map_err(|error| {
                    PlanError::new(NAME, format!("use the server {name}"), error.to_string())
                })?;
                table.insert(ours.to_owned(), value);
            }
        }
        // The gate decides, and nobody could be asked.
        table.insert("default_tools_approval_mode".to_owned(), "approve".into());
        // Longer than one may wait for agents.
        table.insert("tool_timeout_sec".to_owned(), 1_900.into());
        table.insert("startup_timeout_sec".to_owned(), MCP_START_TIMEOUT_SECONDS.into());
        Ok((name.clone(), table.into()))
    };
    let mut servers: Table = assignment.mcp_servers.iter().map(one).collect::<Result<_, _>>()?;
    if assignment.gate.is_some() {
        let replaced = servers.insert(SERVER.to_owned(), gate(assignment).into());
        if replaced.is_some() {
            let why = "the gate has this name; give the server another one";
            return Err(PlanError::new(NAME, format!("use the server {SERVER}"), why));
        }
    }
    Ok(servers)
}
