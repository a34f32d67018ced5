//! Agents of OpenCode: `.opencode/agents/*.md` and `.opencode/agent/*.md`.
//!
//! Its rule: a list of rules in the order of the file, each for a permission and a pattern, and the
//! last that matches both wins; without one it allows. The older `tools` come before `permission`,
//! and where both name the same key, `permission` says what, at the place of `tools`. A sub-agent whose own
//! rules do not name `task` starts no others, whatever they say of `*`.

use bailiwick_model::template::{AgentType, Template, ToolLists};
use bailiwick_model::{Problem, Source};

use super::fields::Fields;
use super::node::Node;
use super::{Effect, Note, Options, frontmatter};
use crate::tool_table::{Allowed, Row, matches, row};

/// Our tools, each with the permissions that it needs.
pub(crate) static TOOLS: [Row; 16] = [
    row("Bash", &[&["bash"]]),
    row("Read", &[&["read"]]),
    row("Glob", &[&["glob"], &["list"]]),
    row("Grep", &[&["grep"]]),
    row("LSP", &[&["lsp"]]),
    row("Write", &[&["edit"]]),
    row("Edit", &[&["edit"]]),
    row("WebFetch", &[&["webfetch"]]),
    row("WebSearch", &[&["websearch"]]),
    row("CodeSearch", &[&["codesearch"]]),
    row("Agent", &[&["task"]]),
    row("TodoWrite", &[&["todowrite"]]),
    row("TodoRead", &[&["todoread"]]),
    row("AskUserQuestion", &[&["question"]]),
    row("ExitPlanMode", &[&["plan_exit"]]),
    row("Skill", &[&["skill"]]),
];

/// Our tools that start agents and send them messages.
const STARTING: [&str; 2] = ["Agent", "AgentMessage"];

/// Permissions that have no tool.
const NO_TOOLS: [&str; 2] = ["doom_loop", "external_directory"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Clone)]
struct Rule {
    permission: String,
    pattern: String,
    action: Action,
}

/// The decision of the rules on a permission, for every pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    Always,
    /// Not always, or never.
    No,
}

pub(super) fn import(
    source: &Source,
    options: &Options,
) -> Result<(Template, Vec<Note>), Vec<Problem>> {
    frontmatter::import(source, options, |fields, body| template(fields, source, body))
}

fn template(fields: &mut Fields<'_>, source: &Source, body: String) -> Result<Template, Problem> {
    if fields.flag("disable")? == Some(true) {
        return Err(fields.bad("disable", "is true: the agent is switched off"));
    }
    // A name in the file takes precedence over that of the file.
    let name = fields.text("name")?.unwrap_or_else(|| file_name(&source.file));
    let agent_type = fields.agent_type(&name)?;
    let description = fields.required("description")?;
    let model = fields.text("model")?;
    let reasoning_effort = fields.text("reasoningEffort")?;
    let default_prompt = match fields.text("prompt")? {
        Some(prompt) if body.is_empty() => prompt,
        Some(_) => {
            return Err(fields.bad("prompt", "and the text below say different things"));
        }
        None => body,
    };
    let rules = rules(fields)?;
    let (mut tools, mut allowed_subagents) = lists(fields, &rules);
    let mode = fields.text("mode")?;
    if mode.is_some() {
        let text = "who starts a template says whether it is the main agent";
        fields.note(Effect::LeftOut, "mode", text);
    }
    let starts = mode.as_deref() == Some("primary") || rules.iter().any(is_task);
    if !starts {
        tools.allow_list.iter_mut().for_each(|list| list.retain(|tool| tool != "Agent"));
        tools.deny_list = Some(STARTING.map(str::to_owned).to_vec());
        allowed_subagents = Some(Vec::new());
        if mode.as_deref() != Some("subagent") {
            let text = "it starts no others: a sub-agent gets `task` only if its own rules name it";
            fields.note(Effect::Narrowed, "permission", text);
        }
    }
    fields.leave_out(
        Effect::LeftOut,
        &[
            ("hidden", "a template is listed"),
            ("temperature", "has no place in a template"),
            ("top_p", "has no place in a template"),
            ("variant", "has no place in a template"),
            ("textVerbosity", "has no place in a template"),
            ("options", "has no place in a template"),
        ],
    );
    let max_turns = fields.turns(&["steps", "maxSteps"])?;
    Ok(Template {
        agent_type,
        description,
        cli: model.as_ref().map(|_| "opencode".to_owned()),
        model,
        reasoning_effort,
        tools,
        default_prompt,
        allowed_subagents,
        max_depth: (!starts).then_some(0),
        max_turns,
        ..Template::plain()
    })
}

