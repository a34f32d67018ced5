//! Skills: `SKILL.md`, imported as the template of an agent that follows the skill.
//!
//! `allowed-tools` only suppresses questions to a person and is not a limit: it grants nothing here.

use bailiwick_model::template::{Template, ToolLists};
use bailiwick_model::{Problem, Source};

use super::fields::Fields;
use super::{Effect, Note, Options, claude, frontmatter};

pub(super) fn import(
    source: &Source,
    options: &Options,
) -> Result<(Template, Vec<Note>), Vec<Problem>> {
    frontmatter::import(source, options, template)
}

fn template(fields: &mut Fields<'_>, body: String) -> Result<Template, Problem> {
    let name = fields.name_or_file()?;
    let agent_type = fields.agent_type(&name)?;
    let mut description = fields.required("description")?;
    if let Some(when) = fields.text("when_to_use")? {
        description = format!("{description} {when}");
    }
    if fields.flag("disable-model-invocation")? == Some(true) {
        return Err(fields
            .bad("disable-model-invocation", "is true: only a person may start it")
            .help(
                "a template can be started by agents; import with --drop \
                 disable-model-invocation if they may",
            ));
    }
    let read_only = elsewhere(fields)?;
    let deny_list = claude::denied(fields, "disallowed-tools")?;
    let allow_list = listed_tools(fields)?;
    let model = fields.text("model")?.filter(|model| model != "inherit");
    let reasoning_effort = claude::effort(fields)?;
    for sign in ["$ARGUMENTS", "!`"] {
        if body.contains(sign) {
            let text = format!("`{sign}` in the text is not filled in");
            fields.note(Effect::LeftOut, "arguments", text);
        }
    }
    fields.leave_out(
        Effect::LeftOut,
        &[
            ("allowed-tools", "grants nothing: the role and the task say what is approved"),
            ("argument-hint", "an agent is given its task in words"),
            ("arguments", "an agent is given its task in words"),
            ("user-invocable", "who starts an agent is not up to its template"),
            ("background", "who starts an agent says whether it waits"),
            ("paths", "a template is started by name"),
            ("shell", "a template runs no programs of its own"),
            ("isolation", "every run has a worktree of its own"),
            ("compatibility", "says nothing about what the agent may do"),
        ],
    );
    claude::hooks(fields)?;
    Ok(Template {
        agent_type,
        description,
        cli: model.as_ref().map(|_| "claude-code".to_owned()),
        model,
        reasoning_effort,
        read_only,
        tools: ToolLists { allow_list, deny_list },
        default_prompt: body,
        ..Template::plain()
    })
}

/// Whether the agent in which a skill runs is read-only.
fn elsewhere(fields: &mut Fields<'_>) -> Result<bool, Problem> {
    let context = fields.text("context")?;
    match (context.as_deref(), fields.text("agent")?.as_deref()) {
        (None, None | Some(_)) => Ok(false),
        (Some("fork"), None | Some("general-purpose")) => Ok(false),
        (Some("fork"), Some("Explore" | "Plan")) => Ok(true),
        (Some("fork"), Some(agent)) => Err(fields
            .bad("agent", &format!("is `{agent}`, whose rights are said elsewhere"))
            .help("import that agent instead, and put the text of the skill into it")),
        (Some(_), _) => {
            fields.note(Effect::LeftOut, "context", "only `fork` means something to a program");
            Ok(false)
        }
    }
}

/// Programs that read skills ignore `tools`; its author meant it as a limit.
fn listed_tools(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, Problem> {
    let allow_list = claude::allowed(fields)?;
    if allow_list.is_some() {
        fields.note(Effect::Narrowed, "tools", "only the tools that it lists are allowed");
    }
    Ok(allow_list)
}
