//! Roles of Codex: `.codex/agents/**/*.toml`.
//!
//! Its rule: a role has the tools of its session; the file can switch some off, and shut the sandbox.

use bailiwick_model::template::{Template, ToolLists};
use bailiwick_model::{Problem, Source};

use super::fields::{Fields, LeftoverFields, UnknownKeys};
use super::node::Node;
use super::{Effect, Note, Options};
use crate::tool_table::Allowed;

/// A remark at the beginning of a file that we wrote: the tools, which Codex has no list for. It
/// only narrows, so it does not matter who wrote it.
pub(crate) const TOOLS_REMARK: &str = "# bailiwick tools:";

/// Tools that a feature switch disables.
const FEATURES: [(&str, &[&str]); 9] = [
    ("shell_tool", &["Bash", "Typing", "CodeMode"]),
    ("unified_exec", &["Typing"]),
    ("apply_patch_freeform", &["Edit", "Write"]),
    ("view_image_tool", &["Read"]),
    ("web_search", &["WebSearch"]),
    ("web_search_request", &["WebSearch"]),
    ("multi_agent", &["Agent", "AgentMessage"]),
    ("collab", &["Agent", "AgentMessage"]),
    ("skills", &["Skill"]),
];

pub(super) fn import(
    source: &Source,
    options: &Options,
) -> Result<(Template, Vec<Note>), Vec<Problem>> {
    let read = toml::from_str::<Node>(&source.text).map_err(|error| {
        let place = error.span().map_or_else(|| source.whole(), |span| source.at(span));
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        vec![Problem::error("bad-toml", place, message)]
    })?;
    let Node::Map(keys) = read else {
        return Err(vec![Problem::error("bad-toml", source.whole(), "it is not a table of keys")]);
    };
    let mut fields = Fields::new(source, keys, options);
    let template = template(&mut fields, source).map_err(|problem| vec![problem])?;
    let LeftoverFields { notes, metadata } = fields.finish(UnknownKeys::Refused)?;
    Ok((Template { metadata, ..template }, notes))
}

fn template(fields: &mut Fields<'_>, source: &Source) -> Result<Template, Problem> {
    let name = fields.required("name")?;
    let agent_type = fields.agent_type(&name)?;
    let description = fields.required("description")?;
    let default_prompt = fields.required("developer_instructions")?;
    let model = fields.text("model")?;
    let reasoning_effort = fields.text("model_reasoning_effort")?;
    let read_only = sandbox(fields)? | approvals(fields)?;
    let allow_list = remarked(source)?;
    let deny_list = switched_off(fields)?;
    fields.leave_out(
        Effect::LeftOut,
        &[
            ("nickname_candidates", "a template has personas, which have prompts of their own"),
            ("mcp_servers", "servers are set up for a run, not by a template"),
            ("model_reasoning_summary", "has no place in a template"),
            ("model_verbosity", "has no place in a template"),
            ("personality", "has no place in a template"),
            ("service_tier", "has no place in a template"),
            ("model_provider", "a run has its own way to the model"),
            ("sandbox_workspace_write", "the sandbox of a run comes from its role and task"),
            ("shell_environment_policy", "a run has an environment of its own"),
        ],
    );
    Ok(Template {
        agent_type,
        description,
        cli: model.as_ref().map(|_| "codex".to_owned()),
        model,
        reasoning_effort,
        read_only,
        tools: ToolLists { allow_list, deny_list },
        default_prompt,
        ..Template::plain()
    })
}

fn sandbox(fields: &mut Fields<'_>) -> Result<bool, Problem> {
    match fields.text("sandbox_mode")?.as_deref() {
        None => Ok(false),
        Some("read-only") => Ok(true),
        Some("workspace-write") => {
            let text = "what may be written is said by the role and the task";
            fields.note(Effect::LeftOut, "sandbox_mode", text);
            Ok(false)
        }
        Some("danger-full-access") => {
            let text = "`danger-full-access` is left out: no file lifts the limits of a run";
            fields.note(Effect::Narrowed, "sandbox_mode", text);
            Ok(false)
        }
        Some(mode) => Err(fields
            .bad("sandbox_mode", &format!("is `{mode}`, which is not known"))
            .help("known: read-only, workspace-write, danger-full-access")),
    }
}

/// A role that must ask for most commands is read-only here: a template cannot ask.
fn approvals(fields: &mut Fields<'_>) -> Result<bool, Problem> {
    match fields.text("approval_policy")?.as_deref() {
        None => Ok(false),
        Some("untrusted") => {
            let text = "it asks for every command that is not known to be safe: read-only here";
            fields.note(Effect::Narrowed, "approval_policy", text);
            Ok(true)
        }
        Some("on-request" | "on-failure" | "never") => {
            let text = "the role and the task say what is approved";
            fields.note(Effect::LeftOut, "approval_policy", text);
            Ok(false)
        }
        Some(policy) => {
            Err(fields.bad("approval_policy", &format!("is `{policy}`, which is not known")))
        }
    }
}

fn switched_off(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, Problem> {
    let mut denied = Allowed::default();
    match fields.take("features") {
        None => {}
        Some(Node::Map(features)) => {
            for (feature, value) in features {
                let known = FEATURES.iter().find(|(name, _)| *name == feature);
                match (value, known) {
                    (Node::Bool(false), Some((_, tools))) => {
                        tools.iter().for_each(|tool| denied.add(*tool));
                    }
                    (Node::Bool(true), _) => {
                        let text = format!("`{feature}` is not switched on by a template");
                        fields.note(Effect::LeftOut, "features", text);
                    }
                    (_, _) => {
                        let what = format!("has `{feature}`, and what that limits is not known");
                        return Err(fields
                            .bad("features", &what)
                            .help("deny the tools in a template of your own instead"));
                    }
                }
            }
        }
        Some(other) => return Err(fields.bad("features", &format!("is {}", other.kind()))),
    }
    match fields.take("web_search") {
        None => {}
        Some(Node::Text(mode)) if ["cached", "live", "indexed"].contains(&mode.as_str()) => {
            fields.note(Effect::LeftOut, "web_search", "a template gives no network");
        }
        Some(_) => denied.add("WebSearch"),
    }
    match fields.take("skills") {
        None => {}
        Some(_) => {
            denied.add("Skill");
            let text = "which skills are on or off has no place in a template: all are off";
            fields.note(Effect::Narrowed, "skills", text);
        }
    }
    Ok(Some(denied.0).filter(|list| !list.is_empty()))
}

/// The tools in the comment at the beginning, if it has one.
fn remarked(source: &Source) -> Result<Option<Vec<String>>, Problem> {
    let head = source.text.lines().take_while(|line| line.starts_with('#'));
    let lists: Vec<&str> = head.filter_map(|line| line.strip_prefix(TOOLS_REMARK)).collect();
    match lists.as_slice() {
        [] => Ok(None),
        [list] => {
            let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
            let mut allowed = Allowed::default();
            names.for_each(|name| allowed.add(name));
            Ok(Some(allowed.0))
        }
        [..] => {
            let message = format!("there are several lines `{TOOLS_REMARK}`");
            Err(Problem::error("bad-value", source.whole(), message).help("keep one of them"))
        }
    }
}
