//! The control plane, whole: a signed webhook of a failed check becomes a run of a real agent program, its
//! denied call stays denied, its work is checked, a person approves, and the forge has it; once.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::{RunSeed, StandIn, Told};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use bailiwick_testkit::{Depth, figure};
use serde_json::{Value, json};

use super::stage::Stage;

const SECRET: &str = "the-webhook-s-own-secret";
/// Nothing here takes longer, also where others are at work.
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) fn documents(stage: &Stage, forge: &StandIn) -> String {
    let checkout = stage.scratch.root().display().to_string();
    let account = |name: &str, kind: &str| {
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentServiceAccount",
            "metadata": { "name": name },
            "spec": {
                "serviceAccountName": name, "owner": { "kind": kind, "name": name },
                "allowedRepositories": ["acme/*"], "allowedRunnerPools": ["inside", "outside"],
            },
        })
    };
    let pool = |name: &str, tier: &str| {
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool",
            "metadata": { "name": name },
            "spec": { "capacity": 1, "trustTier": tier, "serviceAccountRef": "runner" },
        })
    };
    let all = [
        account("fixer", "agent-stack"),
        account("runner", "organization"),
        pool("inside", "trusted"),
        pool("outside", "untrusted"),
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentToolProfile",
            "metadata": { "name": "tools" },
            "spec": {
                "nativeTools": { "shell": true, "filesystem": true },
                "filesystemPolicy": "workspace-write",
                "networkPolicy": { "mode": "deny" },
                "deniedCommands": ["curl"],
            },
        }),
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentStack",
            "metadata": { "name": "fixer" },
            "spec": {
                "baseAgent": "claude-code", "model": "claude-opus-4-8", "role": "worker",
                "prompt": { "system": "You mend what broke.", "developer": "", "task": "" },
                "toolPolicy": "tools", "runnerPool": "inside",
                "runtimeIdentity": { "serviceAccountRef": "fixer" },
                "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
                "writeBackPolicy": {
                    "allowedTargets": ["create-branch", "check-status"],
                    "modes": { "check-status": "auto", "create-branch": "always-approve" },
                },
            },
        }),
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "Repository",
            "metadata": { "name": "app" },
            "spec": {
                "fullName": "acme/app", "forge": "gitea", "apiUrl": forge.api_url(),
                "cloneUrl": forge.clone_url(), "checkout": checkout, "defaultBranch": "main",
                "webhookSecretRef": { "name": "webhook", "key": "key" },
                "credentialRef": { "name": "forge", "key": "token" },
            },
        }),
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentTriggerRule",
            "metadata": { "name": "broken" },
            "spec": {
                "lifecycleState": "active", "sources": ["ci"],
                "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
                "agentStack": "fixer", "taskKind": "repair",
                "promptTemplate": "A check failed. Mend it.",
                "dedupePolicy": { "key": "{{ event.workflow }}", "window": "1h" },
                "contextBundleTemplate": {
                    "include": ["recent-commits"], "maxBytes": 100_000, "redactSecrets": true,
                },
            },
        }),
    ];
    let texts: Vec<String> = all.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub(crate) fn start(mut command: Command) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address }
    }

    pub(crate) fn post(&self, path: &str, token: &str, body: &Value) -> (u16, String) {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: \
             application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (status, answer)
    }
}

pub(crate) fn given(stage: &Stage, arguments: &[&str], input: &str) -> String {
    let mut command = stage.command(None, None);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {err}");
    String::from_utf8(ended.stdout).unwrap()
}

pub(crate) fn list(stage: &Stage, arguments: &[&str]) -> Vec<Value> {
    let all = [&["get"], arguments, &["-o", "json"]].concat();
    let said = stage.bailiwick(&all);
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{all:?}: {}{}", said.out, said.err))
}

