//! What one broken forge costs the repositories on other forges: the time from a comment's webhook to its run, for
//! nine repositories, while the forge of a tenth hangs, fails, refuses, limits, resets or drips. Beside it the same
//! nine while the tenth is well. The rounds are interleaved, and the spread is that of their medians.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bailiwick_testkit::figure;
use bailiwick_testkit::forge::{StandIn, Told};
use bailiwick_testkit::stopwatch::median;
use serde_json::{Value, json};

use crate::client::Client;
use crate::place::{Place, SECRET, Serving};
use crate::starting::Watcher;
use crate::table::{short, turns};

const ROUNDS: usize = 15;
const REPOSITORIES: usize = 10;
/// After a burst of webhooks the next ones are evaluated a little later: without this pause that would be measured.
const PAUSE: Duration = Duration::from_millis(60);
/// What the tenth forge does, the first as a forge should.
const MODES: [&str; 7] = ["well", "hang", "500", "401", "429", "reset", "slow body"];

/// Stands in front of a forge, and breaks it.
struct Proxy {
    address: SocketAddr,
    mode: Arc<AtomicUsize>,
}

impl Proxy {
    fn before(forge: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("an address");
        let mode = Arc::new(AtomicUsize::new(0));
        let shared = Arc::clone(&mode);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || pass(stream, forge, &shared));
            }
        });
        Self { address, mode }
    }
}

/// One connection. Errors are those of a peer that has gone.
fn pass(mut stream: TcpStream, forge: SocketAddr, mode: &AtomicUsize) {
    let mut buffer = [0; 16 << 10];
    let begun = mode.load(Ordering::Relaxed);
    let Ok(length) = stream.read(&mut buffer) else { return };
    let still = || mode.load(Ordering::Relaxed) == begun;
    let empty = |status: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n"
        )
    };
    let answer = match MODES[begun] {
        "hang" => {
            while still() {
                std::thread::sleep(Duration::from_millis(20));
            }
            return;
        }
        "500" => empty("500 Broken"),
        "401" => empty("401 Unauthorized"),
        "429" => empty("429 Slowly"),
        "reset" => return,
        "slow body" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            while still() && stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
            return;
        }
        _ => {
            let Ok(mut upstream) = TcpStream::connect(forge) else { return };
            let _ = upstream.write_all(&buffer[..length]);
            let (Ok(mut back), Ok(mut from)) = (stream.try_clone(), upstream.try_clone()) else {
                return;
            };
            std::thread::spawn(move || std::io::copy(&mut stream, &mut upstream));
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(std::net::Shutdown::Both);
            return;
        }
    };
    let _ = stream.write_all(answer.as_bytes());
}

