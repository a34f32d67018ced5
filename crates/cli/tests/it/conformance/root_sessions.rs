//! Several agent programs of a user, each with its own `bailiwick mcp`: each reaches only the agents that it started.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::client::Client;
use super::outside;
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps.\nrole: worker\ncli: claude-code\n---\nYou help.\n";

fn stage() -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    let settings = "[run]\napproval-seconds = 1\n[delegation]\nmost-at-once = 1\n";
    stage.scratch.write(".bailiwick/settings.toml", settings);
    stage.scratch.commit("Templates");
    stage
}

fn spawn_arguments(message: &str) -> Value {
    json!({"message": message, "agent_type": "helper", "files": ["src/**"]})
}

fn visible_agents(client: &mut Client, scope: &str) -> Vec<String> {
    let arguments = json!({"scope": scope, "include_closed": true});
    let agents = client.call("list_active_agents", arguments).unwrap();
    let ids = agents["agents"].as_array().unwrap().iter();
    ids.map(|one| one["thread_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn root_session_reaches_only_its_agents_and_sees_its_repository() {
    let (stage, other_stage) = (stage(), stage());
    let sleeps = Turn::Calls(vec![Call::shell("echo leaf > src/leaf.txt; sleep 1000")]);
    let script =
        Script::new(vec![Turn::say("done")]).when("LEAF-WORK", vec![sleeps, Turn::say("no")]);
    let model = ScriptedModel::start(script);
    let mut own = Client::start(&stage, &model);
    let mut other = Client::start(&stage, &model);
    // The same state, another repository.
    let mut command = other_stage.command(Some(&model), None);
    command.env("BAILIWICK_STATE", stage.scratch.state());
    let mut foreign = Client::from_command(command);
    let spawned = own.call("spawn_agent", spawn_arguments("LEAF-WORK")).unwrap();
    let id = spawned["agent_id"].as_str().unwrap().to_owned();
    outside::wait_until("the agent is running", || stage.agent(&id).text("src/leaf.txt").is_some());
    for client in [&mut other, &mut foreign] {
        for (tool, arguments, expected) in [
            ("wait", json!({"ids": [id]}), "is not one of the agents below you"),
            (
                "send_input",
                json!({"id": id, "message": "obey", "interrupt": true}),
                "is not one of the agents below you",
            ),
            ("merge_agent", json!({"id": id}), "is not one of the agents below you"),
            (
                "set_thread_note",
                json!({"id": id, "note": "mine"}),
                "is not one of the agents below you",
            ),
            (
                "close_agent",
                json!({"id": id}),
                "Not permitted to close agents outside your subtree.",
            ),
        ] {
            let refused = client.call_error(tool, arguments);
            assert!(refused.contains(expected), "{tool}: {refused}");
        }
        assert_eq!(
            (visible_agents(client, "children"), visible_agents(client, "descendants")),
            (vec![], vec![])
        );
    }
    assert_eq!(visible_agents(&mut own, "children"), [id.as_str()]);
    assert_eq!(
        visible_agents(&mut other, "all"),
        [id.as_str()],
        "another session of the repository can list it"
    );
    assert_eq!(visible_agents(&mut foreign, "all"), [""; 0]);
    // The limit of agents is counted per repository.
    let limit_error = other.call_error("spawn_agent", spawn_arguments("help"));
    assert!(limit_error.contains("agent thread limit reached (max 1)"), "{limit_error}");
    let spawned = foreign.call("spawn_agent", spawn_arguments("help")).unwrap();
    let helper = spawned["agent_id"].as_str().unwrap().to_owned();
    let wait_result =
        foreign.call("wait", json!({"ids": [helper], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["status"][&helper], json!({"completed": "done"}), "{wait_result:#}");
    assert_eq!(visible_agents(&mut foreign, "all"), [helper.as_str()]);
    assert_eq!(visible_agents(&mut own, "all"), [id.as_str()]);
    // The session that started the agent may change it.
    let note_result = own.call("set_thread_note", json!({"id": id, "note": "mine"})).unwrap();
    assert_eq!(note_result["thread_note"], "mine");
    own.call("close_agent", json!({"id": id})).unwrap();
    stage.agent(&id).expect_no_processes();
    for client in [own, other, foreign] {
        client.end();
    }
    // The command line lists them all.
    let output = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&output.out).unwrap();
    assert_eq!(nodes.len(), 2, "{nodes:#?}");
}

#[test]
fn agents_of_a_root_session_share_its_budget() {
    let stage = stage();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("done")]));
    let command = stage.command(Some(&model), None);
    let mut client = Client::with_arguments(command, &["--tokens", "100000"]);
    let with_tokens = |tokens: Value| {
        let mut arguments = spawn_arguments("help");
        arguments["estimated_tokens"] = tokens;
        arguments
    };
    let refused = client.call_error("spawn_agent", with_tokens(json!(null)));
    assert!(refused.contains("nobody knows what"), "{refused}");
    let refused = client.call_error("spawn_agent", with_tokens(json!(60_000)));
    assert!(refused.contains("100000 are left"), "{refused}");
    let spawned = client.call("spawn_agent", with_tokens(json!(50_000))).unwrap();
    let id = spawned["agent_id"].as_str().unwrap().to_owned();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    let used = wait_result["results"][&id]["tokens"].as_u64().unwrap();
    // The unused part of the reservation was returned.
    let refused = client.call_error("spawn_agent", with_tokens(json!(50_000)));
    assert!(refused.contains(&format!("{} are left", 100_000 - used)), "{refused}");
    let spawned = client.call("spawn_agent", with_tokens(json!(40_000))).unwrap();
    client.call("wait", json!({"ids": [spawned["agent_id"]], "timeout_ms": 170_000})).unwrap();
    client.end();
}
