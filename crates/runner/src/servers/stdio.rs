//! A server that is a program: it is started in a sandbox without a network and with a clean environment, asked, and
//! ended with everything that it started.

use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::protocol::{self, MAX_BYTES, MAX_PAGES, MAX_REQUESTS, ServerMessage};
use super::{NoToolList, ServerError, ToolList};
use crate::sandbox::{
    Bounds, Launcher, Level, Network, Received, Report, Running, Sandbox, SandboxError, Streams,
};

/// The `PATH` for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const MEMORY: u64 = 1 << 30;
const PROCESSES: u64 = 256;
/// How much of its standard error is kept.
const COMPLAINTS: u64 = 16 * 1024;
/// How long to wait for its exit status.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server that is a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program, by its name or path.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The required level.
    pub level: Level,
}

/// Starts a server, lists its tools, and returns when all its processes have ended.
pub fn ask_program(launcher: &Launcher, program: &Program, timeout: Duration) -> ToolList {
    let refused = |error: SandboxError| ServerError::NotStarted(error.to_string());
    let pipes = |error: io::Error| ServerError::NoPipes(error.to_string());
    let (input, to_it) = io::pipe().map_err(pipes)?;
    let (from_it, output) = io::pipe().map_err(pipes)?;
    let (complaints, errors) = io::pipe().map_err(pipes)?;
    let streams =
        Streams::new(Stdio::from(output), Stdio::from(errors)).reading(OwnedFd::from(input));
    let argv: Vec<String> =
        [program.command.clone()].into_iter().chain(program.arguments.clone()).collect();
    let running = launcher.start_with(&sandbox(program.level), &argv, streams);
    let mut running = running.map_err(refused)?;
    let complained = std::thread::spawn(move || complained(complaints));
    let mut talk = Conversation {
        to_it,
        heard: listen(from_it),
        deadline: Instant::now() + timeout,
        asked: 0,
    };
    let listed = talk.tools();
    let ended = match &listed {
        Err(ConversationError::Disconnected) => how_it_ended(&mut running),
        Ok(_) | Err(ConversationError::TimedOut | ConversationError::Protocol(_)) => None,
    };
    // In every case: after this, no process remains that has the pipes open.
    running.end();
    drop(talk);
    let complaint = complained.join().unwrap_or_default();
    match listed {
        Ok(tools) => Ok(tools),
        Err(ConversationError::TimedOut) => Err(NoToolList::TimedOut(timeout)),
        Err(ConversationError::Protocol(error)) => Err(error.into()),
        Err(ConversationError::Disconnected) => {
            let how = ended.unwrap_or_else(|| "it ended".to_owned());
            Err(match complaint.is_empty() {
                true => ServerError::EndedSilently(how).into(),
                false => ServerError::Ended { how, complaint }.into(),
            })
        }
    }
}

fn sandbox(level: Level) -> Sandbox {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Sandbox {
        read_only: Vec::new(),
        writable: Vec::new(),
        layered: Vec::new(),
        overlaid: Vec::new(),
        private: Vec::new(),
        emptied: Vec::new(),
        hidden: Vec::new(),
        read_only_paths: Vec::new(),
        environment: vec![
            variable("PATH", PATH),
            variable("HOME", "/tmp"),
            variable("LANG", "C.UTF-8"),
        ],
        directory: PathBuf::from("/tmp"),
        network: Network::None,
        listener_port: None,
        bounds: Bounds { memory: Some(MEMORY), processes: Some(PROCESSES) },
        level,
    }
}

/// Why a conversation failed.
enum ConversationError {
    TimedOut,
    Disconnected,
    Protocol(ServerError),
}

struct Conversation {
    to_it: PipeWriter,
    heard: Receiver<Result<Value, ServerError>>,
    deadline: Instant,
    asked: usize,
}

