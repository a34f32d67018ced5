//! What people say to a running attempt, from another terminal: one line of JSON each way.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_model::attempt::Allowance;
use bailiwick_model::event::{Answer, ExitReason};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::directory::RunDirectory;
use super::hub::{Hub, Progress};
use super::sockets;

/// The longest request.
const LONGEST: u64 = 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How does it stand?
    Status,
    /// End the agent; its work stays.
    Stop {
        /// Why.
        why: String,
    },
    /// Say something to the agent.
    Message {
        /// What.
        text: String,
    },
    /// Answer a question.
    Answer {
        /// Which one.
        id: String,
        /// The answer.
        answer: Answer,
    },
    /// Give another budget.
    Raise {
        /// All of it.
        budget: Allowance,
    },
}

/// What a supervisor answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It stands like this.
    Standing(Standing),
    /// It is done, or will be.
    Done,
    /// It cannot be done.
    Refused(String),
}

/// How an attempt stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// What is used, and of how much.
    pub progress: Progress,
    /// What people are asked: the id of each question, and what it is about.
    pub questions: Vec<(String, String)>,
}

/// Asks the supervisor of a run; nothing if it has none.
pub fn ask(directory: &RunDirectory, request: &Request) -> io::Result<Option<Reply>> {
    let mut stream = match sockets::connect(&directory.control_socket()) {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&answer)?))
}

/// Answers people until the listener is gone.
pub(super) async fn serve(listener: UnixListener, hub: Arc<Hub>, directory: RunDirectory) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (hub, directory) = (Arc::clone(&hub), directory.clone());
                tokio::spawn(async move {
                    let answered = connection(stream, &hub, &directory);
                    let _ = tokio::time::timeout(TIMEOUT, answered).await;
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(stream: UnixStream, hub: &Hub, directory: &RunDirectory) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(LONGEST)).read_line(&mut line).await?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(hub, directory, request),
        Err(error) => Reply::Refused(format!("the request cannot be read: {error}")),
    };
    let mut line = serde_json::to_string(&reply)?;
    line.push('\n');
    write.write_all(line.as_bytes()).await
}

fn answer(hub: &Hub, directory: &RunDirectory, request: Request) -> Reply {
    match request {
        Request::Status => {
            Reply::Standing(Standing { progress: hub.progress(), questions: hub.questions() })
        }
        Request::Stop { why } => {
            hub.end(ExitReason::Stopped, &why);
            Reply::Done
        }
        Request::Message { text } => match directory.say(&text) {
            Ok(()) => {
                hub.message(&text);
                Reply::Done
            }
            Err(error) => Reply::Refused(format!("it cannot be kept: {error}")),
        },
        Request::Answer { id, answer } => match hub.answer(&id, answer) {
            Ok(()) => Reply::Done,
            Err(why) => Reply::Refused(why),
        },
        Request::Raise { budget } => {
            hub.raise(budget);
            Reply::Done
        }
    }
}
