//! Examples of Claude Code's sub-agents.

use bailiwick_kit::foreign::{Effect, Format};

use super::{allow, deny, has_note, imported, markdown, noted, read, refused};

const CLAUDE: Format = Format::Claude;

#[test]
fn complete_file_becomes_a_template() {
    let text = "---\nname: reviewer\ndescription: Use when: code has changed\n\
                tools: Read, Grep, Glob, Bash\nmodel: sonnet\neffort: high\ncolor: red\n\
                maxTurns: 9\nskills:\n  - style\n---\n\nYou review.\n\nBe brief.\n";
    let imported = read(CLAUDE, text).unwrap();
    let template = &imported.template;
    assert_eq!(template.agent_type.as_str(), "reviewer");
    assert_eq!(template.description, "Use when: code has changed");
    assert_eq!(template.model.as_deref(), Some("sonnet"));
    assert_eq!(template.cli.as_deref(), Some("claude-code"));
    assert_eq!(template.reasoning_effort.as_deref(), Some("high"));
    assert_eq!(template.default_prompt, "You review.\n\nBe brief.");
    assert_eq!(allow(&imported).unwrap(), ["Read", "Grep", "Glob", "Bash"]);
    assert!(!template.read_only && template.max_depth.is_none());
    assert_eq!(noted(&imported, Effect::LeftOut), ["description", "skills"]);
    assert_eq!(imported.template.max_turns, Some(9));
    assert_eq!(noted(&imported, Effect::Narrowed), [""; 0]);
}

#[test]
fn tools_are_a_text_or_a_list_and_an_empty_list_is_no_tool() {
    let listed = ["Read", "Edit"];
    for lines in [
        "tools: Read, Edit\n",
        "tools: Read Edit\n",
        "tools: [Read, Edit]\n",
        "tools:\n- Read\n- Edit\n",
    ] {
        assert_eq!(allow(&imported(CLAUDE, lines)).unwrap(), listed, "{lines}");
    }
    for lines in ["", "tools: '*'\n", "tools: [Read, '*']\n"] {
        assert_eq!(allow(&imported(CLAUDE, lines)), None, "{lines}");
    }
    for lines in ["tools: []\n", "tools:\n", "tools: ''\n"] {
        assert_eq!(allow(&imported(CLAUDE, lines)).unwrap(), [""; 0], "{lines}");
    }
}

#[test]
fn entries_that_a_tool_list_cannot_express_are_dropped() {
    let imported = imported(CLAUDE, "tools: Read, Bash(git *), Frobnicate, CronList, MultiEdit\n");
    assert_eq!(allow(&imported).unwrap(), ["Read"]);
    for words in ["`Bash(git *)` is dropped", "`Frobnicate`", "`CronCreate` as well", "`MultiEdit`"]
    {
        assert!(has_note(&imported, Effect::Narrowed, words), "{words}: {:?}", imported.notes);
    }
}

#[test]
fn denied_pattern_denies_the_complete_tool() {
    let imported = imported(CLAUDE, "disallowedTools: Bash(rm *), Write, Unheard, mcp__gov\n");
    let denied = deny(&imported).unwrap();
    assert_eq!(denied, ["Bash", "Typing", "CodeMode", "Write", "Unheard", "mcp__gov__*"]);
    assert!(has_note(&imported, Effect::Narrowed, "denies all of `Bash`"));
}

#[test]
fn servers_are_named_completely_or_by_tool() {
    let imported =
        imported(CLAUDE, "tools: mcp__gov, mcp__git__*, mcp__a__say, mcp__*, mcp__x?__y\n");
    assert_eq!(allow(&imported).unwrap(), ["mcp__gov__*", "mcp__git__*", "mcp__a__say"]);
    assert_eq!(noted(&imported, Effect::Narrowed).len(), 2);
}

#[test]
fn agents_that_may_be_started_are_kept() {
    let listed = imported(CLAUDE, "tools: Read, Agent(critic, tester), Task(other)\n");
    assert_eq!(allow(&listed).unwrap(), ["Read", "Agent"]);
    let names: Vec<&str> =
        listed.template.allowed_subagents.iter().flatten().map(|name| name.as_str()).collect();
    assert_eq!(names, ["critic", "tester", "other"]);
    assert_eq!(listed.template.max_depth, Some(2));
    let none = imported(CLAUDE, "tools: Agent(critic)\ndisallowedTools: Agent\n");
    assert_eq!((none.template.allowed_subagents, none.template.max_depth), (None, None));
}

#[test]
fn modes_narrow_rights_or_are_left_out() {
    for (mode, read_only, effect) in [
        ("plan", true, None),
        ("dontAsk", true, Some(Effect::Narrowed)),
        ("acceptEdits", false, Some(Effect::LeftOut)),
        ("bypassPermissions", false, Some(Effect::Narrowed)),
    ] {
        let imported = imported(CLAUDE, &format!("permissionMode: {mode}\n"));
        assert_eq!(imported.template.read_only, read_only, "{mode}");
        assert_eq!(imported.notes.first().map(|note| note.effect), effect, "{mode}");
    }
    let (code, message) = refused(CLAUDE, &markdown("permissionMode: yolo\n"));
    assert_eq!(code, "bad-value");
    assert!(message.starts_with(".claude/agents/reviewer.md:4:1: "), "{message}");
}

