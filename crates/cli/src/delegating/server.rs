//! The MCP server: the tools of delegation for any agent program. It only hands calls on.

use std::borrow::Cow;
use std::sync::Arc;

use bailiwick_kit::templates::list::ListAgents;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use super::standing::{ListActiveAgents, Wait};
use super::starting::SpawnAgent;
use super::talking::{CloseAgent, SendInput, SetThreadNote};

/// What every agent program is told of us.
const INSTRUCTIONS: &str = "Starts other agents, each in a worktree and sandbox of its own, with no more rights than you \
     have. See list_agents for what there is, spawn_agent to start one, wait for what it returns.";

/// Answers a tool by its name.
pub type Answer = Arc<dyn Fn(&str, Value) -> Result<Value, String> + Send + Sync>;

/// The server of one caller.
#[derive(Clone)]
pub struct Server {
    answer: Answer,
}

impl Server {
    /// A server that asks this for every answer.
    pub fn new(answer: Answer) -> Self {
        Self { answer }
    }
}

/// Every tool, with what it takes.
pub fn tools() -> Vec<Tool> {
    vec![
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
        tool::<SetThreadNote>("set_thread_note", "Put a note on an agent that you started"),
    ]
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
        Ok(ListToolsResult { tools: tools(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let answer = Arc::clone(&self.answer);
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let asked = tokio::task::spawn_blocking(move || answer(&request.name, arguments)).await;
        let result = match asked {
            Ok(Ok(value)) => CallToolResult::success(vec![ContentBlock::text(value.to_string())]),
            Ok(Err(why)) => CallToolResult::error(vec![ContentBlock::text(why)]),
            Err(_) => CallToolResult::error(vec![ContentBlock::text("the call failed")]),
        };
        Ok(result.into())
    }
}
