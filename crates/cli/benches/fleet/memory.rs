//! What is resident of the server while 1,000,000 events go through 100 runs. This process holds the runs in
//! the place of their supervisors and keeps their events as they do; the server follows the runs by turns,
//! and sends every event to a watcher of its run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bailiwick_fleet::ports::{FleetStore, Write};
use bailiwick_lifecycle::ports::{NewRun, RunStore as _};
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{EventKind, Phase, ReportedBy};
use bailiwick_model::{AgentId, Event};
use bailiwick_resources::{
    API_VERSION, AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Metadata,
};
use bailiwick_runner::supervisor::{RunDirectory, RunLock};
use bailiwick_store::Store;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::place::{Place, Serving, now};
use crate::table::row;

const RUNS: usize = 100;
const EVENTS: usize = 1_000_000;
/// So often it is looked.
const LOOKS: usize = 10;
/// Events that a supervisor keeps at once.
const BATCH: usize = 100;

fn object(kind: Kind, name: &str, spec: Value, status: Value) -> AnyObject {
    let metadata = Metadata::named(name);
    AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
}

fn objects(agent: &AgentId, run: &str) -> [AnyObject; 2] {
    let spec = json!({
        "repository": "acme/app", "ref": "refs/heads/main", "sha": "0".repeat(40),
        "sourceEvent": { "source": "manual", "uid": run }, "agentStack": "fixer",
        "taskKind": "repair", "runnerPool": "inside", "trustTier": "trusted",
    });
    let now = now();
    let status = json!({
        "phase": "running", "attempts": [agent.as_str()], "startedAt": now,
        "agentMuxRunId": agent.as_str(),
    });
    let attempt = json!({
        "agentDispatchRun": run, "number": 1, "attemptReason": "initial",
        "agentStackSnapshot": { "digest": "0".repeat(64), "objects": [] },
        "contextBundleDigest": "0".repeat(64), "permissionSnapshotDigest": "0".repeat(64),
        "runnerPool": "inside",
    });
    let begun = json!({ "startedAt": now, "agentMuxRunId": agent.as_str() });
    [
        object(Kind::AgentDispatchAttempt, agent.as_str(), attempt, begun),
        object(Kind::AgentDispatchRun, run, spec, status),
    ]
}

/// A run whose supervisor we are.
async fn held(place: &Place, store: &Store, number: usize) -> (AgentId, String, RunLock) {
    let agent = AgentId::parse(&format!("ada-memory-{number}-1")).expect("an id");
    let run = NewRun {
        id: agent.clone(),
        branch: format!("agent/{agent}"),
        parent: None,
        spec_sha: "0".repeat(64),
        worktree: None,
        dna: None,
        creator: None,
        fork_parent: None,
        half_spawned: false,
        base: None,
        named: None,
    };
    store.record(&run, None).await.expect("a run");
    let attempt = Attempt {
        run: agent.clone(),
        number: 1,
        cli: "script".to_owned(),
        version: String::new(),
        model: String::new(),
        login: String::new(),
        sandbox: String::new(),
        session: None,
        phase: Phase::Working,
        ending: None,
        detail: String::new(),
        exhausted: None,
        started_at: 1,
        ended_at: None,
        used: Used::default(),
        budget: Allowance::default(),
    };
    store.begin_attempt(&attempt).await.expect("an attempt");
    let lock = RunDirectory::new(&place.scratch.state(), agent.as_str()).lock().expect("a lock");
    let name = format!("adr-memory-{number}");
    let made = objects(&agent, &name);
    made[0].typed::<AgentDispatchAttempt>().expect("an attempt");
    made[1].typed::<AgentDispatchRun>().expect("a run");
    let writes = made.map(Write::Create).to_vec();
    FleetStore::commit(store, writes, now()).await.expect("objects");
    (agent, name, lock.expect("nobody else holds it"))
}

/// Counts what comes.
async fn count(mut stream: TcpStream, seen: Arc<AtomicUsize>) {
    const NAME: &[u8] = b"event: event\n";
    let mut bytes = Vec::with_capacity(128 * 1024);
    loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let found = bytes.windows(NAME.len()).filter(|some| *some == NAME).count();
        seen.fetch_add(found, Ordering::Relaxed);
        // What may be the beginning of another name is looked at again.
        let rest = bytes.len().min(NAME.len() - 1);
        bytes.drain(..bytes.len() - rest);
    }
}

fn batch() -> Vec<Event> {
    let text = EventKind::Text { text: "The next line of what the model has to say. ".repeat(4) };
    let one = Event {
        number: 0,
        at: 1,
        reported_by: ReportedBy::Program,
        agent: None,
        what: text,
        raw: None,
    };
    vec![one; BATCH]
}

pub(crate) async fn measure(place: &Place, serving: &Serving, store: &Store) {
    let viewer = place.token("reader", "viewer");
    let seen = Arc::new(AtomicUsize::new(0));
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let (agent, name, lock) = held(place, store, number).await;
        let path = format!("/api/v1alpha1/runs/{name}/events?watch=1");
        let client = Client::from(number, serving.address).await;
        tokio::spawn(count(client.stream(&path, &viewer).await, Arc::clone(&seen)));
        runs.push((agent, lock));
    }
    let mut resident = Vec::new();
    for look in 1..=LOOKS {
        for _ in 0..EVENTS / LOOKS / RUNS / BATCH {
            for (agent, _) in &runs {
                store.append_events(agent, &mut batch()).await.expect("events");
            }
        }
        while seen.load(Ordering::Relaxed) < look * EVENTS / LOOKS {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        resident.push(serving.resident());
    }
    let mib = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
    let (first, last) = (resident[0], resident[LOOKS - 1]);
    let ratio = last as f64 / first as f64;
    row("memory, last and first of 10 looks", &mib(last), &mib(first), &format!("{ratio:.2} x"));
    let most = resident.iter().max().copied().unwrap_or_default();
    row("  1,000,000 events, 100 runs; the most", &mib(most), "", "");
}
