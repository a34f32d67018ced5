//! Several agent programs of a person, each with a `bailiwick mcp` of its own: each reaches what it started.

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

fn asked(message: &str) -> Value {
    json!({"message": message, "agent_type": "helper", "files": ["src/**"]})
}

fn seen(client: &mut Client, scope: &str) -> Vec<String> {
    let asked = json!({"scope": scope, "include_closed": true});
    let seen = client.call("list_active_agents", asked).unwrap();
    let ids = seen["agents"].as_array().unwrap().iter();
    ids.map(|one| one["thread_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_root_session_reaches_what_it_started_and_looks_at_its_own_repository_alone() {
    let (stage, elsewhere) = (stage(), stage());
    let sleeps = Turn::Calls(vec![Call::shell("echo leaf > src/leaf.txt; sleep 1000")]);
    let script =
        Script::new(vec![Turn::say("done")]).when("LEAF-WORK", vec![sleeps, Turn::say("no")]);
    let model = ScriptedModel::start(script);
    let mut own = Client::start(&stage, &model);
    let mut other = Client::start(&stage, &model);
    // The same state, another repository.
    let mut command = elsewhere.command(Some(&model), None);
    command.env("BAILIWICK_STATE", stage.scratch.state());
    let mut foreign = Client::of(command);
    let spawned = own.call("spawn_agent", asked("LEAF-WORK")).unwrap();
    let id = spawned["agent_id"].as_str().unwrap().to_owned();
    outside::wait("it is at work", || stage.agent(&id).text("src/leaf.txt").is_some());
    for client in [&mut other, &mut foreign] {
        for (tool, arguments, words) in [
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
            let refused = client.refused(tool, arguments);
            assert!(refused.contains(words), "{tool}: {refused}");
        }
        assert_eq!((seen(client, "children"), seen(client, "descendants")), (vec![], vec![]));
    }
    assert_eq!(seen(&mut own, "children"), [id.as_str()]);
    assert_eq!(seen(&mut other, "all"), [id.as_str()], "it can be looked at");
    assert_eq!(seen(&mut foreign, "all"), [""; 0]);
    // A place that is taken is taken in its repository.
    let full = other.refused("spawn_agent", asked("help"));
    assert!(full.contains("agent thread limit reached (max 1)"), "{full}");
    let spawned = foreign.call("spawn_agent", asked("help")).unwrap();
    let helper = spawned["agent_id"].as_str().unwrap().to_owned();
    let waited = foreign.call("wait", json!({"ids": [helper], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["status"][&helper], json!({"completed": "done"}), "{waited:#}");
    assert_eq!(seen(&mut foreign, "all"), [helper.as_str()]);
    assert_eq!(seen(&mut own, "all"), [id.as_str()]);
    // The session that started it may do what the others may not.
    let noted = own.call("set_thread_note", json!({"id": id, "note": "mine"})).unwrap();
    assert_eq!(noted["thread_note"], "mine");
    own.call("close_agent", json!({"id": id})).unwrap();
    stage.agent(&id).nothing_runs();
    for client in [own, other, foreign] {
        client.end();
    }
    // And a person has them all.
    let told = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&told.out).unwrap();
    assert_eq!(nodes.len(), 2, "{nodes:#?}");
}

#[test]
fn what_a_root_session_starts_stays_within_what_a_person_gave_it() {
    let stage = stage();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("done")]));
    let command = stage.command(Some(&model), None);
    let mut client = Client::with(command, &["--tokens", "100000"]);
    let asked = |tokens: Value| {
        let mut asked = asked("help");
        asked["estimated_tokens"] = tokens;
        asked
    };
    let refused = client.refused("spawn_agent", asked(json!(null)));
    assert!(refused.contains("nobody knows what"), "{refused}");
    let refused = client.refused("spawn_agent", asked(json!(60_000)));
    assert!(refused.contains("100000 are left"), "{refused}");
    let spawned = client.call("spawn_agent", asked(json!(50_000))).unwrap();
    let id = spawned["agent_id"].as_str().unwrap().to_owned();
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    let used = waited["results"][&id]["tokens"].as_u64().unwrap();
    // What it did not use has come back, what it used is gone.
    let refused = client.refused("spawn_agent", asked(json!(50_000)));
    assert!(refused.contains(&format!("{} are left", 100_000 - used)), "{refused}");
    let spawned = client.call("spawn_agent", asked(json!(40_000))).unwrap();
    client.call("wait", json!({"ids": [spawned["agent_id"]], "timeout_ms": 170_000})).unwrap();
    client.end();
}
