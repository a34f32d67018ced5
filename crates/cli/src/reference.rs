//! Reference pages that are generated: the commands, and the schemas of the file formats.

use std::fmt::Write as _;

use bailiwick_model::{Capability, Role, Settings, Task};
use clap::{Command, CommandFactory as _};
use schemars::{JsonSchema, SchemaGenerator};

use crate::Bailiwick;

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

/// Every command with its help, as one page of Markdown.
pub fn commands() -> String {
    let mut page =
        String::from("# Commands\n\nGenerated from the commands themselves; do not edit.\n");
    let mut root = Bailiwick::command().term_width(90);
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
