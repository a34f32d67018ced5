//! One file: its frontmatter, and how it is refused.

use bailiwick_model::template::{ContextLimits, Persona, ToolLists};

use super::{agent_type, read, refused, refused_at, template, with_keys};

/// The minimal skeleton in the runbook of the kei tools.
pub(crate) const SKELETON: &str = "---
description: Use `auditor` for compliance checks and risk triage.
model: gpt-5-codex
reasoning_effort: medium
read_only: true
agent_names:
  - name: strict
    description: Conservative validation with explicit risk callouts.
    model: gpt-5-codex
    reasoning_effort: high
  - name: fast
    description: Quick scan with concise findings.
    model: gpt-5.3-codex-spark
    reasoning_effort: medium
allow_list:
  - exec_command
  - write_stdin
  - update_plan
  - list_agents
  - list_active_agents
  - wait
  - send_input
  - close_agent
deny_list:
  - apply_patch
---
Use `auditor` for policy and contract checks.
Return findings first, then assumptions.

<!-- agent_name: strict -->
Prioritize completeness and defensive checks.
Reject ambiguous conclusions.

<!-- agent_name: fast -->
Prioritize speed and high-signal output.
Skip low-risk edge cases unless explicitly requested.
";

#[test]
fn use_this_minimal_template_skeleton() {
    let found = template(SKELETON);
    assert_eq!(found.agent_type, agent_type("auditor"));
    assert_eq!(found.description, "Use `auditor` for compliance checks and risk triage.");
    assert_eq!(found.model.as_deref(), Some("gpt-5-codex"));
    assert_eq!(found.reasoning_effort.as_deref(), Some("medium"));
    assert!(found.read_only);
    let texts = |list: &[&str]| Some(list.iter().map(|text| (*text).to_owned()).collect());
    let tools = ToolLists {
        allow_list: texts(&[
            "close_agent",
            "exec_command",
            "list_active_agents",
            "list_agents",
            "send_input",
            "update_plan",
            "wait",
            "write_stdin",
        ]),
        deny_list: texts(&["apply_patch"]),
    };
    assert_eq!(found.tools, tools);
    assert_eq!(
        found.default_prompt,
        "Use `auditor` for policy and contract checks.\nReturn findings first, then assumptions."
    );
    let strict = Persona {
        name: "strict".to_owned(),
        description: "Conservative validation with explicit risk callouts.".to_owned(),
        model: Some("gpt-5-codex".to_owned()),
        reasoning_effort: Some("high".to_owned()),
        prompt: "Prioritize completeness and defensive checks.\nReject ambiguous conclusions."
            .to_owned(),
    };
    assert_eq!(found.personas.first(), Some(&strict));
    assert_eq!(found.personas.len(), 2);
    assert_eq!((found.role, found.cli, found.allowed_subagents), (None, None, None));
    assert_eq!((found.max_depth, found.estimated_tokens, found.context), (None, None, None));
}

#[test]
fn file_with_carriage_returns_reads_like_one_without() {
    let with_returns = SKELETON.replace('\n', "\r\n");
    assert_eq!(template(&with_returns), template(SKELETON));
    assert!(with_returns.contains("\r\n---\r\n"), "the control: the text has them");
}

#[test]
fn additional_keys_are_read() {
    let found = template(&with_keys(
        "role: read-only\ncli: codex\nallowed_subagents: [worker, My_Role]\nmax_depth: 0\n\
         estimated_tokens: 50000\nestimated_turns: 20\nestimated_usd: 0.5\nmax_turns: 40\nmax_minutes: 15\ncontext:\n  window_share: 0.5\n  files: 7",
    ));
    assert_eq!(found.role.unwrap().as_str(), "read-only");
    assert_eq!(found.cli.as_deref(), Some("codex"));
    assert_eq!(found.allowed_subagents, Some(vec![agent_type("worker"), agent_type("my_role")]));
    assert_eq!((found.max_depth, found.estimated_tokens), (Some(0), Some(50000)));
    assert_eq!((found.estimated_turns, found.max_turns), (Some(20), Some(40)));
    assert_eq!(found.max_minutes, Some(15));
    assert_eq!(found.estimated_usd, Some(0.5));
    let limits = ContextLimits { window_share: 0.5, files: 7, ..ContextLimits::default() };
    assert_eq!(found.context, Some(limits));
    assert_eq!(template(&with_keys("allowed_subagents: []")).allowed_subagents, Some(Vec::new()));
}

#[test]
fn description_at_role_level_is_mandatory() {
    let missing = "missing required frontmatter description";
    assert_eq!(refused("---\nread_only: true\n---\nDo it.\n"), [missing]);
    assert_eq!(refused("---\n---\nDo it.\n"), [missing]);
}

