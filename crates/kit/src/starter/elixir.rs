//! Elixir projects: mix.exs.

use super::files::Directory;
use super::stack::Stack;
use super::tool::Tool;

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    if !directory.has("mix.exs") {
        return None;
    }
    let mut stack = Stack::new(Tool::Mix, directory.path(), "mix.exs");
    stack.programs = vec!["mix"];
    stack.artefacts = &["_build", "deps"];
    stack.setup = vec!["mix deps.get".to_owned()];
    stack.commands = vec!["mix test".to_owned()];
    Some(stack)
}
