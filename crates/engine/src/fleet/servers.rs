//! Asks managed MCP servers for their tools, and caches the answers by the servers' specs.
//!
//! Only servers in the store are asked. A server that is a program is started in an empty sandbox. A server that
//! only a commit describes is started by the agent, in the agent's sandbox.

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

/// How long an answer is cached.
const SUCCESS_TTL_MS: u64 = 10 * 60 * 1000;
/// How long a failure is cached: short, so that a repaired server is seen soon.
const FAILURE_TTL_MS: u64 = 60 * 1000;
/// How long a reconciliation waits for a server that is not cached.
const MAX_FIRST_WAIT: Duration = Duration::from_secs(5);
/// The maximum age of an answer that is used while the server is asked again.
const MAX_STALE_MS: u64 = 60 * 60 * 1000;

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

    fn ttl_ms(&self) -> u64 {
        match self {
            Self::Tools(_) => SUCCESS_TTL_MS,
            Self::TimedOut(_) | Self::Failed(_) => FAILURE_TTL_MS,
        }
    }
}

/// The answer of each server, by the names of their objects. All are asked at once.
pub async fn probes(
    context: &Context,
    servers: &[Object<AgentMcpServer>],
) -> BTreeMap<String, McpProbe> {
    let probes = servers.iter().map(|server| {
        let (context, spec) = (context.clone(), server.spec.clone());
        (server.name().to_owned(), tokio::spawn(async move { probe(&context, &spec).await }))
    });
    let probes: Vec<_> = probes.collect();
    let mut found = BTreeMap::new();
    for (name, probe) in probes {
        let probe = probe.await.unwrap_or_else(|error| McpProbe::Failed(error.to_string()));
        found.insert(name, probe);
    }
    found
}

/// The cached answer, or what the server answers now. If the cached answer has expired, the server is asked again in
/// the background, so that no reconciliation waits for a server that hangs.
async fn probe(context: &Context, spec: &AgentMcpServer) -> McpProbe {
    let file = file(context, spec);
    let now = system::now_ms();
    let known = std::fs::read(&file).ok();
    let known = known.and_then(|text| serde_json::from_slice::<CachedDiscovery>(&text).ok());
    let age = known.as_ref().and_then(|known| now.checked_sub(known.at));
    match (known, age) {
        (Some(known), Some(age)) if age < known.answer.ttl_ms() => known.answer.probe(),
        (Some(known), Some(age)) if age < MAX_STALE_MS => {
            tokio::spawn(refresh(file, spec.clone()));
            known.answer.probe()
        }
        (Some(_) | None, _) => {
            let refreshed = tokio::spawn(refresh(file, spec.clone()));
            match tokio::time::timeout(MAX_FIRST_WAIT, refreshed).await {
                Ok(answer) => answer.unwrap_or_else(|error| McpProbe::Failed(error.to_string())),
                // The query continues, and its answer is cached for the next request.
                Err(_) => McpProbe::NotYet,
            }
        }
    }
}

/// Queries the server and caches the result; `None` while another query runs.
async fn refresh(file: PathBuf, spec: AgentMcpServer) -> McpProbe {
    let place = file.parent().map(std::fs::create_dir_all);
    let lock = File::create(file.with_extension("lock")).ok();
    if place.is_none_or(|created| created.is_err())
        || lock.as_ref().is_none_or(|it| it.try_lock().is_err())
    {
        return McpProbe::NotYet;
    }
    let answer = DiscoveryOutcome::of(ask(&spec).await);
    let remembered = CachedDiscovery { at: system::now_ms(), answer };
    if let Ok(text) = serde_json::to_string(&remembered) {
        // If it cannot be cached, the server is asked again.
        let _ = system::write_whole(&file, &text);
    }
    drop(lock);
    remembered.answer.probe()
}

/// The path of the cached answer. It depends on everything that can change the answer.
fn file(context: &Context, spec: &AgentMcpServer) -> PathBuf {
    let identity = serde_json::json!([spec.transport, spec.command, spec.args, spec.url]);
    let digest = Sha256Hex::of(identity.to_string());
    context.state.join("probes").join("servers").join(format!("{digest}.json"))
}

async fn ask(spec: &AgentMcpServer) -> ToolList {
    let missing = |what| Err(ServerError::Undeclared(what).into());
    match spec.transport {
        McpTransport::Stdio => {
            let Some(command) = spec.command.clone() else { return missing("program") };
            let arguments = spec.args.clone();
            let program = Program { command, arguments, level: Level::Full };
            let answer = tokio::task::spawn_blocking(move || {
                let launcher = Launcher::own();
                let launcher =
                    launcher.map_err(|error| ServerError::NotStarted(error.to_string()))?;
                ask_program(&launcher, &program, TIMEOUT)
            });
            answer.await.unwrap_or_else(|error| Err(ServerError::Broke(error.to_string()).into()))
        }
        McpTransport::StreamableHttp => match &spec.url {
            Some(url) => ask_remote(url, TIMEOUT).await,
            None => missing("address"),
        },
        McpTransport::Sse => Err(ServerError::Sse.into()),
    }
}
