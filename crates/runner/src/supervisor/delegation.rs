//! Answering an agent that delegates: one call and one answer a connection. Who calls is known by the
//! socket, which only the sandbox of its run sees.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiwick_lifecycle::ports::Delegation;
use bailiwick_policy::tool_lists::OWN_SERVER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::attempt_state::AttemptState;
use super::launch::INSIDE;
use super::sockets;
use crate::sandbox::Level;

/// The maximum number of parallel calls; more wait.
const MAX_CALLS: usize = 16;
/// How long a call may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest call.
const MAX_CALL_BYTES: u64 = 4 << 20;
/// How often an agent that waits for others gives a sign of life.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(5);
/// How often a waiting caller checks whether the answer is still needed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize, Deserialize)]
struct DelegationCall {
    tool: String,
    arguments: Value,
}

/// The path of the socket, as seen inside a sandbox of this level.
pub fn inside_socket(directory: &super::RunDirectory, level: Level) -> PathBuf {
    match level {
        Level::Off => directory.delegation_socket(),
        Level::Partial | Level::Full => Path::new(INSIDE).join("gate/delegate.sock"),
    }
}

/// Hands a call over to the supervisor that listens at a socket, and waits for its answer until the
/// caller is gone.
pub fn forward(
    socket: &Path,
    tool: &str,
    arguments: Value,
    cancelled: &AtomicBool,
) -> io::Result<Result<Value, String>> {
    let mut stream = sockets::connect(socket)?;
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    let mut line = serde_json::to_string(&DelegationCall { tool: tool.to_owned(), arguments })?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let (mut stream, mut answer) = (BufReader::new(stream), Vec::new());
    while let Err(error) = stream.read_until(b'\n', &mut answer) {
        let waits = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        if !waits || cancelled.load(Ordering::Relaxed) {
            return Err(error);
        }
    }
    if answer.is_empty() {
        return Err(io::Error::other("the supervisor gave no answer"));
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// Answers until the listener is gone.
pub(super) async fn serve(
    listener: UnixListener,
    answers: Arc<dyn Delegation>,
    attempt_state: Arc<AttemptState>,
) {
    let places = Arc::new(tokio::sync::Semaphore::new(MAX_CALLS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (answers, attempt_state) = (Arc::clone(&answers), Arc::clone(&attempt_state));
                tokio::spawn(async move {
                    // A caller that is gone needs no answer.
                    let _ = connection(stream, answers, &attempt_state).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(
    stream: UnixStream,
    answers: Arc<dyn Delegation>,
    attempt_state: &AttemptState,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut read = tokio::io::BufReader::new(read.take(MAX_CALL_BYTES));
    tokio::time::timeout(TIMEOUT, read.read_line(&mut line)).await??;
    let answer = match serde_json::from_str::<DelegationCall>(&line) {
        Err(error) => Err(format!("the call cannot be read: {error}")),
        Ok(_) if attempt_state.ending().is_some() => Err("the run has ended".to_owned()),
        Ok(DelegationCall { tool, arguments }) => {
            let cancelled = Arc::new(AtomicBool::new(false));
            let call_cancelled = Arc::clone(&cancelled);
            let consent = attempt_state.consent(&format!("mcp__{OWN_SERVER}__{tool}"), &arguments);
            let call = move || answers.call(&tool, &arguments, consent, &call_cancelled);
            let mut answer = tokio::task::spawn_blocking(call);
            let mut more = [0_u8; 64];
            loop {
                attempt_state.touch();
                tokio::select! {
                    answer = &mut answer => {
                        break answer.unwrap_or_else(|_| Err("the supervisor failed".to_owned()));
                    }
                    // The connection is closed: no one receives the answer, and the call is cancelled.
                    read = read.read(&mut more) => if !matches!(read, Ok(1..)) {
                        cancelled.store(true, Ordering::Relaxed);
                        let _ = answer.await;
                        return Ok(());
                    },
                    () = tokio::time::sleep(ACTIVITY_INTERVAL) => if attempt_state.ending().is_some() {
                        cancelled.store(true, Ordering::Relaxed);
                        break Err("the run has ended".to_owned());
                    }
                }
            }
        }
    };
    let mut line = serde_json::to_string(&answer)?;
    line.push('\n');
    write.write_all(line.as_bytes()).await
}
