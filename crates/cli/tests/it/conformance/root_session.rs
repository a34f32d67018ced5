//! `bailiwick mcp` as a person's own agent program uses it: the tools by their contract, to the letter.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::stage::Stage;

const AUDITOR: &str = "---\ndescription: Checks.\nread_only: true\ncontext:\n  files: 3\nagent_names:\n  - name: \
                       strict\n    description: Strictly.\nallow_list:\n  - Read\n---\nYou \
                       check.\n\n<!-- agent_name: strict -->\nYou check strictly.\n";

struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    number: u64,
}

impl Client {
    fn start(stage: &Stage, model: &ScriptedModel) -> Self {
        let mut command = stage.command(Some(model), None);
        command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, to, from, number: 0 };
        let about = json!({"name": "test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        assert_eq!(client.ask("initialize", hello)["serverInfo"]["name"], "bailiwick");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let id = self.number;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the server is gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    }

    /// What a tool answers; the words of a refusal as an error.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        match result["isError"] == true {
            true => Err(text),
            false => Ok(serde_json::from_str(&text).unwrap()),
        }
    }

    fn refused(&mut self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).unwrap_err()
    }

    fn end(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }
}

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
fn every_refusal_has_the_words_of_the_contract() {
    let stage = stage();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("done")]));
    let mut client = Client::start(&stage, &model);
    let tools = client.ask("tools/list", json!({}));
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
        "set_thread_note",
    ];
    assert_eq!(names, all);
    for (tool, arguments, words) in [
        (
            "list_agents",
            json!({"agent_type": "a b"}),
            "invalid agent_type \"a b\"; expected snake_case",
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
        let found = client.refused(tool, arguments.clone());
        assert!(found.contains(words), "{tool} {arguments}: {found}");
    }
    // None of these has started anything.
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    let listed = client.call("list_agents", json!({"agent_type": "auditor"})).unwrap();
    let strict = json!([{"name": "strict", "description": "Strictly."}]);
    let auditor = json!({"agent_type": "auditor", "description": "Checks.", "allow_list": ["Read"],
        "deny_list": null, "agent_names": strict});
    assert_eq!(listed, json!({"agents": [auditor]}));
    client.end();
}

#[test]
fn an_agent_is_started_waited_for_spoken_to_and_closed() {
    let stage = stage();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("I checked it")]));
    let mut client = Client::start(&stage, &model);
    let asked = json!({"message": "check it", "agent_type": "auditor", "agent_name": "Strict", "thread_note": "first"});
    let spawned = client.call("spawn_agent", asked).unwrap();
    let id = spawned["agent_id"].as_str().unwrap().to_owned();
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["timed_out"], false, "{waited:#}");
    assert_eq!(waited["status"][&id], json!({"completed": "I checked it"}), "{waited:#}");
    assert_eq!(waited["results"][&id]["received"], "check it");
    // What it was told is the persona's.
    let prompts: Vec<String> = model.requests().iter().map(|one| one.body.to_string()).collect();
    assert!(prompts.iter().any(|body| body.contains("You check strictly.")), "{prompts:#?}");
    // One rule and one skill, as its template says; every load is written down.
    let has = |text: &str| prompts.iter().any(|body| body.contains(text));
    assert!(has("The first rule.") && !has("The second rule."), "{prompts:#?}");
    let place = stage.scratch.state().join("runs").join(&id);
    let skill = |name: &str| place.join("home/.claude/skills").join(name).is_dir();
    assert!(skill("one") && !skill("two"));
    let loads = place.join("context.jsonl");
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
    let noted = client.call("set_thread_note", json!({"id": id, "note": "second"})).unwrap();
    assert_eq!(noted["thread_note"], "second");
    // One that has ended is taken up again, with the same policy.
    let policy = stage.scratch.state().join("runs").join(&id).join("policy.json");
    let before = std::fs::read_to_string(&policy).unwrap();
    assert!(before.contains("\"read_only\":true") && before.contains("auditor"), "{before}");
    client.call("send_input", json!({"id": id, "message": "once more"})).unwrap();
    client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), before);
    let prompts: Vec<String> = model.requests().iter().map(|one| one.body.to_string()).collect();
    assert!(prompts.iter().any(|body| body.contains("once more")), "{prompts:#?}");
    let closed = client.call("close_agent", json!({"id": id})).unwrap();
    assert_eq!(closed["status"], json!({"completed": "I checked it"}), "{closed:#}");
    assert_eq!(client.call("list_active_agents", json!({})).unwrap(), json!({"agents": []}));
    let all = client.call("list_active_agents", json!({"include_closed": true})).unwrap();
    assert_eq!(all["agents"][0]["status"], "shutdown", "{all:#}");
    let again = client.refused("send_input", json!({"id": id, "message": "more"}));
    assert!(again.contains("is closed"), "{again}");
    client.end();
}

/// One request by hand; the whole answer.
fn post(address: &str, token: Option<&str>, body: &Value) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{token}content-type: application/json\r\naccept: \
         application/json, text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let mut answer = String::new();
    let mut reader = BufReader::new(stream);
    // The stream of a session stays open: the first event is the answer.
    while reader.read_line(&mut answer).is_ok_and(|length| length > 0) {
        if answer.contains("serverInfo") {
            break;
        }
    }
    answer
}

#[test]
fn over_http_only_who_shows_the_token_is_answered() {
    let stage = stage();
    let mut command = stage.command(None, None);
    command.args(["mcp", "--http"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let token = said.next().unwrap().unwrap().strip_prefix("token ").unwrap().to_owned();
    let url = said.next().unwrap().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let about = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
    for wrong in [None, Some(""), Some("another-token-altogether")] {
        let answer = post(address, wrong, &hello);
        assert!(answer.starts_with("HTTP/1.1 401"), "{wrong:?}: {answer}");
    }
    let answer = post(address, Some(&token), &hello);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("bailiwick"), "{answer}");
    child.kill().unwrap();
    child.wait().unwrap();
    let open = stage.bailiwick(&["mcp", "--http", "0.0.0.0:0"]);
    assert_eq!(open.code, 2, "{}", open.err);
    assert!(open.err.contains("can be reached from other machines"), "{}", open.err);
}
