//! Sub-agents of a stack, end to end: the real Claude Code starts only those that its stack declares, within the
//! limit of parallel ones. The contract of each is checked, and the control plane shows what each received
//! and returned.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::StandIn;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::delegation::tool_name;
use super::fleet::{Serving, list, phase, run_with_input, wait_for};
use super::fleet_servers::{apply, changed_documents};
use super::stage::Stage;

const GOOD_TASK: &str = "REVIEW-WELL";
const BAD_TASK: &str = "REVIEW-BADLY";

fn with_reviewer(document: &mut Value) {
    match document["kind"].as_str().unwrap() {
        "AgentStack" => {
            document["spec"]["subagentRefs"] = json!(["reviewer"]);
            document["spec"]["maxParallelSubagents"] = json!(1);
            document["spec"]["writeBackPolicy"] = json!({ "allowedTargets": [] });
        }
        "AgentToolProfile" => document["spec"]["nativeTools"]["subagents"] = json!(true),
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
fn run_delegates_only_to_sub_agents_of_its_stack_within_limits() {
    let stage = Stage::new(Cli::Claude);
    let forge = StandIn::gitea("acme/app");
    forge.take(&stage.scratch.root(), "main");
    let call = |tool: &str, input: Value| {
        Turn::Calls(vec![Call::raw(&tool_name(Cli::Claude, tool), input)])
    };
    let spawn = |what: &str, message: &str| {
        call("spawn_agent", json!({ "agent_type": what, "message": message }))
    };
    let wait = || call("wait", json!({ "ids": ["{{agent_id}}"], "timeout_ms": 170_000 }));
    let script = Script::new(vec![
        call("list_agents", json!({})),
        spawn("worker", GOOD_TASK),
        spawn("reviewer", GOOD_TASK),
        spawn("reviewer", GOOD_TASK),
        wait(),
        spawn("reviewer", BAD_TASK),
        wait(),
        Turn::Calls(vec![Call::shell("echo done > src/done.txt")]),
        Turn::say("Both have looked."),
    ])
    .when(
        GOOD_TASK,
        vec![
            Turn::Calls(vec![Call::shell("echo mine > src/theirs.txt")]),
            Turn::Calls(vec![Call::shell("sleep 2")]),
            Turn::say("# Findings\n\nNone."),
        ],
    )
    .when(BAD_TASK, vec![Turn::say("It looks fine to me.")]);
    let model = ScriptedModel::start(script);
    run_with_input(&stage, &["secrets", "set", "webhook", "key"], "w");
    run_with_input(&stage, &["secrets", "set", "forge", "token"], &forge.token());
    let mut documents = changed_documents(&stage, &forge, with_reviewer);
    documents.push(reviewer());
    apply(&stage, &documents);
    let _serving = Serving::start(stage.command(Some(&model), None));
    wait_for("a ready stack", &stage, || {
        let stack = list(&stage, &["stacks"]).into_iter().next()?;
        let conditions = stack["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
    });
    let started =
        stage.bailiwick(&["runs", "start", "app", "fixer", "--task", "Have it reviewed."]);
    assert!(started.out.contains("adr-"), "{}{}", started.out, started.err);
    let parents = || -> Vec<Value> {
        let runs = list(&stage, &["runs"]).into_iter();
        runs.filter(|run| run["spec"]["parentRun"].is_null()).collect()
    };
    let ended = wait_for("the end", &stage, || {
        let run = parents().into_iter().next()?;
        ["succeeded", "failed", "cancelled"].contains(&phase(&run)).then_some(run)
    });
    assert_eq!(phase(&ended), "succeeded", "{ended:#}");

    let result = |call: &str| model.result(call).replace('\\', "");
    let listed = result("call_0_0_0");
    assert!(listed.contains("Looks over changes.") && !listed.contains("\"worker\""), "{listed}");
    let not_declared = result("call_0_1_0");
    assert!(
        not_declared.contains("not among those that you may start: reviewer"),
        "{not_declared}"
    );
    let runs = std::fs::read_dir(stage.scratch.state().join("runs")).unwrap().flatten();
    let recorded = runs.map(|run| run.path().join("disallowed-agents.json"));
    let recorded: Vec<String> =
        recorded.filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert!(recorded[0].contains("\"agent_type\":\"worker\""), "{recorded:?}");
    assert!(result("call_0_2_0").contains("agent_id"), "{}", result("call_0_2_0"));
    let refused = result("call_0_3_0");
    assert!(refused.contains("is the limit") && !refused.contains("\"agent_id\""), "{refused}");
    let wait_result = result("call_0_4_0");
    assert!(
        wait_result.contains("completed") && wait_result.contains("# Findings"),
        "{wait_result}"
    );
    assert!(result("call_0_5_0").contains("agent_id"), "{}", result("call_0_5_0"));
    let contract_error = result("call_0_6_0");
    assert!(
        contract_error.contains("ContractBroken") && contract_error.contains("`Findings`"),
        "{contract_error}"
    );

    let parent = ended["metadata"]["name"].as_str().unwrap();
    let children = wait_for("both children", &stage, || {
        let runs = list(&stage, &["runs", "--field", &format!("parent={parent}")]);
        let has_ended = |run: &Value| ["succeeded", "failed"].contains(&phase(run));
        (runs.len() == 2 && runs.iter().all(has_ended)).then_some(runs)
    });
    let child_with_task = |marker: &str| {
        let found = children.iter().find(|run| run["spec"]["task"] == marker);
        found.unwrap_or_else(|| panic!("{marker}: {children:#?}")).clone()
    };
    let (good, bad) = (child_with_task(GOOD_TASK), child_with_task(BAD_TASK));
    assert_eq!((phase(&good), phase(&bad)), ("succeeded", "failed"));
    let reason = bad["status"]["terminalReason"].as_str().unwrap();
    assert!(reason.starts_with("ContractBroken") && reason.contains("Findings"), "{reason}");
    assert!(good["status"]["cost"]["tokens"].as_u64().unwrap() > 0, "{good:#}");
    let records = ended["status"]["childSubagentRuns"].as_array().unwrap().clone();
    assert_eq!(records.len(), 2, "{records:#?}");
    let record = records.iter().find(|one| one["run"] == good["metadata"]["name"]).unwrap();
    assert_eq!(record["contractFulfilled"], true, "{record:#}");
    assert_eq!(record["returned"], "# Findings\n\nNone.", "{record:#}");
    // The child is read-only, although its parent may write.
    let child = good["status"]["agentMuxRunId"].as_str().unwrap();
    let worktrees = stage.scratch.state().join("worktrees");
    assert!(!worktrees.join(child).join("src/theirs.txt").exists());
    let agent = ended["status"]["agentMuxRunId"].as_str().unwrap();
    assert!(worktrees.join(agent).join("src/done.txt").exists());
}