/// The agent is called as its file, with the directories below `agents`.
fn file_name(file: &str) -> String {
    let stem = file.strip_suffix(".md").unwrap_or(file);
    let below = ["agents/", "agent/"].iter().find_map(|directory| {
        let marker = format!(".opencode/{directory}");
        stem.rsplit_once(marker.as_str()).map(|(_, name)| name)
    });
    let name = below.unwrap_or_else(|| stem.rsplit('/').next().unwrap_or(stem));
    name.replace('/', "-")
}

fn rules(fields: &mut Fields<'_>) -> Result<Vec<Rule>, Problem> {
    let mut keys: Vec<(String, Node)> = Vec::new();
    let mut set = |key: String, value: Node| match keys.iter_mut().find(|(name, _)| *name == key) {
        Some((_, old)) => *old = value,
        None => keys.push((key, value)),
    };
    match fields.limit("tools")? {
        None => {}
        Some(Node::Map(tools)) => {
            for (tool, on) in tools {
                let Node::Bool(on) = on else {
                    let what = format!("has `{tool}`, which is neither true nor false");
                    return Err(fields.bad("tools", &what));
                };
                let key = if is_edit(&tool) { "edit".to_owned() } else { tool };
                set(key, Node::Text(if on { "allow" } else { "deny" }.to_owned()));
            }
        }
        Some(other) => return Err(fields.bad("tools", &format!("is {}", other.kind()))),
    }
    let permission = match fields.limit("permission")? {
        // Not a word of the format, but clear: the default allows everything, so it only narrows.
        None => fields.limit("permissions")?,
        said => said,
    };
    match permission {
        None => {}
        Some(all @ Node::Text(_)) => set("*".to_owned(), all),
        Some(Node::Map(permissions)) => {
            for (key, value) in permissions {
                set(key, value);
            }
        }
        Some(other) => return Err(fields.bad("permission", &format!("is {}", other.kind()))),
    }
    let mut rules = Vec::new();
    for (key, value) in keys {
        let patterns = match value {
            Node::Map(patterns) => patterns,
            one
            @ (Node::Text(_) | Node::Null | Node::Bool(_) | Node::Number(_) | Node::List(_)) => {
                vec![("*".to_owned(), one)]
            }
        };
        for (pattern, value) in patterns {
            let action = action(fields, &key, &value)?;
            // A denial of `write` counts, although the program checks `edit` only.
            if is_edit(&key) && key != "edit" && action != Action::Allow {
                rules.push(Rule {
                    permission: "edit".to_owned(),
                    pattern: pattern.clone(),
                    action,
                });
            }
            rules.push(Rule { permission: key.clone(), pattern, action });
        }
    }
    Ok(rules)
}

fn is_edit(tool: &str) -> bool {
    ["write", "edit", "patch", "multiedit", "apply_patch"].contains(&tool)
}

fn action(fields: &Fields<'_>, key: &str, value: &Node) -> Result<Action, Problem> {
    match value {
        Node::Text(word) if word == "allow" => Ok(Action::Allow),
        Node::Text(word) if word == "ask" => Ok(Action::Ask),
        Node::Text(word) if word == "deny" => Ok(Action::Deny),
        Node::Text(_)
        | Node::Null
        | Node::Bool(_)
        | Node::Number(_)
        | Node::List(_)
        | Node::Map(_) => {
            let what = format!("has `{key}`, which is none of allow, ask and deny");
            Err(fields.bad("permission", &what))
        }
    }
}

