//! Sub-agents of Claude Code: `.claude/agents/**/*.md`.
//!
//! Its rule: without `tools` all tools of the session; with it those that are named, but never those
//! of `disallowedTools`.

use bailiwick_model::template::{AgentType, Template, ToolLists};
use bailiwick_model::{Problem, Source};

use super::fields::Fields;
use super::node::Node;
use super::{Effect, Note, Options, frontmatter};
use crate::tool_table::{Allowed, Row, denied_with, known, row};

/// Its tools by name.
pub(crate) static TOOLS: [Row; 31] = [
    row("Bash", &[&["Bash"]]),
    row("BashOutput", &[&["TaskOutput", "BashOutput"]]),
    row("KillShell", &[&["TaskStop", "KillShell", "KillBash"]]),
    row("Read", &[&["Read"]]),
    row("Glob", &[&["Glob"]]),
    row("Grep", &[&["Grep"]]),
    row("LSP", &[&["LSP"]]),
    row("Write", &[&["Write"]]),
    row("Edit", &[&["Edit"]]),
    row("NotebookEdit", &[&["NotebookEdit"]]),
    row("WebFetch", &[&["WebFetch"]]),
    row("WebSearch", &[&["WebSearch"]]),
    row("Agent", &[&["Agent", "Task"]]),
    row("AgentMessage", &[&["SendMessage"]]),
    row("TodoWrite", &[&["TodoWrite"]]),
    row("TaskCreate", &[&["TaskCreate"]]),
    row("TaskGet", &[&["TaskGet"]]),
    row("TaskList", &[&["TaskList"]]),
    row("TaskUpdate", &[&["TaskUpdate"]]),
    row("StructuredOutput", &[&["StructuredOutput"]]),
    row("ReportFindings", &[&["ReportFindings"]]),
    row("AskUserQuestion", &[&["AskUserQuestion"]]),
    row("EnterPlanMode", &[&["EnterPlanMode"]]),
    row("ExitPlanMode", &[&["ExitPlanMode"]]),
    row("ToolSearch", &[&["ToolSearch"]]),
    row("Skill", &[&["Skill"]]),
    row("EnterWorktree", &[&["EnterWorktree"]]),
    row("ExitWorktree", &[&["ExitWorktree"]]),
    row("Cron", &[&["CronCreate"], &["CronDelete"], &["CronList"], &["ScheduleWakeup"]]),
    row("Workflow", &[&["Workflow"]]),
    row("McpResource", &[&["ListMcpResourcesTool"], &["ReadMcpResourceTool"]]),
];

/// How many levels of agents it permits below a sub-agent.
const DEPTH: u32 = 2;

/// The tools of a file.
#[derive(Debug, Default)]
struct Grant {
    lists: ToolLists,
    subagents: Option<Vec<AgentType>>,
    depth: Option<u32>,
}

pub(super) fn import(
    source: &Source,
    options: &Options,
) -> Result<(Template, Vec<Note>), Vec<Problem>> {
    frontmatter::import(source, options, template)
}

fn template(fields: &mut Fields<'_>, body: String) -> Result<Template, Problem> {
    let name = fields.name_or_file()?;
    let agent_type = fields.agent_type(&name)?;
    let description = fields.required("description")?;
    let grant = grant(fields)?;
    let model = fields.text("model")?.filter(|model| model != "inherit");
    let reasoning_effort = effort(fields)?;
    let read_only = read_only(fields)?;
    fields.leave_out(
        Effect::LeftOut,
        &[
            ("skills", "a template loads no skills by itself: name them in the prompt"),
            ("mcpServers", "servers are set up for a run, not by a template"),
            ("memory", "an agent keeps no memory between runs"),
            ("background", "who starts an agent says whether it waits"),
            ("isolation", "every run has a worktree of its own"),
            ("initialPrompt", "is for the main session only"),
        ],
    );
    hooks(fields)?;
    let max_turns = fields.turns(&["maxTurns"])?;
    Ok(Template {
        agent_type,
        description,
        cli: model.as_ref().map(|_| "claude-code".to_owned()),
        model,
        reasoning_effort,
        read_only,
        tools: grant.lists,
        default_prompt: body,
        allowed_subagents: grant.subagents,
        max_depth: grant.depth,
        max_turns,
        ..Template::plain()
    })
}

