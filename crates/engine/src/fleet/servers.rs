//! MCP servers as they are: asked for their tools, and remembered for a while by what their objects say.
//!
//! Only what is in the store is ever asked. A server that is a program is started in a sandbox with nothing
//! of ours; what only a commit describes is started by the agent, inside of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use bailiwick_fleet::admission::conditions::McpProbe;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{AgentMcpServer, DiscoveredTool, McpTransport, Object};
use bailiwick_runner::sandbox::{Launcher, Level};
use bailiwick_runner::servers::{
    NoToolList, Program, ServerError, TIMEOUT, ToolList, ask_program, ask_remote,
};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::system;

/// How long an answer is remembered, in milliseconds.
const GOOD_FOR: u64 = 10 * 60 * 1000;
/// How long it is remembered that there was none: a person who mends a server sees that soon.
const BAD_FOR: u64 = 60 * 1000;
/// How long a reconciliation waits for a server that is not cached.
const FIRST: Duration = Duration::from_secs(5);
/// What is older than this is not known any more.
const OLDEST: u64 = 60 * 60 * 1000;

/// A cached discovery and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CachedDiscovery {
    at: u64,
    answer: DiscoveryOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DiscoveryOutcome {
    Tools(Vec<DiscoveredTool>),
    TimedOut(String),
    Failed(String),
}

impl DiscoveryOutcome {
    fn of(answer: ToolList) -> Self {
        match answer {
            Ok(tools) => Self::Tools(tools),
            Err(silence @ NoToolList::TimedOut(_)) => Self::TimedOut(silence.to_string()),
            Err(silence @ NoToolList::Failed(_)) => Self::Failed(silence.to_string()),
        }
    }

    fn probe(self) -> McpProbe {
        match self {
            Self::Tools(tools) => McpProbe::Answered(tools),
            Self::TimedOut(why) => McpProbe::TimedOut(why),
            Self::Failed(why) => McpProbe::Failed(why),
        }
    }

    fn good_for(&self) -> u64 {
        match self {
            Self::Tools(_) => GOOD_FOR,
            Self::TimedOut(_) | Self::Failed(_) => BAD_FOR,
        }
    }
}

/// What each server answers, by the names of their objects; all are asked at once.
pub async fn probes(
    context: &Context,
    servers: &[Object<AgentMcpServer>],
) -> BTreeMap<String, McpProbe> {
    let asked = servers.iter().map(|server| {
        let (context, spec) = (context.clone(), server.spec.clone());
        (server.name().to_owned(), tokio::spawn(async move { probe(&context, &spec).await }))
    });
    let asked: Vec<_> = asked.collect();
    let mut found = BTreeMap::new();
    for (name, asked) in asked {
        let probe = asked.await.unwrap_or_else(|error| McpProbe::Failed(error.to_string()));
        found.insert(name, probe);
    }
    found
}

/// What is remembered, or what it answers now. One that did answer, or did not, some time ago is asked again
/// beside: nobody's turn waits for a server that hangs.
async fn probe(context: &Context, spec: &AgentMcpServer) -> McpProbe {
    let file = file(context, spec);
    let now = system::now_ms();
    let known = std::fs::read(&file).ok();
    let known = known.and_then(|text| serde_json::from_slice::<CachedDiscovery>(&text).ok());
    let age = known.as_ref().and_then(|known| now.checked_sub(known.at));
    match (known, age) {
        (Some(known), Some(age)) if age < known.answer.good_for() => known.answer.probe(),
        (Some(known), Some(age)) if age < OLDEST => {
            tokio::spawn(refresh(file, spec.clone()));
            known.answer.probe()
        }
        (Some(_) | None, _) => {
            let asked = tokio::spawn(refresh(file, spec.clone()));
            match tokio::time::timeout(FIRST, asked).await {
                Ok(answer) => answer.unwrap_or_else(|error| McpProbe::Failed(error.to_string())),
                // It goes on, and is remembered for the next request.
                Err(_) => McpProbe::NotYet,
            }
        }
    }
}

/// Queries the server and caches the result; `None` while another query runs.
async fn refresh(file: PathBuf, spec: AgentMcpServer) -> McpProbe {
    let place = file.parent().map(std::fs::create_dir_all);
    let lock = File::create(file.with_extension("lock")).ok();
    if place.is_none_or(|made| made.is_err())
        || lock.as_ref().is_none_or(|it| it.try_lock().is_err())
    {
        return McpProbe::NotYet;
    }
    let answer = DiscoveryOutcome::of(ask(&spec).await);
    let remembered = CachedDiscovery { at: system::now_ms(), answer };
    if let Ok(text) = serde_json::to_string(&remembered) {
        // What cannot be remembered is asked again.
        let _ = system::write_whole(&file, &text);
    }
    drop(lock);
    remembered.answer.probe()
}

/// Where it is remembered: by all that can make a difference to the answer.
fn file(context: &Context, spec: &AgentMcpServer) -> PathBuf {
    let asked = serde_json::json!([spec.transport, spec.command, spec.args, spec.url]);
    let digest = Sha256Hex::of(asked.to_string());
    context.state.join("probes").join("servers").join(format!("{digest}.json"))
}

async fn ask(spec: &AgentMcpServer) -> ToolList {
    let missing = |what| Err(ServerError::Undeclared(what).into());
    match spec.transport {
        McpTransport::Stdio => {
            let Some(command) = spec.command.clone() else { return missing("program") };
            let arguments = spec.args.clone();
            let program = Program { command, arguments, level: Level::Full };
            let asked = tokio::task::spawn_blocking(move || {
                let launcher = Launcher::own();
                let launcher =
                    launcher.map_err(|error| ServerError::NotStarted(error.to_string()))?;
                ask_program(&launcher, &program, TIMEOUT)
            });
            asked.await.unwrap_or_else(|error| Err(ServerError::Broke(error.to_string()).into()))
        }
        McpTransport::StreamableHttp => match &spec.url {
            Some(url) => ask_remote(url, TIMEOUT).await,
            None => missing("address"),
        },
        McpTransport::Sse => Err(ServerError::Sse.into()),
    }
}
