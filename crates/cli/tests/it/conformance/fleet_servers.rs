//! Managed MCP servers, end to end: a server is started in a sandbox and lists its tools before any run, and its
//! stack is ready only if it has the required ones. A run of the real Claude Code calls a tool with a secret that
//! only the server has, and a tool outside of the server's list is denied.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::StandIn;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::fleet::{Serving, documents, list, phase, run_with_input, wait_for};
use super::stage::Stage;

const SECRET: &str = "only-the-server-knows-this";
/// A complete server: its tools return their name and the secret of the server.
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

/// The documents of the control plane's tests, with changes.
pub(crate) fn changed_documents(
    stage: &Stage,
    forge: &StandIn,
    change: impl Fn(&mut Value),
) -> Vec<Value> {
    let texts = documents(stage, forge);
    let all = texts.split("\n---\n").map(|text| {
        let mut document: Value = serde_json::from_str(text).unwrap();
        change(&mut document);
        document
    });
    all.collect()
}

pub(crate) fn apply(stage: &Stage, documents: &[Value]) {
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    run_with_input(stage, &["apply", "-f", "-"], &texts.join("\n---\n"));
}

fn server(code: &str, extra: &Value) -> Value {
    let mut spec = json!({
        "transport": "stdio", "command": "perl", "args": ["-e", code], "scope": "global",
        "allowedTools": ["look"], "approvalPolicy": "allow",
        "envFrom": [{ "name": "DOCS_TOKEN", "secretRef": { "name": "docs", "key": "token" } }],
    });
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentMcpServer",
        "metadata": { "name": "docs" }, "spec": spec,
    })
}

fn with_server(document: &mut Value) {
    match document["kind"].as_str().unwrap() {
        "AgentStack" => {
            document["spec"]["mcpServerRefs"] = json!(["docs"]);
            document["spec"]["writeBackPolicy"] = json!({ "allowedTargets": [] });
            document["spec"]["secretPolicy"] = json!({ "allowedSecretRefs": ["docs"] });
        }
        "AgentToolProfile" => document["spec"]["nativeTools"]["mcp"] = json!(true),
        "Repository" => {
            document["spec"]["policy"] = json!({ "allowedMcpServers": ["docs"] });
        }
        _ => {}
    }
}

/// The reason and message of the stack's `McpHealthy` condition.
fn server_condition(stage: &Stage) -> Option<(String, String)> {
    let stack = list(stage, &["stacks"]).into_iter().next()?;
    let all = stack["status"]["conditions"].as_array()?.clone();
    let condition = all.iter().find(|condition| condition["type"] == "McpHealthy")?;
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

#[test]
fn stack_needs_its_mcp_server_and_runs_use_only_allowed_tools() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::raw("mcp__docs__look", json!({}))]),
        Turn::Calls(vec![Call::raw("mcp__docs__post", json!({}))]),
        Turn::Calls(vec![Call::shell("env > src/env.txt")]),
        Turn::say("I have looked."),
    ]));
    run_with_input(&stage, &["secrets", "set", "webhook", "key"], "w");
    run_with_input(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    run_with_input(&stage, &["secrets", "set", "docs", "token"], SECRET);
    let grant = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentSecretGrant",
        "metadata": { "name": "docs-token" },
        "spec": {
            "subject": { "kind": "mcp-server", "name": "docs" },
            "secretRef": { "name": "docs", "keys": ["token"] }, "purpose": "mcp-server",
            "allowedRepositories": ["acme/*"], "mountPolicy": "env",
        },
    });
    let mut documents = changed_documents(&stage, &forge, with_server);
    // First a server that crashes, then one without a required tool, then a valid one.
    documents.extend([grant, server("print STDERR qq(no library\\n); exit 4", &json!({}))]);
    apply(&stage, &documents);
    let _serving = Serving::start(stage.command(Some(&model), None));
    let wait_for_reason = |wanted: &str| {
        wait_for(wanted, &stage, || server_condition(&stage).filter(|(reason, _)| reason == wanted))
            .1
    };
    let message = wait_for_reason("McpProbeFailed");
    assert!(message.contains("ended with 4") && message.contains("no library"), "{message}");
    apply(&stage, &[server(SERVER, &json!({ "requiredTools": ["look", "search"] }))]);
    let message = wait_for_reason("McpToolMissing");
    assert!(message.contains("`search`") && !message.contains("`look`"), "{message}");
    let refused = stage.bailiwick(&["runs", "start", "app", "fixer", "--task", "Look."]);
    assert!(refused.err.contains("search"), "{}{}", refused.out, refused.err);
    apply(&stage, &[server(SERVER, &json!({ "requiredTools": ["look"] }))]);
    wait_for_reason("AllRequiredServersReady");
    wait_for("a ready stack", &stage, || {
        let stack = list(&stage, &["stacks"]).into_iter().next()?;
        let conditions = stack["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
    });

    let server = list(&stage, &["agentmcpservers"]).remove(0);
    assert_eq!(server["status"]["health"], "Ready", "{server:#}");
    assert_eq!(server["status"]["discoveredTools"][1]["name"], "post", "{server:#}");
    let started = stage.bailiwick(&["runs", "start", "app", "fixer", "--task", "Look."]);
    assert!(started.out.contains("adr-"), "{}{}", started.out, started.err);
    let ended = wait_for("the end", &stage, || {
        let run = list(&stage, &["runs"]).into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");
    // The server has its secret; the agent's environment does not have it.
    let allowed_result = model.result("call_0_0_0");
    assert!(allowed_result.contains(&format!("did look with {SECRET}")), "{allowed_result}");
    let denied_result = model.result("call_0_1_0");
    assert!(denied_result.contains("the MCP server docs does not allow"), "{denied_result}");
    let agent = ended["status"]["agentMuxRunId"].as_str().unwrap();
    let worktree = stage.scratch.state().join("worktrees").join(agent);
    let environment = std::fs::read_to_string(worktree.join("src/env.txt")).unwrap();
    assert!(environment.contains("PATH=") && !environment.contains(SECRET), "{environment}");
    // The program's configuration of the server is deleted with the attempt.
    let run = stage.scratch.state().join("runs").join(agent);
    let server_config = run.join("home/.bailiwick/mcp.json");
    assert!(
        run.join("managed.json").exists() && !server_config.exists(),
        "{}",
        server_config.display()
    );
    let logs = stage.bailiwick(&["logs", agent, "-o", "json"]);
    assert!(logs.out.contains("did look with"), "{}", logs.out);
    assert!(!logs.out.contains(SECRET), "{}", logs.out);
}
