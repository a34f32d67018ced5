//! Go projects: go.mod, or go.work for several modules.

use super::files::Directory;
use super::stack::{Stack, quote};
use super::tool::Tool;

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let evidence = directory.first_of(&["go.work", "go.mod"])?;
    let modules = match evidence {
        "go.work" => used(&directory.read("go.work").unwrap_or_default()),
        _ => Vec::new(),
    };
    let mut stack = Stack::new(Tool::Go, directory.path(), evidence);
    stack.programs = vec!["go"];
    stack.covers_below = evidence == "go.work";
    let vendored = directory.has("vendor/modules.txt");
    let sums = ["go.sum".to_owned(), "go.work.sum".to_owned()].into_iter();
    let mut sums = sums.chain(modules.iter().map(|module| format!("{module}/go.sum")));
    if !vendored && sums.any(|file| directory.has(file.trim_start_matches("./"))) {
        stack.setup.push("go mod download".to_owned());
    }
    let packages = match modules.is_empty() {
        true => "./...".to_owned(),
        false => modules.iter().map(|module| packages(module)).collect::<Vec<_>>().join(" "),
    };
    stack.commands = vec![format!("go vet {packages}"), format!("go test {packages}")];
    Some(stack)
}

/// All packages of one module of a workspace.
fn packages(module: &str) -> String {
    let module = module.trim_start_matches("./").trim_end_matches('/');
    if module.is_empty() || module == "." {
        "./...".to_owned()
    } else {
        quote(&format!("./{module}/..."))
    }
}

/// The directories that `use` names, in a line or in a block.
fn used(text: &str) -> Vec<String> {
    let mut used = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        match line.strip_prefix("use").map(str::trim) {
            Some("(") => in_block = true,
            Some(one) if line.starts_with("use ") => used.push(one.trim_matches('"').to_owned()),
            Some(_) | None if line == ")" => in_block = false,
            Some(_) | None if in_block && !line.is_empty() => {
                used.push(line.trim_matches('"').to_owned());
            }
            Some(_) | None => {}
        }
    }
    // A module outside of the repository cannot be reached from a worktree.
    used.retain(|module| !module.starts_with("..") && !module.starts_with('/'));
    used
}
