//! What a person's own agent program gets of a template: the persona's words, model, effort and tools.

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

/// What one of them was given, as its model and its caller see it.
struct Given {
    body: Value,
    listed: Value,
}

fn spawned(client: &mut Client, model: &ScriptedModel, more: Value) -> Given {
    let seen = model.requests().len();
    let mut asked = json!({"message": "check it", "agent_type": "auditor", "files": ["src/**"]});
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let id = client.call("spawn_agent", asked).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["status"][&id], json!({"completed": "I checked it"}), "{waited:#}");
    let listed = client.call("list_active_agents", json!({})).unwrap();
    let listed = listed["agents"].as_array().unwrap().iter();
    let listed = listed.clone().find(|one| one["thread_id"] == id.as_str()).unwrap().clone();
    let asked = model.requests().into_iter().skip(seen);
    let body = asked.map(|one| one.body).find(|body| body["tools"].is_array()).unwrap();
    Given { body, listed }
}

#[test]
fn without_persona_and_with_each_the_child_has_its_words_model_effort_and_tools() {
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
    let call = json!({"agent_name": "fast", "model": "opus", "reasoning_effort": "medium"});
    for (more, words, named, effort) in [
        (json!({}), "You check as usual.", "sonnet", Some("low")),
        (json!({"agent_name": "strict"}), "You check strictly.", "opus", Some("high")),
        (json!({"agent_name": "fast"}), "You check quickly.", "haiku", Some("low")),
        (call, "You check quickly.", "opus", Some("medium")),
    ] {
        let Given { body, listed } = spawned(&mut client, &model, more.clone());
        assert!(body.to_string().contains(words), "{more}: {body:#}");
        let asked = body["model"].as_str().unwrap();
        assert!(asked.contains(named), "{more}: {asked}");
        assert_eq!(listed["reasoning_effort"].as_str(), effort, "{more}: {listed:#}");
        let id = listed["thread_id"].as_str().unwrap();
        let agent = stage.agent(id);
        assert_eq!(agent.text("src/allowed.txt").as_deref(), Some("allowed\n"), "{more}");
        assert_eq!(agent.text("src/denied.txt"), None, "{more}");
        // The limits of its template are its budget.
        let cost = stage.bailiwick(&["cost", id, "-o", "json"]).expect_code(0);
        let cost: Value = serde_json::from_str(&cost.out).unwrap();
        assert_eq!(cost[0]["budget"]["turns"], 9, "{cost:#}");
        assert_eq!(cost[0]["budget"]["milliseconds"], 7 * 60_000, "{cost:#}");
    }
    client.end();
}

/// The one in `docs/guides/templates.md`, as it stands there.
#[test]
fn the_template_of_the_guide_can_be_started() {
    let guide = std::fs::read_to_string(workspace().join("docs/guides/templates.md")).unwrap();
    let (_, text) = guide.split_once("```md\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let stage = Stage::new(Cli::Codex);
    stage.scratch.write(".bailiwick/agents/auditor.md", text);
    stage.scratch.write(".bailiwick/settings.toml", "[run]\ncli = \"codex\"\n");
    stage.scratch.commit("The guide's template");
    let model = ScriptedModel::start(Script::new(vec![Turn::say("I checked it")]));
    let mut client = Client::start(&stage, &model);
    for (more, words, effort) in [
        (json!({"files": null}), "Return findings first, then assumptions.", "medium"),
        (json!({"agent_name": "strict", "files": null}), "Say what could not be checked.", "high"),
        (
            json!({"agent_name": "fast", "files": null}),
            "Look for what is likely to be wrong.",
            "medium",
        ),
    ] {
        let Given { body, listed } = spawned(&mut client, &model, more.clone());
        assert!(body.to_string().contains(words), "{more}: {body:#}");
        assert_eq!(body["model"], "gpt-5.5", "{more}");
        assert_eq!(listed["reasoning_effort"], effort, "{more}: {listed:#}");
    }
    client.end();
}
