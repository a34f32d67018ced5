//! Agents of one parent that write to the same paths, in a repository with claims.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::client::Client;
use super::outside;
use super::stage::Stage;

const HELPER: &str = "---\ndescription: Helps.\nrole: worker\ncli: claude-code\n---\nYou help.\n";

fn stage(claims: &str) -> Stage {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/agents/helper.md", HELPER);
    let settings = format!("[run]\napproval-seconds = 1\n[claims]\n{claims}");
    stage.scratch.write(".bailiwick/settings.toml", &settings);
    stage.scratch.commit("Claims");
    stage
}

/// A model whose agents each write one file in their own directory.
fn writing_model() -> ScriptedModel {
    let writes = |name: &str| {
        let write = format!("mkdir -p src/{name} && echo {name} > src/{name}/{name}.txt");
        vec![Turn::Calls(vec![Call::shell(write)]), Turn::say("written")]
    };
    let script = Script::new(vec![Turn::say("no")]);
    ScriptedModel::start(script.when("A-WORK", writes("a")).when("B-WORK", writes("b")))
}

fn spawn_arguments(message: &str, files: &str) -> Value {
    json!({"message": message, "agent_type": "helper", "files": [files]})
}

fn spawn(client: &mut Client, message: &str, files: &str) -> String {
    let spawned = client.call("spawn_agent", spawn_arguments(message, files)).unwrap();
    spawned["agent_id"].as_str().unwrap().to_owned()
}

fn wait_for_completion(client: &mut Client, id: &str) {
    let wait_result = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(wait_result["status"][id], json!({"completed": "written"}), "{wait_result:#}");
}

/// Every claim: its run and its outcome.
fn claims(stage: &Stage) -> Vec<(String, String)> {
    let listed = stage.bailiwick(&["claims", "list", "--all", "-o", "json"]).expect_code(0);
    let claims: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let run_and_outcome = |claim: &Value| {
        let outcome = claim["release"]["outcome"].as_str().unwrap_or("open");
        (claim["run"].as_str().unwrap().to_owned(), outcome.to_owned())
    };
    claims.iter().map(run_and_outcome).collect()
}

/// The number of runs that wait for a claim.
fn waiting_count(stage: &Stage) -> usize {
    let queue = std::fs::read_dir(stage.scratch.state().join("bailiwick.db.waiting"));
    let names = queue.into_iter().flatten().flatten().map(|one| one.file_name());
    names.filter(|name| name.to_string_lossy().parse::<u64>().is_ok()).count()
}

/// The statuses of all agents.
fn statuses(stage: &Stage) -> Vec<Value> {
    let output = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&output.out).unwrap();
    nodes.iter().map(|node| node["status"].clone()).collect()
}

