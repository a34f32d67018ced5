//! Examples of OpenCode's agents.

use bailiwick_kit::foreign::{Effect, Format};
use bailiwick_model::Template;

use super::{allow, deny, has_note, imported, noted, refused};

const OPENCODE: Format = Format::Opencode;

fn has(lines: &str, tool: &str) -> bool {
    allow(&imported(OPENCODE, lines)).is_none_or(|list| list.contains(&tool))
}

#[test]
fn complete_file_becomes_a_template() {
    let imported = imported(
        OPENCODE,
        "mode: subagent\nmodel: anthropic/claude-sonnet-4-5\ntemperature: 0.1\nsteps: 5\n\
         permission:\n  edit: deny\n  bash: deny\n",
    );
    let template = &imported.template;
    assert_eq!(template.agent_type.as_str(), "reviewer");
    assert_eq!(template.model.as_deref(), Some("anthropic/claude-sonnet-4-5"));
    assert_eq!(template.cli.as_deref(), Some("opencode"));
    let allowed = allow(&imported).unwrap();
    for (tool, expected) in [
        ("Read", true),
        ("Glob", true),
        ("mcp__*", true),
        ("Edit", false),
        ("Write", false),
        ("Bash", false),
    ] {
        assert_eq!(allowed.contains(&tool), expected, "{tool}");
    }
    assert_eq!(deny(&imported).unwrap(), ["Agent", "AgentMessage"]);
    assert_eq!(noted(&imported, Effect::LeftOut), ["mode", "temperature"]);
    assert_eq!(imported.template.max_turns, Some(5));
    assert_eq!(noted(&imported, Effect::Narrowed), [""; 0]);
}

#[test]
fn name_in_the_file_overrides_the_file_name() {
    assert_eq!(imported(OPENCODE, "name: other\n").template.agent_type.as_str(), "other");
    assert_eq!(imported(OPENCODE, "").template.agent_type.as_str(), "reviewer");
}

#[test]
fn without_a_denying_rule_there_is_no_tool_list() {
    for lines in ["", "permission: allow\n", "permission:\n  bash:\n    '*': allow\n"] {
        assert_eq!(allow(&imported(OPENCODE, lines)), None, "{lines}");
    }
}

#[test]
fn last_matching_rule_decides() {
    assert!(has("permission:\n  '*': deny\n  bash: allow\n", "Bash"));
    assert!(!has("permission:\n  bash: allow\n  '*': deny\n", "Bash"));
    assert!(has("permission:\n  bash:\n    'rm *': deny\n    '*': allow\n", "Bash"));
    assert!(!has("permission:\n  bash:\n    '*': allow\n    'rm *': deny\n", "Bash"));
    assert!(!has("permission:\n  bash:\n    '*': deny\n    'git *': allow\n", "Bash"));
    assert!(!has("permission:\n  b*: deny\n", "Bash"));
}

#[test]
fn tool_that_must_ask_is_denied() {
    let imported = imported(
        OPENCODE,
        "permission:\n  bash: ask\n  edit:\n    'src/**': allow\n    '*': ask\n",
    );
    assert!(!allow(&imported).unwrap().contains(&"Bash"));
    assert!(has_note(&imported, Effect::Narrowed, "a template cannot ask"));
    assert!(!allow(&imported).unwrap().contains(&"Edit"));
}

#[test]
fn older_switches_come_first_and_keep_their_position() {
    assert!(!has("tools:\n  write: false\n", "Edit"));
    assert!(has("tools:\n  '*': false\n  bash: true\n", "Bash"));
    assert!(!has("tools:\n  '*': false\n  bash: true\n", "Read"));
    assert!(has("tools:\n  bash: false\npermission:\n  bash: allow\n", "Bash"));
    // `bash` keeps its position from `tools`, so the star after it denies it.
    assert!(!has("tools:\n  bash: true\npermission:\n  '*': deny\n  bash: allow\n", "Bash"));
}

#[test]
fn agents_that_may_be_started_are_kept_by_name() {
    let named = imported(
        OPENCODE,
        "permission:\n  task:\n    '*': deny\n    critic: allow\n    't*': allow\n",
    );
    assert!(allow(&named).unwrap().contains(&"Agent"));
    let names: Vec<&str> =
        named.template.allowed_subagents.iter().flatten().map(|name| name.as_str()).collect();
    assert_eq!(names, ["critic"]);
    let none = imported(OPENCODE, "permission:\n  task:\n    critic: allow\n    '*': deny\n");
    assert!(!allow(&none).unwrap().contains(&"Agent"));
    // A server's tool that starts agents must not be a way around it.
    assert!(allow(&none).unwrap().contains(&"mcp__*"));
    assert_eq!(deny(&none).unwrap(), ["Agent", "AgentMessage"]);
}

#[test]
fn sub_agent_starts_others_only_if_its_own_rules_name_them() {
    for (lines, starts) in [
        ("", false),
        ("mode: subagent\n", false),
        ("mode: all\npermission: allow\n", false),
        ("permission:\n  bash: deny\n", false),
        ("permission:\n  't*': allow\n", false),
        ("mode: primary\n", true),
        ("mode: subagent\npermission:\n  task: allow\n", true),
        ("tools:\n  task: true\n", true),
    ] {
        let imported = imported(OPENCODE, lines);
        let closed = deny(&imported).is_some_and(|list| list == ["Agent", "AgentMessage"]);
        assert_eq!((closed, has(lines, "Agent") && !closed), (!starts, starts), "{lines}");
        let Template { max_depth, allowed_subagents, .. } = imported.template;
        assert_eq!(max_depth, (!starts).then_some(0), "{lines}");
        assert_eq!(allowed_subagents.is_some_and(|names| names.is_empty()), !starts, "{lines}");
    }
}

#[test]
fn rule_for_unknown_tools_denies_all_servers() {
    let imported = imported(OPENCODE, "permission:\n  gov_*: deny\n");
    let allowed = allow(&imported).unwrap();
    assert!(!allowed.contains(&"mcp__*") && allowed.contains(&"Bash"));
    assert!(has_note(&imported, Effect::Narrowed, "`gov_*` may be one"));
    assert!(!has("permission:\n  write: deny\n", "Write"));
}

#[test]
fn file_that_cannot_be_understood_is_refused() {
    let with = |lines: &str| super::markdown(lines).replace("name: reviewer\n", "");
    for (lines, code) in [
        ("disable: true\n", "bad-value"),
        ("prompt: Other.\n", "bad-value"),
        ("permission:\n  bash: maybe\n", "bad-value"),
        ("permission:\n  bash: [allow]\n", "bad-value"),
        ("permission:\n  bash: deny\n  bash: allow\n", "bad-yaml"),
        ("tools:\n  bash: no\n", "bad-value"),
        ("tools:\n", "bad-value"),
        ("permission:\n", "bad-value"),
        ("permission:\n  bash:\n", "bad-value"),
        ("limit: 1\n", "unknown-key"),
    ] {
        assert_eq!(refused(OPENCODE, &with(lines)).0, code, "{lines}");
    }
}

#[test]
fn permissions_is_accepted_for_permission() {
    let lines = "permissions:\n  bash: deny\n";
    assert!(!has(lines, "Bash") && has(lines, "Read"));
    assert!(has("", "Bash"), "the control: the tool is allowed");
}
