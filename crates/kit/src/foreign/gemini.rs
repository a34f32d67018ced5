//! Sub-agents of Gemini CLI: `.gemini/agents/*.md`.
//!
//! Without `tools`, an agent has all tools of the session; with it, those that are named, where `*`, `mcp_*` and
//! `mcp_<server>_*` name several. A sub-agent cannot start others, no matter what the file says. Without limits on
//! turns and minutes in the file, the defaults apply.

use bailiwick_model::template::{Template, ToolLists};
use bailiwick_model::{Problem, Source};

use super::fields::Fields;
use super::node::Node;
use super::{Effect, Note, Options, frontmatter};
use crate::tool_table::{Allowed, Row, known, row};

/// Its tools by name, but those for agents.
pub(crate) static TOOLS: [Row; 15] = [
    row("Bash", &[&["run_shell_command"]]),
    row("Read", &[&["read_file"]]),
    row("Glob", &[&["glob"], &["list_directory"]]),
    row("Grep", &[&["grep_search", "search_file_content"]]),
    row("Write", &[&["write_file"]]),
    row("Edit", &[&["replace"]]),
    row("WebFetch", &[&["web_fetch"]]),
    row("WebSearch", &[&["google_web_search"]]),
    row("TodoWrite", &[&["write_todos"]]),
    row("CompleteTask", &[&["complete_task"]]),
    row("AskUserQuestion", &[&["ask_user"]]),
    row("EnterPlanMode", &[&["enter_plan_mode"]]),
    row("ExitPlanMode", &[&["exit_plan_mode"]]),
    row("Skill", &[&["activate_skill"]]),
    row("McpResource", &[&["list_mcp_resources"], &["read_mcp_resource"]]),
];

/// The default turns and minutes of a sub-agent.
const TURNS: u64 = 30;
const MINUTES: u64 = 10;

pub(super) fn import(
    source: &Source,
    options: &Options,
) -> Result<(Template, Vec<Note>), Vec<Problem>> {
    frontmatter::import(source, options, template)
}

fn template(fields: &mut Fields<'_>, body: String) -> Result<Template, Problem> {
    if let Some(kind) = fields.text("kind")?.filter(|kind| kind != "local") {
        let message =
            format!("is `{kind}`: limits cannot be enforced on an agent that runs elsewhere");
        return Err(fields.bad("kind", &message).help("only local agents can be imported"));
    }
    let name = fields.required("name")?;
    let agent_type = fields.agent_type(&name)?;
    let description = fields.required("description")?;
    let model = fields.text("model")?.filter(|model| model != "inherit");
    let allow_list = allowed(fields)?;
    let max_turns = fields.turns(&["max_turns"])?;
    let max_turns = max_turns.unwrap_or_else(|| usual(fields, "max_turns", TURNS));
    let max_minutes = fields.minutes(&["timeout_mins"])?;
    let max_minutes = max_minutes.unwrap_or_else(|| usual(fields, "timeout_mins", MINUTES));
    fields.leave_out(
        Effect::LeftOut,
        &[
            ("display_name", "an agent is called by its type"),
            ("mcp_servers", "servers are set up for a run, not by a template"),
            ("mcpServers", "servers are set up for a run, not by a template"),
            ("temperature", "has no place in a template"),
        ],
    );
    Ok(Template {
        agent_type,
        description,
        cli: model.as_ref().map(|_| "gemini".to_owned()),
        model,
        tools: ToolLists {
            allow_list,
            deny_list: Some(["Agent", "AgentMessage"].map(str::to_owned).to_vec()),
        },
        default_prompt: body,
        allowed_subagents: Some(Vec::new()),
        max_depth: Some(0),
        max_turns: Some(max_turns),
        max_minutes: Some(max_minutes),
        ..Template::plain()
    })
}

/// The default limit.
fn usual(fields: &mut Fields<'_>, key: &str, most: u64) -> u64 {
    let text = format!("is {most}, as in Gemini CLI where the file does not say it");
    fields.note(Effect::Narrowed, key, text);
    most
}

fn allowed(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, Problem> {
    let nodes = match fields.limit("tools")? {
        None => return Ok(None),
        Some(Node::List(nodes)) => nodes,
        Some(other) => {
            let what = format!("is {}, not a list of tools", other.kind());
            return Err(fields.bad("tools", &what));
        }
    };
    let mut natives = Vec::new();
    for node in nodes {
        let text = node.into_text();
        natives.push(text.map_err(|kind| fields.bad("tools", &format!("has {kind} in it")))?);
    }
    if natives.iter().any(|name| name == "*") {
        return Ok(None);
    }
    let mut allowed = Allowed::default();
    for native in &natives {
        let text = match (of_server(native), known(&TOOLS, native)) {
            (Some(glob), _) => {
                allowed.add(glob);
                continue;
            }
            (None, Some(row)) => match row.missing(&natives) {
                None => {
                    allowed.add(row.here);
                    continue;
                }
                Some(missing) => {
                    format!("`{native}` is dropped: `{}` stands for `{missing}` as well", row.here)
                }
            },
            (None, None) if native == "invoke_agent" || native == "update_topic" => {
                format!("`{native}` is dropped: a sub-agent does not get it in Gemini CLI either")
            }
            (None, None) => format!("`{native}` is dropped: no tool of that name is known"),
        };
        fields.note(Effect::Narrowed, "tools", text);
    }
    Ok(Some(allowed.0))
}

/// `mcp_*`, `mcp_<server>_*`, `mcp_<server>_<tool>`; a server's name holds no underscore.
fn of_server(name: &str) -> Option<String> {
    let rest = name.strip_prefix("mcp_")?;
    if rest == "*" {
        return Some("mcp__*".to_owned());
    }
    let plain = |text: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        !text.is_empty() && text.chars().all(fits)
    };
    let (server, tool) = rest.split_once('_')?;
    (plain(server) && (tool == "*" || plain(tool))).then(|| format!("mcp__{server}__{tool}"))
}
