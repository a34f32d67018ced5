//! Tests of tool lists.

use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use super::*;
use crate::call::Action;

fn lists(allow: Option<&[&str]>, deny: Option<&[&str]>) -> ToolLists {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    ToolLists { allow_list: allow.map(texts), deny_list: deny.map(texts) }
}

fn limited(allow: Option<&[&str]>, deny: Option<&[&str]>) -> ToolStack {
    ToolStack::unlimited().narrowed_by("t", &lists(allow, deny))
}

fn allows(stack: &ToolStack, tool: &str) -> bool {
    stack.objection_to(tool).is_none()
}

fn call(native: &str, tools: &[&str]) -> Call {
    Call {
        cli_tool_name: native.to_owned(),
        tools: tools.iter().map(|name| ToolName::from_record(name)).collect(),
        action: Action::NoKnownEffect,
        directory: None,
        ungated_terminal_input: false,
        id: None,
        agent: None,
    }
}

#[test]
fn policy_is_applied_only_if_the_template_has_allow_list_or_deny_list() {
    let no_lists = limited(None, None);
    assert!(no_lists.is_unlimited());
    for tool in ["Bash", "spawn_agent", "mcp__x__y", "anything"] {
        assert!(allows(&no_lists, tool), "{tool}");
    }
    assert!(!limited(Some(&[]), None).is_unlimited());
    assert!(!limited(None, Some(&["x"])).is_unlimited());
}

#[test]
fn without_allow_list_all_tools_except_denied_ones_are_allowed() {
    let stack = limited(None, Some(&["apply_patch"]));
    assert!(allows(&stack, "spawn_agent") && allows(&stack, "new_tool"));
    assert!(!allows(&stack, "apply_patch"));
}

#[test]
fn empty_allow_list_allows_nothing() {
    for tool in ["Bash", "update_plan", "", "mcp__x__y"] {
        assert!(!allows(&limited(Some(&[]), None), tool), "{tool}");
    }
}

#[test]
fn entries_are_exact_names_or_globs_and_never_regular_expressions() {
    let exact = limited(Some(&["mcp__a__b"]), None);
    assert!(allows(&exact, "mcp__a__b"));
    assert!(!allows(&exact, "mcp__a__bc") && !allows(&exact, "xmcp__a__b"));
    let glob = limited(Some(&["mcp__?__r*"]), None);
    assert!(allows(&glob, "mcp__a__read") && allows(&glob, "mcp__a__r"));
    assert!(!allows(&glob, "mcp__ab__read") && !allows(&glob, "mcp__a__write"));
    assert!(!allows(&limited(Some(&["mcp.+"]), None), "mcp__a"));
}

#[test]
fn matching_is_case_sensitive() {
    let stack = limited(Some(&["Exec_Command", "MCP__*"]), None);
    assert!(!allows(&stack, "exec_command") && !allows(&stack, "mcp__a__b"));
    assert!(allows(&limited(None, Some(&["BASH"])), "Bash"));
}

#[test]
fn on_conflict_deny_list_has_priority() {
    let stack = limited(Some(&["*"]), Some(&["spawn_*"]));
    assert!(!allows(&stack, "spawn_agent") && allows(&stack, "wait"));
    let both = limited(Some(&["Bash"]), Some(&["Bash"]));
    assert!(!allows(&both, "Bash"));
}

#[test]
fn exact_name_applies_to_its_tool_in_every_cli() {
    let stack = limited(Some(&["exec_command"]), None);
    for name in Tool::named("Bash").unwrap().names() {
        assert!(allows(&stack, name), "{name}");
    }
    assert!(!allows(&stack, "write_stdin") && !allows(&stack, "Read"));
    let lists = limited(Some(&["list_agents"]), None);
    assert!(allows(&lists, "mcp__bailiwick__list_agents"));
    assert!(!allows(&lists, "close_agent") && !allows(&lists, "mcp__other__list_agents"));
}

#[test]
fn denial_applies_to_every_name_of_the_tool() {
    for entry in ["exec_command", "Bash", "exec_*", "local_shel?"] {
        let stack = limited(None, Some(&[entry]));
        for name in Tool::named("Bash").unwrap().names() {
            assert!(!allows(&stack, name), "{entry} {name}");
        }
        assert!(!allows(&stack, "write_stdin"), "typing is part of the shell: {entry}");
    }
    let spawn = limited(None, Some(&["spawn_agent"]));
    for name in ["Task", "Agent", "mcp__bailiwick__spawn_agent"] {
        assert!(!allows(&spawn, name), "{name}");
    }
    let patch = limited(None, Some(&["apply_patch"]));
    for name in ["Write", "Edit", "write_file", "NotebookEdit"] {
        assert!(!allows(&patch, name), "{name}");
    }
    assert!(allows(&patch, "Read"));
}

#[test]
fn glob_of_servers_does_not_allow_starting_agents() {
    for list in [["mcp*"], ["mcp__*"], ["mcp__b*"]] {
        let stack = limited(Some(&list), None);
        assert!(!allows(&stack, "mcp__bailiwick__spawn_agent"), "{list:?}");
        assert!(allows(&stack, "mcp__best__tool"), "{list:?}");
    }
    for list in [["spawn_*"], ["mcp__bailiwick__*"], ["*"]] {
        let stack = limited(Some(&list), None);
        assert!(allows(&stack, "mcp__bailiwick__spawn_agent"), "{list:?}");
    }
}

