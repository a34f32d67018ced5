//! The rules of Claude Code, with random files.

use std::cell::Cell;

use super::*;

/// The tools of Claude Code; a slash separates older names of the same tool.
const OFFERED: [&str; 30] = [
    "Bash",
    "TaskOutput/BashOutput",
    "TaskStop/KillShell/KillBash",
    "Read",
    "Glob",
    "Grep",
    "LSP",
    "Write",
    "Edit",
    "NotebookEdit",
    "WebFetch",
    "WebSearch",
    "Agent/Task",
    "SendMessage",
    "TodoWrite",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskUpdate",
    "ReportFindings",
    "AskUserQuestion",
    "ExitPlanMode",
    "Skill",
    "EnterWorktree",
    "CronCreate",
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
];
const ENTRIES: [&str; 26] = [
    "Bash",
    "Bash(git *)",
    "Bash(ls:*)",
    "BashOutput",
    "KillShell",
    "Read",
    "Read(src/**)",
    "Glob",
    "Grep",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "WebFetch",
    "Task",
    "Agent",
    "Agent(a, b)",
    "CronList",
    "CronCreate",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "Unheard",
    "mcp__gov",
    "mcp__gov__say",
    "mcp__git__*",
    "mcp__x__y_z",
];

fn name(entry: &str) -> &str {
    entry.split('(').next().unwrap_or(entry)
}

fn same(offered: &str, entry: &str) -> bool {
    offered.split('/').any(|name| name == entry)
}

fn names_server_tool(entry: &str, tool: &str) -> bool {
    let server = tool.rsplit_once("__").map_or(tool, |(server, _)| server);
    entry == tool || entry == server || entry == format!("{server}__*")
}

#[derive(Debug)]
struct Original {
    tools: Option<Vec<&'static str>>,
    disallowed: Vec<&'static str>,
    mode: Option<&'static str>,
}

impl Original {
    fn allows(&self, tool: &str, class: Class) -> bool {
        let writes = !matches!(self.mode, Some("plan" | "dontAsk"));
        if class == Class::Writes && !writes {
            return false;
        }
        if tool.starts_with("mcp__") {
            let listed = |list: &[&str]| list.iter().any(|entry| names_server_tool(entry, tool));
            return self.tools.as_ref().is_none_or(|list| listed(list))
                && !listed(&self.disallowed);
        }
        let offered: Vec<&str> = OFFERED
            .iter()
            .copied()
            .filter(|offered| offered.split('/').any(|name| in_vocabulary(name) == tool))
            .collect();
        let denied = |offered: &str| self.disallowed.iter().any(|entry| same(offered, name(entry)));
        let by_name = self.disallowed.iter().any(|entry| in_vocabulary(name(entry)) == tool);
        match &self.tools {
            None => !offered.iter().any(|offered| denied(offered)) && !by_name,
            // An entry that allows only some commands does not allow the tool.
            Some(list) => {
                let all = offered.iter().all(|offered| {
                    let agent = *offered == "Agent/Task";
                    let listed = list
                        .iter()
                        .any(|entry| same(offered, if agent { name(entry) } else { entry }));
                    listed && !denied(offered)
                });
                !offered.is_empty() && all
            }
        }
    }

    fn text(&self) -> String {
        let quoted = |list: &[&str]| {
            list.iter().map(|entry| format!("\"{entry}\"")).collect::<Vec<_>>().join(", ")
        };
        let mut head = String::new();
        if let Some(tools) = &self.tools {
            head += &match tools.len() % 2 {
                0 => format!("tools: [{}]\n", quoted(tools)),
                _ => format!("tools: \"{}\"\n", tools.join(", ")),
            };
        }
        if !self.disallowed.is_empty() {
            head += &format!("disallowedTools: [{}]\n", quoted(&self.disallowed));
        }
        if let Some(mode) = self.mode {
            head += &format!("permissionMode: {mode}\n");
        }
        format!("---\nname: a\ndescription: b\n{head}---\nDo.\n")
    }
}

fn original() -> impl Strategy<Value = Original> {
    let modes =
        [None, Some("plan"), Some("dontAsk"), Some("acceptEdits"), Some("bypassPermissions")];
    let tools = prop::option::weighted(0.8, subsequence(ENTRIES.to_vec(), 0..26));
    let disallowed = prop_oneof![
        Just(Vec::new()),
        subsequence(ENTRIES.to_vec(), 0..4),
        Just(vec!["mcp__gov__*"]),
    ];
    (tools, disallowed, select(modes.to_vec())).prop_map(|(tools, disallowed, mode)| Original {
        tools,
        disallowed,
        mode,
    })
}

#[test]
fn import_allows_no_more_than_the_claude_original() {
    let allowed = Cell::new(0);
    proptest!(|(original in original())| {
        allowed.set(allowed.get() + check(&read(Format::Claude, &original.text()), |tool, class| {
            original.allows(tool, class)
        })?);
    });
    assert!(allowed.get() > 500, "only {} tools were allowed by both", allowed.get());
}
