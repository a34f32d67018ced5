//! What an agent gets from its template: the prompt, model, effort and tools of its persona.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::client::Client;
use super::stage::Stage;
use crate::workspace;

const AUDITOR: &str = "---\ndescription: Checks.\nmodel: sonnet\nreasoning_effort: low\nrole: \
                       worker\nagent_names:\n  - name: strict\n    description: Strictly.\n    \
                       model: opus\n    reasoning_effort: high\n  - name: fast\n    description: \
                       Quickly.\n    model: haiku\nallow_list:\n  - Read\n  - Bash\ndeny_list:\n  - \
                       Write\nmax_turns: 9\nmax_minutes: 7\n---\nYou check as usual.\n\n<!-- agent_name: strict \
                       -->\nYou check strictly.\n\n<!-- agent_name: fast -->\nYou check quickly.\n";

/// A spawned agent: the request to its model, and its entry in `list_active_agents`.
struct SpawnedAgent {
    body: Value,
    listed: Value,
}

fn spawn(client: &mut Client, model: &ScriptedModel, extra: Value) -> SpawnedAgent {
    let request_count = model.requests().len();
    let mut arguments =
        json!({"message": "check it", "agent_type": "auditor", "files": ["src/**"]});
    arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let id =
        client.call("spawn_agent", arguments).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(result["status"][&id], json!({"completed": "I checked it"}), "{result:#}");
    let listed = client.call("list_active_agents", json!({})).unwrap();
    let listed = listed["agents"].as_array().unwrap().iter();
    let listed = listed.clone().find(|agent| agent["thread_id"] == id.as_str()).unwrap().clone();
    let requests = model.requests().into_iter().skip(request_count);
    let body = requests.map(|request| request.body).find(|body| body["tools"].is_array()).unwrap();
    SpawnedAgent { body, listed }
}

#[test]
fn child_gets_prompt_model_effort_and_tools_of_its_persona() {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/auditor.md", AUDITOR);
    stage.scratch.commit("Templates");
    let turns = vec![
        Turn::Calls(vec![Call::shell("echo allowed > src/allowed.txt")]),
        Turn::Calls(vec![Call::write("src/denied.txt", "denied")]),
        Turn::say("I checked it"),
    ];
    let model = ScriptedModel::start(Script::new(turns));
    let mut client = Client::start(&stage, &model);
    let overrides = json!({"agent_name": "fast", "model": "opus", "reasoning_effort": "medium"});
    for (arguments, prompt, model_name, effort) in [
        (json!({}), "You check as usual.", "sonnet", Some("low")),
        (json!({"agent_name": "strict"}), "You check strictly.", "opus", Some("high")),
        (json!({"agent_name": "fast"}), "You check quickly.", "haiku", Some("low")),
        (overrides, "You check quickly.", "opus", Some("medium")),
    ] {
        let SpawnedAgent { body, listed } = spawn(&mut client, &model, arguments.clone());
        assert!(body.to_string().contains(prompt), "{arguments}: {body:#}");
        let requested_model = body["model"].as_str().unwrap();
        assert!(requested_model.contains(model_name), "{arguments}: {requested_model}");
        assert_eq!(listed["reasoning_effort"].as_str(), effort, "{arguments}: {listed:#}");
        let id = listed["thread_id"].as_str().unwrap();
        let agent = stage.agent(id);
        assert_eq!(agent.text("src/allowed.txt").as_deref(), Some("allowed\n"), "{arguments}");
        assert_eq!(agent.text("src/denied.txt"), None, "{arguments}");
        // Its budget has the limits of its template.
        let cost = stage.bailiwick(&["cost", id, "-o", "json"]).expect_code(0);
        let cost: Value = serde_json::from_str(&cost.out).unwrap();
        assert_eq!(cost[0]["budget"]["turns"], 9, "{cost:#}");
        assert_eq!(cost[0]["budget"]["milliseconds"], 7 * 60_000, "{cost:#}");
    }
    client.end();
}

/// The template in `docs/guides/templates.md`.
#[test]
fn template_of_the_guide_can_be_spawned() {
    let guide = std::fs::read_to_string(workspace().join("docs/guides/templates.md")).unwrap();
    let (_, text) = guide.split_once("```md\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let stage = Stage::new(Cli::Codex);
    stage.scratch.write(".bailiwick/agents/auditor.md", text);
    stage.scratch.write(".bailiwick/settings.toml", "[run]\ncli = \"codex\"\n");
    stage.scratch.commit("The guide's template");
    let model = ScriptedModel::start(Script::new(vec![Turn::say("I checked it")]));
    let mut client = Client::start(&stage, &model);
    for (arguments, prompt, effort) in [
        (json!({"files": null}), "Return findings first, then assumptions.", "medium"),
        (json!({"agent_name": "strict", "files": null}), "Say what could not be checked.", "high"),
        (
            json!({"agent_name": "fast", "files": null}),
            "Look for what is likely to be wrong.",
            "medium",
        ),
    ] {
        let SpawnedAgent { body, listed } = spawn(&mut client, &model, arguments.clone());
        assert!(body.to_string().contains(prompt), "{arguments}: {body:#}");
        assert_eq!(body["model"], "gpt-5.5", "{arguments}");
        assert_eq!(listed["reasoning_effort"], effort, "{arguments}: {listed:#}");
    }
    client.end();
}
