//! A server on the network, over streamable HTTP. No credential is sent: the agent itself asks servers that need
//! one.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use serde_json::Value;

use super::protocol::{self, MAX_BYTES, MAX_PAGES, ServerMessage};
use super::{NoToolList, ServerError, ToolList};

const SESSION: &str = "mcp-session-id";
const PROTOCOL: &str = "mcp-protocol-version";

/// Lists the tools of a server.
pub async fn ask_remote(url: &str, timeout: Duration) -> ToolList {
    match tokio::time::timeout(timeout, tools(url)).await {
        Ok(answer) => answer.map_err(NoToolList::from),
        Err(_) => Err(NoToolList::TimedOut(timeout)),
    }
}

async fn tools(url: &str) -> Result<Vec<bailiwick_model::DiscoveredTool>, ServerError> {
    let mut talk = Conversation::new(url)?;
    let hello = talk.ask(&protocol::hello(), 0).await?;
    protocol::require_tools_capability(&hello)?;
    talk.require_tools_capability = true;
    talk.say(&protocol::ready()).await?;
    let (mut tools, mut cursor) = (Vec::new(), None);
    for id in 1..=MAX_PAGES {
        let result = talk.ask(&protocol::list(id, cursor.as_deref()), id).await?;
        cursor = protocol::page(&result, &mut tools)?;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
    Err(ServerError::EndlessList)
}

struct Conversation {
    client: Client,
    url: Url,
    session: Option<HeaderValue>,
    require_tools_capability: bool,
}

impl Conversation {
    fn new(url: &str) -> Result<Self, ServerError> {
        let url = Url::parse(url).map_err(|_| ServerError::NoAddress)?;
        // An earlier caller has chosen the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirect would lead to a host that was not configured.
        let mut client = Client::builder().redirect(Policy::none()).referer(false);
        let local = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        if url.host_str().is_some_and(local) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| ServerError::NoClient(error.to_string()))?;
        Ok(Self { client, url, session: None, require_tools_capability: false })
    }

    async fn post(&mut self, message: &Value) -> Result<reqwest::Response, ServerError> {
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.to_string());
        if let Some(session) = &self.session {
            request = request.header(SESSION, session.clone());
        }
        if self.require_tools_capability {
            request = request.header(PROTOCOL, protocol::VERSION);
        }
        let answer = request.send().await;
        let answer =
            answer.map_err(|error| ServerError::Unreachable(error.without_url().to_string()))?;
        if let Some(session) = answer.headers().get(SESSION) {
            self.session = Some(session.clone());
        }
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(ServerError::HttpStatus(answer.status())),
        }
    }

    async fn say(&mut self, message: &Value) -> Result<(), ServerError> {
        self.post(message).await.map(drop)
    }

    async fn ask(&mut self, message: &Value, id: usize) -> Result<Value, ServerError> {
        let answer = self.post(message).await?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let events = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let mut stream = answer.bytes_stream();
        let (mut text, mut read) = (Vec::new(), 0);
        while let Some(chunk) = stream.next().await {
            let chunk =
                chunk.map_err(|error| ServerError::CutOff(error.without_url().to_string()))?;
            read += chunk.len();
            if read > MAX_BYTES {
                return Err(ServerError::TooMuch);
            }
            text.extend_from_slice(&chunk);
            // An event stream may stay open after the answer.
            while let Some(event) = events.then(|| first_event(&mut text)).flatten() {
                if let Some(result) = find_result(&event, id)? {
                    return Ok(result);
                }
            }
        }
        let whole = if events { data(&text) } else { text };
        find_result(&whole, id)?.ok_or(ServerError::NoAnswer)
    }
}

/// The answer in a message, if it is the one.
fn find_result(message: &[u8], id: usize) -> Result<Option<Value>, ServerError> {
    if message.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let message = serde_json::from_slice(message)
        .map_err(|_| ServerError::NoMessage(protocol::shown(&String::from_utf8_lossy(message))))?;
    match protocol::parse(&message, id)? {
        ServerMessage::Result(result) => Ok(Some(result)),
        // Its requests need separate answers, for which no list of tools waits.
        ServerMessage::Request(_) | ServerMessage::Notification => Ok(None),
    }
}

/// Removes the first complete event; returns its data.
fn first_event(text: &mut Vec<u8>) -> Option<Vec<u8>> {
    let find = |end: &[u8]| text.windows(end.len()).position(|part| part == end);
    let (at, length) = [&b"\n\n"[..], b"\r\n\r\n"]
        .into_iter()
        .filter_map(|end| find(end).map(|at| (at, end.len())))
        .min()?;
    let rest = text.split_off(at + length);
    let event = std::mem::replace(text, rest);
    Some(data(&event))
}

/// The data of an event.
fn data(event: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(event);
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    lines.map(str::trim_start).collect::<Vec<_>>().join("\n").into_bytes()
}
