//! `bailiwick roles`: the roles there are.

use bailiwick_engine::context::Context;
use bailiwick_engine::sources;
use bailiwick_kit::{Kit, ResolvedRole, resolve, role_matrix};
use bailiwick_model::{RoleName, Source};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{self, BOLD, Column, Format, FormatOption, styled};

/// Show roles
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bailiwick roles list")]
pub struct Roles {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List all roles
    #[command(after_help = "Example:\n  bailiwick roles list -o json")]
    List {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show one role with everything that it inherits
    #[command(after_help = "Example:\n  bailiwick roles show developer")]
    Show {
        /// The role
        name: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Print all roles as a Markdown page
    #[command(after_help = "Example:\n  bailiwick roles doc > docs/AGENT-ROLES.md")]
    Doc {
        #[command(flatten)]
        format: FormatOption,
    },
}

impl Roles {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let kit = sources::working_kit(context)?;
        match self.verb {
            Verb::List { format } => list(&kit, format.format),
            Verb::Show { name, format } => show(&kit, &name, format.format),
            Verb::Doc { format } => {
                let page = role_matrix::render(&kit)?;
                match format.format {
                    Format::Human => output::plain(&page),
                    Format::Json => output::json(&json!({ "markdown": page }))?,
                }
                Ok(())
            }
        }
    }
}

fn list(kit: &Kit, format: Format) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut objects = Vec::new();
    for name in kit.role_names()? {
        let Some(found) = kit.role(&name)? else { continue };
        let role = resolved(kit, &name)?;
        rows.push(vec![
            name.to_string(),
            role.capabilities.len().to_string(),
            if role.spawnable { "yes" } else { "no" }.to_owned(),
            found.origin.to_string(),
            role.description.clone(),
        ]);
        let mut object = object(&role);
        if let Value::Object(fields) = &mut object {
            fields.insert("origin".to_owned(), json!(found.origin));
            fields.insert("overrides".to_owned(), json!(kit.overridden_roles(&name)));
        }
        objects.push(object);
    }
    match format {
        Format::Json => output::json(&objects),
        Format::Human => {
            let columns = [
                Column::fixed("ROLE"),
                Column::number("LIMITS"),
                Column::fixed("SPAWNABLE"),
                Column::fixed("FROM"),
                Column::text("DESCRIPTION"),
            ];
            output::table(&columns, &rows);
            output::next_step("bailiwick roles show <role>");
            Ok(())
        }
    }
}

fn show(kit: &Kit, name: &str, format: Format) -> Result<(), Failure> {
    let unknown = || {
        let near = kit.nearest_role(name).map(|near| format!("did you mean `{near}`?"));
        Failure::usage(format!("there is no role `{name}`"))
            .maybe_help(near.or_else(|| Some("bailiwick roles list".to_owned())))
    };
    let name = RoleName::parse(name).map_err(|_| unknown())?;
    let Some(found) = kit.role(&name)? else { return Err(unknown()) };
    let role = resolved(kit, &name)?;
    output::problems(&role.warnings);
    if format == Format::Json {
        return output::json(&object(&role));
    }
    let none = |texts: &[String]| match texts {
        [] => "none".to_owned(),
        texts => texts.join(", "),
    };
    output::line(styled(BOLD, &role.name));
    output::wrapped("  ", &role.description);
    output::line("");
    output::line(format_args!("  from         {} ({})", found.source.file, found.origin));
    if let [_, parents @ ..] = role.chain.as_slice()
        && !parents.is_empty()
    {
        let parents: Vec<String> = parents.iter().map(ToString::to_string).collect();
        output::line(format_args!("  extends      {}", parents.join(" → ")));
    }
    output::line(format_args!("  spawnable    {}", if role.spawnable { "yes" } else { "no" }));
    output::line(format_args!("  tools        {}", none(&role.tools)));
    if !role.ask.is_empty() {
        output::line(format_args!("  must ask for {}", none(&role.ask)));
    }
    let shell = if role.bash_patterns.is_empty() && role.tools.iter().any(|tool| tool == "Bash") {
        "any command that no limit forbids".to_owned()
    } else {
        none(&role.bash_patterns)
    };
    output::line(format_args!("  shell        {shell}"));
    output::line(format_args!("  when stopped {}", role.escalation.as_str()));
    output::line("  limits");
    for capability in &role.capabilities {
        output::line(format_args!("    {capability}"));
    }
    Ok(())
}

fn resolved(kit: &Kit, name: &RoleName) -> Result<ResolvedRole, Failure> {
    Ok(resolve(kit, name, Source::new(name.to_string(), "").whole())?)
}

fn object(role: &ResolvedRole) -> Value {
    json!({
        "name": role.name,
        "display_name": role.display_name,
        "description": role.description,
        "spawnable": role.spawnable,
        "extends": role.chain.get(1),
        "capabilities": role.capabilities,
        "tools": role.tools,
        "ask": role.ask,
        "bash_patterns": role.bash_patterns,
        "escalation": role.escalation,
        "claude_subagent_type": role.claude_subagent_type,
        "isolation": role.isolation,
    })
}
