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
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let status = response.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (status, response)
    }
}

pub(crate) fn run_with_input(stage: &Stage, arguments: &[&str], input: &str) -> String {
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
    let output = stage.bailiwick(&all);
    serde_json::from_str(&output.out)
        .unwrap_or_else(|_| panic!("{all:?}: {}{}", output.out, output.err))
}

pub(crate) fn wait_for<T>(what: &str, stage: &Stage, mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = find() {
            return found;
        }
        if Instant::now() > deadline {
            let mut state = Vec::new();
            for kind in ["deliveries", "executions", "runs", "approvals", "stacks", "triggers"] {
                state.push(format!("{kind}: {:#}", json!(list(stage, &[kind]))));
            }
            panic!("timed out waiting for {what}: {}", state.join("\n"));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

pub(crate) fn phase(run: &Value) -> &str {
    run["status"]["phase"].as_str().unwrap_or_default()
}

#[test]
fn failed_check_is_fixed_approved_and_written_back_once() {
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
    run_with_input(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    run_with_input(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    run_with_input(&stage, &["apply", "-f", "-"], &documents(&stage, &forge));
    let token = run_with_input(&stage, &["tokens", "new", "ada", "--scope", "approver"], "");
    let viewer = run_with_input(&stage, &["tokens", "new", "bob", "--scope", "viewer"], "");
    let (token, viewer) = (token.trim().to_owned(), viewer.trim().to_owned());
    let serving = Serving::start(stage.command(Some(&model), None));
    let hook = format!("http://{}/webhooks/app", serving.address);
    let seed =
        RunSeed { sha: &sha, branch: "main", conclusion: Some("failure"), ..RunSeed::default() };
    let (run, _) = forge.add_run(&seed);
    let webhook = forge.webhook(&Told::RunEnded { run });

    // A delivery without the secret is refused, and is not stored.
    let (status, response) = webhook.deliver(&hook, "another secret");
    assert_eq!(status, 401, "{response}");
    assert_eq!(list(&stage, &["deliveries"]), [] as [Value; 0]);
    let (status, response) = webhook.deliver(&hook, SECRET);
    assert_eq!(status, 202, "{response}");

    let approval = wait_for("an approval request", &stage, || {
        list(&stage, &["approvals", "--field", "phase=pending"]).into_iter().next()
    });
    let started = list(&stage, &["runs"]).into_iter().next().unwrap();
    assert_eq!(started["spec"]["trustTier"], "trusted", "{started:#}");
    assert_eq!(started["spec"]["runnerPool"], "inside", "{started:#}");
    // The forbidden writes have not happened. The allowed ones have, and were checked.
    let results = model.results();
    let result = |call: &str| {
        let one = results.iter().find(|result| result.call == call);
        one.map(|result| result.text.clone()).unwrap_or_else(|| panic!("{call}: {results:#?}"))
    };
    assert!(result("call_0_0_0").contains("scope::files-whitelist"), "{}", result("call_0_0_0"));
    assert!(result("call_0_1_0").contains("limit::denied-commands"), "{}", result("call_0_1_0"));
    let agent = started["status"]["agentMuxRunId"].as_str().unwrap();
    let worktree = stage.scratch.state().join("worktrees").join(agent);
    assert!(worktree.join("src/mended.txt").exists() && !worktree.join("outside.txt").exists());
    // Nothing is written before a person with the permission approves it.
    assert!(!forge.git(&["branch", "--list", "agent/*"]).contains("agent/"));
    let name = approval["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/agents/approvals/{name}/decision");
    let digest = &approval["spec"]["artifactDigest"];
    let approve = json!({ "decision": "approve", "expectedArtifactDigest": digest });
    let (status, response) = serving.post(&path, &viewer, &approve);
    assert_eq!(status, 403, "{response}");
    let other_digest = json!({ "decision": "approve", "expectedArtifactDigest": "0".repeat(64) });
    let (status, response) = serving.post(&path, &token, &other_digest);
    assert_eq!(status, 409, "{response}");
    let (status, response) = serving.post(&path, &token, &approve);
    assert_eq!(status, 200, "{response}");
    let (status, response) = serving.post(&path, &token, &approve);
    assert_eq!(status, 409, "the second approval: {response}");
    let ended = wait_for("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    let branches = forge.git(&["branch", "--list", "agent/*"]);
    assert_eq!(branches.matches("agent/").count(), 1, "{branches}");
    let pushed = forge.git(&["show", &format!("agent/{agent}:src/mended.txt")]);
    assert_eq!(pushed.trim(), "mended");
    // Its commit has one status, which shows the progress and at last the success.
    let statuses = wait_for("the final status", &stage, || {
        let statuses = forge.statuses(&sha);
        statuses.last().is_some_and(|last| last["state"] == "success").then_some(statuses)
    });
    assert!(statuses.iter().all(|one| one["context"] == "bailiwick/broken"), "{statuses:#?}");
    let count = |state: &str| statuses.iter().filter(|one| one["state"] == state).count();
    assert!(count("pending") >= 1 && count("success") == 1, "{statuses:#?}");
    // The last message of the agent is stored.
    let artifacts = list(&stage, &["artifacts"]);
    assert!(artifacts.iter().any(|one| one["spec"]["kind"] == "diagnosis"), "{artifacts:#?}");
    assert_eq!(forge.breaches(), [] as [String; 0]);
    // Its workspace is recorded, and is not in use any more.
    let workspace = wait_for("its workspace", &stage, || {
        list(&stage, &["workspaces", "--field", "state=idle"]).into_iter().next()
    });
    assert_eq!(workspace["spec"]["run"], agent, "{workspace:#}");
    assert_eq!(workspace["spec"]["ownership"], "pipeline-failure", "{workspace:#}");
    assert_eq!(workspace["status"]["runs"][0], ended["metadata"]["name"], "{workspace:#}");

    // The same delivery again has no effect. Another delivery about the same failure is a duplicate.
    let (status, response) = webhook.deliver(&hook, SECRET);
    assert_eq!(status, 200, "{response}");
    let (status, response) = forge.webhook(&Told::RunEnded { run }).deliver(&hook, SECRET);
    assert_eq!(status, 202, "{response}");
    let executions = wait_for("a second execution", &stage, || {
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
const SERVER_VARIABLE: (&str, &str) = ("SERVERS_OWN", "what-only-the-server-knows");

/// A stack whose tools get a granted value, with a rule for the same events.
fn secret_stack_documents() -> String {
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
fn wait_for_run_and_environment(
    stage: &Stage,
    stack: &str,
    trust: &str,
    earlier: &[&Value],
) -> (String, Value) {
    let mut environment = None;
    let deadline = Instant::now() + TIMEOUT;
    let matches = |run: &&Value| {
        run["spec"]["agentStack"] == stack
            && run["spec"]["trustTier"] == trust
            && !earlier.iter().any(|one| one["metadata"]["name"] == run["metadata"]["name"])
    };
    loop {
        let newest = list(stage, &["runs"]).iter().find(matches).cloned();
        if let Some(run) = &newest {
            let attempt = run["status"]["attempts"][0].as_str().unwrap_or_default();
            let until_next = Instant::now() + Duration::from_millis(300);
            while environment.is_none() && Instant::now() < until_next {
                environment = supervisor_environment(attempt);
                std::thread::sleep(Duration::from_millis(5));
            }
            if ["succeeded", "failed", "cancelled"].contains(&phase(run)) {
                let found_environment =
                    environment.unwrap_or_else(|| panic!("no supervisor was found for {run:#}"));
                return (found_environment, run.clone());
            }
        }
        if Instant::now() > deadline {
            let executions = list(stage, &["executions"]);
            panic!("{trust} {stack} did not end: {newest:#?} {executions:#?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The environment of the supervisor of an attempt, from `/proc`.
fn supervisor_environment(attempt: &str) -> Option<String> {
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let command_line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
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
fn contains_text(directory: &std::path::Path, text: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let kind = entry.file_type().unwrap();
        match kind.is_dir() {
            true => contains_text(&entry.path(), text),
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
fn run_for_a_fork_is_untrusted_and_gets_no_secret() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let base_sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    // The fork's commit is the head of a pull request. Its own kit has no limits.
    stage.scratch.git(&["switch", "--quiet", "--create", "theirs"]);
    stage.scratch.write("src/theirs.txt", "theirs\n");
    let unlimited_role = "[role]\nname = \"worker\"\ndescription = \"Works.\"\n[capabilities]\nrequired = \
                [\"policy::git-read-only\"]\n[tools]\nallowed = [\"*\"]\n";
    stage.scratch.write(".bailiwick/roles/worker.toml", unlimited_role);
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
    let clean_sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let clean_pull = take("kind", &clean_sha);
    let script = "printf %s \"$KEY\" | sha256sum | cut -c1-64 > src/seen.txt; \
                env | cut -d= -f1 > src/names.txt";
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("echo out > outside.txt")]),
        Turn::Calls(vec![Call::shell(script)]),
        Turn::say("It is mended."),
    ]));
    run_with_input(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    run_with_input(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    run_with_input(&stage, &["secrets", "set", "tool", "key"], TOOL_VALUE);
    let documents = format!("{}\n---\n{}", documents(&stage, &forge), secret_stack_documents());
    run_with_input(&stage, &["apply", "-f", "-"], &documents);
    let mut command = stage.command(Some(&model), None);
    command.env(SERVER_VARIABLE.0, SERVER_VARIABLE.1);
    let serving = Serving::start(command);
    let hook = format!("http://{}/webhooks/app", serving.address);
    let deliver = |seed: &RunSeed<'_>| {
        let (run, _) = forge.add_run(seed);
        let (status, response) = forge.webhook(&Told::RunEnded { run }).deliver(&hook, SECRET);
        assert_eq!(status, 202, "{response}");
    };
    let worktree_of = |run: &Value| {
        let agent = run["status"]["agentMuxRunId"].as_str().unwrap();
        stage.scratch.state().join("worktrees").join(agent)
    };
    let digest = |text: &str| bailiwick_model::Sha256Hex::of(text).to_string();

    // The repository's own branch: the run has the granted value, and no other secret.
    let seed = RunSeed {
        sha: &base_sha,
        branch: "main",
        workflow: "own.yml",
        conclusion: Some("failure"),
        ..RunSeed::default()
    };
    deliver(&seed);
    let (environment, run) = wait_for_run_and_environment(&stage, "keyed", "trusted", &[]);
    assert_eq!(phase(&run), "succeeded", "{run:#}");
    let seen = std::fs::read_to_string(worktree_of(&run).join("src/seen.txt")).unwrap();
    assert_eq!(seen.trim(), digest(TOOL_VALUE));
    let names = std::fs::read_to_string(worktree_of(&run).join("src/names.txt")).unwrap();
    assert!(names.lines().any(|name| name == "KEY"), "{names}");
    assert!(
        environment.contains(TOOL_VALUE) && environment.contains("a-key-of-nobody"),
        "{environment}"
    );
    assert!(!environment.contains(SERVER_VARIABLE.1), "{environment}");

    // The run of the other stack has also ended, and requests an approval.
    wait_for("an approval request", &stage, || list(&stage, &["approvals"]).into_iter().next());

    // The fork: a stack that needs the value does not start, and the other one gets no model key.
    let request_count = model.requests().len();
    let seed = RunSeed {
        sha: &sha,
        branch: "theirs",
        workflow: "theirs.yml",
        conclusion: Some("failure"),
        fork: Some("mallory/app"),
        pull: Some(pull),
        ..RunSeed::default()
    };
    deliver(&seed);
    let first = wait_for("the end of the fork's run", &stage, || {
        let runs = list(&stage, &["runs"]);
        let fork_run = runs.into_iter().find(|run| run["spec"]["trustTier"] == "untrusted")?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&fork_run)).then_some(fork_run)
    });
    assert_eq!(phase(&first), "failed", "{first:#}");
    let reason = first["status"]["terminalReason"].as_str().unwrap();
    assert!(reason.contains("no key of the model is lent to it"), "{reason}");
    assert_eq!(model.requests().len(), request_count, "the fork's run used the model key");
    let executions = list(&stage, &["executions"]);
    let refused = executions
        .iter()
        .find(|one| one["spec"]["triggerRule"] == "keyed" && one["spec"]["decision"] == "rejected");
    let refused = refused.unwrap_or_else(|| panic!("{executions:#?}"));
    assert!(refused["spec"]["reason"].as_str().unwrap().contains("PrivilegedSecretsOnFork"));

    // A pool gives untrusted runs the model key, and nothing else.
    let pool = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool",
        "metadata": { "name": "outside" },
        "spec": {
            "capacity": 1, "trustTier": "untrusted", "serviceAccountRef": "runner",
            "modelKey": "every-run",
        },
    });
    run_with_input(&stage, &["apply", "-f", "-"], &pool.to_string());
    deliver(&RunSeed { workflow: "again.yml", ..seed });
    let (environment, run) = wait_for_run_and_environment(&stage, "fixer", "untrusted", &[&first]);
    // The fork's role allows every file and has no checks. The base's role denies a call and has three checks. The
    // changes of the fork's commit are not the agent's work.
    assert_eq!(phase(&run), "succeeded", "{run:#}");
    let reason = run["status"]["terminalReason"].as_str().unwrap();
    assert!(reason.starts_with("verified: 3 checks passed"), "{reason}");
    assert_eq!(run["status"]["cost"]["denied"], 1, "{run:#}");
    assert_eq!(run["spec"]["runnerPool"], "outside", "{run:#}");
    assert!(environment.contains("a-key-of-nobody"), "{environment}");
    let worktree = worktree_of(&run);
    let seen = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
    assert_eq!(seen.trim(), digest(""));
    let names = std::fs::read_to_string(worktree.join("src/names.txt")).unwrap();
    assert!(names.lines().any(|name| name == "PATH"), "{names}");
    assert!(!names.lines().any(|name| name == "KEY"), "{names}");
    let agent = run["status"]["agentMuxRunId"].as_str().unwrap();
    let own_files = stage.scratch.state().join("runs").join(agent);
    assert!(
        contains_text(&own_files, "files-whitelist"),
        "positive control: the search finds text"
    );
    for secret in [TOOL_VALUE, SERVER_VARIABLE.1, SECRET, forge.token().as_str()] {
        assert!(!environment.contains(secret), "{environment}");
        assert!(
            !contains_text(&worktree, secret) && !contains_text(&own_files, secret),
            "{secret}"
        );
    }
    assert!(worktree.join("src/theirs.txt").exists() && !worktree.join("outside.txt").exists());
    // A pull request that does not change the kit is repaired, by the same rules.
    deliver(&RunSeed {
        workflow: "kind.yml",
        sha: &clean_sha,
        branch: "kind",
        pull: Some(clean_pull),
        ..seed
    });
    let (_, clean_run) =
        wait_for_run_and_environment(&stage, "fixer", "untrusted", &[&first, &run]);
    assert_eq!(phase(&clean_run), "succeeded", "{clean_run:#}");
    assert_eq!(clean_run["status"]["cost"]["denied"], 1, "{clean_run:#}");
    assert!(!forge.git(&["branch", "--list", "agent/*"]).contains("agent/"));
    let approvals = list(&stage, &["approvals"]);
    let fork_approvals: Vec<&Value> = approvals
        .iter()
        .filter(|one| one["spec"]["dispatchRun"] == run["metadata"]["name"])
        .collect();
    assert!(fork_approvals.is_empty(), "{fork_approvals:#?}");
}

/// The control plane is killed at random moments and started again: every delivery is stored, starts one run, and the
/// forge gets each write once.
#[test]
fn killed_control_plane_loses_and_repeats_nothing() {
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
    run_with_input(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    run_with_input(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    let documents = documents(&stage, &forge)
        .replace("\"create-branch\":\"always-approve\"", "\"create-branch\":\"auto\"");
    run_with_input(&stage, &["apply", "-f", "-"], &documents);
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
        let (status, response) = webhook.deliver(&hook, SECRET);
        assert_eq!(status, 202, "{response}");
        let kills_per_delivery = Depth::from_env().cases(210) / DELIVERIES as u64;
        for _ in 0..kills_per_delivery.max(2) {
            std::thread::sleep(Duration::from_millis(random.below(900) as u64));
            drop(serving);
            kills += 1;
            serving = Serving::start(stage.command(Some(&model), None));
        }
    }
    let ended = wait_for("the end of all runs", &stage, || {
        let runs = list(&stage, &["runs"]);
        let has_ended = |run: &Value| ["succeeded", "failed", "cancelled"].contains(&phase(run));
        (runs.len() == DELIVERIES && runs.iter().all(has_ended)).then_some(runs)
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
fn polling_finds_events_without_webhooks() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let sha = stage.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("There is nothing to do.")]));
    run_with_input(&stage, &["secrets", "set", "webhook", "key"], SECRET);
    run_with_input(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    let documents = documents(&stage, &forge)
        .replace("\"defaultBranch\":\"main\"", "\"defaultBranch\":\"main\",\"pollEvery\":\"1s\"");
    run_with_input(&stage, &["apply", "-f", "-"], &documents);
    let _serving = Serving::start(stage.command(Some(&model), None));
    wait_for("the first poll", &stage, || {
        let repository = list(&stage, &["repositories"]).into_iter().next()?;
        repository["status"]["pollCursor"].as_str().map(str::to_owned)
    });
    assert_eq!(list(&stage, &["executions"]), [] as [Value; 0]);
    // A check that ended before the rule was created starts nothing.
    let seed =
        RunSeed { sha: &sha, branch: "main", conclusion: Some("failure"), ..RunSeed::default() };
    forge.use_present_time();
    forge.add_run(&seed);
    let ended = wait_for("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    assert_eq!(ended["spec"]["trustTier"], "trusted", "{ended:#}");
    assert_eq!(list(&stage, &["runs"]).len(), 1);
}
