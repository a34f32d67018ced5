//! Package managers: the manifests and lock files that they change, the directories that they make.

use super::super::How;
use super::super::field::Field;
use super::super::walk::Walker;

/// Whether the program is one of them.
pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) -> bool {
    let words: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let mut plain = words.iter().filter(|word| !word.starts_with(['-', '+']));
    let verb = plain.next().map(String::as_str).unwrap_or_default();
    let operand = plain.next();
    let has = |option: &str| words.iter().any(|word| word == option);
    if has("--help") || has("--dry-run") {
        return matches!(name, "cargo" | "npm" | "pnpm" | "yarn");
    }
    match name {
        "cargo" => {
            match verb {
                "add" | "remove" | "rm" => change(walker, &["Cargo.toml", "Cargo.lock"], name),
                "update" | "generate-lockfile" => change(walker, &["Cargo.lock"], name),
                "new" => {
                    let place = operand.map_or_else(Field::unknown, Field::text);
                    walker.wrote(place, How::Fill, name);
                }
                _ => {}
            }
            true
        }
        "npm" | "pnpm" | "yarn" => {
            let installs = matches!(verb, "install" | "i" | "add");
            let changes =
                matches!(verb, "uninstall" | "remove" | "rm" | "un" | "update" | "upgrade");
            if (installs && operand.is_some()) || changes || (name == "yarn" && verb == "add") {
                let lock = match name {
                    "npm" => "package-lock.json",
                    "pnpm" => "pnpm-lock.yaml",
                    _ => "yarn.lock",
                };
                if !has("-g") && !has("--global") {
                    change(walker, &["package.json", lock], name);
                }
            }
            true
        }
        _ => false,
    }
}

fn change(walker: &mut Walker, files: &[&str], by: &str) {
    for file in files {
        walker.wrote(Field::text(*file), How::Change, by);
    }
}
