//! A repository on the real server, its accounts, and the control plane that is connected to it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::gitea_server::{GiteaServer, PersonsClone};
use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use super::faults::Faults;
use crate::BAILIWICK;
use crate::fleet::{SECRET, Serving, document, written};

/// How long an effect may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);
/// The forge is assumed to send nothing more after this time without a delivery; polling is more frequent.
const QUIET: Duration = Duration::from_secs(15);
/// The scopes of the control plane's token, as in the guide.
pub(super) const SCOPES: [&str; 3] = ["write:repository", "write:issue", "read:user"];
/// The agent may write below `src/`, and run any command.
const ROLE: &str = "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"policy::git-read-only\", \"scope::files-whitelist\", \
                    \"quality::commands-green\"]\n[tools]\nallowed = [\"*\"]\n";

/// One repository of one organization, with `dev` and the control plane's `bot` as writers.
pub(super) struct Site {
    pub(super) server: GiteaServer,
    pub(super) scratch: Scratch,
    /// The repository, as `organization/name`.
    pub(super) repository: String,
    pub(super) dev: String,
    pub(super) bot: String,
    /// An account that may only read.
    pub(super) stranger: String,
    /// The address of the webhook; `serve` listens there after each restart.
    address: String,
    serving: Option<Serving>,
    /// The proxy through which the control plane reaches the server.
    pub(super) faults: Faults,
}

impl Site {
    /// Creates a repository on the server, a webhook, and a stack for each purpose; `serve` is running.
    pub(super) fn new(rules: &[Value]) -> Self {
        let server = GiteaServer::from_environment();
        let tag = GiteaServer::unique_name();
        let [org, dev, bot, stranger] =
            ["org", "dev", "bot", "stranger"].map(|name| format!("{name}-{tag}"));
        for account in [&dev, &bot, &stranger] {
            server.account(account);
        }
        server.admin("POST", "/orgs", &json!({ "username": org }));
        let body = json!({ "name": "app", "auto_init": true, "default_branch": "main" });
        server.admin("POST", &format!("/orgs/{org}/repos"), &body);
        let repository = format!("{org}/app");
        for account in [&dev, &bot] {
            let path = format!("/repos/{repository}/collaborators/{account}");
            server.admin("PUT", &path, &json!({ "permission": "write" }));
        }
        for label in ["agent", "other"] {
            let body = json!({ "name": label, "color": "#00aabb" });
            server.admin("POST", &format!("/repos/{repository}/labels"), &body);
        }
        let clone = PersonsClone::new(&server, &dev, &repository);
        clone.scratch.write("src/kept.txt", "kept\n");
        clone.push("main", ".bailiwick/roles/helper.toml", ROLE);
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let hook = json!({
            "type": "gitea", "active": true,
            "events": [
                "create", "delete", "fork", "issues", "issue_assign", "issue_label", "issue_milestone",
                "issue_comment", "push", "pull_request", "pull_request_assign", "pull_request_label",
                "pull_request_milestone", "pull_request_comment", "pull_request_review_approved",
                "pull_request_review_rejected", "pull_request_review_comment", "pull_request_sync",
                "release", "repository",
            ],
            "config": {
                "url": format!("http://{address}/webhooks/app"), "content_type": "json",
                "secret": SECRET,
            },
        });
        server.admin("POST", &format!("/repos/{repository}/hooks"), &hook);
        let scratch = clone.scratch;
        let faults = Faults::before(&server.url);
        let mut site = Self {
            server,
            scratch,
            repository,
            dev,
            bot,
            stranger,
            address,
            serving: None,
            faults,
        };
        site.rotate_token();
        site.run_with_input(&["secrets", "set", "webhook", "key"], SECRET).expect_code(0);
        site.apply(&site.documents()).expect_code(0);
        site.serve();
        // The push that created the role may still be delivered; no rule may match it.
        site.wait_until_quiet();
        if !rules.is_empty() {
            site.apply(rules).expect_code(0);
        }
        site
    }

    /// Starts or restarts `serve`.
    pub(super) fn serve(&mut self) {
        self.stop();
        self.serving = Some(Serving::listen(&self.scratch, &self.address));
        for stack in ["worker", "reviewer"] {
            let ready = ["wait", &format!("stack/{stack}"), "--for", "condition=Ready"];
            self.run(&ready).expect_code(0);
        }
    }

