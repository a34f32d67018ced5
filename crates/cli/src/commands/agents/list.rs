//! `bailiwick agents list`: every template there is, and every one that is broken.

use bailiwick_engine::context::Context;
use bailiwick_engine::templates;
use bailiwick_kit::lint::Report;
use bailiwick_kit::templates::list::{AgentsListed, Detail, listed};
use bailiwick_kit::templates::{FoundTemplate, TemplateError};
use bailiwick_model::Problem;
use bailiwick_source_control::DirectoryTree;
use clap::Args;

use super::show;
use crate::commands::lint;
use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// List the agent templates that apply here
///
/// Reads the working copy; an agent is started from what is committed. -o json prints the answer of
/// the tool list_agents.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick agents list\n  bailiwick agents list --expanded -o json"
)]
pub struct List {
    /// Also show models, efforts and prompts
    #[arg(long)]
    expanded: bool,
    #[command(flatten)]
    format: FormatOption,
}

impl List {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let survey = templates::working(context)?.inventory();
        let detail = if self.expanded { Detail::Expanded } else { Detail::Brief };
        let mut answer = AgentsListed { agents: Vec::new(), errors: Vec::new() };
        let (mut good, mut problems) = (Vec::new(), survey.strays);
        for (_, found) in survey.templates {
            match found.and_then(|found| Ok((listed(&found, detail)?, found))) {
                Ok((entry, found)) => {
                    answer.agents.push(entry);
                    good.push(found);
                }
                Err(error) => problems.extend(problems_of(error)),
            }
        }
        match self.format.format {
            Format::Json => output::json(&answer)?,
            Format::Human if self.expanded => show::all(&good),
            Format::Human => table(&good),
        }
        if problems.is_empty() {
            if self.format.format == Format::Human {
                if let Some(told) = importable(context)? {
                    output::note(told);
                }
                output::next_step("bailiwick agents show <agent>");
            }
            return Ok(());
        }
        Err(problems.into())
    }
}

/// That agent files of other programs can be imported here, if so.
fn importable(context: &Context) -> Result<Option<String>, Failure> {
    let Some(repository) = context.repository() else { return Ok(None) };
    let tree = DirectoryTree::new(repository.root());
    let found = Report::default().and_foreign(&tree, &templates::working(context)?);
    Ok(lint::importable(found.importable))
}

fn problems_of(error: TemplateError) -> Vec<Problem> {
    match error {
        TemplateError::Broken { problems, .. } => problems,
        // Nobody asked for a name here.
        TemplateError::Invalid(_) | TemplateError::Missing(_) | TemplateError::Ambiguous { .. } => {
            Vec::new()
        }
    }
}

fn table(templates: &[FoundTemplate]) {
    let rows: Vec<Vec<String>> = templates.iter().map(row).collect();
    let columns = [
        Column::fixed("AGENT"),
        Column::fixed("MAY"),
        Column::fixed("TOOLS"),
        Column::text("PERSONAS"),
        Column::fixed("FROM"),
        Column::text("DESCRIPTION"),
    ];
    output::table(&columns, &rows);
}

fn row(found: &FoundTemplate) -> Vec<String> {
    let template = found.template();
    let names: Vec<&str> = template.personas.iter().map(|persona| persona.name.as_str()).collect();
    let tools = match (&template.tools.allow_list, &template.tools.deny_list) {
        (Some(list), _) => list.len().to_string(),
        (None, Some(denied)) => format!("all but {}", denied.len()),
        (None, None) => "all".to_owned(),
    };
    vec![
        template.agent_type.to_string(),
        if template.read_only { "read" } else { "write" }.to_owned(),
        tools,
        if names.is_empty() { "-".to_owned() } else { names.join(",") },
        found.origin.to_string(),
        output::first_line(&template.description),
    ]
}
