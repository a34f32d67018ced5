//! Rust projects: Cargo.toml.

use super::files::Directory;
use super::stack::{Note, Stack};
use super::tool::Tool;

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let file = "Cargo.toml";
    let text = directory.read(file).or_else(|| directory.has(file).then(String::new))?;
    let mut stack = Stack::new(Tool::Cargo, directory.path(), file);
    stack.programs = vec!["cargo"];
    stack.artefacts = &["target"];
    let manifest = toml::from_str::<toml::Table>(&text);
    let workspace = match &manifest {
        Ok(manifest) => manifest.contains_key("workspace"),
        Err(_) => {
            stack.notes.push(Note::Malformed { file: directory.join(file) });
            false
        }
    };
    let of = if workspace { " --workspace" } else { "" };
    stack.commands = vec![format!("cargo check{of} --all-targets"), format!("cargo test{of}")];
    Some(stack)
}
