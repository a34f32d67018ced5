//! The whole control plane: a signed webhook of a failed check starts a run of a real agent program. Its denied calls
//! stay denied, its work is checked, a person approves it, and the forge gets it exactly once.

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
/// The maximum time of each step, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(240);

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
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if Instant::now() > deadline {
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

    // A delivery without the secret is refused, and is not stored.
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
    // The forbidden writes have not happened. The allowed ones have, and were checked.
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
    // Nothing is written before a person with the permission approves it.
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
    // Its commit has one status, which shows the progress and at last the success.
    let told = until("the last word", &stage, || {
        let told = forge.statuses(&sha);
        told.last().is_some_and(|last| last["state"] == "success").then_some(told)
    });
    assert!(told.iter().all(|one| one["context"] == "bailiwick/broken"), "{told:#?}");
    let count = |state: &str| told.iter().filter(|one| one["state"] == state).count();
    assert!(count("pending") >= 1 && count("success") == 1, "{told:#?}");
    // The last message of the agent is stored.
    let said = list(&stage, &["artifacts"]);
    assert!(said.iter().any(|one| one["spec"]["kind"] == "diagnosis"), "{said:#?}");
    assert_eq!(forge.breaches(), [] as [String; 0]);
    // Its workspace is recorded, and is not in use any more.
    let place = until("its workspace", &stage, || {
        list(&stage, &["workspaces", "--field", "state=idle"]).into_iter().next()
    });
    assert_eq!(place["spec"]["run"], agent, "{place:#}");
    assert_eq!(place["spec"]["ownership"], "pipeline-failure", "{place:#}");
    assert_eq!(place["status"]["runs"][0], ended["metadata"]["name"], "{place:#}");

    // The same delivery again has no effect. Another delivery about the same failure is a duplicate.
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

/// The value that the tools of one stack need, and a variable of the server that is granted to no run.
const TOOL_VALUE: &str = "the-tool-s-own-value";
const SERVERS_OWN: (&str, &str) = ("SERVERS_OWN", "what-only-the-server-knows");

/// A stack whose tools get a granted value, with a rule for the same events.
fn keyed() -> String {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind, "metadata": { "name": name },
            "spec": spec,
        })
    };
    let all = [
        object(
            "AgentServiceAccount",
            "keyed",
            json!({
                "serviceAccountName": "keyed", "owner": { "kind": "agent-stack", "name": "keyed" },
                "allowedRepositories": ["acme/*"], "allowedRunnerPools": ["inside", "outside"],
            }),
        ),
        object(
            "AgentToolProfile",
            "keyed",
            json!({
                "nativeTools": { "shell": true, "filesystem": true },
                "filesystemPolicy": "workspace-write", "networkPolicy": { "mode": "deny" },
                "requiredSecretRefs": [{ "name": "tool", "keys": ["key"] }],
            }),
        ),
        object(
            "AgentStack",
            "keyed",
            json!({
                "baseAgent": "claude-code", "model": "claude-opus-4-8", "role": "worker",
                "prompt": { "system": "You mend what broke.", "developer": "", "task": "" },
                "toolPolicy": "keyed", "runnerPool": "inside",
                "secretPolicy": { "allowOnForks": false, "allowedSecretRefs": ["tool"] },
                "runtimeIdentity": { "serviceAccountRef": "keyed" },
                "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
                "writeBackPolicy": { "allowedTargets": [] },
            }),
        ),
        object(
            "AgentSecretGrant",
            "keyed-tool",
            json!({
                "subject": { "kind": "agent-stack", "name": "keyed" },
                "secretRef": { "name": "tool", "keys": ["key"] }, "purpose": "tool",
                "allowedRepositories": ["acme/*"], "mountPolicy": "env",
            }),
        ),
        object(
            "AgentTriggerRule",
            "keyed",
            json!({
                "lifecycleState": "active", "sources": ["ci"],
                "match": { "repository": ["acme/app"], "conclusion": ["failure"] },
                "agentStack": "keyed", "taskKind": "repair",
                "promptTemplate": "A check failed. Mend it.",
                "dedupePolicy": { "key": "keyed {{ event.workflow }}", "window": "1h" },
            }),
        ),
    ];
    let texts: Vec<String> = all.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

