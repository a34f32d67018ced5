//! Managed MCP servers, whole: one is started in a sandbox and asked for its tools before any run, a stack is
//! ready only if it has them, a run of the real Claude Code calls one of them with a secret that only the
//! server was granted, and a tool outside of the server's list is denied.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::StandIn;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::fleet::{Serving, documents, given, list, phase, until};
use super::stage::Stage;

const SECRET: &str = "only-the-server-knows-this";
/// A whole server: it says what it was asked, and what it was given.
const SERVER: &str = r#"use JSON::PP; $| = 1;
while (<STDIN>) {
  my $m = decode_json($_); next unless defined $m->{id};
  my $what = $m->{method}; my $r = {};
  $r = {protocolVersion => $m->{params}{protocolVersion}, capabilities => {tools => {}},
        serverInfo => {name => "docs", version => "1"}} if $what eq "initialize";
  $r = {tools => [map {{name => $_, description => "It does.", inputSchema => {type => "object"}}}
        qw(look post)]} if $what eq "tools/list";
  $r = {content => [{type => "text", text => "did $m->{params}{name} with $ENV{DOCS_TOKEN}"}]} if $what eq "tools/call";
  print encode_json({jsonrpc => "2.0", id => $m->{id}, result => $r}), "\n";
}"#;

/// The documents of the control plane's own tests, changed.
pub(crate) fn changed(stage: &Stage, forge: &StandIn, change: impl Fn(&mut Value)) -> Vec<Value> {
    let texts = documents(stage, forge);
    let all = texts.split("\n---\n").map(|text| {
        let mut one: Value = serde_json::from_str(text).unwrap();
        change(&mut one);
        one
    });
    all.collect()
}

pub(crate) fn apply(stage: &Stage, documents: &[Value]) {
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    given(stage, &["apply", "-f", "-"], &texts.join("\n---\n"));
}

fn server(code: &str, more: &Value) -> Value {
    let mut spec = json!({
        "transport": "stdio", "command": "perl", "args": ["-e", code], "scope": "global",
        "allowedTools": ["look"], "approvalPolicy": "allow",
        "envFrom": [{ "name": "DOCS_TOKEN", "secretRef": { "name": "docs", "key": "token" } }],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentMcpServer",
        "metadata": { "name": "docs" }, "spec": spec,
    })
}

fn with_server(one: &mut Value) {
    match one["kind"].as_str().unwrap() {
        "AgentStack" => {
            one["spec"]["mcpServerRefs"] = json!(["docs"]);
            one["spec"]["writeBackPolicy"] = json!({ "allowedTargets": [] });
            one["spec"]["secretPolicy"] = json!({ "allowedSecretRefs": ["docs"] });
        }
        "AgentToolProfile" => one["spec"]["nativeTools"]["mcp"] = json!(true),
        "Repository" => {
            one["spec"]["policy"] = json!({ "allowedMcpServers": ["docs"] });
        }
        _ => {}
    }
}

/// Why the stack's servers are not healthy; nothing once they are.
fn unhealthy(stage: &Stage) -> Option<(String, String)> {
    let stack = list(stage, &["stacks"]).into_iter().next()?;
    let all = stack["status"]["conditions"].as_array()?.clone();
    let one = all.iter().find(|one| one["type"] == "McpHealthy")?;
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

#[test]
fn a_stack_is_ready_with_its_server_and_a_run_uses_what_the_server_may() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::raw("mcp__docs__look", json!({}))]),
        Turn::Calls(vec![Call::raw("mcp__docs__post", json!({}))]),
        Turn::Calls(vec![Call::shell("env > src/env.txt")]),
        Turn::say("I have looked."),
    ]));
    given(&stage, &["secrets", "set", "webhook", "key"], "w");
    given(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    given(&stage, &["secrets", "set", "docs", "token"], SECRET);
    let grant = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentSecretGrant",
        "metadata": { "name": "docs-token" },
        "spec": {
            "subject": { "kind": "mcp-server", "name": "docs" },
            "secretRef": { "name": "docs", "keys": ["token"] }, "purpose": "mcp-server",
            "allowedRepositories": ["acme/*"], "mountPolicy": "env",
        },
    });
    let mut all = changed(&stage, &forge, with_server);
    // First one that crashes, then one without a tool that is needed, then the one that is meant.
    all.extend([grant, server("print STDERR qq(no library\\n); exit 4", &json!({}))]);
    apply(&stage, &all);
    let _serving = Serving::start(stage.command(Some(&model), None));
    let reason = |wanted: &str| {
        until(wanted, &stage, || unhealthy(&stage).filter(|(reason, _)| reason == wanted)).1
    };
    let why = reason("McpProbeFailed");
    assert!(why.contains("ended with 4") && why.contains("no library"), "{why}");
    apply(&stage, &[server(SERVER, &json!({ "requiredTools": ["look", "search"] }))]);
    let why = reason("McpToolMissing");
    assert!(why.contains("`search`") && !why.contains("`look`"), "{why}");
    let refused = stage.bailiwick(&["runs", "start", "app", "fixer", "--task", "Look."]);
    assert!(refused.err.contains("search"), "{}{}", refused.out, refused.err);
    apply(&stage, &[server(SERVER, &json!({ "requiredTools": ["look"] }))]);
    reason("AllRequiredServersReady");
    until("a ready stack", &stage, || {
        let stack = list(&stage, &["stacks"]).into_iter().next()?;
        let all = stack["status"]["conditions"].as_array()?.clone();
        all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
    });

    let server = list(&stage, &["agentmcpservers"]).remove(0);
    assert_eq!(server["status"]["health"], "Ready", "{server:#}");
    assert_eq!(server["status"]["discoveredTools"][1]["name"], "post", "{server:#}");
    let started = stage.bailiwick(&["runs", "start", "app", "fixer", "--task", "Look."]);
    assert!(started.out.contains("adr-"), "{}{}", started.out, started.err);
    let ended = until("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    // The server had its secret; the agent had none of it in its own environment.
    let looked = model.result("call_0_0_0");
    assert!(looked.contains(&format!("did look with {SECRET}")), "{looked}");
    let posted = model.result("call_0_1_0");
    assert!(posted.contains("the MCP server docs does not allow"), "{posted}");
    let agent = ended["status"]["agentMuxRunId"].as_str().unwrap();
    let worktree = stage.scratch.state().join("worktrees").join(agent);
    let environment = std::fs::read_to_string(worktree.join("src/env.txt")).unwrap();
    assert!(environment.contains("PATH=") && !environment.contains(SECRET), "{environment}");
    // What told the program of it is gone with the attempt.
    let run = stage.scratch.state().join("runs").join(agent);
    let told = run.join("home/.bailiwick/mcp.json");
    assert!(run.join("managed.json").exists() && !told.exists(), "{}", told.display());
    let logged = stage.bailiwick(&["logs", agent, "-o", "json"]);
    assert!(logged.out.contains("did look with"), "{}", logged.out);
    assert!(!logged.out.contains(SECRET), "{}", logged.out);
}
