//! `AGENTS.md`: plain text for all agents of a directory. It limits nothing and grants nothing.

use bailiwick_model::template::{AgentType, Template};
use bailiwick_model::{Problem, Source};

use super::Note;
use crate::tree::{Tree, TreeError};

/// The names in order of precedence.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The nearest file at or above a directory of a tree, which is named from the tree's root.
pub fn nearest(tree: &dyn Tree, directory: &str) -> Result<Option<Source>, TreeError> {
    let mut parts: Vec<&str> =
        directory.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    loop {
        for name in NAMES {
            let path: String = parts.iter().chain([&name]).copied().collect::<Vec<_>>().join("/");
            if let Some(text) = tree.read(&path)? {
                return Ok(Some(Source::new(path, text)));
            }
        }
        if parts.pop().is_none() {
            return Ok(None);
        }
    }
}

/// A template for agents of the directory: called as that, or `project` at the root.
pub(super) fn import(source: &Source) -> Result<(Template, Vec<Note>), Vec<Problem>> {
    let directory = source.file.rsplit_once('/').map_or("", |(directory, _)| directory);
    let name = directory.rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."));
    let agent_type = AgentType::parse(name.unwrap_or("project")).map_err(|error| {
        vec![
            Problem::error("bad-name", source.whole(), error.to_string())
                .help("the template is called as the directory: write it by hand"),
        ]
    })?;
    let template = Template {
        description: format!("Works by the instructions of {}.", source.file),
        agent_type,
        default_prompt: source.text.trim().to_owned(),
        ..Template::plain()
    };
    Ok((template, Vec::new()))
}