/// `re*` was written for `read_file`, not for Gemini's name of `Edit`.
#[test]
fn glob_does_not_allow_a_tool_by_its_name_in_another_cli() {
    let stack = limited(Some(&["re*"]), None);
    assert!(allows(&stack, "read_file") && allows(&stack, "replace"));
    assert!(!allows(&stack, "Edit") && !allows(&stack, "apply_patch"));
}

#[test]
fn every_part_of_a_call_must_be_allowed() {
    let edits = limited(Some(&["Edit"]), None);
    assert_eq!(edits.objection(&call("apply_patch", &["Edit"])), None);
    assert!(edits.objection(&call("apply_patch", &["Edit", "Write"])).is_some());
    let both = limited(Some(&["Edit", "Write"]), None);
    assert_eq!(both.objection(&call("apply_patch", &["Edit", "Write"])), None);
    assert!(
        limited(None, Some(&["Write"]))
            .objection(&call("apply_patch", &["Edit", "Write"]))
            .is_some()
    );
}

#[test]
fn objection_names_template_entry_and_an_alternative() {
    let denied = limited(Some(&["Read"]), Some(&["apply_*"])).objection_to("apply_patch").unwrap();
    assert_eq!(
        denied.sentence(),
        "template::tools: the template t denies apply_patch by `apply_*`. Instead: use Read."
    );
    let missing = limited(Some(&["Read"]), None).objection_to("Bash").unwrap();
    assert_eq!(missing.reason, "the template t does not allow Bash");
}

#[test]
fn stack_survives_serialization() {
    let stack = limited(Some(&[]), None).narrowed_by("u", &lists(None, Some(&["a"])));
    let text = serde_json::to_string(&stack).unwrap();
    assert_eq!(serde_json::from_str::<ToolStack>(&text).unwrap(), stack);
    assert!(serde_json::from_str::<ToolStack>("[{\"template\":\"t\",\"alow\":[]}]").is_err());
}

#[test]
fn policy_denies_what_its_lists_deny_and_omits_empty_lists() {
    let compiled = |lists: &ToolStack| {
        crate::compile(&crate::Sources {
            role: "r",
            agent: None,
            tools: None,
            ask: &[],
            bash_patterns: &[],
            escalation: bailiwick_model::role::EscalationPolicy::default(),
            capabilities: &[],
            task: None,
            set_bypass_variables: &[],
            temporary: &[],
            protected: &[],
            tool_lists: lists,
        })
        .unwrap()
    };
    let facts = crate::Facts::default();
    let limited = compiled(&limited(Some(&["Read"]), None));
    let denied = crate::decide(&limited, &call("web_search", &["WebSearch"]), &facts);
    assert_eq!(denied.outcome, crate::Outcome::Deny);
    assert_eq!(denied.because.unwrap().rule, RULE);
    let allowed = crate::decide(&limited, &call("read_file", &["Read"]), &facts);
    assert_eq!(allowed.outcome, crate::Outcome::Allow);
    let unlimited = compiled(&ToolStack::unlimited());
    let other = crate::decide(&unlimited, &call("web_search", &["WebSearch"]), &facts);
    assert_eq!(other.outcome, crate::Outcome::Allow);
    assert!(!serde_json::to_string(&unlimited).unwrap().contains("tool_lists"));
    let text_with_lists = serde_json::to_string(&limited).unwrap();
    assert_eq!(serde_json::from_str::<crate::Policy>(&text_with_lists).unwrap(), limited);
}

/// Random lists of every known name: a child never has more than its parent, and the
/// order of the lists does not matter.
#[test]
fn tool_lists_only_remove_rights() {
    let mut random = Random::rotating("tool lists");
    let mut words: Vec<&str> = Tool::all().iter().flat_map(Tool::names).collect();
    words.extend([
        "mcp__a__b",
        "mcp__bailiwick__spawn_agent",
        "*",
        "mcp__*",
        "?ash",
        "list_*",
        "re*",
    ]);
    let list = |random: &mut Random| {
        let count = random.below(5);
        let list = (0..count).map(|_| words[random.below(words.len())].to_owned());
        let list: Vec<String> = list.collect();
        (!random.once_in(3)).then_some(list)
    };
    let (mut shrunk, mut unchanged) = (0, 0);
    for _ in 0..Depth::from_env().cases(1000) {
        let layers: Vec<ToolLists> = (0..3)
            .map(|_| ToolLists { allow_list: list(&mut random), deny_list: list(&mut random) })
            .collect();
        let parent = ToolStack::unlimited().narrowed_by("p", &layers[0]);
        let child = parent.narrowed_by("c", &layers[1]).narrowed_by("g", &layers[2]);
        let turned = ToolStack::unlimited()
            .narrowed_by("g", &layers[2])
            .narrowed_by("c", &layers[1])
            .narrowed_by("p", &layers[0]);
        for tool in Tool::all().iter().flat_map(Tool::names).chain(["mcp__a__b", "odd"]) {
            let each = layers
                .iter()
                .all(|lists| allows(&ToolStack::unlimited().narrowed_by("x", lists), tool));
            assert_eq!(allows(&child, tool), each, "{tool} {layers:?}");
            assert_eq!(allows(&turned, tool), each, "{tool} {layers:?}");
            assert!(allows(&parent, tool) || !each, "{tool} {layers:?}");
            if allows(&parent, tool) && !each { shrunk += 1 } else { unchanged += 1 }
        }
    }
    assert!(shrunk > 0 && unchanged > 0);
}