#[test]
fn description_must_be_non_empty() {
    let missing = "missing required frontmatter description";
    assert_eq!(refused("---\ndescription: ''\n---\nDo it.\n"), [missing]);
    assert_eq!(refused("---\ndescription: '  '\n---\nDo it.\n"), [missing]);
    let bare = refused("---\ndescription:\n---\nDo it.\n");
    assert_eq!(bare, ["invalid YAML: nothing is written here"]);
}

#[test]
fn default_prompt_block_must_be_non_empty() {
    for body in ["", "\n", "  \n\t\n"] {
        let text = format!("---\ndescription: Mine.\n---\n{body}");
        assert_eq!(refused(&text), ["missing required default prompt block"], "{body:?}");
    }
}

#[test]
fn agent_names_is_optional() {
    assert_eq!(template(&with_keys("")).personas, []);
    assert_eq!(template(&with_keys("agent_names: []")).personas, []);
}

/// In the fork, each of these spellings dropped every limit of the file.
#[test]
fn misspelled_limit_is_refused_and_never_read_as_no_limit() {
    for keys in [
        "read_only: yes",
        "read_only: on",
        "read_only: 'true'",
        "read_only: \"false\"",
        "read_only: 1",
        "read_only:",
        "read_only: ~",
        "read_onIy: true",
        "readonly: true",
        "tools: [Read]",
        "allow_list: exec_command",
        "allow_list: exec_command, wait",
        "allow_list:",
        "allow_list: ~",
        "allow_list: null",
        "allow_list: {Read: true}",
        "allow_list: ['']",
        "allow_list: ['  ']",
        "allow_list: [~]",
        "allow_list:\n  - *agent",
        "deny_list:",
        "deny_list: apply_patch",
        "agent_names:",
        "agent_names: strict",
        "agent_names: [strict]",
        "agent_names: {name: strict}",
        "description: Twice.",
        "read_only: true\nread_only: false",
        "model: ''",
        "model:",
        "reasoning_effort: High",
        "reasoning_effort: very high",
        "reasoning_effort: ''",
        "role: No Role",
        "role: ../x",
        "cli: ''",
        "allowed_subagents:",
        "allowed_subagents: worker",
        "allowed_subagents: ['a b']",
        "max_depth: -1",
        "max_depth: many",
        "estimated_tokens: 0",
        "estimated_tokens: 1.5",
        "estimated_turns: 0",
        "estimated_usd: 0",
        "estimated_usd: -1",
        "estimated_usd: .inf",
        "estimated_usd: .nan",
        "max_turns: 0",
        "max_turns: -1",
        "max_turns: many",
        "max_turns:",
        "max_minutes: 0",
        "max_minutes: 1.5",
        "max_minutes:",
        "context:",
        "context: [0.3]",
        "context: {window_share: 0}",
        "context: {window_share: 1.01}",
        "context: {window_share: .nan}",
        "context: {window_share: .inf}",
        "context: {windowshare: 0.3}",
        "context: {files: 1, files: 2}",
        "model: a: b",
        "\tread_only: true",
        "<<: {read_only: true}",
        "model: &anchor gpt",
        "model: !tag gpt",
        "...\nread_only: true",
        "- read_only",
        "model: [gpt",
    ] {
        let messages = refused(&with_keys(keys));
        assert!(!messages.is_empty(), "{keys}");
    }
    // The control: the correct spelling is accepted.
    for keys in ["read_only: true", "read_only: False", "allow_list: ['mcp*', mcp?, 7]"] {
        template(&with_keys(keys));
    }
}

