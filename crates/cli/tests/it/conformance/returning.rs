//! What came of an agent, as the one that started it is told: all of it, and not its beginning alone.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::json;

use super::client::Client;
use super::outside;
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps.\nrole: worker\ncli: claude-code\n---\nYou help.\n";

fn stage() -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    stage.scratch.commit("Templates");
    stage
}

#[test]
fn all_that_an_agent_received_and_returned_is_told() {
    let stage = stage();
    let lines: Vec<String> = (0..1000).map(|number| format!("line {number:05}")).collect();
    let report = lines.join("\n");
    assert!(report.len() > 10_000);
    let begun = "echo begun > src/begun.txt; until [ -e src/go.txt ]; do sleep 0.1; done";
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(begun)]),
        Turn::say("the first part is done"),
        Turn::say(&report),
    ]));
    let mut client = Client::start(&stage, &model);
    let asked = json!({"message": "report", "agent_type": "helper", "files": ["src/**"]});
    let id = client.call("spawn_agent", asked).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let agent = stage.agent(&id);
    outside::wait("it is at work", || agent.text("src/begun.txt").is_some());
    // One is said while it works, the other when it has ended.
    client.call("send_input", json!({"id": id, "message": "now all of it"})).unwrap();
    std::fs::write(agent.path("src/go.txt"), "").unwrap();
    for (attempts, later) in
        [(2, json!(["now all of it"])), (3, json!(["now all of it", "once more"]))]
    {
        let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
        assert_eq!(waited["timed_out"], false, "{waited:#}");
        assert_eq!(waited["status"][&id]["completed"], report.as_str(), "{waited:#}");
        let result = &waited["results"][&id];
        assert_eq!(result["returned"], report.as_str(), "{result:#}");
        assert_eq!(result["received"], "report", "{result:#}");
        assert_eq!((&result["received_later"], &result["attempts"]), (&later, &json!(attempts)));
        if attempts == 2 {
            client.call("send_input", json!({"id": id, "message": "once more"})).unwrap();
        }
    }
    let closed = client.call("close_agent", json!({"id": id})).unwrap();
    assert_eq!(closed["status"]["completed"], report.as_str(), "{closed:#}");
    client.end();
}

#[test]
fn one_that_has_spent_its_budget_goes_on_when_a_person_raises_it() {
    let stage = stage();
    let shell = Turn::Calls(vec![Call::shell("echo begun > src/begun.txt")]);
    let turns = vec![shell, Turn::say("the first part is done")];
    let model = ScriptedModel::start(Script::new(turns));
    let mut client = Client::start(&stage, &model);
    let asked = json!({"message": "report", "agent_type": "helper", "files": ["src/**"],
        "estimated_turns": 1});
    let id = client.call("spawn_agent", asked).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["results"][&id]["ending"], "budget-exhausted", "{waited:#}");
    let more = json!({"id": id, "message": "go on"});
    let refused = client.refused("send_input", more.clone());
    assert!(refused.contains(&format!("bailiwick resume {id} --turns N")), "{refused}");
    let again = Script::continuing("more", vec![Turn::say("said")]);
    stage
        .agent(&id)
        .take_up("There is more.", &["--turns", "20"], again)
        .end()
        .expect("completed", 0);
    client.call("send_input", more).unwrap();
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["results"][&id]["attempts"], 3, "{waited:#}");
    client.end();
}

#[test]
fn what_an_agent_has_not_heard_is_told_apart_and_said_again() {
    let stage = stage();
    let begun = "echo begun > src/begun.txt; sleep 1000";
    let turns = vec![Turn::Calls(vec![Call::shell(begun)]), Turn::say("done")];
    let model = ScriptedModel::start(Script::new(turns));
    let mut client = Client::start(&stage, &model);
    let asked = json!({"message": "report", "agent_type": "helper", "files": ["src/**"]});
    let id = client.call("spawn_agent", asked).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let agent = stage.agent(&id);
    outside::wait("it is at work", || agent.text("src/begun.txt").is_some());
    client.call("send_input", json!({"id": id, "message": "FIRST-WORDS"})).unwrap();
    agent.stop();
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    let result = &waited["results"][&id];
    assert_eq!(result["received_later"], json!([]), "{result:#}");
    assert_eq!(result["not_heard"], json!(["FIRST-WORDS"]), "{result:#}");
    client.call("send_input", json!({"id": id, "message": "SECOND-WORDS"})).unwrap();
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    let result = &waited["results"][&id];
    assert_eq!(result["received_later"], json!(["FIRST-WORDS", "SECOND-WORDS"]), "{result:#}");
    assert_eq!(result["not_heard"], json!(null), "{result:#}");
    let asked = model.requests().into_iter().map(|one| one.body.to_string());
    let both = |body: &String| body.contains("FIRST-WORDS") && body.contains("SECOND-WORDS");
    assert!(asked.into_iter().any(|body| both(&body)), "its model has not seen both");
    client.end();
}