fn documents(place: &Place, addresses: &[String]) -> String {
    let document = |kind: &str, name: &str, spec: Value| {
        let head = json!({ "name": name });
        json!({ "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind, "metadata": head, "spec": spec })
            .to_string()
    };
    // Nothing starts: only the way to the queue is measured, and the queue stays short.
    let pool = json!({
        "capacity": 200, "trustTier": "trusted", "serviceAccountRef": "runner", "paused": true,
        "queueTimeout": "2s",
    });
    let rule = json!({
        "lifecycleState": "active", "sources": ["issue-comment"],
        "match": { "repository": ["acme/r*"] },
        "agentStack": "fixer", "taskKind": "repair", "promptTemplate": "Mend it.",
    });
    let mut all =
        vec![document("RunnerPool", "inside", pool), document("AgentTriggerRule", "asked", rule)];
    for (number, address) in addresses.iter().enumerate() {
        let spec = json!({
            "fullName": format!("acme/r{number}"), "forge": "gitea", "defaultBranch": "main",
            "apiUrl": format!("{address}/api/v1"), "cloneUrl": format!("{address}/acme/r{number}.git"),
            "checkout": place.scratch.root().display().to_string(),
            "webhookSecretRef": { "name": "webhook", "key": "key" },
            "credentialRef": { "name": "forges", "key": format!("r{number}") },
        });
        all.push(document("Repository", &format!("r{number}"), spec));
    }
    all.join("\n---\n")
}

struct Neighbours {
    forges: Vec<StandIn>,
    issues: Vec<u64>,
    proxy: Proxy,
    comments: usize,
}

impl Neighbours {
    fn new(place: &Place) -> Self {
        let forges: Vec<StandIn> =
            (0..REPOSITORIES).map(|number| StandIn::gitea(&format!("acme/r{number}"))).collect();
        let address = |forge: &StandIn| forge.base_url();
        let first = forges[0].base_url();
        let first = first.strip_prefix("http://").and_then(|text| text.parse().ok());
        let proxy = Proxy::before(first.expect("an address"));
        let mut addresses: Vec<String> = forges.iter().map(address).collect();
        addresses[0] = format!("http://{}", proxy.address);
        let mut issues = Vec::new();
        for (number, forge) in forges.iter().enumerate() {
            forge.take(&place.scratch.root(), "main");
            forge.permit("carol", "admin");
            issues.push(forge.add_issue("It breaks", "Mend it."));
            place.given(&["secrets", "set", "forges", &format!("r{number}")], &forge.token());
        }
        place.given(&["apply", "-f", "-"], &documents(place, &addresses));
        Self { forges, issues, proxy, comments: 0 }
    }

    fn comment(&mut self, serving: &Serving, number: usize) {
        self.comments += 1;
        let told = Told::Comment {
            number: self.issues[number],
            by: "carol".to_owned(),
            body: format!("Mend it, for the {}th time.", self.comments),
        };
        let webhook = self.forges[number].webhook(&told);
        let url = format!("http://{}/webhooks/r{number}", serving.address);
        let (status, said) = webhook.deliver(&url, SECRET);
        assert!((200..300).contains(&status), "{status}: {said}");
    }

    /// The times of the nine in one round.
    async fn round(
        &mut self,
        serving: &Serving,
        watcher: &mut Watcher,
        mode: usize,
    ) -> Vec<Duration> {
        self.proxy.mode.store(mode, Ordering::Relaxed);
        let mut times = Vec::new();
        for number in 1..REPOSITORIES {
            tokio::time::sleep(PAUSE).await;
            self.comment(serving, 0);
            let begun = Instant::now();
            self.comment(serving, number);
            let wanted = format!("acme/r{number}");
            loop {
                let (at, object) = watcher.next().await;
                let queued = object["status"]["phase"] == "queued";
                if queued && object["spec"]["repository"] == wanted.as_str() && at > begun {
                    times.push(at.duration_since(begun));
                    break;
                }
            }
        }
        self.proxy.mode.store(0, Ordering::Relaxed);
        times
    }
}

pub(crate) async fn measure() {
    let place = Place::new();
    let mut neighbours = Neighbours::new(&place);
    let serving = place.serve();
    let viewer = place.token("neighbour", "viewer");
    let path = "/api/v1alpha1/events?kind=AgentDispatchRun";
    let stream = Client::from(243, serving.address).await.stream(path, &viewer).await;
    let mut watcher = Watcher::new(stream);
    neighbours.round(&serving, &mut watcher, 0).await;
    let mut medians = vec![Vec::new(); MODES.len()];
    for round in 0..ROUNDS {
        for mode in turns(round, MODES.len()) {
            let mut times = neighbours.round(&serving, &mut watcher, mode).await;
            medians[mode].push(median(&mut times));
        }
    }
    figure(&format!("a webhook to its run, nine repositories, {ROUNDS} rounds"));
    let well = median(&mut medians[0]);
    for (mode, medians) in MODES.iter().zip(&mut medians) {
        let middle = median(medians);
        let (least, most) = (medians.iter().min(), medians.iter().max());
        let spread = [least, most].map(|time| time.copied().map_or_else(String::new, short));
        let ratio = middle.as_secs_f64() / well.as_secs_f64();
        figure(&format!(
            "  the tenth forge: {mode:<10}{:>11}{ratio:>8.2} x   {} to {}",
            short(middle),
            spread[0],
            spread[1]
        ));
    }
}
