//! `bailiwick mcp` as the agent program of a user calls it: the tools and their exact contract.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::client::Client;
use super::outside;
use super::stage::Stage;

const AUDITOR: &str = "---\ndescription: Checks.\nread_only: true\ncontext:\n  files: 3\nagent_names:\n  - name: \
                       strict\n    description: Strictly.\nallow_list:\n  - Read\n---\nYou \
                       check.\n\n<!-- agent_name: strict -->\nYou check strictly.\n";

fn stage() -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/auditor.md", AUDITOR);
    stage
        .scratch
        .write(".bailiwick/agents/broken.md", "---\ndescription: x\nread_onIy: true\n---\nHi.\n");
    stage.scratch.write("CLAUDE.md", "The first rule.\n");
    stage.scratch.write("AGENTS.md", "The second rule.\n");
    for skill in ["one", "two"] {
        let text = format!("---\nname: {skill}\ndescription: The skill {skill}.\n---\nDo it.\n");
        stage.scratch.write(&format!(".claude/skills/{skill}/SKILL.md"), &text);
    }
    stage.scratch.commit("Templates");
    stage
}

#[test]
fn errors_have_the_text_of_the_contract() {
    let stage = stage();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("done")]));
    let mut client = Client::start(&stage, &model);
    let tools = client.request("tools/list", json!({}));
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let all = [
        "list_agents",
        "spawn_agent",
        "list_active_agents",
        "wait",
        "send_input",
        "close_agent",
        "merge_agent",
        "set_thread_note",
    ];
    assert_eq!(names, all);
    // The schema names all types that can be started, and no others.
    let types = &tools["tools"][1]["inputSchema"]["properties"]["agent_type"]["description"];
    let types = types.as_str().unwrap();
    assert!(types.contains("\n- auditor: Checks.") && types.contains("\n- worker: "), "{types}");
    assert!(!types.contains("broken"), "{types}");
    for (tool, arguments, expected) in [
        (
            "list_agents",
            json!({"agent_type": "a b"}),
            "invalid agent_type \"a b\": expected snake_case",
        ),
        ("list_agents", json!({"agent_type": "nobody"}), "missing agent template: nobody"),
        ("list_agents", json!({"kind": "x"}), "unknown field `kind`"),
        ("spawn_agent", json!({}), "Provide one of: message or items"),
        (
            "spawn_agent",
            json!({"message": "x", "items": [{"type": "text", "text": "x"}]}),
            "Provide either message or items, but not both",
        ),
        ("spawn_agent", json!({"message": " "}), "Empty message can't be sent to an agent"),
        ("spawn_agent", json!({"items": []}), "Items can't be empty"),
        (
            "spawn_agent",
            json!({"message": "x", "agent_name": "strict"}),
            "agent_name requires a non-default agent_type",
        ),
        (
            "spawn_agent",
            json!({"message": "x", "agent_type": "auditor", "agent_name": "lax"}),
            "unknown agent_name \"lax\" for agent_type \"auditor\"",
        ),
        (
            "spawn_agent",
            json!({"message": "x", "agent_type": "nobody"}),
            "missing agent template: nobody",
        ),
        (
            "spawn_agent",
            json!({"message": "x", "agent_type": "auditor", "model": "gpt-1"}),
            "unknown model \"gpt-1\" for spawn_agent. Available models: fable, haiku, opus, sonnet",
        ),
        (
            "spawn_agent",
            json!({"message": "x", "agent_type": "auditor", "model": "haiku", "reasoning_effort": "huge"}),
            "reasoning_effort huge is not supported for model \"haiku\". Supported efforts: none, ",
        ),
        (
            "spawn_agent",
            json!({"message": "x", "working_directory": "/etc"}),
            "spawn_agent in a different working_directory was not approved",
        ),
        // A template that does not parse cannot be spawned.
        ("spawn_agent", json!({"message": "x", "agent_type": "broken"}), "read_onIy"),
        ("spawn_agent", json!({"message": "x", "estimated_usd": 0}), "must be greater than zero"),
        ("spawnable_agents", json!({}), "unsupported call: spawnable_agents"),
        ("wait", json!({"ids": []}), "ids must be non-empty"),
        ("wait", json!({"ids": ["x"], "timeout_ms": 0}), "timeout_ms must be greater than zero"),
        ("wait", json!({"ids": ["x"]}), "is not one of the agents below you"),
        (
            "list_active_agents",
            json!({"scope": "world"}),
            "unsupported scope \"world\"; expected one of: children, descendants, all",
        ),
        ("close_agent", json!({"id": "x"}), "Not permitted to close agents outside your subtree."),
        ("send_input", json!({"id": "x", "message": "y"}), "is not one of the agents below you"),
    ] {
        let error = client.call_error(tool, arguments.clone());
        assert!(error.contains(expected), "{tool} {arguments}: {error}");
    }
    // None of these calls has started an agent.
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    let listed = client.call("list_agents", json!({"agent_type": "auditor"})).unwrap();
    let strict = json!([{"name": "strict", "description": "Strictly."}]);
    let auditor = json!({"agent_type": "auditor", "description": "Checks.", "allow_list": ["Read"],
        "deny_list": null, "agent_names": strict});
    assert_eq!(listed, json!({"agents": [auditor]}));
    client.end();
}