fn lists(fields: &mut Fields<'_>, rules: &[Rule]) -> (ToolLists, Option<Vec<AgentType>>) {
    let mut allowed = Allowed::default();
    let mut subagents = None;
    for row in &TOOLS {
        let closed = row.natives().find(|permission| says(rules, permission) == Permission::No);
        let Some(permission) = closed else {
            allowed.add(row.here);
            continue;
        };
        if row.here == "Agent" {
            let named = named_agents(rules);
            if !named.is_empty() {
                allowed.add(row.here);
                subagents = Some(named);
                continue;
            }
        }
        if let Some(why) = half_open(rules, permission) {
            let text = format!("`{}` is dropped: {why}", row.here);
            fields.note(Effect::Narrowed, "permission", text);
        }
    }
    let servers = servers(rules);
    if servers == Permission::Always {
        allowed.add("mcp__*");
    } else if let Some(rule) = rules.iter().find(|rule| is_strange(rule)) {
        let text = format!("tools of servers are dropped: `{}` may be one", rule.permission);
        fields.note(Effect::Narrowed, "permission", text);
    }
    let restricted = rules.iter().any(|rule| rule.action != Action::Allow && !is_no_tool(rule));
    if let Some(rule) = rules.iter().find(|rule| is_no_tool(rule) && rule.action != Action::Ask) {
        let text =
            format!("`{}`: outside of its worktree a run sees the system only", rule.permission);
        fields.note(Effect::LeftOut, "permission", text);
    }
    // Among the tools of servers are those by which our own starts agents.
    let starts = allowed.0.iter().any(|name| name == "Agent");
    let deny_list = (restricted && servers == Permission::Always && !starts)
        .then(|| STARTING.map(str::to_owned).to_vec());
    let allow_list = restricted.then_some(allowed.0);
    (ToolLists { allow_list, deny_list }, subagents)
}

/// Whether a permission is granted for every pattern.
fn says(rules: &[Rule], permission: &str) -> Permission {
    for rule in rules.iter().rev().filter(|rule| matches(&rule.permission, permission)) {
        match (rule.action, is_all(&rule.pattern)) {
            (Action::Allow, true) => return Permission::Always,
            // The earlier rules decide what it does not match.
            (Action::Allow, false) => {}
            (Action::Ask | Action::Deny, _) => return Permission::No,
        }
    }
    Permission::Always
}

/// Why a permission that is not wholly closed is closed here.
fn half_open(rules: &[Rule], permission: &str) -> Option<String> {
    let last = rules.iter().rev().find(|rule| matches(&rule.permission, permission))?;
    match (last.action, is_all(&last.pattern)) {
        (Action::Deny, true) | (Action::Allow, true) => None,
        (Action::Ask, true) => {
            Some(format!("`{permission}` is asked for, and a template cannot ask"))
        }
        (Action::Allow | Action::Ask | Action::Deny, false) => {
            Some(format!("`{permission}` depends on patterns, which a template does not have"))
        }
    }
}

/// The agents that may be started, if most may not.
fn named_agents(rules: &[Rule]) -> Vec<AgentType> {
    let of_task = || rules.iter().filter(|rule| matches(&rule.permission, "task"));
    let mut named = Vec::new();
    for rule in of_task().filter(|rule| is_task(rule)) {
        let Ok(agent) = AgentType::parse(&rule.pattern) else { continue };
        let last = of_task().rev().find(|other| matches(&other.pattern, &rule.pattern));
        let allowed = last.is_some_and(|last| last.action == Action::Allow);
        if allowed && agent.as_str() == rule.pattern && !named.contains(&agent) {
            named.push(agent);
        }
    }
    named
}

/// Whether the tools of all servers are granted.
fn servers(rules: &[Rule]) -> Permission {
    for rule in rules.iter().rev() {
        match rule.action {
            Action::Allow if is_all(&rule.permission) && is_all(&rule.pattern) => {
                return Permission::Always;
            }
            Action::Allow => {}
            Action::Ask | Action::Deny if is_tool_of_ours(&rule.permission) || is_no_tool(rule) => {
            }
            Action::Ask | Action::Deny => return Permission::No,
        }
    }
    Permission::Always
}

/// A rule that denies something unknown.
fn is_strange(rule: &Rule) -> bool {
    let known = is_tool_of_ours(&rule.permission) || is_no_tool(rule);
    !known && !is_all(&rule.permission) && rule.action != Action::Allow
}

/// Whether a rule names the permission to start agents, and not only a glob that fits it.
fn is_task(rule: &Rule) -> bool {
    rule.permission == "task"
}

fn is_tool_of_ours(permission: &str) -> bool {
    is_edit(permission) || TOOLS.iter().any(|row| row.natives().any(|name| name == permission))
}

fn is_no_tool(rule: &Rule) -> bool {
    NO_TOOLS.contains(&rule.permission.as_str())
}

fn is_all(glob: &str) -> bool {
    !glob.is_empty() && glob.chars().all(|c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_has_the_name_of_its_file() {
        for (file, name) in [
            ("a/.opencode/agents/team/reviewer.md", "team-reviewer"),
            (".opencode/agent/reviewer.md", "reviewer"),
            ("some/where/reviewer.md", "reviewer"),
        ] {
            assert_eq!(file_name(file), name);
        }
    }
}
