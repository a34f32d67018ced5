//! Examples of Gemini CLI's sub-agents.

use bailiwick_kit::foreign::{Effect, Format};
use bailiwick_model::Template;

use super::{allow, deny, has_note, imported, markdown, noted, refused};

const GEMINI: Format = Format::Gemini;

#[test]
fn complete_file_becomes_a_template() {
    let imported = imported(
        GEMINI,
        "kind: local\ntools:\n  - read_file\n  - search_file_content\n  - glob\n  - list_directory\n\
         model: gemini-2.5-pro\ntemperature: 0.2\nmax_turns: 10\ntimeout_mins: 5\n\
         mcp_servers:\n  gov:\n    command: gov\n",
    );
    let template = &imported.template;
    assert_eq!(template.agent_type.as_str(), "reviewer");
    assert_eq!(template.cli.as_deref(), Some("gemini"));
    assert_eq!(allow(&imported).unwrap(), ["Read", "Grep", "Glob"]);
    assert_eq!(noted(&imported, Effect::LeftOut), ["mcp_servers", "temperature"]);
    assert_eq!((template.max_turns, template.max_minutes), (Some(10), Some(5)));
}

#[test]
fn missing_limits_have_the_programs_defaults() {
    for (lines, turns, minutes, noted_keys) in [
        ("", 30, 10, &["max_turns", "timeout_mins"][..]),
        ("max_turns: 50\n", 50, 10, &["timeout_mins"]),
        ("timeout_mins: 90\n", 30, 90, &["max_turns"]),
    ] {
        let imported = imported(GEMINI, lines);
        let Template { max_turns, max_minutes, .. } = imported.template;
        assert_eq!((max_turns, max_minutes), (Some(turns), Some(minutes)), "{lines}");
        assert_eq!(noted(&imported, Effect::Narrowed), noted_keys, "{lines}");
    }
}

#[test]
fn sub_agent_starts_no_others() {
    for lines in ["", "tools: ['*']\n", "tools: [read_file, invoke_agent]\n"] {
        let imported = imported(GEMINI, lines);
        assert_eq!(deny(&imported).unwrap(), ["Agent", "AgentMessage"], "{lines}");
        assert_eq!(imported.template.max_depth, Some(0), "{lines}");
        assert_eq!(imported.template.allowed_subagents, Some(Vec::new()), "{lines}");
    }
}

#[test]
fn tool_that_includes_another_one_is_dropped() {
    let imported = imported(GEMINI, "tools: [glob, read_file, frobnicate]\n");
    assert_eq!(allow(&imported).unwrap(), ["Read"]);
    assert!(has_note(&imported, Effect::Narrowed, "`Glob` stands for `list_directory` as well"));
    assert!(has_note(&imported, Effect::Narrowed, "`frobnicate` is dropped"));
}

#[test]
fn server_names_have_no_underscore() {
    let imported = imported(GEMINI, "tools: [mcp_gov_say_it, mcp_git_*, mcp_, mcp_*_x, mcp__x]\n");
    assert_eq!(allow(&imported).unwrap(), ["mcp__gov__say_it", "mcp__git__*"]);
    let of_tools = |key: &&&str| **key == "tools";
    assert_eq!(noted(&imported, Effect::Narrowed).iter().filter(of_tools).count(), 3);
    assert_eq!(allow(&super::imported(GEMINI, "tools: [mcp_*]\n")).unwrap(), ["mcp__*"]);
}

#[test]
fn limits_that_cannot_be_enforced_are_refused() {
    assert_eq!(refused(GEMINI, &markdown("kind: remote\nagent_card_url: x\n")).0, "bad-value");
    assert_eq!(refused(GEMINI, &markdown("tools: read_file\n")).0, "bad-value");
    assert_eq!(refused(GEMINI, &markdown("tools:\n")).0, "bad-value");
    assert_eq!(refused(GEMINI, &markdown("sandbox: tight\n")).0, "unknown-key");
}