#[test]
fn hooks_servers_and_isolation_are_left_out() {
    let lines = "hooks:\n  PreToolUse: []\nmcpServers:\n  - gov\nmemory: user\nbackground: true\n\
                 isolation: worktree\ninitialPrompt: Go.\n";
    let imported = imported(CLAUDE, lines);
    let keys = ["mcpServers", "memory", "background", "isolation", "initialPrompt", "hooks"];
    assert_eq!(noted(&imported, Effect::LeftOut), keys);
}

#[test]
fn hook_that_can_deny_calls_is_refused_until_a_person_drops_it() {
    for format in [CLAUDE, Format::Skill] {
        let text = markdown("hooks:\n  PreToolUse:\n    - matcher: Bash\n");
        let (code, message) = refused(format, &text);
        assert_eq!(code, "bad-value");
        assert!(message.contains("PreToolUse") && message.contains("--drop hooks"), "{message}");
    }
    let stop = imported(CLAUDE, "hooks:\n  Stop:\n    - hooks: []\n");
    assert_eq!(noted(&stop, Effect::LeftOut), ["hooks"]);
}

#[test]
fn key_that_may_be_a_limit_is_refused_until_a_person_drops_it() {
    let text = markdown("disallowed_tools: Bash\n");
    let (code, message) = refused(CLAUDE, &text);
    assert_eq!(code, "unknown-key");
    assert!(message.contains("did you mean `disallowedTools`?"), "{message}");
    assert!(message.contains("--drop disallowed_tools"), "{message}");
    let options = bailiwick_kit::foreign::Options { drop: vec!["disallowed_tools".to_owned()] };
    let source = bailiwick_model::Source::new("a.md", text);
    let imported = bailiwick_kit::foreign::import(CLAUDE, &source, &options).unwrap();
    assert_eq!(deny(&imported), None);
    assert_eq!(noted(&imported, Effect::LeftOut), ["disallowed_tools"]);
}

#[test]
fn descriptive_key_is_kept_as_metadata() {
    let lines = "origin: team\nactivation_triggers: [a, 'b c']\nrisk: {level: 2}\nversion: 1.2\n";
    let imported = imported(CLAUDE, lines);
    let metadata: Vec<(&str, &str)> = imported
        .template
        .metadata
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("activation_triggers", "[\"a\",\"b c\"]"),
        ("origin", "team"),
        ("risk", "{\"level\":\"2\"}"),
        ("version", "1.2"),
    ];
    assert_eq!(metadata, expected);
    let keys = ["origin", "activation_triggers", "risk", "version"];
    assert_eq!(noted(&imported, Effect::Kept), keys);
    assert_eq!(noted(&imported, Effect::Narrowed), [""; 0]);
    for limit in [
        "tool-set",
        "toolset",
        "Permissions",
        "max_tokens",
        "network-access",
        "read-only",
        "scope",
        "no-bash",
        "blocked-commands",
    ] {
        assert_eq!(
            refused(CLAUDE, &markdown(&format!("{limit}: x\n"))).0,
            "unknown-key",
            "{limit}"
        );
    }
}

#[test]
fn invalid_name_is_converted_to_a_valid_one() {
    for (head, name) in [
        ("name: PowerShell 5.1 expert\n", "powershell-5-1-expert"),
        ("name: plugin:a\n", "plugin-a"),
        ("", "reviewer"),
    ] {
        let text = format!("---\n{head}description: x\n---\nDo.\n");
        let source = bailiwick_model::Source::new(".claude/agents/reviewer.md", text);
        let options = bailiwick_kit::foreign::Options::default();
        let imported = bailiwick_kit::foreign::import(CLAUDE, &source, &options).unwrap();
        assert_eq!(imported.template.agent_type.as_str(), name);
        assert_eq!(noted(&imported, Effect::LeftOut), ["name"]);
    }
}

#[test]
fn file_that_the_program_would_not_load_is_refused() {
    for (text, code) in [
        ("Just text.\n", "no-frontmatter"),
        ("---\nname: a\n---\nDo.\n", "missing-key"),
        ("---\nname: \"::\"\ndescription: x\n---\nDo.\n", "bad-name"),
        ("---\nname: default\ndescription: x\n---\nDo.\n", "bad-name"),
        ("---\nname: a\ndescription: x\n---\n\n", "no-prompt"),
        ("---\nname: a\ndescription: x\ntools: 7\n---\nDo.\n", "bad-value"),
        ("---\nname: a\ndescription: x\ntools: [Read, 7]\n---\nDo.\n", "bad-value"),
        ("---\nname: a\ndescription: x\ntools: Agent(no good)\n---\nDo.\n", "bad-value"),
        ("---\nname: a\ndescription: x\n---\n<!-- agent_name: b -->\nDo.\n", "persona-marker"),
    ] {
        assert_eq!(refused(CLAUDE, text).0, code, "{text}");
    }
}

#[test]
fn imported_template_can_be_read_back() {
    let head = "---\nname: a\ndescription: x\n---\n";
    let options = bailiwick_kit::foreign::Options::default();
    let import = |body: &str| {
        let source = bailiwick_model::Source::new("a.md", format!("{head}{body}"));
        bailiwick_kit::foreign::import(CLAUDE, &source, &options)
    };
    let ruled = import("---\n\n---\n# Title\n\n---\nMore.\n").unwrap();
    assert_eq!(ruled.template.default_prompt, "# Title\n\n---\nMore.");
    for body in ["---\nread_only: true\n---\nDo.\n", "Do \u{1}.\n", "Do.\rMore.\n"] {
        let problems = import(body).unwrap_err();
        assert_eq!(problems[0].code, "unwritable", "{body:?}");
    }
}
