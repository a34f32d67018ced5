//! Agents of one parent that want to write in one place, in a repository that has claims.

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

/// Each writes one file below its own directory.
fn works() -> ScriptedModel {
    let writes = |name: &str| {
        let write = format!("mkdir -p src/{name} && echo {name} > src/{name}/{name}.txt");
        vec![Turn::Calls(vec![Call::shell(write)]), Turn::say("written")]
    };
    let script = Script::new(vec![Turn::say("no")]);
    ScriptedModel::start(script.when("A-WORK", writes("a")).when("B-WORK", writes("b")))
}

fn asked(message: &str, files: &str) -> Value {
    json!({"message": message, "agent_type": "helper", "files": [files]})
}

fn started(client: &mut Client, message: &str, files: &str) -> String {
    let spawned = client.call("spawn_agent", asked(message, files)).unwrap();
    spawned["agent_id"].as_str().unwrap().to_owned()
}

fn done(client: &mut Client, id: &str) {
    let waited = client.call("wait", json!({"ids": [id], "timeout_ms": 170_000})).unwrap();
    assert_eq!(waited["status"][id], json!({"completed": "written"}), "{waited:#}");
}

/// Every claim, with how it ended.
fn claims(stage: &Stage) -> Vec<(String, String)> {
    let listed = stage.bailiwick(&["claims", "list", "--all", "-o", "json"]).expect_code(0);
    let claims: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let shown = |claim: &Value| {
        let outcome = claim["release"]["outcome"].as_str().unwrap_or("open");
        (claim["run"].as_str().unwrap().to_owned(), outcome.to_owned())
    };
    claims.iter().map(shown).collect()
}

/// How many wait for a claim.
fn waiting(stage: &Stage) -> usize {
    let queue = std::fs::read_dir(stage.scratch.state().join("bailiwick.db.waiting"));
    let names = queue.into_iter().flatten().flatten().map(|one| one.file_name());
    names.filter(|name| name.to_string_lossy().parse::<u64>().is_ok()).count()
}

/// How all agents stand.
fn tree(stage: &Stage) -> Vec<Value> {
    let told = stage.bailiwick(&["agents", "tree", "--all", "-o", "json"]).expect_code(0);
    let nodes: Vec<Value> = serde_json::from_str(&told.out).unwrap();
    nodes.iter().map(|node| node["status"].clone()).collect()
}