#[test]
fn sibling_is_refused_until_the_first_agent_releases_its_claim() {
    let stage = stage("");
    let model = writing_model();
    let mut client = Client::start(&stage, &model);
    let first = spawn(&mut client, "A-WORK", "src/a/**");
    let other = spawn(&mut client, "B-WORK", "src/b/**");
    wait_for_completion(&mut client, &first);
    wait_for_completion(&mut client, &other);
    let refused = client.call_error("spawn_agent", spawn_arguments("A-WORK", "src/**"));
    for expected in ["collab spawn failed: claims: ", &first, "can close it"] {
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
    let open = |id: &str| (id.to_owned(), "open".to_owned());
    assert_eq!(claims(&stage), [open(&first), open(&other)]);
    for id in [&first, &other] {
        let closed = client.call("close_agent", json!({"id": id})).unwrap();
        assert_eq!(closed["claims_let_go"], 1, "{closed:#}");
    }
    let second = spawn(&mut client, "A-WORK", "src/a/**");
    let expired = |id: &str| (id.to_owned(), "expired".to_owned());
    assert_eq!(claims(&stage), [expired(&first), expired(&other), open(&second)]);
    wait_for_completion(&mut client, &second);
    client.end();
    // Work whose paths another agent has claimed since is stale and cannot land.
    stage.agent(&other).land().expect_code(0);
    assert_eq!(stage.scratch.read("src/b/b.txt"), "b\n");
    let stale = stage.agent(&first).land().expect_code(2);
    assert!(stale.err.contains("is stale"), "{}", stale.err);
    stage.agent(&second).land().expect_code(0);
    assert_eq!(stage.scratch.read("src/a/a.txt"), "a\n");
}

#[test]
fn waiting_sibling_starts_after_a_close_and_is_cancelled_with_its_caller() {
    let stage = stage("on-overlap = \"wait\"\n");
    let model = writing_model();
    let mut client = Client::start(&stage, &model);
    let first = spawn(&mut client, "A-WORK", "src/**");
    wait_for_completion(&mut client, &first);
    let (waiting_count, statuses) = (|| waiting_count(&stage), || statuses(&stage));
    let cancelled = client.begin_call("spawn_agent", spawn_arguments("A-WORK", "src/a/**"));
    outside::wait_until("the agent waits for its claim", || waiting_count() == 1);
    assert_eq!(statuses(), ["completed", "pending_init"]);
    client.cancel(cancelled);
    outside::wait_until("the wait has ended", || {
        waiting_count() == 0 && statuses() == ["completed", "shutdown"]
    });
    // The agent did not start after its caller gave up.
    let second = client.begin_call("spawn_agent", spawn_arguments("A-WORK", "src/a/**"));
    outside::wait_until("the agent waits for its claim", || waiting_count() == 1);
    let closed = client.call("close_agent", json!({"id": first})).unwrap();
    assert_eq!(closed["claims_let_go"], 1, "{closed:#}");
    let second = client.call_result(second).unwrap()["agent_id"].as_str().unwrap().to_owned();
    wait_for_completion(&mut client, &second);
    assert_eq!(stage.agent(&second).text("src/a/a.txt").as_deref(), Some("a\n"));
    assert_eq!(statuses(), ["shutdown", "shutdown", "completed"]);
    let runs = claims(&stage);
    assert_eq!(runs.len(), 2, "the cancelled agent has no claim: {runs:?}");
    client.end();
}

#[test]
fn agent_that_is_closed_while_it_waits_never_starts() {
    let stage = stage("on-overlap = \"wait\"\n");
    let model = writing_model();
    let mut client = Client::start(&stage, &model);
    let first = spawn(&mut client, "A-WORK", "src/**");
    wait_for_completion(&mut client, &first);
    let second = client.begin_call("spawn_agent", spawn_arguments("B-WORK", "src/b/**"));
    outside::wait_until("the agent waits for its claim", || waiting_count(&stage) == 1);
    let listed = client.call("list_active_agents", json!({})).unwrap();
    let pending = |one: &&Value| one["status"] == "pending_init";
    let one = listed["agents"].as_array().unwrap().iter().find(pending).unwrap();
    client.call("close_agent", json!({"id": one["thread_id"]})).unwrap();
    outside::wait_until("the wait has ended", || waiting_count(&stage) == 0);
    let refused = client.call_result(second).unwrap_err();
    assert!(refused.contains("was closed before it began"), "{refused}");
    assert_eq!(claims(&stage), [(first, "open".to_owned())]);
    client.end();
    assert_eq!(statuses(&stage), ["completed", "shutdown"]);
}

/// Its supervisor runs, but does not answer yet.
#[test]
fn agent_that_waits_to_resume_can_be_closed() {
    let stage = stage("on-overlap = \"wait\"\n");
    let model = writing_model();
    let mut client = Client::start(&stage, &model);
    let first = spawn(&mut client, "A-WORK", "src/a/**");
    wait_for_completion(&mut client, &first);
    stage.bailiwick(&["claims", "release", "1"]).expect_code(0);
    let second = spawn(&mut client, "B-WORK", "src/**");
    wait_for_completion(&mut client, &second);
    client.call("send_input", json!({"id": first, "message": "go on"})).unwrap();
    assert_eq!(waiting_count(&stage), 1, "it waits for the second agent");
    client.call("close_agent", json!({"id": first})).unwrap();
    assert_eq!(
        (waiting_count(&stage), statuses(&stage)),
        (0, vec![json!("shutdown"), json!("completed")])
    );
    // It does not start after the claim is released.
    client.call("close_agent", json!({"id": second})).unwrap();
    client.end();
    let of_first: Vec<_> = claims(&stage).into_iter().filter(|(run, _)| *run == first).collect();
    assert!(of_first.iter().all(|(_, ended)| ended != "open"), "{of_first:?}");
}
