//! The page of commands is up to date; `UPDATE=1` writes it again.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::Arguments;

/// The width of the page of commands of `bailiwick`.
const PAGE_WIDTH: usize = 90;

fn section(page: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n")).unwrap();
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name());
        section(page, sub, &name);
    }
}

#[test]
fn the_page_of_commands_is_fresh() {
    let mut expected = String::from(
        "# Commands for Kubernetes\n\nGenerated from the commands themselves; do not edit.\n",
    );
    let mut root = Arguments::command().term_width(PAGE_WIDTH);
    root.build();
    section(&mut expected, &mut root, "bailiwick-kubernetes");
    let path = "docs/reference/commands-kubernetes.md";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var("UPDATE").is_ok_and(|update| update == "1") {
        std::fs::write(&file, &expected).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == expected, "{path} is stale: run the tests with UPDATE=1, and commit it");
}
