//! One vocabulary of tools: each CLI's names lead to it, so that one policy means the same in all.

use std::fmt;

/// The effect class of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Runs a shell command.
    Shell,
    /// Types into a program that is already running.
    TerminalInput,
    /// Inspects files.
    Reads,
    /// Creates or changes files.
    Writes,
    /// Only communicates: with the person, the model or the CLI itself.
    NoEffect,
    /// Something else, which a role has to allow by name.
    Other,
}

/// A tool of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// Its name here, which is Claude Code's where it has one.
    pub name: &'static str,
    /// Its effect.
    pub class: Class,
    /// The names in the CLIs.
    cli_names: &'static [&'static str],
}

/// Every tool that is known; any other is refused.
const TOOLS: [Tool; 48] = [
    tool(
        "Bash",
        Class::Shell,
        &["exec_command", "run_shell_command", "bash", "shell", "local_shell", "container.exec"],
    ),
    tool("Typing", Class::TerminalInput, &["write_stdin"]),
    tool("BashOutput", Class::Reads, &["read_background_output", "TaskOutput"]),
    tool("KillShell", Class::Other, &["KillBash", "TaskStop"]),
    tool("ListShells", Class::Reads, &["list_background_processes"]),
    tool("Read", Class::Reads, &["read_file", "read_many_files", "view_image", "read"]),
    tool("Glob", Class::Reads, &["glob", "list_directory", "LS", "ls", "list", "list_dir"]),
    tool("Grep", Class::Reads, &["grep_search", "search_file_content", "grep", "grep_files"]),
    tool("LSP", Class::Reads, &["lsp"]),
    tool("Write", Class::Writes, &["write_file", "write"]),
    tool(
        "Edit",
        Class::Writes,
        &["replace", "edit", "MultiEdit", "multiedit", "apply_patch", "patch"],
    ),
    tool("NotebookEdit", Class::Writes, &[]),
    tool("SaveMemory", Class::Other, &["save_memory"]),
    tool("WebFetch", Class::Other, &["web_fetch", "webfetch"]),
    tool("WebSearch", Class::Other, &["google_web_search", "websearch", "web_search"]),
    tool("CodeSearch", Class::Other, &["codesearch"]),
    tool(
        "Agent",
        Class::Other,
        &["Task", "task", "spawn_agent", "invoke_agent", "multi_agent_v1spawn_agent"],
    ),
    tool(
        "AgentMessage",
        Class::Other,
        &[
            "SendMessage",
            "send_input",
            "send_message",
            "followup_task",
            "resume_agent",
            "multi_agent_v1send_input",
            "multi_agent_v1resume_agent",
        ],
    ),
    tool("AgentWait", Class::NoEffect, &["wait_agent", "wait", "multi_agent_v1wait_agent"]),
    tool(
        "AgentClose",
        Class::NoEffect,
        &["close_agent", "interrupt_agent", "multi_agent_v1close_agent"],
    ),
    tool("AgentList", Class::NoEffect, &["list_agents", "list_active_agents"]),
    // Each file that it changes is decided as a write.
    tool("AgentMerge", Class::NoEffect, &["merge_agent"]),
    tool("AgentNote", Class::NoEffect, &["set_thread_note"]),
    tool("TodoWrite", Class::NoEffect, &["write_todos", "todowrite", "update_plan"]),
    tool("TodoRead", Class::NoEffect, &["todoread"]),
    tool("TaskCreate", Class::NoEffect, &[]),
    tool("TaskGet", Class::NoEffect, &[]),
    tool("TaskList", Class::NoEffect, &[]),
    tool("TaskUpdate", Class::NoEffect, &[]),
    tool("Topic", Class::NoEffect, &["update_topic"]),
    tool("CompleteTask", Class::NoEffect, &["complete_task"]),
    tool("StructuredOutput", Class::NoEffect, &[]),
    tool("ReportFindings", Class::NoEffect, &[]),
    tool("AskUserQuestion", Class::NoEffect, &["ask_user", "question", "request_user_input"]),
    tool("EnterPlanMode", Class::NoEffect, &["enter_plan_mode", "plan_enter"]),
    tool("ExitPlanMode", Class::NoEffect, &["exit_plan_mode", "plan_exit"]),
    tool("ToolSearch", Class::NoEffect, &["tool_search"]),
    tool("Goal", Class::NoEffect, &["create_goal", "get_goal", "update_goal"]),
    tool("Skill", Class::Other, &["activate_skill", "skill"]),
    tool("SlashCommand", Class::Other, &[]),
    tool("EnterWorktree", Class::Other, &[]),
    tool("ExitWorktree", Class::Other, &[]),
    tool("Cron", Class::Other, &["CronCreate", "CronDelete", "CronList", "ScheduleWakeup"]),
    tool("Workflow", Class::Other, &[]),
    tool("CodeMode", Class::Other, &["exec", "functions.exec"]),
    tool(
        "McpResource",
        Class::Reads,
        &["ListMcpResourcesTool", "ReadMcpResourceTool", "list_mcp_resources", "read_mcp_resource"],
    ),
    tool("Batch", Class::Other, &["batch"]),
    tool("GetInternalDocs", Class::NoEffect, &["get_internal_docs", "cli_help"]),
];