    /// Kills `serve`.
    pub(super) fn stop(&mut self) {
        self.serving = None;
    }

    /// Gives the control plane another token of its account.
    pub(super) fn rotate_token(&self) {
        let token = self.server.token(&self.bot, &GiteaServer::unique_name(), &SCOPES);
        self.run_with_input(&["secrets", "set", "forge", "token"], &token).expect_code(0);
    }

    fn documents(&self) -> Vec<Value> {
        let account = |name: &str, owner: &str| {
            let spec = json!({
                "serviceAccountName": name, "owner": { "kind": owner, "name": name },
                "allowedRepositories": [self.repository],
                "allowedRunnerPools": ["inside", "outside"],
            });
            document("AgentServiceAccount", name, spec)
        };
        let pool = |name: &str, tier: &str| {
            let spec = json!({ "capacity": 2, "trustTier": tier, "serviceAccountRef": "runner" });
            document("RunnerPool", name, spec)
        };
        let tools = json!({
            "nativeTools": { "shell": true, "filesystem": true },
            "filesystemPolicy": "workspace-write", "networkPolicy": { "mode": "deny" },
        });
        let repository = json!({
            "fullName": self.repository, "forge": "gitea", "apiUrl": format!("{}/api/v1", self.faults.url),
            "cloneUrl": format!("{}/{}.git", self.faults.url, self.repository),
            "checkout": self.scratch.root(), "defaultBranch": "main", "pollEvery": "10s",
            "webhookSecretRef": { "name": "webhook", "key": "key" },
            "credentialRef": { "name": "forge", "key": "token" },
        });
        let work = json!([
            { "do": "write", "path": "src/made.txt", "text": "made by an agent\n" },
            { "do": "say", "text": "Done as asked." },
        ]);
        let review = json!([{
            "do": "say",
            "text": "```json\n{\"review\":{\"decision\":\"comment-only\",\"body\":\"Looks right.\"}}\n```",
        }]);
        vec![
            account("worker", "agent-stack"),
            account("reviewer", "agent-stack"),
            account("runner", "organization"),
            pool("inside", "trusted"),
            pool("outside", "untrusted"),
            document("AgentToolProfile", "tools", tools),
            stack("worker", &work),
            stack("reviewer", &review),
            document("Repository", "app", repository),
        ]
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        self.scratch.run(BAILIWICK, arguments)
    }