#[test]
fn a_sibling_is_refused_until_the_first_is_closed_whose_work_lands_if_nobody_took_its_paths() {
    let stage = stage("");
    let model = works();
    let mut client = Client::start(&stage, &model);
    let first = started(&mut client, "A-WORK", "src/a/**");
    let other = started(&mut client, "B-WORK", "src/b/**");
    done(&mut client, &first);
    done(&mut client, &other);
    let refused = client.refused("spawn_agent", asked("A-WORK", "src/**"));
    for words in ["collab spawn failed: claims: ", &first, "can close it"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    let open = |id: &str| (id.to_owned(), "open".to_owned());
    assert_eq!(claims(&stage), [open(&first), open(&other)]);
    for id in [&first, &other] {
        let closed = client.call("close_agent", json!({"id": id})).unwrap();
        assert_eq!(closed["claims_let_go"], 1, "{closed:#}");
    }
    let second = started(&mut client, "A-WORK", "src/a/**");
    let ended = |id: &str| (id.to_owned(), "expired".to_owned());
    assert_eq!(claims(&stage), [ended(&first), ended(&other), open(&second)]);
    done(&mut client, &second);
    client.end();
    // Where somebody else was since, nothing lands that was made without knowing of it.
    stage.agent(&other).land().expect_code(0);
    assert_eq!(stage.scratch.read("src/b/b.txt"), "b\n");
    let stale = stage.agent(&first).land().expect_code(2);
    assert!(stale.err.contains("is stale"), "{}", stale.err);
    stage.agent(&second).land().expect_code(0);
    assert_eq!(stage.scratch.read("src/a/a.txt"), "a\n");
}

#[test]
fn a_sibling_that_waits_starts_when_the_first_is_closed_and_is_given_up_with_its_caller() {
    let stage = stage("on-overlap = \"wait\"\n");
    let model = works();
    let mut client = Client::start(&stage, &model);
    let first = started(&mut client, "A-WORK", "src/**");
    done(&mut client, &first);
    let (waiting, tree) = (|| waiting(&stage), || tree(&stage));
    let given_up = client.begin_call("spawn_agent", asked("A-WORK", "src/a/**"));
    outside::wait("it waits for its claim", || waiting() == 1);
    assert_eq!(tree(), ["completed", "pending_init"]);
    client.cancel(given_up);
    outside::wait("it is given up", || waiting() == 0 && tree() == ["completed", "shutdown"]);
    // The agent did not start after its caller gave up.
    let second = client.begin_call("spawn_agent", asked("A-WORK", "src/a/**"));
    outside::wait("it waits for its claim", || waiting() == 1);
    let closed = client.call("close_agent", json!({"id": first})).unwrap();
    assert_eq!(closed["claims_let_go"], 1, "{closed:#}");
    let second = client.called(second).unwrap()["agent_id"].as_str().unwrap().to_owned();
    done(&mut client, &second);
    assert_eq!(stage.agent(&second).text("src/a/a.txt").as_deref(), Some("a\n"));
    assert_eq!(tree(), ["shutdown", "shutdown", "completed"]);
    let runs = claims(&stage);
    assert_eq!(runs.len(), 2, "the one that was given up has none: {runs:?}");
    client.end();
}

#[test]
fn one_that_is_closed_while_it_waits_never_begins() {
    let stage = stage("on-overlap = \"wait\"\n");
    let model = works();
    let mut client = Client::start(&stage, &model);
    let first = started(&mut client, "A-WORK", "src/**");
    done(&mut client, &first);
    let second = client.begin_call("spawn_agent", asked("B-WORK", "src/b/**"));
    outside::wait("it waits for its claim", || waiting(&stage) == 1);
    let listed = client.call("list_active_agents", json!({})).unwrap();
    let pending = |one: &&Value| one["status"] == "pending_init";
    let one = listed["agents"].as_array().unwrap().iter().find(pending).unwrap();
    client.call("close_agent", json!({"id": one["thread_id"]})).unwrap();
    outside::wait("it is given up", || waiting(&stage) == 0);
    let refused = client.called(second).unwrap_err();
    assert!(refused.contains("was closed before it began"), "{refused}");
    assert_eq!(claims(&stage), [(first, "open".to_owned())]);
    client.end();
    assert_eq!(tree(&stage), ["completed", "shutdown"]);
}

/// Its supervisor is there, and cannot be asked yet.
#[test]
fn one_that_waits_to_go_on_can_be_closed() {
    let stage = stage("on-overlap = \"wait\"\n");
    let model = works();
    let mut client = Client::start(&stage, &model);
    let first = started(&mut client, "A-WORK", "src/a/**");
    done(&mut client, &first);
    stage.bailiwick(&["claims", "release", "1"]).expect_code(0);
    let second = started(&mut client, "B-WORK", "src/**");
    done(&mut client, &second);
    client.call("send_input", json!({"id": first, "message": "go on"})).unwrap();
    assert_eq!(waiting(&stage), 1, "it waits for the second");
    client.call("close_agent", json!({"id": first})).unwrap();
    assert_eq!((waiting(&stage), tree(&stage)), (0, vec![json!("shutdown"), json!("completed")]));
    // Nor does it begin when it could.
    client.call("close_agent", json!({"id": second})).unwrap();
    client.end();
    let of_first: Vec<_> = claims(&stage).into_iter().filter(|(run, _)| *run == first).collect();
    assert!(of_first.iter().all(|(_, ended)| ended != "open"), "{of_first:?}");
}