/// Templates in the working copy do not apply to spawned agents.
#[test]
fn only_committed_templates_can_be_spawned() {
    let stage = stage();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("done")]));
    let wider = AUDITOR.replace("read_only: true\n", "").replace("allow_list:\n  - Read\n", "");
    let fresh = "---\ndescription: Is new.\nread_only: true\n---\nYou are new here.\n";
    stage.scratch.write(".bailiwick/agents/auditor.md", &wider);
    for name in ["fresh", "worker"] {
        stage.scratch.write(&format!(".bailiwick/agents/{name}.md"), fresh);
    }
    let mut client = Client::start(&stage, &model);
    let listed = client.call("list_agents", json!({"agent_type": "fresh"})).unwrap();
    assert_eq!(listed["agents"][0]["description"], "Is new.", "the working copy is listed");
    let listed_types = |client: &mut Client| {
        let tools = client.request("tools/list", json!({}));
        let types = &tools["tools"][1]["inputSchema"]["properties"]["agent_type"]["description"];
        types.as_str().unwrap().to_owned()
    };
    let types = listed_types(&mut client);
    assert!(types.contains("- auditor: Checks.") && !types.contains("Is new."), "{types}");
    let expect_refused = |client: &mut Client, name: &str, expected: &str| {
        let error = client.call_error("spawn_agent", json!({"message": "x", "agent_type": name}));
        assert!(error.contains(expected) && error.contains("commit it first"), "{name}: {error}");
    };
    expect_refused(&mut client, "auditor", "differs from what is in HEAD");
    expect_refused(&mut client, "worker", "differs from what is in HEAD");
    expect_refused(&mut client, "fresh", "is not in HEAD");
    std::fs::remove_file(stage.scratch.root().join(".bailiwick/agents/auditor.md")).unwrap();
    expect_refused(&mut client, "auditor", "differs from what is in HEAD");
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    // Committed templates can be spawned, and are listed in the tool description.
    stage.scratch.commit("More templates");
    assert!(listed_types(&mut client).contains("- fresh: Is new."));
    let arguments = json!({"message": "be new", "agent_type": "fresh"});
    let id =
        client.call("spawn_agent", arguments).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["status"][&id], json!({"completed": "done"}), "{wait_result:#}");
    let prompts: Vec<String> = model.requests().iter().map(|one| one.body.to_string()).collect();
    assert!(prompts.iter().any(|body| body.contains("You are new here.")), "{prompts:#?}");
    client.end();
}

