//! The rules of Gemini CLI, with random files.

use std::cell::Cell;

use super::*;

/// The tools that Gemini CLI accepts in a list.
const OFFERED: [&str; 18] = [
    "run_shell_command",
    "read_file",
    "glob",
    "list_directory",
    "grep_search",
    "write_file",
    "replace",
    "web_fetch",
    "google_web_search",
    "write_todos",
    "complete_task",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_mode",
    "activate_skill",
    "list_mcp_resources",
    "read_mcp_resource",
    "invoke_agent",
];
const OTHERS: [&str; 6] =
    ["search_file_content", "mcp_gov_*", "mcp_gov_say", "mcp_x_y_z", "read_many_files", "unheard"];

fn allows(tools: Option<&[&str]>, tool: &str) -> bool {
    if tool == "Agent" || tool == "AgentMessage" {
        return false;
    }
    let Some(tools) = tools.filter(|tools| !tools.contains(&"*")) else { return true };
    if let Some((server, name)) = tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"))
    {
        let named = [format!("mcp_{server}_{name}"), format!("mcp_{server}_*"), "mcp_*".to_owned()];
        return tools.iter().any(|entry| named.iter().any(|name| name == entry));
    }
    let natives = natives(&OFFERED, tool);
    let listed = |native: &&str| {
        let old = *native == "grep_search" && tools.contains(&"search_file_content");
        tools.contains(native) || old
    };
    !natives.is_empty() && natives.iter().all(listed)
}

#[test]
fn import_allows_no_more_than_the_gemini_original() {
    let entries: Vec<&'static str> = OFFERED.into_iter().chain(OTHERS).collect();
    let some = subsequence(entries, 0..24);
    let tools = prop_oneof![
        1 => Just(None),
        1 => Just(Some(vec!["read_file", "*"])),
        1 => Just(Some(vec!["mcp_*", "glob"])),
        9 => some.prop_map(Some),
    ];
    let allowed = Cell::new(0);
    proptest!(|(tools in tools)| {
        let list = tools.as_ref().map(|tools| format!("tools: [\"{}\"]\n", tools.join("\", \"")));
        let list = list.unwrap_or_default().replace("[\"\"]", "[]");
        let text = format!("---\nname: a\ndescription: b\n{list}---\nDo.\n");
        allowed.set(allowed.get() + check(&read(Format::Gemini, &text), |tool, _| allows(tools.as_deref(), tool))?);
    });
    assert!(allowed.get() > 500, "only {} tools were allowed by both", allowed.get());
}
