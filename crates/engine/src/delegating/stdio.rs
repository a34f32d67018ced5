//! The MCP server on standard input and output.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bailiwick_runner::supervisor;
use rmcp::ServiceExt as _;
use serde_json::Value;

use super::merged_files;
use super::merging::MERGE_AGENT;
use super::server::{CallHandler, Server};
use crate::failure::Failure;

/// Serves calls that a supervisor answers; needs no configuration of a person.
pub fn forwarding(socket: PathBuf) -> CallHandler {
    Arc::new(move |tool: &str, arguments: Value, cancelled: &AtomicBool| {
        let answer = supervisor::forward(&socket, tool, arguments, cancelled)
            .unwrap_or_else(|error| Err(format!("the supervisor cannot be asked: {error}")))?;
        // The supervisor has merged; this process is in the sandbox of the agent whose files change.
        if tool == MERGE_AGENT { merged_files::write(&answer) } else { Ok(answer) }
    })
}

/// Serves until the program closes its end.
pub fn serve(answer: CallHandler) -> Result<(), Failure> {
    let failed = |error: String| Failure::general(format!("the MCP server: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    runtime.block_on(async {
        let serving = Server::new(answer).serve(rmcp::transport::stdio()).await;
        let serving = serving.map_err(|error| failed(error.to_string()))?;
        serving.waiting().await.map(drop).map_err(|error| failed(error.to_string()))
    })?;
    // Calls that still wait for an agent are dropped.
    runtime.shutdown_background();
    Ok(())
}