#[test]
fn list_agents_filters_and_expands() {
    let stage = stage();
    let keys = "model: sonnet\nreasoning_effort: low\nagent_names:";
    let text = AUDITOR.replace("agent_names:", keys);
    let text =
        text.replace("Strictly.\n", "Strictly.\n    model: opus\n    reasoning_effort: high\n");
    stage.scratch.write(".bailiwick/agents/other-auditor.md", &text);
    stage.scratch.commit("One with models");
    let model = ScriptedModel::start(Script::new(vec![Turn::say("done")]));
    let mut client = Client::start(&stage, &model);
    let mut listed = |agent_type: &str, expanded: bool| {
        let arguments = json!({"agent_type": agent_type, "expanded": expanded});
        client.call("list_agents", arguments).unwrap()
    };
    let brief = json!({"agents": [{
        "agent_type": "other-auditor", "description": "Checks.", "allow_list": ["Read"],
        "deny_list": null, "agent_names": [{"name": "strict", "description": "Strictly."}],
    }]});
    assert_eq!(listed("other-auditor", false), brief);
    let strict = json!({"name": "strict", "description": "Strictly.", "model": "opus",
        "reasoning_effort": "high", "prompt": "You check strictly."});
    let expanded_template = json!({"agents": [{
        "agent_type": "other-auditor", "description": "Checks.", "allow_list": ["Read"],
        "deny_list": null, "model": "sonnet", "reasoning_effort": "low",
        "default_prompt": "You check.", "agent_names": [strict],
    }]});
    // The other spelling finds it as well.
    assert_eq!(listed("other_auditor", true), expanded_template);
    // Unset fields are left out, also with `expanded`.
    let plain = listed("auditor", true);
    let one = &plain["agents"][0];
    assert!(one.get("model").is_none() && one.get("reasoning_effort").is_none(), "{one:#}");
    assert_eq!(one["default_prompt"], "You check.");
    // An invalid template is an error beside the others, and an error of the call that names it.
    let all = client.call("list_agents", json!({"expanded": true})).unwrap();
    assert_eq!(all["errors"][0]["agent_type"], "broken", "{all:#}");
    assert!(all["agents"].as_array().unwrap().len() > 1, "{all:#}");
    let refused = client.call_error("list_agents", json!({"agent_type": "broken"}));
    assert!(refused.starts_with("invalid agent template \"broken\": "), "{refused}");
    stage.scratch.git(&["rm", "-q", ".bailiwick/agents/broken.md"]);
    stage.scratch.commit("Without it");
    let all = client.call("list_agents", json!({"expanded": true})).unwrap();
    let names: Vec<&str> = all["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["agent_type"].as_str().unwrap())
        .collect();
    let expected =
        ["architect", "auditor", "explorer", "orchestrator", "other-auditor", "reviewer", "worker"];
    assert_eq!(names, expected);
    client.end();
}

/// An error about the effort shows that the model is known; no agent is started.
#[test]
fn each_program_accepts_full_model_names() {
    let stage = stage();
    for cli in ["claude-code", "codex", "gemini", "opencode"] {
        let text = format!("---\ndescription: Plays.\ncli: {cli}\n---\nYou play.\n");
        stage.scratch.write(&format!(".bailiwick/agents/{cli}.md"), &text);
    }
    stage.scratch.commit("A template for each");
    let model = ScriptedModel::start(Script::new(vec![Turn::say("done")]));
    let mut client = Client::start(&stage, &model);
    let mut refused = |cli: &str, name: &str| {
        let effort = "enormous";
        let arguments =
            json!({"message": "x", "agent_type": cli, "model": name, "reasoning_effort": effort});
        client.call_error("spawn_agent", arguments)
    };
    for (cli, known, unknown) in [
        (
            "claude-code",
            &["opus", "sonnet[1m]", "claude-opus-4-8[1m]", "eu.anthropic.claude-x-v1:0"][..],
            &["gpt-5-codex", "opus-4", "[1m]"][..],
        ),
        (
            "codex",
            &["gpt-6.1-sol", "gpt-5-codex", "gpt-5.3-codex-spark"],
            &["gpt-1", "opus", "house/gpt-5"],
        ),
        ("gemini", &["gemini-2.5-pro", "gemini-9-pro"], &["opus", "gpt-5-codex"]),
        ("opencode", &["anthropic/claude-opus-4-8", "gpt-5.5"], &["opus"]),
    ] {
        for name in known {
            let expected =
                format!("reasoning_effort enormous is not supported for model \"{name}\".");
            let error = refused(cli, name);
            assert!(error.starts_with(&expected), "{cli}: {error}");
        }
        for name in unknown {
            let expected = format!("unknown model \"{name}\" for spawn_agent. Available models: ");
            let error = refused(cli, name);
            assert!(error.starts_with(&expected), "{cli}: {error}");
        }
    }
    // Some models support fewer efforts.
    let arguments = json!({"message": "x", "agent_type": "codex", "model": "gpt-5-codex", "reasoning_effort": "ultra"});
    let error = client.call_error("spawn_agent", arguments);
    assert!(error.ends_with("Supported efforts: none, low, medium, high"), "{error}");
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    client.end();
}

#[test]
fn agent_can_be_spawned_awaited_messaged_and_closed() {
    let stage = stage();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("I checked it")]));
    let mut client = Client::start(&stage, &model);
    let spawn_arguments = json!({"message": "check it", "agent_type": "auditor", "agent_name": "Strict", "thread_note": "first"});
    let spawned = client.call("spawn_agent", spawn_arguments).unwrap();
    let id = spawned["agent_id"].as_str().unwrap().to_owned();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["timed_out"], false, "{wait_result:#}");
    assert_eq!(wait_result["status"][&id], json!({"completed": "I checked it"}), "{wait_result:#}");
    assert_eq!(wait_result["results"][&id]["received"], "check it");
    // Its prompt is that of the persona.
    let prompts: Vec<String> = model.requests().iter().map(|one| one.body.to_string()).collect();
    assert!(prompts.iter().any(|body| body.contains("You check strictly.")), "{prompts:#?}");
    // It loads one rule and one skill, as its template says; every load is recorded.
    let has = |text: &str| prompts.iter().any(|body| body.contains(text));
    assert!(has("The first rule.") && !has("The second rule."), "{prompts:#?}");
    let directory = stage.scratch.state().join("runs").join(&id);
    let skill = |name: &str| directory.join("home/.claude/skills").join(name).is_dir();
    assert!(skill("one") && !skill("two"));
    let loads = directory.join("context.jsonl");
    let loads = std::fs::read_to_string(loads).unwrap();
    let refused = loads.lines().filter(|line| line.contains("\"refused\"")).count();
    assert_eq!((loads.lines().count(), refused), (6, 2), "{loads}");
    let active = client.call("list_active_agents", json!({"include_tree": true})).unwrap();
    let one = &active["agents"][0];
    assert_eq!(
        (&one["thread_id"], &one["status"]),
        (&json!(id), &json!("completed")),
        "{active:#}"
    );
    assert_eq!((&one["thread_note"], &one["depth"]), (&json!("first"), &json!(1)), "{active:#}");
    assert_eq!(one["agent_name"], "strict");
    let note_result = client.call("set_thread_note", json!({"id": id, "note": "second"})).unwrap();
    assert_eq!(note_result["thread_note"], "second");
    // An agent that has ended is resumed with the same policy.
    let policy = stage.scratch.state().join("runs").join(&id).join("policy.json");
    let before = std::fs::read_to_string(&policy).unwrap();
    assert!(before.contains("\"read_only\":true") && before.contains("auditor"), "{before}");
    // A message can be long, and contain any characters.
    let message = |count: usize| {
        format!("once more {}\0{}LAST-WORD", "words and ".repeat(count), "\u{1f980}")
    };
    // A message that is longer than its template allows is refused, and nothing starts.
    let long = json!({"id": id, "message": message(30_000)});
    let refused = client.call_error("send_input", long);
    assert!(refused.contains("its task does not fit"), "{refused}");
    let message = message(20_500);
    client.call("send_input", json!({"id": id, "message": message})).unwrap();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["timed_out"], false, "{wait_result:#}");
    // Its usage is that of all its attempts.
    let cost = stage.bailiwick(&["cost", &id, "-o", "json"]).expect_code(0);
    let attempts: Vec<Value> = serde_json::from_str(&cost.out).unwrap();
    let used = |attempt: &Value| attempt["used"]["tokens"].as_u64().unwrap();
    let tokens: u64 = attempts.iter().map(used).sum();
    let log = std::fs::read_to_string(directory.join("supervisor.log")).unwrap_or_default();
    let both = attempts.len() == 2 && attempts.iter().all(|one| used(one) > 0);
    assert!(both, "{attempts:#?}\n{log}");
    assert_eq!(wait_result["results"][&id]["tokens"], tokens, "{wait_result:#}");
    for arguments in
        [["agents", "tree", "--all", "-o", "json"].as_slice(), &["ps", "--all", "-o", "json"]]
    {
        let output = stage.bailiwick(arguments).expect_code(0);
        let agents: Vec<Value> = serde_json::from_str(&output.out).unwrap();
        let one = agents.iter().find(|one| one["agent"] == id || one["agent_id"] == id).unwrap();
        let used = if one["used"].is_null() { &one["tokens"] } else { &one["used"]["tokens"] };
        assert_eq!(*used, tokens, "{arguments:?}: {one:#}");
    }
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), before);
    let prompts: Vec<String> = model.requests().iter().map(|one| one.body.to_string()).collect();
    let was_sent =
        prompts.iter().any(|body| body.contains("once more") && body.contains("LAST-WORD"));
    assert!(was_sent, "{:?}", prompts.iter().map(String::len).collect::<Vec<_>>());
    let closed = client.call("close_agent", json!({"id": id})).unwrap();
    assert_eq!(closed["status"], json!({"completed": "I checked it"}), "{closed:#}");
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    let all = client.call("list_active_agents", json!({"include_closed": true})).unwrap();
    assert_eq!(all["agents"][0]["status"], "shutdown", "{all:#}");
    let again = client.call_error("send_input", json!({"id": id, "message": "more"}));
    assert!(again.contains("is closed"), "{again}");
    client.end();
}

