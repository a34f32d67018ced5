//! A repository, a store, and `bailiwick serve` over both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_resources::Moment;
use bailiwick_store::{Location, Store};
use bailiwick_testkit::Scratch;
use serde_json::{Value, json};

use crate::client::Client;

/// What webhooks are signed with.
pub(crate) const SECRET: &str = "the-webhook-s-own-secret";

/// The program that is measured: this one, or another version of it.
fn program() -> String {
    std::env::var("BENCH_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_bailiwick").to_owned())
}

const ROLE: &str = "[role]\nname = \"worker\"\ndescription = \"d\"\n[capabilities]\nrequired = [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n";

/// The time: what is much older than it would be forgotten meanwhile.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    Moment::from_millis(u64::try_from(since.as_millis()).expect("a time"))
}

/// Where all of it is: on one disk.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
}

impl Place {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::repository();
        scratch.write(".bailiwick/roles/worker.toml", ROLE);
        scratch.write("src/a.txt", "a\n");
        scratch.commit("Begin");
        let place = Self { scratch };
        place.given(&["secrets", "set", "webhook", "key"], SECRET);
        place.given(&["apply", "-f", "-"], &place.documents());
        place
    }

    fn documents(&self) -> String {
        let document = |kind: &str, name: &str, spec: Value| {
            let head = json!({ "name": name });
            json!({ "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind, "metadata": head, "spec": spec })
        };
        let account = |name: &str, kind: &str| {
            let owner = json!({ "kind": kind, "name": name });
            let spec = json!({
                "serviceAccountName": name, "owner": owner,
                "allowedRepositories": ["acme/*"], "allowedRunnerPools": ["inside"],
            });
            document("AgentServiceAccount", name, spec)
        };
        let pool =
            json!({ "capacity": 200, "trustTier": "trusted", "serviceAccountRef": "runner" });
        let tools = json!({
            "nativeTools": { "shell": true, "filesystem": true },
            "filesystemPolicy": "workspace-write", "networkPolicy": { "mode": "deny" },
        });
        let stack = json!({
            "baseAgent": "script", "model": "none", "role": "worker",
            "prompt": { "system": "You mend what broke.", "developer": "", "task": "" },
            "toolPolicy": "tools", "runnerPool": "inside",
            "runtimeIdentity": { "serviceAccountRef": "fixer" },
            "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
        });
        let repository = json!({
            "fullName": "acme/app", "forge": "generic", "defaultBranch": "main",
            "checkout": self.scratch.root().display().to_string(),
            "webhookSecretRef": { "name": "webhook", "key": "key" },
        });
        let rule = json!({
            "lifecycleState": "active", "sources": ["ci"],
            "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
            "agentStack": "fixer", "taskKind": "repair", "promptTemplate": "Mend it.",
        });
        let all = [
            account("fixer", "agent-stack"),
            account("runner", "organization"),
            document("RunnerPool", "inside", pool),
            document("AgentToolProfile", "tools", tools),
            document("AgentStack", "fixer", stack),
            document("Repository", "app", repository),
            document("AgentTriggerRule", "broken", rule),
        ];
        all.map(|one| one.to_string()).join("\n---\n")
    }

    /// Runs `bailiwick` with an input; gives what it printed.
    pub(crate) fn given(&self, arguments: &[&str], input: &str) -> String {
        let mut command = self.scratch.command(program());
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("bailiwick");
        let mut stdin = child.stdin.take().expect("an input");
        stdin.write_all(input.as_bytes()).expect("an input");
        drop(stdin);
        let ended = child.wait_with_output().expect("bailiwick");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{arguments:?}: {said}");
        String::from_utf8(ended.stdout).expect("UTF-8")
    }

    pub(crate) fn token(&self, actor: &str, scope: &str) -> String {
        self.given(&["tokens", "new", actor, "--scope", scope], "").trim().to_owned()
    }

    /// A file on the disk where the store is.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.scratch.state().join(name)
    }

    /// The store that the server has.
    pub(crate) async fn open(&self) -> Store {
        Store::open(Location::file(self.beside("bailiwick.db"))).await.expect("a store")
    }

    /// Starts the server.
    pub(crate) fn serve(&self) -> Serving {
        let mut command: Command = self.scratch.command(program());
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let log = std::fs::File::create(self.beside("serve.log")).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("bailiwick serve");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("it");
        let address = line.trim().strip_prefix("listening on http://").expect("an address");
        let address = address.parse().expect("an address");
        let viewer = self.token("viewer", "viewer");
        Serving { child, address, viewer }
    }
}

/// The server, until it is dropped.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
    viewer: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    /// What is resident of it, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let file = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(file).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let word = line.and_then(|line| line.split_whitespace().next()).expect("its memory");
        word.parse().expect("a number")
    }

    /// Waits until every delivery was looked at: nothing is measured beside what was left of another.
    pub(crate) async fn drained(&self) {
        let mut client = Client::from(240, self.address).await;
        let head = format!("authorization: Bearer {}\r\n", self.viewer);
        loop {
            let answered = client.ask("GET /metrics", &head, b"").await;
            let text = String::from_utf8_lossy(&answered.body).into_owned();
            if text.lines().any(|line| line == "bailiwick_deliveries_waiting 0") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
