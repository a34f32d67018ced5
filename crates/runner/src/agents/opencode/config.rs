//! OpenCode's `opencode.json`.

use std::collections::BTreeMap;

/// The timeout for a tool of a server, in milliseconds: as long as one may wait for agents.
const TIMEOUT: u64 = 1_900_000;

use bailiwick_model::task::{Login, SubAgent};
use serde_json::{Value, json};

use super::super::adapter::{Assignment, PlanError};
use super::super::gate_setup::{PLACEHOLDER, at_home, known_effort};
use super::super::texts::object;
use super::super::tools;
use super::{CONFIG, EFFORTS, MODEL, NAME, PROVIDER, TOOLS, model};

/// All of its settings.
pub(super) fn all(assignment: &Assignment) -> Result<Value, PlanError> {
    let options = match &assignment.effort {
        Some(effort) => {
            known_effort(NAME, &EFFORTS, effort)?;
            json!({"reasoningEffort": effort})
        }
        None => json!({}),
    };
    let name = assignment.model.as_deref().unwrap_or(MODEL);
    let known = json!({"name": name, "tool_call": true, "options": options});
    let mut models = serde_json::Map::from_iter([(name.to_owned(), known.clone())]);
    for model in assignment.sub_agents.iter().filter_map(|agent| agent.model.as_ref()) {
        models.insert(model.to_string(), json!({"name": model.as_str(), "tool_call": true}));
    }
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": {"baseURL": format!("{}/v1", assignment.model_url), "apiKey": PLACEHOLDER},
        "models": models,
    });
    let proxied = assignment.login == Login::ApiKey;
    let prompt = assignment.system_prompt.as_ref();
    Ok(object(vec![
        ("model", json!(model(assignment)?)),
        ("small_model", json!(model(assignment)?)),
        ("share", json!("disabled")),
        ("autoupdate", json!(false)),
        ("provider", if proxied { json!({PROVIDER: provider}) } else { Value::Null }),
        // Nobody could be asked, and a question would end the session: the gate decides.
        ("permission", json!({"*": "allow"})),
        (
            "instructions",
            prompt.map_or(Value::Null, |_| {
                json!([at_home(assignment, &format!("{CONFIG}/system-prompt.md"))])
            }),
        ),
        ("agent", agents(assignment)),
        ("mcp", servers(assignment)),
    ]))
}

fn agents(assignment: &Assignment) -> Value {
    let off = |list: &Vec<String>| {
        let off = tools::forbidden(&TOOLS, list).into_iter();
        json!(off.map(|tool| (tool, false)).collect::<BTreeMap<_, _>>())
    };
    let build = object(vec![
        ("steps", json!(assignment.turns)),
        ("tools", assignment.tools.as_ref().map_or(Value::Null, off)),
    ]);
    let one = |agent: &SubAgent| {
        let model = agent.model.as_ref().map(|model| match assignment.login {
            Login::ApiKey => format!("{PROVIDER}/{model}"),
            Login::Subscription | Login::Bedrock | Login::Vertex => model.to_string(),
        });
        let fields = vec![
            ("mode", json!("subagent")),
            ("description", json!(agent.description)),
            ("prompt", json!(agent.prompt)),
            ("tools", agent.tools.as_ref().map_or(Value::Null, off)),
            ("model", json!(model)),
        ];
        (agent.name.to_string(), object(fields))
    };
    let own = assignment.sub_agents.iter().map(one);
    own.chain([("build".to_owned(), build)]).collect::<serde_json::Map<_, _>>().into()
}

/// MCP servers, from the words of `.mcp.json` to its own.
fn servers(assignment: &Assignment) -> Value {
    if assignment.mcp_servers.is_empty() {
        return Value::Null;
    }
    let one = |(name, server): (&String, &Value)| {
        let field = |key: &str| server.get(key).cloned().unwrap_or(Value::Null);
        let own = match server.get("url") {
            Some(url) => object(vec![
                ("type", json!("remote")),
                ("url", url.clone()),
                ("headers", field("headers")),
            ]),
            None => {
                let words = field("args").as_array().cloned().unwrap_or_default();
                let command: Vec<Value> = [field("command")].into_iter().chain(words).collect();
                object(vec![
                    ("type", json!("local")),
                    ("command", json!(command)),
                    ("environment", field("env")),
                    ("timeout", json!(TIMEOUT)),
                ])
            }
        };
        (name.clone(), own)
    };
    assignment.mcp_servers.iter().map(one).collect::<serde_json::Map<_, _>>().into()
}
