//! `list_agents`: arguments and answers.

use bailiwick_kit::templates::list::list;
use bailiwick_kit::templates::{ListAgents, Templates};
use serde_json::{Value, json};

use super::file::SKELETON;
use super::{files, layered};
use crate::memory::MemoryTree;

fn request(arguments: Value) -> ListAgents {
    serde_json::from_value(arguments).expect("arguments")
}

fn answer(templates: &Templates, arguments: Value) -> Value {
    let listed = list(templates, &request(arguments)).unwrap_or_else(|error| panic!("{error}"));
    serde_json::to_value(listed).expect("JSON")
}

fn error_of(templates: &Templates, arguments: Value) -> String {
    list(templates, &request(arguments)).expect_err("it was listed").to_string()
}

/// The embedded templates and the skeleton of the kei tools.
fn with_auditor() -> Templates {
    layered(MemoryTree::new([("agents/auditor.md", SKELETON)]), MemoryTree::default())
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn default_answer_has_agents_without_count_model_effort_or_prompt() {
    for arguments in [json!({}), json!({"expanded": false}), json!({"expanded": null})] {
        let answer = answer(&with_auditor(), arguments);
        assert_eq!(keys(&answer), ["agents"]);
        let text = answer.to_string();
        for absent in ["\"count\"", "\"model\"", "\"reasoning_effort\"", "prompt\":"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
    }
    let expanded = answer(&with_auditor(), json!({"expanded": true})).to_string();
    assert!(expanded.contains("\"model\"") && expanded.contains("prompt\":"), "the control");
}

#[test]
fn agent_type_description_allow_list_and_deny_list_are_always_there() {
    let answer = answer(&with_auditor(), json!({}));
    let agents = answer["agents"].as_array().unwrap();
    let types: Vec<&str> =
        agents.iter().map(|agent| agent["agent_type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        ["architect", "auditor", "explorer", "orchestrator", "reviewer", "worker"],
        "sorted"
    );
    for agent in agents {
        for key in ["agent_type", "description", "allow_list", "deny_list"] {
            assert!(agent.get(key).is_some(), "{key} in {agent}");
        }
    }
    let orchestrator = &agents[3];
    assert_eq!(
        (&orchestrator["allow_list"], &orchestrator["deny_list"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn missing_list_is_null_and_an_empty_one_is_empty() {
    let text = "---\ndescription: Mine.\nallow_list: []\n---\nDo it.\n";
    let templates = layered(MemoryTree::new([("agents/none.md", text)]), MemoryTree::default());
    let answer = answer(&templates, json!({"agent_type": "none"}));
    assert_eq!(answer["agents"][0]["allow_list"], json!([]));
    assert_eq!(answer["agents"][0]["deny_list"], Value::Null);
}

#[test]
fn agent_names_is_shown_only_if_the_role_has_personas() {
    let answer = answer(&with_auditor(), json!({}));
    assert_eq!(
        keys(&answer["agents"][2]),
        ["agent_type", "allow_list", "deny_list", "description"]
    );
    assert_eq!(
        answer["agents"][1]["agent_names"],
        json!([
            {"name": "fast", "description": "Quick scan with concise findings."},
            {"name": "strict", "description": "Conservative validation with explicit risk callouts."},
        ])
    );
}

#[test]
fn agent_type_filters_by_one_role() {
    let answer = answer(&with_auditor(), json!({"agent_type": " Auditor "}));
    assert_eq!(answer["agents"].as_array().unwrap().len(), 1);
    assert_eq!(answer["agents"][0]["agent_type"], "auditor");
}

#[test]
fn expanded_adds_model_effort_and_prompt_to_role_and_personas() {
    let answer = answer(&with_auditor(), json!({"agent_type": "auditor", "expanded": true}));
    assert_eq!(
        answer,
        json!({"agents": [{
            "agent_type": "auditor",
            "description": "Use `auditor` for compliance checks and risk triage.",
            "allow_list": [
                "close_agent", "exec_command", "list_active_agents", "list_agents", "send_input",
                "update_plan", "wait", "write_stdin",
            ],
            "deny_list": ["apply_patch"],
            "model": "gpt-5-codex",
            "reasoning_effort": "medium",
            "default_prompt": "Use `auditor` for policy and contract checks.\nReturn findings \
                               first, then assumptions.",
            "agent_names": [
                {
                    "name": "fast",
                    "description": "Quick scan with concise findings.",
                    "model": "gpt-5.3-codex-spark",
                    "reasoning_effort": "medium",
                    "prompt": "Prioritize speed and high-signal output.\nSkip low-risk edge cases \
                               unless explicitly requested.",
                },
                {
                    "name": "strict",
                    "description": "Conservative validation with explicit risk callouts.",
                    "model": "gpt-5-codex",
                    "reasoning_effort": "high",
                    "prompt": "Prioritize completeness and defensive checks.\nReject ambiguous \
                               conclusions.",
                },
            ],
        }]})
    );
    let plain =
        super::list::answer(&with_auditor(), json!({"agent_type": "explorer", "expanded": true}));
    assert_eq!(
        keys(&plain["agents"][0]),
        ["agent_type", "allow_list", "default_prompt", "deny_list", "description"],
        "a model that is not set is not shown"
    );
}

#[test]
fn invalid_agent_type_returns_invalid_agent_type() {
    for bad in ["a b", "../worker", "", "worker.md"] {
        let error = error_of(&with_auditor(), json!({"agent_type": bad}));
        let expected = format!("invalid agent_type \"{bad}\": expected snake_case or kebab-case ");
        assert!(error.starts_with(&expected), "{bad:?}: {error}");
    }
}

#[test]
fn valid_agent_type_without_a_template_returns_missing_agent_template() {
    assert_eq!(
        error_of(&with_auditor(), json!({"agent_type": "no_such"})),
        "missing agent template: no_such"
    );
}

#[test]
fn when_the_contract_is_broken_list_agents_returns_an_error() {
    for (text, what) in [
        ("---\nread_only: true\n---\nDo it.\n", "missing required frontmatter description"),
        ("---\ndescription: Mine.\n---\n\n", "missing required default prompt block"),
        (
            "---\ndescription: Mine.\nagent_names:\n  - name: a\n    description: A.\n---\n\n<!-- agent_name: a -->\nBe a.\n",
            "missing required default prompt block",
        ),
        (
            "---\ndescription: Mine.\n---\nDo it.\n<!-- agent_name: a -->\nBe a.\n",
            "found agent_name blocks but frontmatter agent_names is missing",
        ),
        (
            "---\ndescription: Mine.\nagent_names:\n  - name: a\n---\nDo it.\n<!-- agent_name: a -->\nBe a.\n",
            "missing description for agent_name \"a\"",
        ),
    ] {
        let tree = MemoryTree::new([("agents/bad.md", text)]);
        let templates = layered(tree, files(&["good.md"], "good"));
        let expected = format!("invalid agent template \"bad\": {what}");
        let all_agents = answer(&templates, json!({}));
        assert_eq!(all_agents["errors"], json!([{"agent_type": "bad", "error": expected}]));
        let mut listed = all_agents["agents"].as_array().unwrap().iter();
        assert!(listed.any(|agent| agent["agent_type"] == "good"), "{all_agents}");
        assert_eq!(error_of(&templates, json!({"agent_type": "bad"})), expected);
        // A request for another type is not affected.
        assert_eq!(
            answer(&templates, json!({"agent_type": "good"}))["agents"][0]["agent_type"],
            "good"
        );
    }
}

#[test]
fn bad_templates_are_listed_as_errors_by_name() {
    let bad = |name: &str| (format!("agents/{name}.md"), "no frontmatter".to_owned());
    let templates = layered(MemoryTree::new([bad("zz"), bad("bb")]), MemoryTree::new([bad("aa")]));
    let all_agents = answer(&templates, json!({}));
    let errors = all_agents["errors"].as_array().unwrap();
    let names: Vec<&str> =
        errors.iter().map(|entry| entry["agent_type"].as_str().unwrap()).collect();
    assert_eq!(names, ["aa", "bb", "zz"], "{all_agents}");
    let error = errors[0]["error"].as_str().unwrap();
    assert!(error.starts_with("invalid agent template \"aa\": "), "{error}");
}

#[test]
fn other_arguments_are_refused() {
    for bad in [json!({"agent": "x"}), json!({"expanded": "yes"}), json!({"expanded": 1})] {
        assert!(serde_json::from_value::<ListAgents>(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn list_agents_schema_supports_filter_and_expanded_options() {
    let schema = serde_json::to_value(schemars::schema_for!(ListAgents)).unwrap();
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(keys(&schema["properties"]), ["agent_type", "expanded"]);
    assert_eq!(schema.get("required"), None);
}
