//! A server on the network, asked by streamable HTTP. Nothing that opens anything is sent: who answers only
//! with a credential is asked by the agent itself.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use serde_json::Value;

use super::speech::{self, LONGEST, MOST_PAGES, OutputReader};
use super::{Answer, Silence};

const SESSION: &str = "mcp-session-id";
const PROTOCOL: &str = "mcp-protocol-version";

/// Asks a server for its tools.
pub async fn ask_remote(url: &str, patience: Duration) -> Answer {
    match tokio::time::timeout(patience, tools(url)).await {
        Ok(answer) => answer.map_err(Silence::Failed),
        Err(_) => Err(Silence::TimedOut(patience)),
    }
}

async fn tools(url: &str) -> Result<Vec<bailiwick_model::DiscoveredTool>, String> {
    let mut talk = Talk::new(url)?;
    let hello = talk.ask(&speech::hello(), 0).await?;
    speech::greeted(&hello)?;
    talk.greeted = true;
    talk.say(&speech::ready()).await?;
    let (mut tools, mut cursor) = (Vec::new(), None);
    for id in 1..=MOST_PAGES {
        let result = talk.ask(&speech::list(id, cursor.as_deref()), id).await?;
        cursor = speech::page(&result, &mut tools)?;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
    Err("its list of tools does not end".to_owned())
}

struct Talk {
    client: Client,
    url: Url,
    session: Option<HeaderValue>,
    greeted: bool,
}

impl Talk {
    fn new(url: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|_| "its address is none".to_owned())?;
        // Whoever was first has chosen the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirect would lead to a host that nobody has named.
        let mut client = Client::builder().redirect(Policy::none()).referer(false);
        let local = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        if url.host_str().is_some_and(local) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| error.to_string())?;
        Ok(Self { client, url, session: None, greeted: false })
    }

    async fn post(&mut self, message: &Value) -> Result<reqwest::Response, String> {
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.to_string());
        if let Some(session) = &self.session {
            request = request.header(SESSION, session.clone());
        }
        if self.greeted {
            request = request.header(PROTOCOL, speech::VERSION);
        }
        let answer = request.send().await;
        let answer =
            answer.map_err(|error| format!("it cannot be reached: {}", error.without_url()))?;
        if let Some(session) = answer.headers().get(SESSION) {
            self.session = Some(session.clone());
        }
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(format!("it answers with {}", answer.status())),
        }
    }

    async fn say(&mut self, message: &Value) -> Result<(), String> {
        self.post(message).await.map(drop)
    }

    async fn ask(&mut self, message: &Value, id: usize) -> Result<Value, String> {
        let answer = self.post(message).await?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let events = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let mut stream = answer.bytes_stream();
        let (mut text, mut read) = (Vec::new(), 0);
        while let Some(chunk) = stream.next().await {
            let chunk =
                chunk.map_err(|error| format!("it was cut off: {}", error.without_url()))?;
            read += chunk.len();
            if read > LONGEST {
                return Err("it says too much".to_owned());
            }
            text.extend_from_slice(&chunk);
            // An event stream may stay open after the answer.
            while let Some(event) = events.then(|| first_event(&mut text)).flatten() {
                if let Some(result) = told(&event, id)? {
                    return Ok(result);
                }
            }
        }
        let whole = if events { data(&text) } else { text };
        told(&whole, id)?.ok_or_else(|| "it does not answer what it was asked".to_owned())
    }
}

/// The answer in a message, if it is the one.
fn told(message: &[u8], id: usize) -> Result<Option<Value>, String> {
    if message.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let message =
        serde_json::from_slice(message).map_err(|_| "it says what is no message".to_owned())?;
    match speech::heard(&message, id)? {
        OutputReader::Result(result) => Ok(Some(result)),
        // What it asks needs an answer of its own, which no list of tools waits for.
        OutputReader::Asked(_) | OutputReader::Aside => Ok(None),
    }
}

/// Takes the first whole event off; its data.
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
