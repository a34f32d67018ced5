//! `bailiwick api-resources`: the kinds, and the fields of each.

mod schema;

use bailiwick_resources::{Author, Kind};
use clap::Args;
use serde_json::json;

use self::schema::FieldDescription;
use super::named::kind;
use crate::failure::Failure;
use crate::output::{self, BOLD, Column, Format, FormatOption, styled};

/// List the kinds of resources, or describe the fields of one
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick api-resources\n  bailiwick api-resources stack.spec\n  \
                  bailiwick api-resources stack.spec.writeBackPolicy"
)]
pub struct ApiResources {
    /// KIND, or KIND.FIELD as stack.spec.scope
    #[arg(value_name = "KIND[.FIELD]")]
    field: Option<String>,
    #[command(flatten)]
    format: FormatOption,
}

impl ApiResources {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match &self.field {
            None => list(self.format.format),
            Some(path) => describe(path, self.format.format),
        }
    }
}

fn list(format: Format) -> Result<(), Failure> {
    let author = |kind: Kind| match kind.author() {
        Author::People => "people",
        Author::ControlPlane => "control plane",
    };
    if format == Format::Json {
        let all: Vec<_> = Kind::ALL
            .iter()
            .map(|kind| {
                json!({
                    "kind": kind, "plural": kind.plural(), "short": kind.short(),
                    "writtenBy": author(*kind),
                })
            })
            .collect();
        return output::json(&all);
    }
    let rows: Vec<Vec<String>> = Kind::ALL
        .iter()
        .map(|kind| {
            [kind.plural(), kind.short(), kind.as_str(), author(*kind)].map(str::to_owned).to_vec()
        })
        .collect();
    let columns = [
        Column::fixed("NAME"),
        Column::fixed("SHORT"),
        Column::fixed("KIND"),
        Column::fixed("WRITTEN BY"),
    ];
    output::table(&columns, &rows);
    Ok(())
}

fn describe(path: &str, format: Format) -> Result<(), Failure> {
    let mut parts = path.split('.');
    let kind = kind(parts.next().unwrap_or_default())?;
    let parts: Vec<&str> = parts.collect();
    let schemas = bailiwick_server::schemas();
    let root = schemas.get(kind.as_str());
    let root = root.ok_or_else(|| Failure::general(format!("{kind} has no schema")))?;
    let found = schema::find(root, &parts).map_err(|missing| {
        let place: Vec<&str> = [kind.as_str()].into_iter().chain(missing.parents).collect();
        let message = format!("{} has no field `{}`", place.join("."), missing.name);
        let help = (!missing.known.is_empty())
            .then(|| format!("its fields are {}", missing.known.join(", ")));
        Failure::usage(message).maybe_help(help)
    })?;
    if format == Format::Json {
        return output::json(&found);
    }
    let place: Vec<&str> = [kind.as_str()].into_iter().chain(parts).collect();
    output::line(format_args!("{}  {}", styled(BOLD, place.join(".")), found.kind));
    paragraph("  ", &found.description);
    for value in &found.values {
        output::line(format_args!("  {}", value.name));
        paragraph("      ", &value.description);
    }
    if !found.fields.is_empty() {
        output::line("fields");
    }
    found.fields.iter().for_each(show_field);
    Ok(())
}

fn show_field(field: &FieldDescription) {
    let required = if field.required { " (required)" } else { "" };
    output::line(format_args!("  {}  {}{required}", field.name, field.kind));
    paragraph("      ", &field.description);
}

fn paragraph(indent: &str, text: &str) {
    if !text.is_empty() {
        output::wrapped_behind(indent, indent, text);
    }
}
