//! The model proxy: the endpoint that an agent program sees in the place of its model.
//!
//! It holds the key, counts the tokens of every agent and sub-agent, records every tool that a model
//! asks for, and lets no request through that its [`Observer`] refuses. Streams pass byte by byte.
//!
//! ```text
//!  program ──▶ server ──▶ exchange ──admit──▶ observer
//!                 │          ├──▶ callers, limits: who asks, for which model, with which tools
//!                 │          ├──▶ upstream, with the key ──▶ the model
//!                 │          ◀── watched: sse ──▶ wires ──called, answered──▶ observer
//!                 ├──▶ desk: the gate, for a program that asks it over HTTP
//!                 ├──▶ seats: who asks for nothing gives way
//!                 └──▶ connect: tunnels to hosts that are named
//! ```

mod bodies;
mod callers;
mod connect;
mod exchange;
mod frames;
mod json_text;
mod limits;
mod models;
mod renewal;
mod seats;
mod seen;
mod server;
mod signature;
mod sse;
mod strict_json;
mod upstream;
mod watched;
mod wires;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bailiwick_model::event::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use models::Models;
pub use renewal::Fresh;
pub use server::{Proxy, ProxyError, Setup, start};
pub use upstream::{Key, Upstream};

/// How a program speaks to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelApi {
    /// Anthropic's messages.
    Anthropic,
    /// OpenAI's responses.
    Responses,
    /// OpenAI's chat completions, which many others speak too.
    Chat,
    /// Google's `generateContent`.
    Gemini,
}

/// A request to the model, before it is passed on.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The sub-agent that asks, where the program says so.
    pub agent: Option<String>,
    /// The model that it asks.
    pub model: String,
    /// Whether the model could ask for a tool; side calls, such as for a title, offer none.
    pub offers_tools: bool,
    /// What came back from tools, all of the conversation.
    pub results: Vec<ToolResult>,
}

/// What came back from a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The model's name of the call; empty where the request has none.
    pub id: String,
    /// The tool, where the request says it.
    pub tool: Option<String>,
    /// All that the model is told.
    pub output: String,
    /// Whether it is marked as a failure.
    pub failed: bool,
}

/// An answer of the model, after it has passed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelResponse {
    /// The sub-agent that it was for.
    pub agent: Option<String>,
    /// The tools that the model asks for.
    pub calls: Vec<ToolCall>,
    /// What it says.
    pub text: String,
    /// What it took. Where the answer does not say, what was sent and received is estimated.
    pub usage: Usage,
    /// Whether it came to its end; a stream may break off.
    pub complete: bool,
    /// Whether the connection broke off, for the program as well.
    pub broke_off: bool,
}

/// A tool that a model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The model's name of the call; empty where the answer has none.
    pub id: String,
    /// The tool, as the program calls it; `namespace.tool` where it has a namespace.
    pub tool: String,
    /// What it is given; a text if it is no JSON.
    pub input: Value,
}

/// Whether a request may go on.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// To the model.
    Pass,
    /// No: the program is told why, in the wire's own shape of an error that is not tried again.
    Refuse(String),
    /// We answer in the model's place: it asks for a tool.
    Call(ToolCall),
    /// We answer in the model's place: it says this, and is done.
    Say(String),
}

/// Where a program finds the desk, below the model's address.
pub const GATE_PATH: &str = "/bailiwick/gate";

/// Answers what is asked beside the model: the gate, for a program that asks it over HTTP.
pub trait HttpGate: Send + Sync + 'static {
    /// The answer to what was posted; nothing if none is awaited.
    fn ask<'a>(
        &'a self,
        posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;
}

/// Who may ask the model.
pub trait Callers: Send + Sync + 'static {
    /// Whether the process that is connected from here may ask.
    fn may_ask(&self, peer: SocketAddr) -> Result<(), UnauthorizedProcess>;
}

/// A process that may not ask the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnauthorizedProcess {
    /// Its name.
    pub program: String,
}

/// Decides about requests, and hears of answers.
pub trait Observer: Send + Sync + 'static {
    /// May this request go on? It waits as long as this does.
    fn admit<'a>(
        &'a self,
        asked: ModelRequest,
    ) -> Pin<Box<dyn Future<Output = Admission> + Send + 'a>>;

    /// The model asks for this tool; called before the program hears of it.
    fn on_tool_call(&self, agent: Option<&str>, call: &ToolCall);

    /// An answer has passed, or broke off; called before the program hears of its end. Answers in
    /// the model's place are not reported.
    fn on_response(&self, answered: ModelResponse);

    /// A request that was let through came to nothing: there is no answer, and nothing to pay for. Each
    /// that is let through is either answered or dismissed.
    fn release_request(&self) {}

    /// The model's endpoint refused the key, with this status; called before the program hears of it.
    fn key_refused(&self, status: u16) {
        let _ = status;
    }

    /// A program asked for another host than the model's: `host:port`.
    fn on_connect(&self, host: &str, allowed: bool);

    /// Something was not passed on, without a question to [`Observer::admit`] or after it: a path
    /// that is none of the wire's, a request or an answer that cannot be read.
    fn on_rejected(&self, what: &str, why: &str) {
        let _ = (what, why);
    }
}
