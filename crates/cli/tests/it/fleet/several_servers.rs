//! Several servers on one PostgreSQL database: one runs the controllers, all serve requests, and nothing is lost or
//! repeated when they are killed, paused and restarted.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::forge::{Told, Webhook};
use serde_json::{Value, json};

use super::postgres::on_postgres;
use super::scripted::place_with_script_at;
use super::{Place, SECRET, Serving, config_map};

/// Longer than a lease.
const PAUSE: Duration = Duration::from_secs(14);

fn connect(address: &str) -> Option<TcpStream> {
    TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_secs(2)).ok()
}

/// The status and body of a response, or `None` if the server does not respond in time.
fn request(address: &str, head: &str, body: &[u8]) -> Option<(u16, String)> {
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let text = format!(
        "{head}Host: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[text.as_bytes(), body].concat()).ok()?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).ok()?;
    let response = String::from_utf8_lossy(&response).into_owned();
    let status = response.split(' ').nth(1)?.parse().ok()?;
    let body = response.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    Some((status, body.unwrap_or_default()))
}

fn get(address: &str, path: &str, token: &str) -> Option<(u16, String)> {
    request(address, &format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"), b"")
}

/// Whether a ready server is the leader; `None` if it is not ready.
fn is_leader(address: &str) -> Option<bool> {
    let (status, body) = get(address, "/readyz", "")?;
    match (status, body.as_str()) {
        (200, "ready (leader)\n") => Some(true),
        (200, "ready (follower)\n") => Some(false),
        _ => None,
    }
}

fn deliver(address: &str, webhook: &Webhook) -> bool {
    let mut head = "POST /webhooks/app HTTP/1.1\r\n".to_owned();
    for (name, value) in webhook.headers(SECRET) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    request(address, &head, &webhook.body()).is_some_and(|(status, _)| matches!(status, 200 | 202))
}

/// Sends a webhook until a server accepts it, as a forge does.
pub(super) fn deliver_to_any(addresses: &[String], first: usize, webhook: &Webhook) {
    let deadline = Instant::now() + super::TIMEOUT;
    for address in addresses.iter().cycle().skip(first % addresses.len()) {
        if deliver(address, webhook) {
            return;
        }
        assert!(Instant::now() < deadline, "no server accepts a delivery");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn signal(server: &Serving, name: &str) {
    let process = server.child.id().to_string();
    let sent = Command::new("kill").args([&format!("-{name}"), &process]).status().unwrap();
    assert!(sent.success());
}

/// Servers with fixed addresses, as behind a load balancer.
struct Servers<'a> {
    place: &'a Place,
    addresses: Vec<String>,
    running: Vec<Serving>,
}

impl<'a> Servers<'a> {
    fn start(place: &'a Place, count: usize) -> Self {
        let running: Vec<Serving> = (0..count).map(|_| Serving::start(place)).collect();
        let addresses = running.iter().map(|server| server.address.clone()).collect();
        let servers = Self { place, addresses, running };
        servers.wait_for_leader();
        servers
    }

    /// Waits until exactly one server is the leader, and returns its index.
    fn wait_for_leader(&self) -> usize {
        let deadline = Instant::now() + super::TIMEOUT;
        loop {
            let roles: Vec<Option<bool>> =
                self.addresses.iter().map(|address| is_leader(address)).collect();
            let leaders: Vec<usize> =
                (0..roles.len()).filter(|index| roles[*index] == Some(true)).collect();
            if let [leader] = leaders[..] {
                return leader;
            }
            assert!(Instant::now() < deadline, "there is not exactly one leader: {roles:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends a server by a signal, and restarts it on its address after another server has become the leader.
    fn restart(&mut self, index: usize, name: &str) {
        signal(&self.running[index], name);
        self.running[index].child.wait().unwrap();
        let ended = Instant::now();
        let leader = self.wait_for_leader();
        assert_ne!(leader, index);
        // A follower tries every two seconds; the rest is a margin for a busy machine.
        assert!(ended.elapsed() < Duration::from_secs(15), "{:?}", ended.elapsed());
        let address = self.addresses[index].clone();
        self.running[index] = Serving::listen(&self.place.scratch, &address);
    }
}

/// A client that watches deliveries, and reconnects to any server. It stores each event with its version.
pub(super) struct Watcher {
    seen: Arc<Mutex<Vec<(u64, String, String)>>>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Watcher {
    pub(super) fn start(addresses: Vec<String>, token: String) -> Self {
        let (seen, stop) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (events, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut cursor = Some(0);
            // It starts with the last server, which is a follower.
            for address in addresses.iter().rev().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let _ = watch(address, &token, &mut cursor, &events, &stopped);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Self { seen, stop, thread }
    }

    pub(super) fn added(&self) -> usize {
        self.seen.lock().unwrap().iter().filter(|(_, what, _)| what == "ADDED").count()
    }

    pub(super) fn finish(self) -> Vec<(u64, String, String)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.seen.lock().unwrap().clone()
    }
}

fn watch(
    address: &str,
    token: &str,
    cursor: &mut Option<u64>,
    seen: &Mutex<Vec<(u64, String, String)>>,
    stop: &AtomicBool,
) -> Option<()> {
    let mut stream = connect(address)?;
    // A paused server sends nothing; the client then reconnects to another one.
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let last = cursor.map(|last: u64| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
    let head = format!(
        "GET /api/v1alpha1/webhookdeliveries?watch=1 HTTP/1.1\r\nHost: {address}\r\nAuthorization: \
         Bearer {token}\r\n{last}\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    let (mut id_of_event, mut event) = (None, None);
    while !stop.load(Ordering::Relaxed) {
        line.clear();
        if lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(id) = line.strip_prefix("id: ") {
            id_of_event = id.trim().parse().ok();
        } else if line == "\n" {
            // The event is complete.
            *cursor = id_of_event.take().or(*cursor);
            seen.lock().unwrap().extend(event.take());
        } else if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data.trim()).unwrap();
            assert_ne!(data["type"], "RESYNC", "{data}");
            let name = data["object"]["metadata"]["name"].as_str().map(str::to_owned);
            if let (Some(version), Some(name)) = (data["version"].as_u64(), name) {
                let what = data["type"].as_str().unwrap().to_owned();
                event = Some((version, what, name));
            }
        }
    }
    Some(())
}

/// A place whose rule starts a run for each label, which comments on its issue.
fn place_with_comments() -> Place {
    let script = json!([{ "do": "write", "path": "src/made.txt", "text": "made\n" }]);
    place_with_comments_at(on_postgres(), &script, &json!({ "capacity": 2 }))
}

/// The same at an existing place, with another script and pool.
pub(super) fn place_with_comments_at(place: Place, script: &Value, pool: &Value) -> Place {
    let place = place_with_script_at(place, &[], script, |kind, spec| match kind {
        "RunnerPool" => {
            let changed = pool.as_object().unwrap().clone();
            spec.as_object_mut().unwrap().extend(changed);
        }
        "AgentStack" => {
            spec["writeBackPolicy"] = json!({
                "allowedTargets": ["issue-comment"], "modes": { "issue-comment": "auto" },
            });
        }
        "AgentTriggerRule" => {
            *spec = json!({
                "lifecycleState": "active", "sources": ["label"], "allowLabelDispatch": true,
                "match": { "repository": ["acme/app"], "labels": ["agent"] },
                "agentStack": "fixer", "taskKind": "repair", "promptTemplate": "Do it.",
                "writeBackPolicy": { "allowedTargets": ["issue-comment"] },
            });
        }
        _ => {}
    });
    place.forge.permit("labeller", "write");
    place
}

/// Opens an issue with a label. Returns its number and the webhook.
pub(super) fn label_new_issue(place: &Place) -> (u64, Webhook) {
    let number = place.forge.add_issue("Work", "Please.");
    place.forge.put_label(number, "agent");
    (number, place.forge.webhook(&Told::Label { number, label: "agent".to_owned() }))
}

#[test]
fn killed_and_paused_servers_lose_or_duplicate_nothing() {
    let rounds = if Depth::from_env() == Depth::Full { 10 } else { 1 };
    let place = place_with_comments();
    let token = place.run(&["tokens", "new", "ada", "--scope", "admin"]).expect_code(0).out;
    let token = token.trim().to_owned();
    let mut servers = Servers::start(&place, 3);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    let addresses = servers.addresses.clone();
    let watcher = Watcher::start(addresses.clone(), token);
    let is_over = AtomicBool::new(false);
    let (issues, sent) = std::thread::scope(|scope| {
        // Deliveries that start no run, to all servers in turn.
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                let number = place.forge.add_issue("Quiet", "Nothing to do.");
                let label = Told::Label { number, label: "other".to_owned() };
                deliver_to_any(&addresses, sent, &place.forge.webhook(&label));
                sent += 1;
                std::thread::sleep(Duration::from_millis(150));
            }
            sent
        });
        let mut issues = Vec::new();
        let mut start_run = |server: usize| {
            let (number, webhook) = label_new_issue(&place);
            deliver_to_any(&addresses, server, &webhook);
            issues.push(number);
        };
        for _ in 0..rounds {
            let leader = servers.wait_for_leader();
            start_run(leader + 1);
            servers.restart(leader, "KILL");
            let leader = servers.wait_for_leader();
            start_run(leader);
            signal(&servers.running[leader], "STOP");
            start_run(leader + 1);
            std::thread::sleep(PAUSE);
            assert_ne!(servers.wait_for_leader(), leader);
            signal(&servers.running[leader], "CONT");
            for index in 0..servers.running.len() {
                start_run(index);
                let leader = servers.wait_for_leader();
                servers.restart(leader, "TERM");
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let other_deliveries = sender.join().unwrap();
        let sent = other_deliveries + issues.len();
        (issues, sent)
    });
    // There is one run for each issue; each succeeds and writes one comment.
    let runs = place.wait_for("the end of all runs", || {
        let pending = place.json(&["get", "approvals", "--field", "phase=pending"]);
        for approval in pending.as_array().unwrap() {
            let name = approval["metadata"]["name"].as_str().unwrap();
            place.run(&["approvals", "approve", name]);
        }
        let runs = place.json(&["get", "runs"]);
        let runs = runs.as_array().unwrap().clone();
        let is_over = |run: &Value| run["status"]["phase"] == "succeeded";
        (runs.len() >= issues.len() && runs.iter().all(is_over)).then_some(runs)
    });
    assert_eq!(runs.len(), issues.len(), "{runs:#?}");
    for run in &runs {
        assert_eq!(run["status"]["attempts"].as_array().unwrap().len(), 1, "{run:#}");
    }
    for issue in &issues {
        assert_eq!(place.forge.comments(*issue).len(), 1, "issue {issue}");
    }
    // Each delivery is stored once, and the client has received each once and in order.
    let stored = place.json(&["get", "deliveries"]);
    assert_eq!(stored.as_array().unwrap().len(), sent);
    place.wait_for("all events", || (watcher.added() >= sent).then_some(()));
    let events = watcher.finish();
    assert!(
        events.is_sorted_by(|one, other| one.0 < other.0),
        "events are out of order or repeated"
    );
    let added = events.iter().filter(|(_, what, _)| what == "ADDED").map(|(_, _, name)| name);
    assert_eq!(added.collect::<BTreeSet<_>>().len(), sent);
}

#[test]
fn each_server_gets_changes_of_the_others_and_reports_its_role() {
    let place = on_postgres();
    let new_token = |scope: &str| {
        let output = place.run(&["tokens", "new", "ada", "--scope", scope]).expect_code(0).out;
        output.trim().to_owned()
    };
    let (admin, viewer) = (new_token("admin"), new_token("viewer"));
    let servers = Servers::start(&place, 2);
    let leader = servers.wait_for_leader();
    let follower = 1 - leader;
    let health = get(&servers.addresses[follower], "/healthz", "").unwrap();
    assert_eq!(health, (200, "ok (follower)\n".to_owned()));
    for (index, line) in [(leader, "bailiwick_leader 1\n"), (follower, "bailiwick_leader 0\n")] {
        let (_, metrics) = get(&servers.addresses[index], "/metrics", &admin).unwrap();
        assert!(metrics.contains(line), "{metrics}");
    }
    // A stream of one server contains writes of the other one, and ends when its token is revoked.
    let mut stream = TcpStream::connect(&servers.addresses[follower]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET /api/v1alpha1/configmaps?watch=1 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer \
         {viewer}\r\n\r\n",
        servers.addresses[follower]
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream);
    let mut wait_for_line = |part: &str| {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the stream ended before `{part}`");
        }
        Instant::now()
    };
    wait_for_line("heartbeat");
    let path = "/api/v1alpha1/namespaces/default/configmaps";
    let written_at = Instant::now();
    let (status, output) =
        servers.running[leader].request("POST", path, &admin, &config_map("heard", "1"));
    assert_eq!(status, 201, "{output}");
    let received_after = wait_for_line("\"heard\"").duration_since(written_at);
    let (_, me) =
        servers.running[leader].request("GET", "/api/v1alpha1/whoami", &viewer, &Value::Null);
    let token = format!("/api/v1alpha1/tokens/{}", me["token"].as_str().unwrap());
    let revoked_at = Instant::now();
    let (status, output) = servers.running[leader].request("DELETE", &token, &admin, &Value::Null);
    assert_eq!(status, 200, "{output}");
    let ended_after = wait_for_line("no longer valid").duration_since(revoked_at);
    // Each takes about a second; the rest is a margin for a busy machine.
    assert!(
        received_after < Duration::from_secs(5) && ended_after < Duration::from_secs(6),
        "{received_after:?} {ended_after:?}"
    );
    let (status, _) = servers.running[follower].request("GET", path, &viewer, &Value::Null);
    assert_eq!(status, 401);
}

#[test]
fn server_that_cannot_follow_the_leader_is_refused() {
    let place = on_postgres();
    let leader = Serving::start(&place);
    let other_state = tempfile::tempdir().unwrap();
    let mut command = place.scratch.command(crate::BAILIWICK);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("BAILIWICK_STATE", other_state.path());
    let refused = bailiwick_testkit::scratch::Ran::from(command.output().unwrap()).expect_code(2);
    assert!(refused.err.contains("with another state directory, leads"), "{}", refused.err);
    assert!(refused.err.contains("with the same BAILIWICK_STATE"), "{}", refused.err);
    drop(leader);
}

#[test]
fn sqlite_database_has_only_one_server() {
    let place = Place::bare();
    let serving = Serving::start(&place);
    assert_eq!(is_leader(&serving.address), Some(true));
    let second = place.run(&["serve", "--listen", "127.0.0.1:0"]).expect_code(2);
    assert!(second.err.contains("another `bailiwick serve` uses this database"), "{}", second.err);
    drop(serving);
}