#[test]
fn template_limits_the_files_that_are_handed_over() {
    let stage = stage();
    let narrow = AUDITOR.replace("  files: 3\n", "  window_share: 0.05\n");
    assert_ne!(narrow, AUDITOR);
    stage.scratch.write(".bailiwick/agents/narrow.md", &narrow);
    stage.scratch.write("src/one.txt", "THE-FIRST\n");
    stage.scratch.write("src/two.txt", "THE-SECOND\n");
    stage.scratch.write("src/long.txt", &"THE-LONG-ONE\n".repeat(4_000));
    stage.scratch.commit("Files");
    // An uncommitted file is not in the commit that an agent starts from.
    stage.scratch.write("src/new.txt", "new\n");
    let model = ScriptedModel::start(Script::new(vec![Turn::say("I checked it")]));
    let mut client = Client::start(&stage, &model);
    let arguments = |agent_type: &str, files: &[&str]| json!({"message": "check", "agent_type": agent_type, "hand_over": files});
    let many = ["src/one.txt", "src/two.txt", "src/long.txt", "src/kept.txt"];
    let longest = ["src/long.txt", "src/one.txt", "CLAUDE.md"];
    for (files, expected) in [
        (&many[..], "4 files are handed over, and it may load 3"),
        (&["src/new.txt"], "src/new.txt is not in the commit that it starts from"),
        (&["../outside"], "is not a path in the repository"),
        (&["src"], "src is not a file"),
    ] {
        let refused = client.call_error("spawn_agent", arguments("auditor", files));
        assert!(refused.contains(expected), "{files:?}: {refused}");
    }
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    for (agent_type, sent, left_out) in [
        ("auditor", &["THE-FIRST", "THE-LONG-ONE"][..], None),
        ("narrow", &["THE-FIRST"], Some("src/long.txt")),
    ] {
        let request_count = model.requests().len();
        let spawned = client.call("spawn_agent", arguments(agent_type, &longest)).unwrap();
        let id = spawned["agent_id"].as_str().unwrap().to_owned();
        let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
        assert_eq!(
            wait_result["status"][&id],
            json!({"completed": "I checked it"}),
            "{wait_result:#}"
        );
        let requests: Vec<String> =
            model.requests().iter().skip(request_count).map(|one| one.body.to_string()).collect();
        let was_sent = |text: &str| requests.iter().any(|body| body.contains(text));
        for text in ["THE-FIRST", "THE-SECOND", "THE-LONG-ONE"] {
            assert_eq!(was_sent(text), sent.contains(&text), "{agent_type}: {text}");
        }
        let expected = "because you may not load more: src/long.txt";
        assert_eq!(was_sent(expected), left_out.is_some(), "{agent_type}");
        let loads = stage.scratch.state().join("runs").join(&id).join("context.jsonl");
        let loads = std::fs::read_to_string(loads).unwrap();
        let loads: Vec<Value> =
            loads.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let files = loads.iter().filter(|load| load["kind"] == "file");
        let files: Vec<(&str, bool)> = files
            .map(|load| (load["name"].as_str().unwrap(), load["refused"].is_string()))
            .collect();
        let expected = longest.map(|name| (name, Some(name) == left_out));
        assert_eq!(files, expected, "{agent_type}");
    }
    client.end();
}