/// The environment of the supervisor of the newest run of this stack with this trust tier, and the run after it has
/// ended.
fn watched(stage: &Stage, stack: &str, trust: &str, before: &[&Value]) -> (String, Value) {
    let mut environment = None;
    let deadline = Instant::now() + TIMEOUT;
    let fits = |run: &&Value| {
        run["spec"]["agentStack"] == stack
            && run["spec"]["trustTier"] == trust
            && !before.iter().any(|one| one["metadata"]["name"] == run["metadata"]["name"])
    };
    loop {
        let found = list(stage, &["runs"]).iter().find(fits).cloned();
        if let Some(run) = &found {
            let attempt = run["status"]["attempts"][0].as_str().unwrap_or_default();
            let until_next = Instant::now() + Duration::from_millis(300);
            while environment.is_none() && Instant::now() < until_next {
                environment = held_with(attempt);
                std::thread::sleep(Duration::from_millis(5));
            }
            if ["succeeded", "failed", "cancelled"].contains(&phase(run)) {
                let seen = environment.unwrap_or_else(|| panic!("nobody held {run:#}"));
                return (seen, run.clone());
            }
        }
        if Instant::now() > deadline {
            let executions = list(stage, &["executions"]);
            panic!("{trust} {stack} did not end: {found:#?} {executions:#?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The environment of the supervisor of an attempt, from `/proc`.
fn held_with(attempt: &str) -> Option<String> {
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        if words.get(1..3) != Some(&[b"supervise".as_slice(), attempt.as_bytes()]) {
            continue;
        }
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if !environment.is_empty() {
            return Some(String::from_utf8_lossy(&environment).replace('\0', "\n"));
        }
    }
    None
}

/// Whether any file below a directory contains these bytes.
fn holds(directory: &std::path::Path, text: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let kind = entry.file_type().unwrap();
        match kind.is_dir() {
            true => holds(&entry.path(), text),
            false if kind.is_file() => {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                bytes.windows(text.len()).any(|part| part == text.as_bytes())
            }
            false => false,
        }
    })
}

/// A run for a pull request from a fork gets another pool and no secret, and pushes nothing, whatever the rule says.
/// The roles in the fork's commit do not bind it.
#[test]
fn the_same_from_a_fork_is_untrusted_and_gets_no_secret() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let own = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    // The fork's commit is the head of a pull request. Its own kit has no limits.
    stage.scratch.git(&["switch", "--quiet", "--create", "theirs"]);
    stage.scratch.write("src/theirs.txt", "theirs\n");
    let free = "[role]\nname = \"worker\"\ndescription = \"Works.\"\n[capabilities]\nrequired = \
                [\"policy::git-read-only\"]\n[tools]\nallowed = [\"*\"]\n";
    stage.scratch.write(".bailiwick/roles/worker.toml", free);
    stage.scratch.commit("Change something");
    let sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let take = |branch: &str, sha: &str| {
        let pull = forge.add_fork_pull("A change", "mallory/app", branch, sha);
        let refspec = format!("+refs/heads/{branch}:refs/pull/{pull}/head");
        forge.git(&["fetch", "--quiet", &stage.scratch.root().display().to_string(), &refspec]);
        stage.scratch.git(&["switch", "--quiet", "main"]);
        stage.scratch.git(&["branch", "--quiet", "-D", branch]);
        pull
    };
    let pull = take("theirs", &sha);
    // Another pull request changes only a file.
    stage.scratch.git(&["switch", "--quiet", "--create", "kind"]);
    stage.scratch.write("src/kind.txt", "kind\n");
    stage.scratch.commit("Change a file");
    let kind = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let kind_pull = take("kind", &kind);
    let look = "printf %s \"$KEY\" | sha256sum | cut -c1-64 > src/seen.txt; \
                env | cut -d= -f1 > src/names.txt";
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("echo out > outside.txt")]),
        Turn::Calls(vec![Call::shell(look)]),
        Turn::say("It is mended."),
    ]));
    given(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    given(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    given(&stage, &["secrets", "set", "tool", "key"], TOOL_VALUE);
    let documents = format!("{}\n---\n{}", documents(&stage, &forge), keyed());
    given(&stage, &["apply", "-f", "-"], &documents);
    let mut command = stage.command(Some(&model), None);
    command.env(SERVERS_OWN.0, SERVERS_OWN.1);
    let serving = Serving::start(command);
    let hook = format!("http://{}/webhooks/app", serving.address);
    let tell = |seed: &RunSeed<'_>| {
        let (run, _) = forge.add_run(seed);
        let (status, said) = forge.webhook(&Told::RunEnded { run }).deliver(&hook, SECRET);
        assert_eq!(status, 202, "{said}");
    };
    let place = |run: &Value| {
        let agent = run["status"]["agentMuxRunId"].as_str().unwrap();
        stage.scratch.state().join("worktrees").join(agent)
    };
    let digest = |text: &str| bailiwick_model::Sha256Hex::of(text).to_string();

    // The repository's own branch: the run has the granted value, and no other secret.
    let seed = RunSeed {
        sha: &own,
        branch: "main",
        workflow: "own.yml",
        conclusion: Some("failure"),
        ..RunSeed::default()
    };
    tell(&seed);
    let (held, run) = watched(&stage, "keyed", "trusted", &[]);
    assert_eq!(phase(&run), "succeeded", "{run:#}");
    let seen = std::fs::read_to_string(place(&run).join("src/seen.txt")).unwrap();
    assert_eq!(seen.trim(), digest(TOOL_VALUE));
    let names = std::fs::read_to_string(place(&run).join("src/names.txt")).unwrap();
    assert!(names.lines().any(|name| name == "KEY"), "{names}");
    assert!(held.contains(TOOL_VALUE) && held.contains("a-key-of-nobody"), "{held}");
    assert!(!held.contains(SERVERS_OWN.1), "{held}");

    // The run of the other stack has also ended, and requests an approval.
    until("a question", &stage, || list(&stage, &["approvals"]).into_iter().next());

    // The fork: a stack that needs the value does not start, and the other one gets no model key.
    let asked = model.requests().len();
    let seed = RunSeed {
        sha: &sha,
        branch: "theirs",
        workflow: "theirs.yml",
        conclusion: Some("failure"),
        fork: Some("mallory/app"),
        pull: Some(pull),
        ..RunSeed::default()
    };
    tell(&seed);
    let first = until("the end of a stranger's run", &stage, || {
        let runs = list(&stage, &["runs"]);
        let theirs = runs.into_iter().find(|run| run["spec"]["trustTier"] == "untrusted")?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&theirs)).then_some(theirs)
    });
    assert_eq!(phase(&first), "failed", "{first:#}");
    let why = first["status"]["terminalReason"].as_str().unwrap();
    assert!(why.contains("no key of the model is lent to it"), "{why}");
    assert_eq!(model.requests().len(), asked, "a stranger has spent our key");
    let executions = list(&stage, &["executions"]);
    let refused = executions
        .iter()
        .find(|one| one["spec"]["triggerRule"] == "keyed" && one["spec"]["decision"] == "rejected");
    let refused = refused.unwrap_or_else(|| panic!("{executions:#?}"));
    assert!(refused["spec"]["reason"].as_str().unwrap().contains("PrivilegedSecretsOnFork"));

    // A pool gives untrusted runs the model key, and nothing else.
    let lent = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool",
        "metadata": { "name": "outside" },
        "spec": {
            "capacity": 1, "trustTier": "untrusted", "serviceAccountRef": "runner",
            "modelKey": "every-run",
        },
    });
    given(&stage, &["apply", "-f", "-"], &lent.to_string());
    tell(&RunSeed { workflow: "again.yml", ..seed });
    let (held, run) = watched(&stage, "fixer", "untrusted", &[&first]);
    // The fork's role allows every file and has no checks. The base's role denies a call and has three checks. The
    // changes of the fork's commit are not the agent's work.
    assert_eq!(phase(&run), "succeeded", "{run:#}");
    let why = run["status"]["terminalReason"].as_str().unwrap();
    assert!(why.starts_with("verified: 3 checks passed"), "{why}");
    assert_eq!(run["status"]["cost"]["denied"], 1, "{run:#}");
    assert_eq!(run["spec"]["runnerPool"], "outside", "{run:#}");
    assert!(held.contains("a-key-of-nobody"), "{held}");
    let worktree = place(&run);
    let seen = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
    assert_eq!(seen.trim(), digest(""));
    let names = std::fs::read_to_string(worktree.join("src/names.txt")).unwrap();
    assert!(names.lines().any(|name| name == "PATH"), "{names}");
    assert!(!names.lines().any(|name| name == "KEY"), "{names}");
    let agent = run["status"]["agentMuxRunId"].as_str().unwrap();
    let own_files = stage.scratch.state().join("runs").join(agent);
    assert!(holds(&own_files, "files-whitelist"), "what is looked for would be found");
    for secret in [TOOL_VALUE, SERVERS_OWN.1, SECRET, forge.token().as_str()] {
        assert!(!held.contains(secret), "{held}");
        assert!(!holds(&worktree, secret) && !holds(&own_files, secret), "{secret}");
    }
    assert!(worktree.join("src/theirs.txt").exists() && !worktree.join("outside.txt").exists());
    // A pull request that does not change the kit is repaired, by the same rules.
    tell(&RunSeed {
        workflow: "kind.yml",
        sha: &kind,
        branch: "kind",
        pull: Some(kind_pull),
        ..seed
    });
    let (_, kind) = watched(&stage, "fixer", "untrusted", &[&first, &run]);
    assert_eq!(phase(&kind), "succeeded", "{kind:#}");
    assert_eq!(kind["status"]["cost"]["denied"], 1, "{kind:#}");
    assert!(!forge.git(&["branch", "--list", "agent/*"]).contains("agent/"));
    let approvals = list(&stage, &["approvals"]);
    let asked_for: Vec<&Value> = approvals
        .iter()
        .filter(|one| one["spec"]["dispatchRun"] == run["metadata"]["name"])
        .collect();
    assert!(asked_for.is_empty(), "{asked_for:#?}");
}

/// The control plane is killed at random moments and started again: every delivery is stored, starts one run, and the
/// forge gets each write once.
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

/// A webhook that never arrived: the forge is polled, and each failure starts one run.
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
    // A check that ended before the rule was created starts nothing.
    let seed =
        RunSeed { sha: &sha, branch: "main", conclusion: Some("failure"), ..RunSeed::default() };
    forge.use_present_time();
    forge.add_run(&seed);
    let ended = until("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    assert_eq!(ended["spec"]["trustTier"], "trusted", "{ended:#}");
    assert_eq!(list(&stage, &["runs"]).len(), 1);
}