    /// Runs `bailiwick` with this standard input.
    pub(super) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.scratch.command(BAILIWICK);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::from(child.wait_with_output().unwrap())
    }

    pub(super) fn apply(&self, documents: &[Value]) -> Ran {
        self.run_with_input(&["apply", "-f", "-"], &written(documents))
    }

    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["-o", "json"]].concat()).expect_code(0);
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{arguments:?}: {}", ran.out))
    }

    pub(super) fn wait_until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = look() {
                return found;
            }
            if Instant::now() >= deadline {
                let status = &self.json(&["get", "repository", "app"])["status"];
                panic!(
                    "{what} did not happen on {}:\n{}\n{status:#}",
                    self.repository,
                    self.report()
                );
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Sends a request about the repository to the API, as this account.
    pub(super) fn request_as(
        &self,
        account: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Value {
        self.server.by(account, method, &format!("/repos/{}{path}", self.repository), body)
    }

    /// A clone of `dev`.
    pub(super) fn clone(&self) -> PersonsClone {
        PersonsClone::new(&self.server, &self.dev, &self.repository)
    }

    /// Opens an issue as this account, and returns its number.
    pub(super) fn issue(&self, account: &str, title: &str) -> u64 {
        self.request_as(account, "POST", "/issues", &json!({ "title": title }))["number"]
            .as_u64()
            .unwrap()
    }

    pub(super) fn comment(&self, account: &str, issue: u64, text: &str) {
        self.request_as(
            account,
            "POST",
            &format!("/issues/{issue}/comments"),
            &json!({ "body": text }),
        );
    }

    /// Sets a label as this account.
    pub(super) fn label(&self, account: &str, issue: u64, label: &str) {
        let labels = self.request_as(account, "GET", "/labels", &Value::Null);
        let id = labels.as_array().unwrap().iter().find(|one| one["name"] == label).unwrap()["id"]
            .clone();
        self.request_as(
            account,
            "POST",
            &format!("/issues/{issue}/labels"),
            &json!({ "labels": [id] }),
        );
    }

    /// Opens a pull request as this account, and returns its number.
    pub(super) fn pull(&self, account: &str, head: &str, title: &str) -> u64 {
        let body = json!({ "title": title, "head": head, "base": "main" });
        self.request_as(account, "POST", "/pulls", &body)["number"].as_u64().unwrap()
    }

    /// The number of runs that each rule started; duplicate and refused events do not count.
    pub(super) fn started_runs(&self) -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        for execution in self.json(&["get", "executions"]).as_array().unwrap() {
            if execution["spec"]["decision"] == "created" {
                *count.entry(text(&execution["spec"]["triggerRule"])).or_default() += 1;
            }
        }
        count
    }

    /// The deliveries and their results, for a failed test.
    pub(super) fn report(&self) -> String {
        let kinds = ["deliveries", "executions", "runs", "approvals"];
        kinds.map(|kind| self.run(&["get", kind]).out).join("\n")
    }

    /// Waits until the rules of every delivery are evaluated, and no delivery has arrived for a few seconds.
    pub(super) fn wait_until_quiet(&self) {
        let mut last = (0, Instant::now());
        self.wait_until("the end of the deliveries", || {
            let deliveries = self.json(&["get", "deliveries"]);
            let all = deliveries.as_array().unwrap();
            let evaluated = all.iter().all(|one| one["status"]["evaluated"] == true);
            if all.len() != last.0 || !evaluated {
                last = (all.len(), Instant::now());
            }
            (last.1.elapsed() > QUIET).then_some(())
        });
    }

    /// Waits until every run has ended, and approves its requests; returns each run with its phase.
    pub(super) fn wait_for_all_runs(&self) -> Vec<(String, String)> {
        self.wait_until("the end of all runs", || {
            self.approve_all();
            let runs = self.json(&["get", "runs"]);
            let phases: Vec<(String, String)> = runs
                .as_array()
                .unwrap()
                .iter()
                .map(|run| (text(&run["metadata"]["name"]), text(&run["status"]["phase"])))
                .collect();
            let ended = ["succeeded", "failed", "cancelled", "denied"];
            let have_ended = phases.iter().all(|(_, phase)| ended.contains(&phase.as_str()));
            (have_ended && !phases.is_empty()).then_some(phases)
        })
    }

    pub(super) fn approve_all(&self) {
        for question in
            self.json(&["get", "approvals", "--field", "phase=pending"]).as_array().unwrap()
        {
            self.run(&["approvals", "approve", &text(&question["metadata"]["name"])]);
        }
    }
}

/// A rule with the stack `worker`.
pub(super) fn rule(name: &str, sources: &[&str], matching: &Value, targets: &[&str]) -> Value {
    let spec = json!({
        "lifecycleState": "active", "sources": sources, "match": matching,
        "agentStack": if targets.contains(&"pull-request-review") { "reviewer" } else { "worker" },
        "taskKind": if targets.contains(&"pull-request-review") { "review" } else { "repair" },
        "promptTemplate": "Do it.", "allowLabelDispatch": true,
        "writeBackPolicy": { "allowedTargets": targets },
        "concurrencyPolicy": { "mode": "queue", "maxActive": 1 },
    });
    document("AgentTriggerRule", name, spec)
}

fn stack(name: &str, script: &Value) -> Value {
    let targets = [
        "create-branch",
        "open-pull-request",
        "branch-push",
        "issue-comment",
        "pull-request-comment",
        "pull-request-review",
        "check-status",
        "release-note",
        "open-issue",
    ];
    let spec = json!({
        "baseAgent": "script", "role": "helper", "script": script, "toolPolicy": "tools",
        "runnerPool": "inside", "runtimeIdentity": { "serviceAccountRef": name },
        "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
        "verificationCommands": ["true"],
        "writeBackPolicy": {
            "allowedTargets": targets, "modes": { "check-status": "auto", "issue-comment": "auto" },
        },
    });
    document("AgentStack", name, spec)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
