//! The result of an agent that its caller gets is complete, not truncated.

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
fn result_has_all_that_an_agent_received_and_returned() {
    let stage = stage();
    let lines: Vec<String> = (0..1000).map(|number| format!("line {number:05}")).collect();
    let report = lines.join("\n");
    assert!(report.len() > 10_000);
    let wait_for_go = "echo begun > src/begun.txt; until [ -e src/go.txt ]; do sleep 0.1; done";
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(wait_for_go)]),
        Turn::say("the first part is done"),
        Turn::say(&report),
    ]));
    let mut client = Client::start(&stage, &model);
    let arguments = json!({"message": "report", "agent_type": "helper", "files": ["src/**"]});
    let id =
        client.call("spawn_agent", arguments).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let agent = stage.agent(&id);
    outside::wait_until("the agent is running", || agent.text("src/begun.txt").is_some());
    // One message is sent while the agent runs, the other after it has ended.
    client.call("send_input", json!({"id": id, "message": "now all of it"})).unwrap();
    std::fs::write(agent.path("src/go.txt"), "").unwrap();
    for (attempts, messages) in
        [(2, json!(["now all of it"])), (3, json!(["now all of it", "once more"]))]
    {
        let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
        assert_eq!(wait_result["timed_out"], false, "{wait_result:#}");
        assert_eq!(wait_result["status"][&id]["completed"], report.as_str(), "{wait_result:#}");
        let result = &wait_result["results"][&id];
        assert_eq!(result["returned"], report.as_str(), "{result:#}");
        assert_eq!(result["received"], "report", "{result:#}");
        assert_eq!((&result["received_later"], &result["attempts"]), (&messages, &json!(attempts)));
        if attempts == 2 {
            client.call("send_input", json!({"id": id, "message": "once more"})).unwrap();
        }
    }
    let closed = client.call("close_agent", json!({"id": id})).unwrap();
    assert_eq!(closed["status"]["completed"], report.as_str(), "{closed:#}");
    client.end();
}

#[test]
fn agent_with_a_spent_budget_continues_after_a_person_raises_it() {
    let stage = stage();
    let shell = Turn::Calls(vec![Call::shell("echo begun > src/begun.txt")]);
    let turns = vec![shell, Turn::say("the first part is done")];
    let model = ScriptedModel::start(Script::new(turns));
    let mut client = Client::start(&stage, &model);
    let arguments = json!({"message": "report", "agent_type": "helper", "files": ["src/**"],
        "estimated_turns": 1});
    let id =
        client.call("spawn_agent", arguments).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["results"][&id]["ending"], "budget-exhausted", "{wait_result:#}");
    let message = json!({"id": id, "message": "go on"});
    let refused = client.call_error("send_input", message.clone());
    assert!(refused.contains(&format!("bailiwick resume {id} --turns N")), "{refused}");
    let script = Script::continuing("more", vec![Turn::say("said")]);
    stage
        .agent(&id)
        .resume("There is more.", &["--turns", "20"], script)
        .end()
        .expect("completed", 0);
    client.call("send_input", message).unwrap();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["results"][&id]["attempts"], 3, "{wait_result:#}");
    client.end();
}

#[test]
fn undelivered_message_is_reported_and_sent_again() {
    let stage = stage();
    let begin_and_sleep = "echo begun > src/begun.txt; sleep 1000";
    let turns = vec![Turn::Calls(vec![Call::shell(begin_and_sleep)]), Turn::say("done")];
    let model = ScriptedModel::start(Script::new(turns));
    let mut client = Client::start(&stage, &model);
    let arguments = json!({"message": "report", "agent_type": "helper", "files": ["src/**"]});
    let id =
        client.call("spawn_agent", arguments).unwrap()["agent_id"].as_str().unwrap().to_owned();
    let agent = stage.agent(&id);
    outside::wait_until("the agent is running", || agent.text("src/begun.txt").is_some());
    client.call("send_input", json!({"id": id, "message": "FIRST-WORDS"})).unwrap();
    agent.stop();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    let result = &wait_result["results"][&id];
    assert_eq!(result["received_later"], json!([]), "{result:#}");
    assert_eq!(result["not_heard"], json!(["FIRST-WORDS"]), "{result:#}");
    client.call("send_input", json!({"id": id, "message": "SECOND-WORDS"})).unwrap();
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    let result = &wait_result["results"][&id];
    assert_eq!(result["received_later"], json!(["FIRST-WORDS", "SECOND-WORDS"]), "{result:#}");
    assert_eq!(result["not_heard"], json!(null), "{result:#}");
    let bodies = model.requests().into_iter().map(|one| one.body.to_string());
    let has_both = |body: &String| body.contains("FIRST-WORDS") && body.contains("SECOND-WORDS");
    assert!(bodies.into_iter().any(|body| has_both(&body)), "its model has not seen both");
    client.end();
}