impl Conversation {
    fn tools(&mut self) -> Result<Vec<bailiwick_model::DiscoveredTool>, ConversationError> {
        let hello = self.ask(&protocol::hello(), 0)?;
        protocol::require_tools_capability(&hello).map_err(ConversationError::Protocol)?;
        self.say(&protocol::ready())?;
        let (mut tools, mut cursor) = (Vec::new(), None);
        for id in 1..=MAX_PAGES {
            let result = self.ask(&protocol::list(id, cursor.as_deref()), id)?;
            cursor = protocol::page(&result, &mut tools).map_err(ConversationError::Protocol)?;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(ConversationError::Protocol(ServerError::EndlessList))
    }

    fn say(&mut self, message: &Value) -> Result<(), ConversationError> {
        // All our messages fit into the pipe, so that we do not wait for a server that does not read.
        let line = format!("{message}\n");
        self.to_it.write_all(line.as_bytes()).map_err(|_| ConversationError::Disconnected)
    }

    fn ask(&mut self, message: &Value, id: usize) -> Result<Value, ConversationError> {
        self.say(message)?;
        loop {
            if self.asked > MAX_REQUESTS {
                return Err(ConversationError::Protocol(ServerError::AsksTooMuch));
            }
            let remaining = self.deadline.saturating_duration_since(Instant::now());
            let message = match self.heard.recv_timeout(remaining) {
                Ok(message) => message.map_err(ConversationError::Protocol)?,
                Err(RecvTimeoutError::Timeout) => return Err(ConversationError::TimedOut),
                Err(RecvTimeoutError::Disconnected) => return Err(ConversationError::Disconnected),
            };
            match protocol::parse(&message, id).map_err(ConversationError::Protocol)? {
                ServerMessage::Result(result) => return Ok(result),
                ServerMessage::Request(answer) => {
                    self.asked += 1;
                    self.say(&answer)?;
                }
                ServerMessage::Notification => {}
            }
        }
    }
}

/// Its messages, one per line, until one is invalid or there are too many.
fn listen(from_it: PipeReader) -> Receiver<Result<Value, ServerError>> {
    let (sender, receiver) = mpsc::sync_channel(16);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from_it.take(u64::try_from(MAX_BYTES).unwrap_or(u64::MAX)));
        let mut read = 0;
        loop {
            let mut line = String::new();
            let message = match lines.read_line(&mut line) {
                Ok(0) if read >= MAX_BYTES => Err(ServerError::TooMuch),
                Ok(0) => return,
                Ok(length) => {
                    read += length;
                    if line.trim().is_empty() {
                        continue;
                    }
                    serde_json::from_str(&line)
                        .map_err(|_| ServerError::NoMessage(protocol::shown(&line)))
                }
                Err(_) => Err(ServerError::NoText),
            };
            let over = message.is_err();
            if sender.send(message).is_err() || over {
                return;
            }
        }
    });
    receiver
}

/// The last line of what it complained about.
fn complained(complaints: PipeReader) -> String {
    let mut text = Vec::new();
    let mut complaints = complaints.take(COMPLAINTS);
    let _ = complaints.read_to_end(&mut text);
    // A program with much output on standard error is not blocked.
    let _ = io::copy(&mut complaints.into_inner(), &mut io::sink());
    protocol::shown(&String::from_utf8_lossy(&text))
}

fn how_it_ended(running: &mut Running) -> Option<String> {
    let deadline = Instant::now() + LAST_WORDS;
    loop {
        return match running.next_report(deadline.saturating_duration_since(Instant::now())) {
            Received::Report(Report::Listener(_) | Report::Confinement(_)) => continue,
            Received::Report(Report::Exit(code)) => Some(format!("it ended with {code}")),
            Received::Report(Report::Signal(signal)) => Some(format!("signal {signal} ended it")),
            Received::Report(Report::MemorySpent(_)) => Some("it took too much memory".to_owned()),
            Received::Report(Report::Refused(error)) => {
                Some(format!("it was not started: {error}"))
            }
            Received::TimedOut | Received::Closed => None,
        };
    }
}
