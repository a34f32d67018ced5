//! .NET projects: a solution or a project file.

use super::files::Directory;
use super::stack::Stack;
use super::tool::Tool;

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let endings = [".slnx", ".sln", ".csproj", ".fsproj", ".vbproj"];
    let file =
        endings.iter().find_map(|ending| directory.names().find(|name| name.ends_with(ending)))?;
    let mut stack = Stack::new(Tool::DotNet, directory.path(), file);
    stack.programs = vec!["dotnet"];
    stack.artefacts = &["bin", "obj"];
    stack.setup = vec!["dotnet restore".to_owned()];
    stack.commands =
        vec!["dotnet build --no-restore".to_owned(), "dotnet test --no-restore".to_owned()];
    Some(stack)
}
