//! The model proxy: the endpoint that an agent program sees in place of its model.
//!
//! It adds the key, counts the tokens of every agent and sub-agent, records every tool call of the model, and
//! rejects requests that its [`Observer`] refuses. Streams are forwarded unchanged.
//!
//! ```text
//!  program ──▶ server ──▶ exchange ──admit──▶ observer
//!                 │          ├──▶ callers, limits: who asks, for which model, with which tools
//!                 │          ├──▶ upstream, with the key ──▶ the model
//!                 │          ◀── observed_stream: sse ──▶ model_apis ──called, answered──▶ observer
//!                 ├──▶ gate, for a program that asks it over HTTP
//!                 ├──▶ connections: idle ones are closed for new ones
//!                 └──▶ connect: tunnels to hosts that are named
//! ```

mod bodies;
mod callers;
mod connect;
mod connections;
mod exchange;
mod frames;
mod json_text;
mod limits;
mod model_apis;
mod models;
mod observed_stream;
mod parsed_answer;
mod renewal;
mod server;
mod signature;
mod sse;
mod strict_json;
mod upstream;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bailiwick_model::event::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use models::Models;
pub use renewal::RenewedKey;
pub use server::{Proxy, ProxyError, Setup, start};
pub use upstream::{Key, Upstream};

/// The API of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelApi {
    /// Anthropic's messages.
    Anthropic,
    /// OpenAI's responses.
    Responses,
    /// OpenAI's chat completions, which many others support, too.
    Chat,
    /// Google's `generateContent`.
    Gemini,
}

/// A request to the model, before it is passed on.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The sub-agent that sent it, if the CLI reports it.
    pub agent: Option<String>,
    /// The requested model.
    pub model: String,
    /// Whether it offers tools; side requests, such as for a title, offer none.
    pub offers_tools: bool,
    /// The results of tools in the whole conversation.
    pub results: Vec<ToolResult>,
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The model's name of the call; empty where the request has none.
    pub id: String,
    /// The tool, if the request names it.
    pub tool: Option<String>,
    /// The text for the model.
    pub output: String,
    /// Whether it is marked as a failure.
    pub failed: bool,
}

/// An answer of the model, after it has passed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelResponse {
    /// The sub-agent that it was for.
    pub agent: Option<String>,
    /// The tool calls that the model requests.
    pub calls: Vec<ToolCall>,
    /// The text.
    pub text: String,
    /// Its usage; estimated from the sizes if the response does not contain it.
    pub usage: Usage,
    /// Whether the response is complete; a stream may be interrupted.
    pub complete: bool,
    /// Whether the connection was interrupted, for the program as well.
    pub broke_off: bool,
}

/// A tool call that a model requests.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The model's name of the call; empty where the answer has none.
    pub id: String,
    /// The tool, as the program calls it; `namespace.tool` where it has a namespace.
    pub tool: String,
    /// Its input; a text if it is not JSON.
    pub input: Value,
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// To the model.
    Pass,
    /// Refused: the program gets an error of a kind that is not retried.
    Refuse(String),
    /// Answered by the proxy with a tool call.
    Call(ToolCall),
    /// Answered by the proxy with this text.
    Say(String),
}

/// The path of the gate, below the model's address.
pub const GATE_PATH: &str = "/bailiwick/gate";

/// Answers gate questions, for a program that sends them over HTTP.
pub trait HttpGate: Send + Sync + 'static {
    /// The answer to what was posted; `None` if none is awaited.
    fn ask<'a>(
        &'a self,
        posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;
}

/// Identifies the processes that may use the model.
pub trait Callers: Send + Sync + 'static {
    /// Whether the process at this address may use the model.
    fn may_ask(&self, peer: SocketAddr) -> Result<(), UnauthorizedProcess>;
}

/// A process that must not use the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnauthorizedProcess {
    /// Its name.
    pub program: String,
}

/// Decides about requests and is notified of responses.
pub trait Observer: Send + Sync + 'static {
    /// Decides about a request, which waits for the decision.
    fn admit<'a>(
        &'a self,
        request: ModelRequest,
    ) -> Pin<Box<dyn Future<Output = Admission> + Send + 'a>>;

    /// The model called this tool; invoked before the program receives the call.
    fn on_tool_call(&self, agent: Option<&str>, call: &ToolCall);

    /// A response has ended or was interrupted; invoked before the program sees the end. Responses of the
    /// proxy itself are not reported.
    fn on_response(&self, answered: ModelResponse);

    /// An admitted request got no response and costs nothing. Each admitted request is either answered or
    /// dismissed.
    fn release_request(&self) {}

    /// The model's endpoint rejected the key with this status; invoked before the program receives the error.
    fn key_refused(&self, status: u16) {
        let _ = status;
    }

    /// The program requested another host than the model's: `host:port`.
    fn on_connect(&self, host: &str, allowed: bool);

    /// Something was not passed on, without a question to [`Observer::admit`] or after it: a path
    /// that is none of the wire's, a request or an answer that cannot be read.
    fn on_rejected(&self, what: &str, why: &str) {
        let _ = (what, why);
    }
}