/// Hooks run programs, which a template does not. Those that can deny a call are limits.
pub(super) fn hooks(fields: &mut Fields<'_>) -> Result<(), Problem> {
    const DENYING: [&str; 2] = ["PreToolUse", "PermissionRequest"];
    let Some(hooks) = fields.take("hooks") else { return Ok(()) };
    let events = match &hooks {
        Node::Map(events) => events.as_slice(),
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) | Node::List(_) => &[],
    };
    let is_set = |value: &Node| *value != Node::Null && *value != Node::List(Vec::new());
    let denying =
        events.iter().find(|(event, value)| DENYING.contains(&event.as_str()) && is_set(value));
    if let Some((event, _)) = denying {
        return Err(fields.bad("hooks", &format!("has `{event}`, which can deny calls")).help(
            "a template runs no hooks: say the limit in `tools` or in a role, and import with \
             --drop hooks",
        ));
    }
    fields.note(Effect::LeftOut, "hooks", "a template runs no programs of its own");
    Ok(())
}

/// The effort, if it is a text.
pub(super) fn effort(fields: &mut Fields<'_>) -> Result<Option<String>, Problem> {
    match fields.take("effort") {
        None => Ok(None),
        Some(Node::Text(word)) => Ok(Some(word.trim().to_ascii_lowercase())),
        Some(Node::Number(_)) => {
            fields.note(Effect::LeftOut, "effort", "a template names its effort by a word");
            Ok(None)
        }
        Some(other) => Err(fields.bad("effort", &format!("is {}, not a word", other.kind()))),
    }
}

/// Modes in which it asks for each write, or refuses it, are read-only here: a template cannot ask.
fn read_only(fields: &mut Fields<'_>) -> Result<bool, Problem> {
    let Some(mode) = fields.text("permissionMode")? else { return Ok(false) };
    match mode.as_str() {
        "plan" => Ok(true),
        "dontAsk" => {
            let text = "it refuses every write that was not allowed before: read-only here";
            fields.note(Effect::Narrowed, "permissionMode", text);
            Ok(true)
        }
        "default" | "manual" | "acceptEdits" | "auto" => {
            let text = format!("`{mode}` is left out: the role and the task say what is approved");
            fields.note(Effect::LeftOut, "permissionMode", text);
            Ok(false)
        }
        "bypassPermissions" => {
            let text = "`bypassPermissions` is left out: no file lifts the limits of a run";
            fields.note(Effect::Narrowed, "permissionMode", text);
            Ok(false)
        }
        _ => {
            let modes = "default, acceptEdits, auto, dontAsk, plan, bypassPermissions";
            Err(fields
                .bad("permissionMode", &format!("is `{mode}`, which is not known"))
                .help(format!("known: {modes}")))
        }
    }
}

