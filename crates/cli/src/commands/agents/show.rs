//! `bailiwick agents show`: one template, with where everything in it comes from.

use bailiwick_engine::context::Context;
use bailiwick_engine::templates;
use bailiwick_kit::templates::select::{SelectError, SetBy, Setting, effective, select};
use bailiwick_kit::templates::{FoundTemplate, Inherited, Overrides};
use bailiwick_model::nearest::nearest;
use clap::Args;
use serde_json::{Value, json};

use super::failure;
use crate::failure::Failure;
use crate::output::{self, BOLD, DIM, Format, FormatOption, styled};

/// Show one agent template: its prompt and its permissions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick agents show explorer\n  bailiwick agents show worker \
                        --persona runner"
)]
pub struct Show {
    /// The agent type; `-` and `_` are the same unless both exist
    name: String,
    /// Show what this persona gets
    #[arg(long)]
    persona: Option<String>,
    #[command(flatten)]
    format: FormatOption,
}

impl Show {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let found = templates::working(context)?.find(&self.name).map_err(failure)?;
        let persona = self.persona.as_deref();
        if let Some(name) = persona {
            select(found.template(), Some(name)).map_err(|error| unknown(&found, name, &error))?;
        }
        match self.format.format {
            Format::Json => output::json(&object(&found, persona)),
            Format::Human => {
                print(&found, persona);
                Ok(())
            }
        }
    }
}

fn unknown(found: &FoundTemplate, name: &str, error: &SelectError) -> Failure {
    let names: Vec<&str> =
        found.template().personas.iter().map(|persona| persona.name.as_str()).collect();
    let help = match (nearest(name, names.iter().copied()), names.is_empty()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, true) => "it has no personas".to_owned(),
        (None, false) => format!("it has {}", names.join(", ")),
    };
    Failure::usage(error.to_string()).help(help)
}

/// All of them, one below the other.
pub(super) fn all(templates: &[FoundTemplate]) {
    for (index, found) in templates.iter().enumerate() {
        if index > 0 {
            output::line("");
        }
        print(found, None);
    }
}

fn print(found: &FoundTemplate, persona: Option<&str>) {
    let template = found.template();
    let chosen = select(template, persona).ok();
    let persona = chosen.and_then(|chosen| chosen.persona);
    let title = match persona {
        Some(persona) => format!("{} as {}", template.agent_type, persona.name),
        None => template.agent_type.to_string(),
    };
    output::line(styled(BOLD, title));
    output::wrapped("  ", persona.map_or(&template.description, |persona| &persona.description));
    output::line("");
    output::line(format_args!("  from       {} ({})", found.source.file, found.origin));
    if !found.covers.is_empty() {
        let covers: Vec<String> = found.covers.iter().map(ToString::to_string).collect();
        output::line(format_args!("  instead of {}", covers.join(", ")));
    }
    let given = effective(Overrides::default(), persona, template, Inherited::default());
    output::line(format_args!("  model      {}", setting(given.model.as_ref())));
    output::line(format_args!("  effort     {}", setting(given.reasoning_effort.as_ref())));
    let may = if template.read_only { "read only" } else { "what its parent may" };
    output::line(format_args!("  may        {may}"));
    let list = |list: &Option<Vec<String>>, unset: &str| match list.as_deref() {
        None => unset.to_owned(),
        Some([]) => "none".to_owned(),
        Some(list) => list.join(", "),
    };
    output::wrapped("  tools      ", &list(&template.tools.allow_list, "all that its parent has"));
    if template.tools.deny_list.is_some() {
        output::wrapped("  never      ", &list(&template.tools.deny_list, "none"));
    }
    if let Some(role) = &template.role {
        output::line(format_args!("  role       {role}"));
    }
    if let Some(cli) = &template.cli {
        output::line(format_args!("  program    {cli}"));
    }
    if let Some(agents) = &template.allowed_subagents {
        let names: Vec<String> = agents.iter().map(ToString::to_string).collect();
        output::line(format_args!("  may start  {}", list(&Some(names), "none")));
    }
    if let Some(depth) = template.max_depth {
        output::line(format_args!("  levels     {depth} below it"));
    }
    for (index, persona) in template.personas.iter().enumerate() {
        let title = if index == 0 { "personas" } else { "" };
        output::wrapped(
            &format!("  {title:9}  "),
            &format!("{}: {}", persona.name, persona.description),
        );
    }
    output::line(format_args!("\n{}", styled(DIM, "What the agent is told:")));
    match chosen {
        Some(chosen) => output::line(chosen.prompt),
        None => output::line("It depends on the persona: add --persona."),
    }
}

fn setting(setting: Option<&Setting>) -> String {
    match setting {
        None => "that of who starts it".to_owned(),
        Some(Setting { value, set_by: SetBy::Persona }) => format!("{value} (of the persona)"),
        Some(Setting { value, set_by: SetBy::Template }) => value.clone(),
        Some(Setting { value, set_by }) => format!("{value} (of {})", set_by.as_str()),
    }
}

fn object(found: &FoundTemplate, persona: Option<&str>) -> Value {
    let template = found.template();
    let chosen = select(template, persona).ok();
    let name = chosen.and_then(|chosen| chosen.persona);
    let given = effective(Overrides::default(), name, template, Inherited::default());
    json!({
        "template": template,
        "origin": found.origin,
        "file": found.source.file.as_ref(),
        "covers": found.covers,
        "agent_name": name.map(|persona| &persona.name),
        "prompt": chosen.map(|chosen| chosen.prompt),
        "settings": given,
    })
}