const fn tool(name: &'static str, class: Class, cli_names: &'static [&'static str]) -> Tool {
    Tool { name, class, cli_names }
}

impl Tool {
    /// The tool that a CLI calls so.
    pub fn named(native: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == native || tool.cli_names.contains(&native))
    }

    /// Every name that it has anywhere, its own first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        [self.name].into_iter().chain(self.cli_names.iter().copied())
    }

    /// Every tool.
    pub fn all() -> &'static [Self] {
        &TOOLS
    }
}

/// A tool's name in the vocabulary: one of [`Tool::all`], or `mcp__<server>__<tool>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolName(String);

impl ToolName {
    /// The name of a tool of the vocabulary.
    pub fn of(tool: &Tool) -> Self {
        Self(tool.name.to_owned())
    }

    /// The name of a tool of an MCP server.
    pub fn mcp(server: &str, tool: &str) -> Self {
        Self(format!("mcp__{server}__{tool}"))
    }

    /// A name that was stored with a decision.
    pub(crate) fn from_record(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its effect, if it is in the vocabulary.
    pub fn class(&self) -> Class {
        Tool::named(&self.0).map_or(Class::Other, |tool| tool.class)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A list entry as people write it, in the words of the vocabulary: `exec_command` is `Bash`.
pub fn in_vocabulary(written: &str) -> String {
    Tool::named(written).map_or_else(|| written.to_owned(), |tool| tool.name.to_owned())
}

/// Whether a glob of `*` and `?` matches a tool's name.
pub fn matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(actual) = name.get(seen) {
        match glob.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == actual => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                Some((back, from)) => {
                    star = Some((back, from + 1));
                    at = back + 1;
                    seen = from + 1;
                }
                None => return false,
            },
        }
    }
    glob.iter().skip(at).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_belongs_to_one_tool() {
        let mut names = std::collections::BTreeSet::new();
        for tool in Tool::all() {
            for name in tool.cli_names.iter().chain([&tool.name]) {
                assert!(names.insert(*name), "{name} is in the table twice");
                assert_eq!(Tool::named(name), Some(tool));
            }
        }
        assert_eq!(Tool::named("frobnicate"), None);
    }

    #[test]
    fn globs_match_as_expected() {
        for (glob, name, expected) in [
            ("*", "anything", true),
            ("mcp__*", "mcp__gov__say", true),
            ("mcp__gov__*", "mcp__other__say", false),
            ("mcp__?ov__say", "mcp__gov__say", true),
            ("Bash", "BashOutput", false),
            ("Bash*", "BashOutput", true),
            ("*say", "mcp__gov__say", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        }
    }
}