/// The tools that a list of `tools` allows; all of them without one.
pub(super) fn allowed(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, Problem> {
    Ok(grant_beside(fields, None)?.lists.allow_list)
}

fn grant(fields: &mut Fields<'_>) -> Result<Grant, Problem> {
    let deny_list = denied(fields, "disallowedTools")?;
    grant_beside(fields, deny_list)
}

fn grant_beside(fields: &mut Fields<'_>, deny_list: Option<Vec<String>>) -> Result<Grant, Problem> {
    let allow = entries(fields, "tools")?;
    let mut subagents: Option<Vec<AgentType>> = None;
    let allow_list = match allow {
        None => None,
        Some(entries) => {
            let all = entries.iter().any(|entry| entry == "*");
            let (mut natives, mut servers) = (Vec::new(), Vec::new());
            for entry in entries.iter().filter(|entry| *entry != "*") {
                if let Some((_, named)) = parameters(entry).filter(|(name, _)| is_agent(name)) {
                    subagents.get_or_insert_default().extend(agents(fields, named)?);
                    natives.push("Agent".to_owned());
                } else if let Some(glob) = of_server(entry) {
                    servers.push(glob);
                } else if known(&TOOLS, entry).is_some() {
                    natives.push(entry.clone());
                } else if !all {
                    fields.note(Effect::Narrowed, "tools", dropped(entry));
                }
            }
            if all {
                None
            } else {
                let mut allowed = grant_all_of(fields, &natives);
                servers.into_iter().for_each(|glob| allowed.add(glob));
                Some(allowed.0)
            }
        }
    };
    let denies =
        |name: &str| deny_list.iter().flatten().any(|denied| denied == name || denied == "*");
    let spawns = !denies("Agent")
        && allow_list.as_ref().is_none_or(|list| list.iter().any(|name| name == "Agent"));
    Ok(Grant {
        lists: ToolLists { allow_list, deny_list },
        subagents: subagents.filter(|_| spawns),
        depth: spawns.then_some(DEPTH),
    })
}

/// Our names of these tools; tools that cover more than is allowed are noted.
fn grant_all_of(fields: &mut Fields<'_>, natives: &[String]) -> Allowed {
    let (mut allowed, mut told) = (Allowed::default(), Vec::new());
    for row in natives.iter().filter_map(|native| known(&TOOLS, native)) {
        match row.missing(natives) {
            None => allowed.add(row.here),
            Some(missing) if !told.contains(&row.here) => {
                told.push(row.here);
                let text = format!("`{}` is dropped: it stands for `{missing}` as well", row.here);
                fields.note(Effect::Narrowed, "tools", text);
            }
            Some(_) => {}
        }
    }
    allowed
}

fn dropped(entry: &str) -> String {
    match parameters(entry) {
        Some((name, _)) if known(&TOOLS, name).is_some() => format!(
            "`{entry}` is dropped: a template allows `{name}` or does not; a role can limit its \
             commands"
        ),
        Some(_) | None => format!("`{entry}` is dropped: no tool of that name is known"),
    }
}

/// The denied tools: those of a pattern completely, and unknown ones as written.
pub(super) fn denied(fields: &mut Fields<'_>, key: &str) -> Result<Option<Vec<String>>, Problem> {
    let Some(entries) = entries(fields, key)? else { return Ok(None) };
    let mut denied = Allowed::default();
    for entry in &entries {
        let name = match parameters(entry) {
            Some((name, _)) => {
                let text = format!("`{entry}` denies all of `{name}` here");
                fields.note(Effect::Narrowed, key, text);
                name
            }
            None => entry.as_str(),
        };
        match (of_server(name), known(&TOOLS, name)) {
            (Some(glob), _) => denied.add(glob),
            (None, Some(row)) => {
                denied.add(row.here);
                denied_with(row.here).iter().for_each(|kin| denied.add(*kin));
            }
            (None, None) => denied.add(name),
        }
    }
    Ok(Some(denied.0).filter(|list| !list.is_empty()))
}

/// The entries of a list: commas and blanks part them, but not inside of parentheses.
fn entries(fields: &mut Fields<'_>, key: &str) -> Result<Option<Vec<String>>, Problem> {
    let texts = match fields.take_raw(key) {
        None => return Ok(None),
        Some(Node::Null) => Vec::new(),
        Some(Node::Text(text)) => vec![text],
        Some(Node::List(nodes)) => {
            let text = |node: Node| {
                node.into_text().map_err(|kind| fields.bad(key, &format!("has {kind} in its list")))
            };
            nodes.into_iter().map(text).collect::<Result<_, _>>()?
        }
        Some(other) => {
            return Err(fields.bad(key, &format!("is {}, not a list of tools", other.kind())));
        }
    };
    Ok(Some(texts.iter().flat_map(|text| parted(text)).collect()))
}

fn parted(text: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut inside = false;
    for character in text.chars() {
        match character {
            '(' => inside = true,
            ')' => inside = false,
            _ => {}
        }
        let parts = !inside && (character == ',' || character.is_whitespace());
        match entries.last_mut() {
            Some(last) if !parts => last.push(character),
            Some(_) | None => entries.push(String::new()),
        }
    }
    entries.retain(|entry| !entry.is_empty());
    entries
}

/// `Name(…)`
fn parameters(entry: &str) -> Option<(&str, &str)> {
    entry.strip_suffix(')')?.split_once('(')
}

fn is_agent(name: &str) -> bool {
    known(&TOOLS, name).is_some_and(|row| row.here == "Agent")
}

fn agents(fields: &Fields<'_>, named: &str) -> Result<Vec<AgentType>, Problem> {
    let names = named.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            AgentType::parse(name)
                .map_err(|error| fields.bad("tools", &format!("names an agent badly: {error}")))
        })
        .collect()
}

/// Tools of an MCP server: all of them, or one.
fn of_server(entry: &str) -> Option<String> {
    let rest = entry.strip_prefix("mcp__")?;
    let plain = |text: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        !text.is_empty() && text.chars().all(fits)
    };
    match rest.split_once("__") {
        None if plain(rest) => Some(format!("mcp__{rest}__*")),
        Some((server, "*")) if plain(server) => Some(format!("mcp__{server}__*")),
        Some((server, tool)) if plain(server) && plain(tool) => Some(entry.to_owned()),
        None | Some(_) => None,
    }
}
