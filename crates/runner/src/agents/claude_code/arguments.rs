//! Claude Code's arguments.

use std::collections::BTreeMap;

use bailiwick_model::task::SubAgent;
use serde_json::{Value, json};

use super::super::adapter::{Assignment, Conversation, PlanError};
use super::super::gate_setup::{OURS, at_home, known_effort};
use super::super::help::list;
use super::super::texts::{object, pretty};
use super::super::tools;
use super::{EFFORTS, NAME, TOOLS, reads_home};

/// All of its arguments; texts that are too long become files.
pub(super) fn all(
    assignment: &Assignment,
    files: &mut BTreeMap<String, String>,
) -> Result<Vec<String>, PlanError> {
    let sources = if reads_home(assignment) { "user" } else { "" };
    let settings = at_home(assignment, &format!("{OURS}/settings.json"));
    let mut arguments = list(&[
        "--output-format",
        "stream-json",
        "--verbose",
        "--settings",
        &settings,
        "--setting-sources",
        sources,
        "--strict-mcp-config",
        "--permission-mode",
        "dontAsk",
    ]);
    if assignment.gate.is_some() {
        arguments.extend(list(&["--input-format", "stream-json"]));
    }
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    let mut file = |name: &str, text: String| {
        let path = format!("{OURS}/{name}");
        let whole = at_home(assignment, &path);
        files.insert(path, text);
        whole
    };
    if let Some(model) = &assignment.model {
        add("--model", model.clone());
    }
    if let Some(effort) = &assignment.effort {
        known_effort(NAME, &EFFORTS, effort)?;
        add("--effort", effort.clone());
    }
    if let Some(text) = &assignment.system_prompt {
        add("--append-system-prompt-file", file("system-prompt.md", text.clone()));
    }
    if let Some(allowed) = &assignment.tools {
        add("--tools", tools::allowed(&TOOLS, allowed).join(","));
    }
    if !assignment.sub_agents.is_empty() {
        add("--agents", agents(&assignment.sub_agents).to_string());
    }
    if !assignment.mcp_servers.is_empty() {
        let servers = json!({"mcpServers": assignment.mcp_servers});
        add("--mcp-config", file("mcp.json", pretty(&servers)));
    }
    if let Some(turns) = assignment.turns {
        add("--max-turns", turns.to_string());
    }
    if let Some(usd) = assignment.usd {
        add("--max-budget-usd", usd.to_string());
    }
    if let Some(id) = session(assignment) {
        let flag = match &assignment.session {
            Conversation::New(_) => "--session-id",
            Conversation::Resume(_) => "--resume",
        };
        add(flag, id.to_owned());
    }
    // As its first argument, it would start 0.3 s later.
    arguments.push("--print".to_owned());
    Ok(arguments)
}

fn agents(agents: &[SubAgent]) -> Value {
    let one = |agent: &SubAgent| {
        let allowed = agent.tools.as_ref().map(|list| tools::allowed(&TOOLS, list));
        let fields = vec![
            ("description", json!(agent.description)),
            ("prompt", json!(agent.prompt)),
            ("tools", json!(allowed)),
            ("model", json!(agent.model.as_ref().map(|model| model.as_str()))),
        ];
        (agent.name.to_string(), object(fields))
    };
    json!(agents.iter().map(one).collect::<BTreeMap<_, _>>())
}

/// The name of its session, where it is known before it begins.
pub(super) fn session(assignment: &Assignment) -> Option<&str> {
    match &assignment.session {
        Conversation::New(id) => Some(id.as_str()).filter(|id| is_uuid(id)),
        Conversation::Resume(id) => Some(id),
    }
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12] && parts.concat().chars().all(|c| c.is_ascii_hexdigit())
}
