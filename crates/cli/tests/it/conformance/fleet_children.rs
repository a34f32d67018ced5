//! Sub-agents of a stack, whole: the real Claude Code starts those that its stack declares and no others, as
//! many at once as they may be, each is held to its contract, and the control plane shows what each received
//! and returned.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::StandIn;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::delegation::name;
use super::fleet::{Serving, given, list, phase, until};
use super::fleet_servers::{apply, changed};
use super::stage::Stage;

const GOOD: &str = "REVIEW-WELL";
const BAD: &str = "REVIEW-BADLY";

fn with_reviewer(one: &mut Value) {
    match one["kind"].as_str().unwrap() {
        "AgentStack" => {
            one["spec"]["subagentRefs"] = json!(["reviewer"]);
            one["spec"]["maxParallelSubagents"] = json!(1);
            one["spec"]["writeBackPolicy"] = json!({ "allowedTargets": [] });
        }
        "AgentToolProfile" => one["spec"]["nativeTools"]["subagents"] = json!(true),
        _ => {}
    }
}

fn reviewer() -> Value {
    json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentSubagent",
        "metadata": { "name": "reviewer" },
        "spec": {
            "rolePrompt": "You look over changes.", "description": "Looks over changes.",
            "taskKinds": ["review"], "workspaceScope": "read-only", "maxParallelTasks": 1,
            "outputContract": { "format": "summary", "requiredSections": ["Findings"] },
        },
    })
}

#[test]
fn a_run_delegates_to_its_stack_s_sub_agents_within_their_limits() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let call =
        |tool: &str, input: Value| Turn::Calls(vec![Call::raw(&name(Cli::Claude, tool), input)]);
    let spawn = |what: &str, message: &str| {
        call("spawn_agent", json!({ "agent_type": what, "message": message }))
    };
    let wait = || call("wait", json!({ "ids": ["{{agent_id}}"], "timeout_ms": 170_000 }));
    let script = Script::new(vec![
        call("list_agents", json!({})),
        spawn("worker", GOOD),
        spawn("reviewer", GOOD),
        spawn("reviewer", GOOD),
        wait(),
        spawn("reviewer", BAD),
        wait(),
        Turn::Calls(vec![Call::shell("echo done > src/done.txt")]),
        Turn::say("Both have looked."),
    ])
    .when(
        GOOD,
        vec![
            Turn::Calls(vec![Call::shell("echo mine > src/theirs.txt")]),
            Turn::Calls(vec![Call::shell("sleep 2")]),
            Turn::say("# Findings\n\nNone."),
        ],
    )
    .when(BAD, vec![Turn::say("It looks fine to me.")]);
    let model = ScriptedModel::start(script);
    given(&stage, &["secrets", "set", "webhook", "key"], "w");
    given(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    let mut all = changed(&stage, &forge, with_reviewer);
    all.push(reviewer());
    apply(&stage, &all);
    let _serving = Serving::start(stage.command(Some(&model), None));
    until("a ready stack", &stage, || {
        let stack = list(&stage, &["stacks"]).into_iter().next()?;
        let all = stack["status"]["conditions"].as_array()?.clone();
        all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
    });
    let started =
        stage.bailiwick(&["runs", "start", "app", "fixer", "--task", "Have it reviewed."]);
    assert!(started.out.contains("adr-"), "{}{}", started.out, started.err);
    let parents = || -> Vec<Value> {
        let all = list(&stage, &["runs"]).into_iter();
        all.filter(|run| run["spec"]["parentRun"].is_null()).collect()
    };
    let ended = until("the end", &stage, || {
        let run = parents().into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");

    let told = |call: &str| model.result(call).replace('\\', "");
    let listed = told("call_0_0_0");
    assert!(listed.contains("Looks over changes.") && !listed.contains("\"worker\""), "{listed}");
    let other = told("call_0_1_0");
    assert!(other.contains("not among those that you may start: reviewer"), "{other}");
    assert!(told("call_0_2_0").contains("agent_id"), "{}", told("call_0_2_0"));
    let refused = told("call_0_3_0");
    assert!(refused.contains("is the limit") && !refused.contains("\"agent_id\""), "{refused}");
    let waited = told("call_0_4_0");
    assert!(waited.contains("completed") && waited.contains("# Findings"), "{waited}");
    assert!(told("call_0_5_0").contains("agent_id"), "{}", told("call_0_5_0"));
    let broken = told("call_0_6_0");
    assert!(broken.contains("ContractBroken") && broken.contains("`Findings`"), "{broken}");

    let parent = ended["metadata"]["name"].as_str().unwrap();
    let children = until("both children", &stage, || {
        let all = list(&stage, &["runs", "--field", &format!("parent={parent}")]);
        let over = |run: &Value| ["succeeded", "failed"].contains(&phase(run));
        (all.len() == 2 && all.iter().all(over)).then_some(all)
    });
    let of = |marker: &str| {
        let found = children.iter().find(|run| run["spec"]["task"] == marker);
        found.unwrap_or_else(|| panic!("{marker}: {children:#?}")).clone()
    };
    let (good, bad) = (of(GOOD), of(BAD));
    assert_eq!((phase(&good), phase(&bad)), ("succeeded", "failed"));
    let why = bad["status"]["terminalReason"].as_str().unwrap();
    assert!(why.starts_with("ContractBroken") && why.contains("Findings"), "{why}");
    assert!(good["status"]["cost"]["tokens"].as_u64().unwrap() > 0, "{good:#}");
    let records = ended["status"]["childSubagentRuns"].as_array().unwrap().clone();
    assert_eq!(records.len(), 2, "{records:#?}");
    let returned = records.iter().find(|one| one["run"] == good["metadata"]["name"]).unwrap();
    assert_eq!(returned["contractFulfilled"], true, "{returned:#}");
    assert_eq!(returned["returned"], "# Findings\n\nNone.", "{returned:#}");
    // It may only read, though its parent writes there.
    let child = good["status"]["agentMuxRunId"].as_str().unwrap();
    let worktrees = stage.scratch.state().join("worktrees");
    assert!(!worktrees.join(child).join("src/theirs.txt").exists());
    let agent = ended["status"]["agentMuxRunId"].as_str().unwrap();
    assert!(worktrees.join(agent).join("src/done.txt").exists());
}
