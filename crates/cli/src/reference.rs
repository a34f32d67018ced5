//! Reference pages that are generated: the commands, and the schemas of the file formats.

use std::fmt::Write as _;

use bailiwick_model::{Capability, Role, Settings, Task};
use bailiwick_resources::{Author, Kind};
use clap::Command;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::commands::grouped_help::command_line;

/// The schema of each file format, by the name of its file under `docs/schema/v1/`.
pub fn schemas() -> Vec<(&'static str, String)> {
    vec![
        ("capability.schema.json", schema::<Capability>("capability.toml")),
        ("role.schema.json", schema::<Role>("role")),
        ("settings.schema.json", schema::<Settings>("settings.toml")),
        ("task.schema.json", schema::<Task>("task.toml")),
    ]
}

fn schema<T: JsonSchema>(name: &str) -> String {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("https://bailiwick.dev/schema/v1/{name}").into());
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// How wide help is on the page of commands.
const PAGE_WIDTH: usize = 90;

/// Every command with its help, as one page of Markdown.
pub fn commands() -> String {
    let mut page =
        String::from("# Commands\n\nGenerated from the commands themselves; do not edit.\n");
    let mut root = command_line(PAGE_WIDTH).term_width(PAGE_WIDTH);
    root.build();
    section(&mut page, &mut root, "bailiwick");
    page
}

fn section(page: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name());
        section(page, sub, &name);
    }
}

/// The description of the API.
pub fn openapi() -> String {
    let text = serde_json::to_string_pretty(&bailiwick_server::openapi()).unwrap_or_default();
    text + "\n"
}

/// The page of resources: every kind with its fields, from the types themselves.
pub fn resources() -> String {
    let mut page = String::from(
        "<!-- Generated; update it with UPDATE=1. -->\n# Resources\n\nEvery kind of \
         `bailiwick.dev/v1alpha1`. Unknown keys are errors. The schemas are in `docs/schema/fleet/`. \
         `bailiwick api-resources KIND.FIELD` lists the values of a field, and what each means.\n",
    );
    let schemas = bailiwick_server::schemas();
    for kind in Kind::ALL {
        let who = match kind.author() {
            Author::People => "Declared by people.",
            Author::ControlPlane => "Recorded by the control plane.",
        };
        let _ = write!(page, "\n## {kind}\n\n`bailiwick get {}`. {who}\n", kind.short());
        let Some(schema) = schemas.get(kind.as_str()) else { continue };
        for part in ["spec", "status"] {
            let fields = fields(schema, part);
            if !fields.is_empty() {
                let _ = write!(page, "\n| {part} | |\n|---|---|\n{fields}");
            }
        }
    }
    page
}

/// The fields of a part of a kind, as rows.
fn fields(schema: &Value, part: &str) -> String {
    let whole = resolved(schema, schema);
    let at = whole.pointer(&format!("/properties/{part}"));
    let Some(at) = at.map(|at| resolved(schema, at)) else { return String::new() };
    let required = at.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(properties) = at.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let mut rows = String::new();
    for (name, field) in properties {
        let words = field.get("description").or(resolved(schema, field).get("description"));
        let words = words.and_then(Value::as_str).unwrap_or_default();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let must = if required.iter().any(|one| one == name) { " (required)" } else { "" };
        let _ = writeln!(rows, "| `{name}`{must} | {words} |");
    }
    rows
}

fn resolved<'a>(schema: &'a Value, at: &'a Value) -> &'a Value {
    let reference = at.get("$ref").and_then(Value::as_str);
    let found = reference.and_then(|path| schema.pointer(path.trim_start_matches('#')));
    found.unwrap_or(at)
}
