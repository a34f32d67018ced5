//! The output of `prepare`: the text layout of the kei tools, and their JSON keys.

use std::collections::BTreeSet;

use bailiwick_lifecycle::AgentInvocation;
use bailiwick_lifecycle::{brief, prepare};
use bailiwick_model::Dna;

use crate::kit_in_memory::{bound, embedded, id};

fn prepared(task: &str, agent: &str) -> AgentInvocation {
    prepare::prepare(&bound(&embedded(), task), &id(agent), 0x0af3).unwrap()
}

#[test]
fn text_output_equals_the_kei_tools_output_line_by_line() {
    let task = "[task]\nrole = \"edit-local\"\nparent-agent = \"ag-parent\"\n\
                [scope]\nfiles-whitelist = [\"src/**\"]\n[body]\ntext = \"Do it.\\n\\n\"\n";
    let invocation = prepared(task, "ag-parser-positions-1");
    let prompt = brief::compose(&bound(&embedded(), task)).unwrap();
    let expected = format!(
        "=== AGENT SUBSTRATE v1 — PREPARED SPAWN ===\n\
         agent-id: ag-parser-positions-1\n\
         dna: {}\n\
         subagent_type: code-implementer\n\
         isolation: worktree\n\
         description: edit-local agent ag-parser\n\
         \n\
         --- PROMPT (copy into Agent tool `prompt` param) ---\n\
         {}\n\
         --- END PROMPT ---\n\
         \n\
         on return:\n  \
         kei-agent-runtime verify tasks/ag-parser-positions-1/task.toml --worktree <path-from-harness>\n  \
         (orchestrator harness returns worktree path in the task-notification)\n\
         \n\
         ledger: running agent-id=ag-parser-positions-1 role=edit-local parent=ag-parent\n",
        invocation.dna,
        prompt.trim_end(),
    );
    let shown = invocation.to_string();
    for (number, (shown, expected)) in shown.lines().zip(expected.lines()).enumerate() {
        assert_eq!(shown, expected, "line {}", number + 1);
    }
    assert_eq!(shown, expected);
}

#[test]
fn missing_isolation_and_parent_are_shown() {
    let shown = prepared("[task]\nrole = \"read-only\"\n", "x").to_string();
    assert!(shown.contains("\nisolation: <none>\ndescription: read-only agent x\n"), "{shown}");
    assert!(
        shown.ends_with("\nledger: running agent-id=x role=read-only parent=none\n"),
        "{shown}"
    );
}

#[test]
fn roles_have_default_agent_types_and_a_task_can_override_them() {
    let roles = [
        ("edit-local", "code-implementer", Some("worktree")),
        ("edit-shared", "code-implementer", Some("worktree")),
        ("explorer", "Explore", None),
        ("read-only", "critic", None),
    ];
    for (role, agent_type, isolation) in roles {
        let plain = prepared(&format!("[task]\nrole = \"{role}\"\n"), "ag-1");
        assert_eq!(plain.subagent_type, agent_type, "{role}");
        assert_eq!(plain.isolation.as_deref(), isolation, "{role}");
        let task = format!("[task]\nrole = \"{role}\"\nclaude-subagent-type = \"architect\"\n");
        let overridden = prepared(&task, "ag-1");
        let expected = AgentInvocation { subagent_type: "architect".to_owned(), ..plain };
        assert_eq!(overridden, expected, "{role}: the override changes the type and nothing else");
    }
}

#[test]
fn json_has_exactly_the_keys_of_the_kei_tools() {
    for role in ["edit-local", "read-only"] {
        let invocation = prepared(&format!("[task]\nrole = \"{role}\"\n"), "ag-1");
        let json = serde_json::to_value(&invocation).unwrap();
        let keys: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "agent_id",
            "role",
            "prompt",
            "subagent_type",
            "isolation",
            "description",
            "verify_command",
            "ledger_row",
            "dna",
        ];
        assert_eq!(keys, BTreeSet::from(expected));
        assert_eq!(json["isolation"].is_null(), role == "read-only");
        assert_eq!(json["prompt"], invocation.prompt);
    }
}

#[test]
fn dna_depends_on_the_scope_and_not_on_the_agent_id() {
    let task = "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"a\"]\n";
    let dna = Dna::parse(&prepared(task, "ag-1").dna).unwrap();
    assert_eq!(dna.role.as_str(), "edit-local");
    assert_eq!(dna.capabilities.len(), bound(&embedded(), task).role.capabilities.len());
    assert_eq!(prepared(task, "ag-2").dna, dna.to_string(), "the id is not part of it");
    let other = task.replace("\"a\"", "\"b\"");
    assert_ne!(prepared(&other, "ag-1").dna, dna.to_string(), "the scope is part of it");
}
