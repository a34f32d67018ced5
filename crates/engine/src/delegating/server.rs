//! The MCP server with the delegation tools. It only forwards calls.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_kit::templates::list::ListAgents;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::Value;

use super::merging::{MERGE_AGENT, MergeAgent};
use super::send_input::{CloseAgent, SendInput, SetThreadNote};
use super::spawn_agent::SpawnAgent;
use super::wait::{ListActiveAgents, Wait};

/// The server's instructions to agent programs.
const INSTRUCTIONS: &str = "Starts other agents, each in a worktree and sandbox of its own, with no more rights than you \
     have. See list_agents for what there is, spawn_agent to start one, wait for what it returns.";

/// Not a tool: asks which types of agents the caller may start.
pub const SPAWNABLE: &str = "spawnable_agents";
/// How many of them the tool description lists; `list_agents` lists all.
const MAX_LISTED_TYPES: usize = 12;
/// The maximum length of each description.
const WORDS: usize = 120;

/// Answers a tool call by its name, unless the call is cancelled.
pub type CallHandler = Arc<dyn Fn(&str, Value, &AtomicBool) -> Result<Value, String> + Send + Sync>;

/// One type of agents that the caller may start.
#[derive(Debug, Clone, Deserialize)]
struct Spawnable {
    agent_type: String,
    description: String,
}

/// Cancels the call when it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The server of one caller.
#[derive(Clone)]
pub struct Server {
    answer: CallHandler,
}

impl Server {
    /// A server that forwards every call to this handler.
    pub fn new(answer: CallHandler) -> Self {
        Self { answer }
    }
}

/// Every tool with its input schema.
fn tools(spawnable: &[Spawnable]) -> Vec<Tool> {
    let mut tools = vec![
        tool::<ListAgents>("list_agents", "Which types of agents there are, and when to use them"),
        tool::<SpawnAgent>(
            "spawn_agent",
            "Start an agent for a task that stands by itself; it works in a worktree of its own, on \
             the branch of the same name. Returns its agent_id at once.",
        ),
        tool::<ListActiveAgents>("list_active_agents", "How the agents stand that you started"),
        tool::<Wait>(
            "wait",
            "Wait until the first of these agents has ended; tells what each received and returned",
        ),
        tool::<SendInput>("send_input", "Say something to an agent that you started"),
        tool::<CloseAgent>(
            "close_agent",
            "End an agent that you started, with all below it; its work stays on its branch",
        ),
        tool::<MergeAgent>(
            MERGE_AGENT,
            "Take the changes of an agent that has completed into your own files. Changes that conflict \
             with yours are refused.",
        ),
        tool::<SetThreadNote>("set_thread_note", "Put a note on an agent that you started"),
    ];
    for tool in tools.iter_mut().filter(|tool| tool.name == "spawn_agent") {
        let schema = Arc::make_mut(&mut tool.input_schema);
        let described = schema
            .get_mut("properties")
            .and_then(|all| all.get_mut("agent_type"))
            .and_then(|one| one.get_mut("description"));
        if let Some(Value::String(text)) = described {
            text.push_str(&hint(spawnable));
        }
    }
    tools
}

/// Which types there are, for readers of the schema.
fn hint(spawnable: &[Spawnable]) -> String {
    let one = |one: &Spawnable| {
        let line = one.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut: String = line.chars().take(WORDS).collect();
        format!("\n- {}: {cut}", one.agent_type)
    };
    let lines: String = spawnable.iter().take(MAX_LISTED_TYPES).map(one).collect();
    match (spawnable.len(), spawnable.len().saturating_sub(MAX_LISTED_TYPES)) {
        (0, _) => String::new(),
        (_, 0) => format!(". Those that you may start:{lines}"),
        (_, more) => format!(". Those that you may start:{lines}\n- {more} more: see list_agents"),
    }
}

fn tool<T: JsonSchema>(name: &'static str, description: &'static str) -> Tool {
    let schema = schema_for!(T).to_value();
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    Tool::new(Cow::Borrowed(name), Cow::Borrowed(description), Arc::new(schema))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("bailiwick", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, rmcp::ErrorData> {
        let answer = Arc::clone(&self.answer);
        let asking = move || answer(SPAWNABLE, Value::Null, &AtomicBool::new(false));
        let spawnable = tokio::task::spawn_blocking(asking).await;
        // Only a hint: `list_agents` has the list.
        let spawnable = spawnable.ok().and_then(Result::ok).unwrap_or_default();
        let spawnable: Vec<Spawnable> = serde_json::from_value(spawnable).unwrap_or_default();
        Ok(ListToolsResult { tools: tools(&spawnable), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let answer = Arc::clone(&self.answer);
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        if request.name == SPAWNABLE {
            let unknown = format!("unsupported call: {SPAWNABLE}");
            return Ok(CallToolResult::error(vec![ContentBlock::text(unknown)]).into());
        }
        let leaving = CancelOnDrop(Arc::new(AtomicBool::new(false)));
        let cancelled = Arc::clone(&leaving.0);
        let answer_task =
            tokio::task::spawn_blocking(move || answer(&request.name, arguments, &cancelled));
        let answered = tokio::select! {
            joined = answer_task => joined,
            () = context.ct.cancelled() => Ok(Err("the call was cancelled".to_owned())),
        };
        let result = match answered {
            Ok(Ok(value)) => CallToolResult::success(vec![ContentBlock::text(value.to_string())]),
            Ok(Err(why)) => CallToolResult::error(vec![ContentBlock::text(why)]),
            Err(_) => CallToolResult::error(vec![ContentBlock::text("the call failed")]),
        };
        Ok(result.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(count: usize) -> Vec<Spawnable> {
        let one = |number| Spawnable {
            agent_type: format!("type-{number}"),
            description: format!("é{}\n  END", "x".repeat(number * 20)),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn description_lists_twelve_types_with_120_characters_each() {
        let description = |count: usize| {
            let tools = tools(&types(count));
            let spawn = tools.iter().find(|tool| tool.name == "spawn_agent").unwrap();
            let text = &spawn.input_schema["properties"]["agent_type"]["description"];
            text.as_str().unwrap().to_owned()
        };
        assert!(!description(0).contains("may start:"), "{}", description(0));
        assert!(description(12).contains("\n- type-11: é"), "{}", description(12));
        assert!(!description(12).contains("more: see list_agents"), "{}", description(12));
        assert!(description(15).ends_with("\n- 3 more: see list_agents"), "{}", description(15));
        assert!(!description(15).contains("type-12"), "{}", description(15));
        let longest = description(12).lines().map(|line| line.chars().count()).max().unwrap();
        assert_eq!(longest, "- type-11: ".len() + 120, "{}", description(12));
        assert!(description(1).ends_with("- type-0: é END"), "on one line: {}", description(1));
    }
}
