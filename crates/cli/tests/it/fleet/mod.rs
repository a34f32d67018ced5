//! The commands of the fleet as users call them. Each verb has a test with its name.

mod approvals;
mod chaos;
mod checkouts;
mod covered;
mod default_branch;
mod every_event;
mod objects;
mod postgres;
mod remote;
mod runs;
mod scripted;
mod secrets;
mod serving;
mod several_servers;
mod sign_in;
mod storage;
mod traces;
mod triggers;
mod verbs;
mod workers;
mod workspaces;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::forge::StandIn;
use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use crate::BAILIWICK;

/// The secret with which the forge signs webhooks.
pub(crate) const SECRET: &str = "the-webhook-s-own-secret";
/// The timeout of every wait, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A repository, its forge, and a database with a stack for it.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    pub(crate) forge: StandIn,
}

pub(crate) fn document(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind, "metadata": { "name": name },
        "spec": spec,
    })
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    document("ConfigMap", name, json!({ "data": { "k": value } }))
}

impl Place {
    /// Without declared objects.
    pub(crate) fn bare() -> Self {
        let scratch = Scratch::repository();
        scratch.write("src/kept.txt", "kept\n");
        scratch.commit("Begin");
        let forge = StandIn::gitea("acme/app");
        forge.take(&scratch.root(), "main");
        Self { scratch, forge }
    }

    /// With a repository, a stack and a draft rule.
    pub(crate) fn new() -> Self {
        let place = Self::bare();
        place.run_with_input(&["secrets", "set", "webhook", "key"], SECRET).expect_code(0);
        place
            .run_with_input(&["secrets", "set", "forge", "token"], &place.forge.token())
            .expect_code(0);
        place.apply(&place.documents()).expect_code(0);
        place
    }

    /// The same, after the control plane has found the stack ready.
    pub(crate) fn ready() -> Self {
        let place = Self::new();
        let serving = Serving::start(&place);
        place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
        drop(serving);
        place
    }

    fn documents(&self) -> Vec<Value> {
        let account = |name: &str, owner: &str| {
            let spec = json!({
                "serviceAccountName": name, "owner": { "kind": owner, "name": name },
                "allowedRepositories": ["acme/*"], "allowedRunnerPools": ["inside"],
            });
            document("AgentServiceAccount", name, spec)
        };
        vec![
            account("fixer", "agent-stack"),
            account("runner", "organization"),
            document(
                "RunnerPool",
                "inside",
                json!({ "capacity": 1, "trustTier": "trusted", "serviceAccountRef": "runner" }),
            ),
            document(
                "AgentToolProfile",
                "tools",
                json!({
                    "nativeTools": { "shell": true, "filesystem": true },
                    "filesystemPolicy": "workspace-write", "networkPolicy": { "mode": "deny" },
                }),
            ),
            document(
                "AgentStack",
                "fixer",
                json!({
                    "baseAgent": "script", "role": "developer", "toolPolicy": "tools",
                    "runnerPool": "inside", "runtimeIdentity": { "serviceAccountRef": "fixer" },
                    "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
                }),
            ),
            document(
                "Repository",
                "app",
                json!({
                    "fullName": "acme/app", "forge": "gitea", "apiUrl": self.forge.api_url(),
                    "cloneUrl": self.forge.clone_url(), "checkout": self.scratch.root(),
                    "defaultBranch": "main",
                    "webhookSecretRef": { "name": "webhook", "key": "key" },
                    "credentialRef": { "name": "forge", "key": "token" },
                }),
            ),
            document(
                "AgentTriggerRule",
                "broken",
                json!({
                    "lifecycleState": "draft", "sources": ["ci"],
                    "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
                    "agentStack": "fixer", "taskKind": "repair",
                    "promptTemplate": "A check failed. Mend it.",
                    "dedupePolicy": { "key": "{{ event.workflow }}", "window": "1h" },
                }),
            ),
        ]
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.scratch.run(BAILIWICK, arguments)
    }

    /// Runs a command with this standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.scratch.command(BAILIWICK);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails early does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::from(child.wait_with_output().unwrap())
    }

    pub(crate) fn apply(&self, documents: &[Value]) -> Ran {
        self.run_with_input(&["apply", "-f", "-"], &written(documents))
    }

    /// The JSON output of a command.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["-o", "json"]].concat()).expect_code(0);
        serde_json::from_str(&output.out)
            .unwrap_or_else(|_| panic!("{arguments:?}: {}", output.out))
    }

    /// The events of the audit log, read from the database.
    pub(crate) fn audit(&self) -> Vec<(String, String)> {
        use bailiwick_fleet::ports::FleetStore as _;
        let lines = self.with_store(async |store| store.audit(0, 1_000).await.unwrap());
        lines.into_iter().map(|(_, line)| (line.event, line.subject)).collect()
    }

    pub(crate) fn with_store<T>(&self, work: impl AsyncFnOnce(bailiwick_store::Store) -> T) -> T {
        let file = self.scratch.state().join("bailiwick.db");
        let database = bailiwick_store::Location::file(file);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { work(bailiwick_store::Store::open(database).await.unwrap()).await })
    }

    pub(crate) fn wait_for<T>(&self, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = find() {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "timed out waiting for {what}: {:#}",
                self.json(&["get", "runs"])
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

pub(crate) fn written(documents: &[Value]) -> String {
    documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

/// A running `bailiwick serve`, stopped on drop.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
    pub(crate) log: PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub(crate) fn start(place: &Place) -> Self {
        Self::listen(&place.scratch, "127.0.0.1:0")
    }

    /// Listens on this address. Port 0 selects a free one.
    pub(crate) fn listen(scratch: &Scratch, address: &str) -> Self {
        Self::with(scratch, address, &[])
    }

    /// The same with more options.
    pub(crate) fn with(scratch: &Scratch, address: &str, options: &[&str]) -> Self {
        let log = scratch.place().join("serve.log");
        let mut command = scratch.command(BAILIWICK);
        command.args(["serve", "--listen", address]).args(options).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address, log }
    }

    /// Sends a request with this token; returns the status, and the body as JSON.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: \
             application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let status = response.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let body = response.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}
