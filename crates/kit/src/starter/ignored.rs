//! Whether the .gitignore files of a repository name what a tool creates.

use bailiwick_model::globs::Globs;

use super::files::Directory;
use super::stack::{Note, Stack};

/// Whether a .gitignore in this directory or above it names an entry of the directory.
pub(super) fn is_ignored(directory: Directory<'_>, name: &str) -> bool {
    let path = directory.join(name);
    directory.and_above().any(|above| {
        let text = above.read(".gitignore").unwrap_or_default();
        let lines = text.lines().map(str::trim_end);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
        let inside = path.strip_prefix(above.path()).unwrap_or(&path).trim_start_matches('/');
        Globs::parse(&lines.map(str::to_owned).collect::<Vec<_>>()).matches(inside, true)
    })
}

/// Adds a note for everything that the stack creates and that no .gitignore names.
pub(super) fn note_missing(directory: Directory<'_>, stack: &mut Stack) {
    if stack.setup.is_empty() && stack.commands.is_empty() {
        return;
    }
    for name in stack.artefacts {
        if !is_ignored(directory, name) {
            let path = directory.join(&name.replace("project.egg-info", "*.egg-info"));
            stack.notes.push(Note::NotIgnored { path });
        }
    }
}
