//! The control socket of a running attempt: one line of JSON each way.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_model::attempt::Allowance;
use bailiwick_model::event::{Answer, ExitReason};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::attempt_state::AttemptState;
use super::directory::RunDirectory;
use super::progress::Progress;
use super::sockets;

/// The longest request in bytes.
const MAX_REQUEST_BYTES: u64 = 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request to a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Report progress and open questions.
    Status,
    /// Stop the agent; its work stays.
    Stop {
        /// The reason, for the record.
        why: String,
    },
    /// Send a message to the agent.
    Message {
        /// The message.
        text: String,
    },
    /// Answer an approval question.
    Answer {
        /// The id of the question.
        id: String,
        /// The answer.
        answer: Answer,
    },
    /// Replace the budget of the attempt.
    #[serde(rename = "raise")]
    SetBudget {
        /// The whole new budget.
        budget: Allowance,
    },
}

/// The reply of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Progress and open questions.
    #[serde(rename = "standing")]
    Status(AttemptStatus),
    /// The request is carried out, or will be.
    Done,
    /// The request is refused, for this reason.
    Refused(String),
}

/// Progress of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStatus {
    /// Usage and budget.
    pub progress: Progress,
    /// Open approval questions: the id and the text of each.
    pub questions: Vec<(String, String)>,
    /// When each of them is denied if nobody answers, in milliseconds since 1970. Supervisors of earlier versions do
    /// not send it.
    #[serde(default)]
    pub question_expiries: BTreeMap<String, u64>,
}

/// Sends a request to the supervisor of a run; `None` if no supervisor is running.
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

/// Serves control requests until the listener is closed.
pub(super) async fn serve(
    listener: UnixListener,
    attempt_state: Arc<AttemptState>,
    directory: RunDirectory,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (attempt_state, directory) = (Arc::clone(&attempt_state), directory.clone());
                tokio::spawn(async move {
                    let answered = connection(stream, &attempt_state, &directory);
                    let _ = tokio::time::timeout(TIMEOUT, answered).await;
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(
    stream: UnixStream,
    attempt_state: &AttemptState,
    directory: &RunDirectory,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(MAX_REQUEST_BYTES)).read_line(&mut line).await?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(attempt_state, directory, request),
        Err(error) => Reply::Refused(format!("the request cannot be read: {error}")),
    };
    let mut line = serde_json::to_string(&reply)?;
    line.push('\n');
    write.write_all(line.as_bytes()).await
}

fn answer(attempt_state: &AttemptState, directory: &RunDirectory, request: Request) -> Reply {
    match request {
        Request::Status => Reply::Status(AttemptStatus {
            progress: attempt_state.progress(),
            questions: attempt_state.questions(),
            question_expiries: attempt_state.question_expiries(),
        }),
        Request::Stop { why } => {
            attempt_state.end(ExitReason::Stopped, &why);
            Reply::Done
        }
        Request::Message { text } => match directory.add_message(&text) {
            Ok(()) => {
                attempt_state.message(&text);
                Reply::Done
            }
            Err(error) => Reply::Refused(format!("it cannot be kept: {error}")),
        },
        Request::Answer { id, answer } => match attempt_state.answer(&id, answer) {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Refused(error.to_string()),
        },
        Request::SetBudget { budget } => {
            attempt_state.set_budget(budget);
            Reply::Done
        }
    }
}
