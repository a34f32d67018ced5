//! Answering an agent that delegates: one call and one answer a connection. Who calls is known by the
//! socket, which only the sandbox of its run sees.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_control::ports::Delegation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::hub::Hub;
use super::launch::INSIDE;
use super::sockets;
use crate::sandbox::Level;

/// Calls that are answered at once; more wait.
const AT_ONCE: usize = 16;
/// How long a call may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest call.
const LONGEST: u64 = 4 << 20;
/// How often an agent that waits for others gives a sign of life.
const BEAT: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    tool: String,
    arguments: Value,
}

/// Where the socket is, for whoever is inside of a sandbox of this level.
pub fn inside_socket(directory: &super::RunDirectory, level: Level) -> PathBuf {
    match level {
        Level::Off => directory.delegation_socket(),
        Level::Partial | Level::Full => Path::new(INSIDE).join("gate/delegate.sock"),
    }
}

/// Hands a call over to the supervisor that listens at a socket, and waits for its answer.
pub fn forward(socket: &Path, tool: &str, arguments: Value) -> io::Result<Result<Value, String>> {
    let mut stream = sockets::connect(socket)?;
    let mut line = serde_json::to_string(&Asked { tool: tool.to_owned(), arguments })?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::other("the supervisor gave no answer"));
    }
    Ok(serde_json::from_str(&answer)?)
}

/// Answers until the listener is gone.
pub(super) async fn serve(listener: UnixListener, answers: Arc<dyn Delegation>, hub: Arc<Hub>) {
    let places = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (answers, hub) = (Arc::clone(&answers), Arc::clone(&hub));
                tokio::spawn(async move {
                    // Whoever is gone needs no answer.
                    let _ = connection(stream, answers, &hub).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(stream: UnixStream, answers: Arc<dyn Delegation>, hub: &Hub) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut read = tokio::io::BufReader::new(read.take(LONGEST));
    tokio::time::timeout(PATIENCE, read.read_line(&mut line)).await??;
    let answer = match serde_json::from_str::<Asked>(&line) {
        Err(error) => Err(format!("the call cannot be read: {error}")),
        Ok(_) if hub.ending().is_some() => Err("the run is over".to_owned()),
        Ok(Asked { tool, arguments }) => {
            let mut answer = tokio::task::spawn_blocking(move || answers.call(&tool, &arguments));
            loop {
                hub.touch();
                match tokio::time::timeout(BEAT, &mut answer).await {
                    Ok(answer) => {
                        break answer.unwrap_or_else(|_| Err("the supervisor failed".to_owned()));
                    }
                    Err(_) if hub.ending().is_some() => break Err("the run is over".to_owned()),
                    Err(_) => {}
                }
            }
        }
    };
    let mut line = serde_json::to_string(&answer)?;
    line.push('\n');
    write.write_all(line.as_bytes()).await
}