/// Sends one HTTP request. Returns the response.
fn post(address: &str, token: Option<&str>, body: &Value) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let headers = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{token}content-type: application/json\r\naccept: \
         application/json, text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(headers.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut response = String::new();
    let mut reader = BufReader::new(stream);
    // The stream of a session stays open: the first event is the response.
    while reader.read_line(&mut response).is_ok_and(|length| length > 0) {
        if response.contains("serverInfo") {
            break;
        }
    }
    response
}

/// `bailiwick mcp --http`, stopped at the end of the test.
struct HttpServer {
    child: Child,
    token: String,
    address: String,
}

impl HttpServer {
    fn start(stage: &Stage) -> Self {
        let mut command = stage.command(None, None);
        command.args(["mcp", "--http"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let token = lines.next().unwrap().unwrap().strip_prefix("token ").unwrap().to_owned();
        let url = lines.next().unwrap().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        Self { child, token, address: address.to_owned() }
    }

    fn post(&self, token: Option<&str>) -> String {
        let about = json!({"name": "test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
        post(&self.address, token, &hello)
    }

    /// Opens a connection, and sends these bytes.
    fn connect_and_send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// The number of its open sockets.
    fn open_sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let places = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        places.filter(|place| place.to_string_lossy().starts_with("socket:")).count()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn http_requests_need_the_token() {
    let stage = stage();
    let server = HttpServer::start(&stage);
    for invalid in [None, Some(""), Some("another-token-altogether")] {
        let response = server.post(invalid);
        assert!(response.starts_with("HTTP/1.1 401"), "{invalid:?}: {response}");
    }
    let response = server.post(Some(&server.token));
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("bailiwick"), "{response}");
    let open = stage.bailiwick(&["mcp", "--http", "0.0.0.0:0"]);
    assert_eq!(open.code, 2, "{}", open.err);
    assert!(open.err.contains("can be reached from other machines"), "{}", open.err);
    for (invalid, example) in [("7777", "127.0.0.1:7777"), ("127.0.0.1", "127.0.0.1:7777")] {
        let refused = stage.bailiwick(&["mcp", "--http", invalid]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(example), "{invalid}: {}", refused.err);
    }
}

#[test]
fn http_limits_connections_and_body_size() {
    let stage = stage();
    let server = HttpServer::start(&stage);
    let token = format!("authorization: Bearer {}\r\n", server.token);
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {}\r\n{token}", server.address);
    // A body that is too long, by its `content-length` or by its chunks.
    let first_line = |mut stream: TcpStream| {
        let mut line = String::new();
        // A client that is refused while it sends may find the connection closed.
        let _ = BufReader::new(&mut stream).read_line(&mut line);
        line
    };
    let stream =
        server.connect_and_send(format!("{head}content-length: 5000000\r\n\r\n").as_bytes());
    assert!(first_line(stream).starts_with("HTTP/1.1 413"));
    let mut stream =
        server.connect_and_send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes());
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16));
    while stream.write_all(chunk.as_bytes()).is_ok() {}
    drop(stream);
    // More silent connections than are allowed: they are closed, and a later request is answered.
    let silent: Vec<TcpStream> =
        (0..100).map(|_| server.connect_and_send(b"POST /mcp HT")).collect();
    outside::wait_until("the limit of connections is reached", || server.open_sockets() >= 64);
    assert!(server.open_sockets() < 80, "{} are open", server.open_sockets());
    let response = server.post(Some(&server.token));
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    for mut stream in silent {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
}
