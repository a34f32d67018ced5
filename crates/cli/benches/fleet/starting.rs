//! From claim to start: from the commit by which a turn takes a run out of the queue to the commit which
//! says that the run's own supervisor process holds it, both seen by one watcher on one stream. In between
//! lie the permission review, the worktree of the agent, the process and its lock. Beside it: spawning a
//! process that does nothing, and our own program, until they have ended.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::stopwatch::{median, time};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::place::{Place, Serving};
use crate::table::{times, turns};

const ROUNDS: usize = 24;
/// Processes that are spawned in a round.
const SPAWNS: usize = 5;

/// Reads the changes of a stream as they come.
pub(crate) struct Watcher {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Watcher {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// The next change, and when it was here.
    pub(crate) async fn next(&mut self) -> (Instant, Value) {
        loop {
            let end = self.read.iter().position(|byte| *byte == b'\n');
            let Some(end) = end else {
                let length = self.stream.read_buf(&mut self.read).await.expect("the stream");
                assert_ne!(length, 0, "the stream ended");
                continue;
            };
            let at = Instant::now();
            let line: Vec<u8> = self.read.drain(..=end).collect();
            let data = line.strip_prefix(b"data: ").and_then(|data| {
                serde_json::from_slice::<Value>(data).ok().filter(|data| data["object"].is_object())
            });
            if let Some(data) = data {
                return (at, data["object"].clone());
            }
        }
    }
}

async fn started(asking: &mut Client, operator: &str, watcher: &mut Watcher) -> Duration {
    let wish = json!({
        "repository": "app", "agentStack": "fixer", "taskKind": "repair", "task": "Mend it.",
    });
    let head = format!("authorization: Bearer {operator}\r\ncontent-type: application/json\r\n");
    let path = "POST /api/v1alpha1/runs";
    let answered = asking.ask(path, &head, wish.to_string().as_bytes()).await;
    let said = String::from_utf8_lossy(&answered.body).into_owned();
    assert!((200..300).contains(&answered.status), "{}: {said}", answered.status);
    let (mut name, mut claimed, mut held) = (String::new(), None, None);
    loop {
        let (at, object) = watcher.next().await;
        let status = &object["status"];
        match object["kind"].as_str().unwrap_or_default() {
            "AgentDispatchRun" => {
                let phase = status["phase"].as_str().unwrap_or_default();
                if phase == "running" && claimed.is_none() {
                    name = object["metadata"]["name"].as_str().expect("a name").to_owned();
                    claimed = Some(at);
                }
                // However it ends: it was started.
                if ["failed", "succeeded", "cancelled"].contains(&phase) {
                    let (claimed, held) = (claimed.expect("a claim"), held);
                    let held: Instant = held.unwrap_or_else(|| panic!("not started: {object:#}"));
                    return held.duration_since(claimed);
                }
            }
            "AgentDispatchAttempt" => {
                let mine = object["spec"]["agentDispatchRun"] == name.as_str();
                let begun = !status["startedAt"].is_null() && status["completedAt"].is_null();
                if mine && begun && held.is_none() {
                    held = Some(at);
                }
            }
            _ => {}
        }
    }
}

fn spawned(mut command: Command) -> Duration {
    command.stdin(Stdio::null());
    time(command)
}

pub(crate) async fn measure(place: &Place, serving: &Serving) {
    let (viewer, operator) = (place.token("watcher", "viewer"), place.token("starter", "operator"));
    let mut asking = Client::from(241, serving.address).await;
    let path = "/api/v1alpha1/events?kind=AgentDispatchRun,AgentDispatchAttempt";
    let stream = Client::from(242, serving.address).await.stream(path, &viewer).await;
    let mut watcher = Watcher::new(stream);
    let (mut ours, mut nothing, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for contender in turns(round, 3) {
            match contender {
                0 => ours.push(started(&mut asking, &operator, &mut watcher).await),
                1 => nothing.extend((0..SPAWNS).map(|_| spawned(Command::new("/bin/true")))),
                _ => own.extend((0..SPAWNS).map(|_| {
                    let mut command = Command::new(env!("CARGO_BIN_EXE_bailiwick"));
                    command.arg("--version");
                    spawned(command)
                })),
            }
        }
    }
    let [ours, nothing, own] = [ours, nothing, own].map(|mut all| median(&mut all));
    times("claim to start, beside /bin/true", ours, nothing);
    times("  beside `bailiwick --version`", ours, own);
}