pub(crate) fn until<T>(what: &str, stage: &Stage, mut look: impl FnMut() -> Option<T>) -> T {
    let late = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if Instant::now() > late {
            let mut seen = Vec::new();
            for kind in ["deliveries", "executions", "runs", "approvals", "stacks", "triggers"] {
                seen.push(format!("{kind}: {:#}", json!(list(stage, &[kind]))));
            }
            panic!("{what} did not come: {}", seen.join("\n"));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

pub(crate) fn phase(run: &Value) -> &str {
    run["status"]["phase"].as_str().unwrap_or_default()
}

#[test]
fn a_failed_check_is_mended_approved_and_written_back_once() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("echo out > outside.txt")]),
        Turn::Calls(vec![Call::shell("curl http://127.0.0.1:1/")]),
        Turn::Calls(vec![Call::shell("echo mended > src/mended.txt")]),
        Turn::say("It is mended."),
    ]));
    given(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    given(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    given(&stage, &["apply", "-f", "-"], &documents(&stage, &forge));
    let token = given(&stage, &["tokens", "new", "ada", "--scope", "approver"], "");
    let viewer = given(&stage, &["tokens", "new", "bob", "--scope", "viewer"], "");
    let (token, viewer) = (token.trim().to_owned(), viewer.trim().to_owned());
    let serving = Serving::start(stage.command(Some(&model), None));
    let hook = format!("http://{}/webhooks/app", serving.address);
    let seed =
        RunSeed { sha: &sha, branch: "main", conclusion: Some("failure"), ..RunSeed::default() };
    let (run, _) = forge.add_run(&seed);
    let webhook = forge.webhook(&Told::RunEnded { run });

    // Not without the secret, and nothing is kept of it.
    let (status, said) = webhook.deliver(&hook, "another secret");
    assert_eq!(status, 401, "{said}");
    assert_eq!(list(&stage, &["deliveries"]), [] as [Value; 0]);
    let (status, said) = webhook.deliver(&hook, SECRET);
    assert_eq!(status, 202, "{said}");

    let asked = until("a question", &stage, || {
        list(&stage, &["approvals", "--field", "phase=pending"]).into_iter().next()
    });
    let found = list(&stage, &["runs"]).into_iter().next().unwrap();
    assert_eq!(found["spec"]["trustTier"], "trusted", "{found:#}");
    assert_eq!(found["spec"]["runnerPool"], "inside", "{found:#}");
    // What it may not do has not happened; what it may has, and was checked.
    let results = model.results();
    let told = |call: &str| {
        let one = results.iter().find(|result| result.call == call);
        one.map(|result| result.text.clone()).unwrap_or_else(|| panic!("{call}: {results:#?}"))
    };
    assert!(told("call_0_0_0").contains("scope::files-whitelist"), "{}", told("call_0_0_0"));
    assert!(told("call_0_1_0").contains("limit::denied-commands"), "{}", told("call_0_1_0"));
    let agent = found["status"]["agentMuxRunId"].as_str().unwrap();
    let worktree = stage.scratch.state().join("worktrees").join(agent);
    assert!(worktree.join("src/mended.txt").exists() && !worktree.join("outside.txt").exists());
    // Nothing is written before a person says so, and not everybody may.
    assert!(!forge.git(&["branch", "--list", "agent/*"]).contains("agent/"));
    let name = asked["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/agents/approvals/{name}/decision");
    let digest = &asked["spec"]["artifactDigest"];
    let yes = json!({ "decision": "approve", "expectedArtifactDigest": digest });
    let (status, said) = serving.post(&path, &viewer, &yes);
    assert_eq!(status, 403, "{said}");
    let other = json!({ "decision": "approve", "expectedArtifactDigest": "0".repeat(64) });
    let (status, said) = serving.post(&path, &token, &other);
    assert_eq!(status, 409, "{said}");
    let (status, said) = serving.post(&path, &token, &yes);
    assert_eq!(status, 200, "{said}");
    let (status, said) = serving.post(&path, &token, &yes);
    assert_eq!(status, 409, "a second answer: {said}");
    let ended = until("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    let branches = forge.git(&["branch", "--list", "agent/*"]);
    assert_eq!(branches.matches("agent/").count(), 1, "{branches}");
    let pushed = forge.git(&["show", &format!("agent/{agent}:src/mended.txt")]);
    assert_eq!(pushed.trim(), "mended");
    // Its commit says how far it is, under one name, and at last that it is done.
    let told = until("the last word", &stage, || {
        let told = forge.statuses(&sha);
        told.last().is_some_and(|last| last["state"] == "success").then_some(told)
    });
    assert!(told.iter().all(|one| one["context"] == "bailiwick/broken"), "{told:#?}");
    let count = |state: &str| told.iter().filter(|one| one["state"] == state).count();
    assert!(count("pending") >= 1 && count("success") == 1, "{told:#?}");
    // What its agent said at the end is kept.
    let said = list(&stage, &["artifacts"]);
    assert!(said.iter().any(|one| one["spec"]["kind"] == "diagnosis"), "{said:#?}");
    assert_eq!(forge.breaches(), [] as [String; 0]);

    // The same delivery again is the same; another one about the same failure is a duplicate.
    let (status, said) = webhook.deliver(&hook, SECRET);
    assert_eq!(status, 200, "{said}");
    let (status, said) = forge.webhook(&Told::RunEnded { run }).deliver(&hook, SECRET);
    assert_eq!(status, 202, "{said}");
    let executions = until("a second execution", &stage, || {
        let all = list(&stage, &["executions"]);
        (all.len() > 1).then_some(all)
    });
    let decisions: Vec<&str> =
        executions.iter().filter_map(|one| one["spec"]["decision"].as_str()).collect();
    assert_eq!(decisions, ["created", "deduplicated"], "{executions:#?}");
    assert_eq!(list(&stage, &["runs"]).len(), 1);
}

/// A pull request from elsewhere: another pool, no secret, nothing pushed, whatever the rule says.
#[test]
fn the_same_from_a_fork_is_untrusted_and_gets_no_secret() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    // The fork's commit is where the forge keeps pull requests.
    stage.scratch.git(&["switch", "--quiet", "--create", "theirs"]);
    stage.scratch.write("src/theirs.txt", "theirs\n");
    stage.scratch.commit("Change something");
    let sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let pull = forge.add_fork_pull("A change", "mallory/app", "theirs", &sha);
    let refspec = format!("+refs/heads/theirs:refs/pull/{pull}/head");
    forge.git(&["fetch", "--quiet", &stage.scratch.root().display().to_string(), &refspec]);
    stage.scratch.git(&["switch", "--quiet", "main"]);
    stage.scratch.git(&["branch", "--quiet", "-D", "theirs"]);
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("echo mended > src/mended.txt; env > src/env.txt")]),
        Turn::say("It is mended."),
    ]));
    given(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    given(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    given(&stage, &["secrets", "set", "tool", "key"], "the-tool-s-own-value");
    let grant = |name: &str| {
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentSecretGrant",
            "metadata": { "name": name },
            "spec": {
                "subject": { "kind": "agent-stack", "name": "fixer" },
                "secretRef": { "name": "tool", "keys": ["key"] }, "purpose": "tool",
                "allowedRepositories": ["acme/*"], "mountPolicy": "env",
            },
        })
    };
    let documents = format!("{}\n---\n{}", documents(&stage, &forge), grant("fixer-tool"));
    given(&stage, &["apply", "-f", "-"], &documents);
    let serving = Serving::start(stage.command(Some(&model), None));
    let hook = format!("http://{}/webhooks/app", serving.address);
    let seed = RunSeed {
        sha: &sha,
        branch: "theirs",
        conclusion: Some("failure"),
        fork: Some("mallory/app"),
        pull: Some(pull),
        ..RunSeed::default()
    };
    let (run, _) = forge.add_run(&seed);
    let (status, said) = forge.webhook(&Told::RunEnded { run }).deliver(&hook, SECRET);
    assert_eq!(status, 202, "{said}");
    let ended = until("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    assert_eq!(ended["spec"]["trustTier"], "untrusted", "{ended:#}");
    assert_eq!(ended["spec"]["runnerPool"], "outside", "{ended:#}");
    let agent = ended["status"]["agentMuxRunId"].as_str().unwrap();
    let worktree = stage.scratch.state().join("worktrees").join(agent);
    let environment = std::fs::read_to_string(worktree.join("src/env.txt")).unwrap();
    assert!(environment.contains("PATH="), "{environment}");
    for secret in ["the-tool-s-own-value", SECRET, forge.token().as_str()] {
        assert!(!environment.contains(secret), "{environment}");
    }
    assert!(!forge.git(&["branch", "--list", "agent/*"]).contains("agent/"));
    assert_eq!(list(&stage, &["approvals"]), [] as [Value; 0]);
}

/// Killed at random moments and started again: every delivery is there, every run is one, and the forge has
/// each thing once.
#[test]
fn a_killed_control_plane_loses_nothing_and_does_nothing_twice() {
    const DELIVERIES: usize = 3;
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let turns = vec![
        Turn::Calls(vec![Call::shell("echo mended > src/mended.txt")]),
        Turn::say("It is mended."),
    ];
    let model = ScriptedModel::start(Script::new(turns));
    given(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    given(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    let documents = documents(&stage, &forge)
        .replace("\"create-branch\":\"always-approve\"", "\"create-branch\":\"auto\"");
    given(&stage, &["apply", "-f", "-"], &documents);
    let mut random = Random::rotating("control-plane-kills");
    let mut serving = Serving::start(stage.command(Some(&model), None));
    let mut kills = 0;
    for number in 0..DELIVERIES {
        let workflow = format!("ci-{number}.yml");
        let seed = RunSeed {
            sha: &sha,
            branch: "main",
            workflow: &workflow,
            conclusion: Some("failure"),
            ..RunSeed::default()
        };
        let (run, _) = forge.add_run(&seed);
        let webhook = forge.webhook(&Told::RunEnded { run });
        let hook = format!("http://{}/webhooks/app", serving.address);
        let (status, said) = webhook.deliver(&hook, SECRET);
        assert_eq!(status, 202, "{said}");
        let most = Depth::from_env().cases(210) / DELIVERIES as u64;
        for _ in 0..most.max(2) {
            std::thread::sleep(Duration::from_millis(random.below(900) as u64));
            drop(serving);
            kills += 1;
            serving = Serving::start(stage.command(Some(&model), None));
        }
    }
    let ended = until("the end of all", &stage, || {
        let runs = list(&stage, &["runs"]);
        let over = |run: &Value| ["succeeded", "failed", "cancelled"].contains(&phase(run));
        (runs.len() == DELIVERIES && runs.iter().all(over)).then_some(runs)
    });
    for run in &ended {
        assert_eq!(phase(run), "succeeded", "{run:#}");
        assert_eq!(run["status"]["attempts"].as_array().unwrap().len(), 1, "{run:#}");
    }
    assert_eq!(list(&stage, &["deliveries"]).len(), DELIVERIES);
    assert_eq!(list(&stage, &["executions"]).len(), DELIVERIES);
    let branches = forge.git(&["branch", "--list", "agent/*"]);
    assert_eq!(branches.matches("agent/").count(), DELIVERIES, "{branches}");
    assert_eq!(forge.breaches(), [] as [String; 0]);
    figure(&format!(
        "control plane: {kills} kills, {DELIVERIES} deliveries, as many runs and pushes, none twice"
    ));
}

/// A webhook that never came: the forge is asked, once for each failure.
#[test]
fn what_no_webhook_brought_is_asked_for() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("There is nothing to do.")]));
    given(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    given(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    let documents = documents(&stage, &forge)
        .replace("\"defaultBranch\":\"main\"", "\"defaultBranch\":\"main\",\"pollEvery\":\"1s\"");
    given(&stage, &["apply", "-f", "-"], &documents);
    let _serving = Serving::start(stage.command(Some(&model), None));
    until("a first look", &stage, || {
        let repository = list(&stage, &["repositories"]).into_iter().next()?;
        repository["status"]["pollCursor"].as_str().map(str::to_owned)
    });
    assert_eq!(list(&stage, &["executions"]), [] as [Value; 0]);
    let seed =
        RunSeed { sha: &sha, branch: "main", conclusion: Some("failure"), ..RunSeed::default() };
    forge.add_run(&seed);
    let ended = until("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    assert_eq!(ended["spec"]["trustTier"], "trusted", "{ended:#}");
    assert_eq!(list(&stage, &["runs"]).len(), 1);
}