#[test]
fn recursive_aliases_are_refused_quickly() {
    let mut keys = String::from("model: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(9);
        keys += &format!("cli: &a{level} [{before}]\n");
    }
    assert_eq!(refused(&with_keys(&keys)).len(), 1);
    let deep = format!("allow_list: {}{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(refused(&with_keys(&deep)).len(), 1);
}

#[test]
fn file_without_frontmatter_is_refused() {
    for text in [
        "",
        "Do it.\n",
        "# Auditor\n\n---\ndescription: Mine.\n---\nDo it.\n",
        "\n---\ndescription: Mine.\n---\nDo it.\n",
        " ---\ndescription: Mine.\n---\nDo it.\n",
        "----\ndescription: Mine.\n---\nDo it.\n",
        "--- # yaml\ndescription: Mine.\n---\nDo it.\n",
    ] {
        let messages = refused(text);
        assert_eq!(
            messages,
            ["the file has no frontmatter, so nothing limits the agent"],
            "{text:?}"
        );
    }
    template("---  \ndescription: Mine.\n---\t\nDo it.\n");
}

#[test]
fn frontmatter_without_an_end_is_refused() {
    for text in [
        "---",
        "---\n",
        "---\ndescription: Mine.\nDo it.\n",
        "---\ndescription: Mine.\n ---\nDo it.\n",
    ] {
        assert_eq!(refused(text), ["the frontmatter is not closed"], "{text:?}");
    }
}

#[test]
fn byte_order_mark_is_refused() {
    let text = format!("\u{feff}{}", with_keys(""));
    assert_eq!(refused(&text), ["the file begins with a byte order mark"]);
}

/// After either, the YAML reader stops without an error.
#[test]
fn keys_after_a_zero_byte_or_a_document_end_are_not_lost() {
    for keys in [
        "...\n\0allow_list: []",
        "...\nallow_list: []",
        "...",
        "... # done\nmodel: x",
        "\0allow_list: []",
    ] {
        assert_eq!(refused(&with_keys(keys)).len(), 1, "{keys:?}");
    }
    for odd in ["\0", "\u{7}", "\u{1b}[0m", "\u{85}"] {
        let messages = refused(&(with_keys("") + odd));
        assert!(messages[0].starts_with("a control character: "), "{odd:?}: {messages:?}");
    }
}

#[test]
fn line_of_dashes_inside_of_a_text_is_not_the_end() {
    let text = "---\ndescription: |\n  One.\n  ---\n  Two.\nallow_list: []\n---\nDo it.\n";
    let found = template(text);
    assert_eq!(found.tools.allow_list, Some(Vec::new()));
    assert_eq!(found.description, "One.\n---\nTwo.");
}

/// A lone carriage return ends a line for some readers, and hides a line from others.
#[test]
fn lone_carriage_return_is_refused() {
    for text in [
        "---\ndescription: x\rread_only: true\n---\nDo it.\n",
        "---\ndescription: x\n---\nDo\rit.\n",
    ] {
        assert!(refused(text)[0].starts_with("a carriage return without"), "{text:?}");
    }
}

#[test]
fn empty_allow_list_is_no_tool_and_a_missing_one_is_every_tool() {
    assert_eq!(template(&with_keys("allow_list: []")).tools.allow_list, Some(Vec::new()));
    assert_eq!(template(&with_keys("")).tools, ToolLists::default());
}

#[test]
fn entries_are_trimmed_sorted_and_unique() {
    let found = template(&with_keys("allow_list: [wait, ' Read ', wait]\ndeny_list: [b, a]"));
    assert_eq!(found.tools.allow_list.unwrap(), ["Read", "wait"]);
    assert_eq!(found.tools.deny_list.unwrap(), ["a", "b"]);
}

#[test]
fn regex_syntax_is_refused() {
    for bad in
        ["'^exec$'", "'(a|b)'", "'[ab]'", "'Bash(git *)'", "'a b'", "'a+'", "'a\\*'", "'a,b'"]
    {
        for list in ["allow_list", "deny_list"] {
            let messages = refused(&with_keys(&format!("{list}: [{bad}]")));
            assert!(messages[0].ends_with("can match no tool"), "{bad}: {messages:?}");
        }
    }
    template(&with_keys("allow_list: ['mcp__*__read_?', container.exec, Bash]"));
}

#[test]
fn problems_have_their_place_in_the_file() {
    for (keys, expected) in [
        (
            "read_only: yes",
            "auditor.md:3:12: invalid YAML: a truth value is expected (write true or false)",
        ),
        (
            "read_only: 'true'",
            "auditor.md:3:12: invalid YAML: a truth value is expected, and this is a text (take the quotes off)",
        ),
        (
            "allow_list: Bash",
            "auditor.md:3:13: invalid YAML: a list is expected (write `- ` before each entry)",
        ),
        (
            "model: a: b",
            "auditor.md:3:9: invalid YAML: mapping values are not allowed in this context (a text with `: ` in it needs quotes)",
        ),
        ("allow_list:\n  - a\n  - 'b c'", "auditor.md:5:5: `b c` can match no tool"),
        (
            "read_onIy: true",
            "auditor.md:3:1: invalid YAML: unknown key `read_onIy` (did you mean `read_only`?",
        ),
    ] {
        let problem = refused_at(&with_keys(keys));
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn all_errors_are_reported_together() {
    let text = "---\nread_only: 'no'\n---\n";
    assert!(read(text).is_err());
    let text = "---\nmodel: ''\nallow_list: ['(']\n---\n";
    assert_eq!(refused(text).len(), 4, "{:?}", refused(text));
}

#[test]
fn all_problems_of_a_frontmatter_are_reported_together() {
    let keys = "read_only: maybe\ncolour: red\nmax_turns: many\nshape:\n  - round\nmodel: m";
    let problems = read(&with_keys(keys)).unwrap_err();
    let lines: Vec<_> =
        problems.iter().map(|problem| problem.place.line_and_column().unwrap().0).collect();
    assert_eq!(lines, [3, 4, 5, 6], "{problems:?}");
    let inside = SKELETON.replace("    reasoning_effort: high\n", "    effort: high\n");
    assert_eq!(refused(&inside).len(), 1, "{:?}", refused(&inside));
}
