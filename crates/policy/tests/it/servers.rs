//! Calls of MCP servers' tools, and the effect of denied tools on every other tool.

use bailiwick_policy::decide::decide;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::record::{FORMAT, Record, RecordedCall};
use bailiwick_policy::{Decision, Facts, Outcome, Policy};
use serde_json::{Value, json};

use crate::everyday::{decided, developer, judged};

fn with_servers() -> Policy {
    let mut policy = developer();
    policy.tools = Some(vec!["mcp__*".to_owned(), "Bash".to_owned(), "Write".to_owned()]);
    policy
}

fn call(policy: &Policy, tool: &str, input: &Value) -> Decision {
    let payload = json!({"tool_name": tool, "tool_input": input, "cwd": "/w"});
    judged(policy, &payload, Enforcement::TextOnly)
}

#[test]
fn commands_and_paths_are_found_in_any_field() {
    let policy = with_servers();
    for (tool, input, rule) in [
        ("run", json!({"command": "git push"}), "policy::git-read-only"),
        ("run", json!({"cmd": ["git", "push"]}), "policy::git-read-only"),
        ("batch", json!({"commands": ["ls", "git push"]}), "policy::git-read-only"),
        ("task", json!({"steps": [{"script": "cargo test && git push"}]}), "policy::git-read-only"),
        ("run", json!({"command": "echo x > README.md"}), "scope::files-whitelist"),
        ("store", json!({"where": "/w/README.md"}), "scope::files-whitelist"),
        ("store", json!({"where": "config/settings.json"}), "scope::files-whitelist"),
        ("store", json!({"spots": [{"at": "./README.md"}]}), "scope::files-whitelist"),
        ("store", json!({"where": ".git/config"}), "bailiwick::protected"),
        ("run", json!({"command": "ls", "where": "/w/README.md"}), "scope::files-whitelist"),
    ] {
        let decision = call(&policy, &format!("mcp__some__{tool}"), &input);
        let because = decision.because.map(|because| because.rule.to_string());
        assert_eq!(because.as_deref(), Some(rule), "{tool} {input}");
    }
    // The same structures without a forbidden value.
    for (tool, input) in [
        ("run", json!({"command": "git status"})),
        ("run", json!({"cmd": ["cargo", "test"]})),
        ("store", json!({"where": "/w/src/new.rs"})),
        (
            "create_issue",
            json!({"repo": "owner/name", "body": "see /etc/passwd", "labels": ["a/b"]}),
        ),
        ("fetch", json!({"url": "https://example.com/a/b.html"})),
        ("read_thing", json!({"where": "/etc/hosts"})),
    ] {
        let decision = call(&policy, &format!("mcp__some__{tool}"), &input);
        assert_eq!(decision.outcome, Outcome::Allow, "{tool} {input}: {decision:?}");
    }
}

#[test]
fn no_other_tool_can_edit_if_edit_tools_are_denied() {
    let policy: Policy = serde_json::from_value(json!({
        "format": 1, "role": "reviewer", "tools": ["*"], "escalation": "ask-via-return",
        "rules": [{
            "capability": "tools::deny-tools", "gate": "gates::tools_deny_tools",
            "tools": ["Edit", "Write", "NotebookEdit"], "severity": "block",
            "tools_denied": ["Edit", "Write", "NotebookEdit"],
        }],
        "temporary": ["/tmp"],
    }))
    .unwrap();
    for command in ["echo x > src/a", "sed -i s/a/b/ src/a", "tee src/a < b", "$x", "cp a b"] {
        let decision = decided(&policy, command, Enforcement::Kernel);
        let because = decision.because.map(|because| because.rule.to_string());
        assert_eq!(because.as_deref(), Some("tools::deny-tools"), "{command}");
    }
    for command in ["cat src/a", "grep -rn x src > /tmp/found", "cargo test 2>&1 | tail -3"] {
        let decision = decided(&policy, command, Enforcement::TextOnly);
        assert_eq!(decision.outcome, Outcome::Allow, "{command}: {decision:?}");
    }
    let written = json!({"path": "/w/src/a", "content": "x"});
    assert_eq!(call(&policy, "mcp__files__write_file", &written).outcome, Outcome::Deny);
    assert_eq!(call(&policy, "mcp__files__read_file", &written).outcome, Outcome::Allow);
    assert_eq!(
        call(&policy, "Write", &json!({"file_path": "/w/a", "content": "x"})).outcome,
        Outcome::Deny
    );
}

/// A stored decision contains who enforced the limits, so that it can be repeated.
#[test]
fn decision_left_to_the_kernel_can_be_repeated() {
    let policy = developer();
    let payload = json!({"tool_name": "Bash", "tool_input": {"command": "$x push"}, "cwd": "/w"});
    let call = Dialect::Claude.read(payload.to_string().as_bytes(), &[]).unwrap();
    for (enforcement, outcome) in
        [(Enforcement::Kernel, Outcome::Allow), (Enforcement::TextOnly, Outcome::Deny)]
    {
        let facts = Facts { root: "/w".to_owned(), enforcement, ..Facts::default() };
        let decision = decide(&policy, &call, &facts);
        let record = Record {
            format: FORMAT,
            at: 0,
            policy: String::new(),
            dialect: Dialect::Claude,
            call: RecordedCall::of(&call),
            facts,
            decision,
        };
        let stored: Record =
            serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(stored.decide_again(&policy).outcome, outcome);
    }
}
