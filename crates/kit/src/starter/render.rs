//! Writes the files of the starting kit.

use toml_edit::Value;

use super::kit_texts::{
    CAPABILITY, CODE_BODY, EMPTY_BODY, NO_COMMANDS, PROSE_BODY, README, ROLE, TASK, TEXT,
};
use super::project::{Content, Project};
use super::tool::ANY_PUBLISH_PATTERN;
use crate::embedded;

/// The files of the starting kit: path under `.bailiwick/`, and text.
pub fn files(project: &Project) -> Vec<(String, String)> {
    let mut files = vec![
        ("README.md".to_owned(), README.to_owned()),
        ("roles/contributor.toml".to_owned(), ROLE.to_owned()),
        (
            "capabilities/policy/no-publish/capability.toml".to_owned(),
            CAPABILITY.replace("@PATTERNS@", &entries(&publish_patterns(project))),
        ),
        ("capabilities/policy/no-publish/text.md".to_owned(), TEXT.to_owned()),
        ("tasks/example.toml".to_owned(), example_task(project)),
    ];
    let examples = embedded::task_examples().into_iter();
    files.extend(examples.map(|(name, text)| (format!("tasks/agents/{name}"), text)));
    files
}

fn publish_patterns(project: &Project) -> Vec<String> {
    let mut patterns: Vec<String> = Vec::new();
    for stack in &project.stacks {
        let pattern = stack.tool.ecosystem().publish_pattern().to_owned();
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    if patterns.is_empty() { vec![ANY_PUBLISH_PATTERN.to_owned()] } else { patterns }
}

fn example_task(project: &Project) -> String {
    let stacks: Vec<String> = project.stacks.iter().map(ToString::to_string).collect();
    let stacks = match stacks.is_empty() {
        true => "a repository without a known build tool".to_owned(),
        false => stacks.join(", "),
    };
    let commands = match project.commands.is_empty() {
        true => NO_COMMANDS.to_owned(),
        false => list("commands", &project.commands),
    };
    let body = match project.content {
        Content::Code => CODE_BODY,
        Content::Prose => PROSE_BODY,
        Content::Nothing => EMPTY_BODY,
    };
    fill(TASK, |place| match place {
        "STACKS" => Some(one_line(&stacks)),
        "WHITELIST" => Some(entries(&project.whitelist)),
        "SETUP" => Some(list("setup", &project.setup)),
        "COMMANDS" => Some(commands.clone()),
        "BODY" => Some(body.to_owned()),
        _ => None,
    })
}

/// Replaces each `@PLACE@` once, without expanding the replacement again.
fn fill(template: &str, of: impl Fn(&str) -> Option<String>) -> String {
    let parts = template.split('@').enumerate();
    parts
        .map(|(number, part)| match number % 2 {
            0 => part.to_owned(),
            _ => of(part).unwrap_or_else(|| format!("@{part}@")),
        })
        .collect()
}

/// `key = [ … ]`, one entry in each line.
fn list(key: &str, values: &[String]) -> String {
    if values.is_empty() {
        format!("{key} = []")
    } else {
        format!("{key} = [\n{}]", entries(values))
    }
}

fn entries(values: &[String]) -> String {
    let quoted = values.iter().map(|value| Value::from(value.as_str()).to_string());
    quoted.map(|value| format!("  {value},\n")).collect()
}

/// A comment ends at its line.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
