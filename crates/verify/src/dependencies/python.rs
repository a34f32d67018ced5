//! pyproject.toml, Pipfile and Python lock files in TOML or JSON.

use serde_json::Value;

use super::data::{at, canonical, json, list, object, specification, text, toml, versioned};
use super::requirements::add;
use super::{Dependencies, ManifestError};

/// Package managers; their settings of package sources count too.
const PACKAGE_MANAGERS: [&str; 6] = ["poetry", "uv", "pdm", "hatch", "rye", "pixi"];
const SOURCE_KEYS: [&str; 9] = [
    "source",
    "sources",
    "index",
    "indexes",
    "overrides",
    "constraints",
    "resolution",
    "find-links",
    "exclude-newer",
];

pub(super) fn project(source: &str) -> Result<Dependencies, ManifestError> {
    let root = toml(source)?;
    let mut found = Dependencies::default();
    requirements(at(&root, &["project", "dependencies"]), "dependencies.", &mut found);
    requirements(at(&root, &["build-system", "requires"]), "build-system.", &mut found);
    for keys in [&["project", "optional-dependencies"][..], &["dependency-groups"]] {
        for (group, entries) in at(&root, keys).into_iter().flat_map(object) {
            requirements(Some(entries), &format!("{}.{group}.", keys.join(".")), &mut found);
        }
    }
    for (tool, tree) in root.get("tool").into_iter().flat_map(object) {
        tool_dependencies(
            tree,
            &format!("tool.{tool}"),
            PACKAGE_MANAGERS.contains(&tool.as_str()),
            &mut found,
        );
    }
    Ok(found)
}

fn requirements(entries: Option<&Value>, prefix: &str, found: &mut Dependencies) {
    match entries {
        None => {}
        Some(Value::Array(entries)) => {
            for entry in entries {
                match entry.as_str() {
                    Some(requirement) => add(requirement, prefix, found),
                    None => found.add(prefix.trim_end_matches('.'), canonical(entry)),
                }
            }
        }
        Some(other) => found.add(prefix.trim_end_matches('.'), canonical(other)),
    }
}

/// Adds all dependencies in the table of a tool, at any depth.
fn tool_dependencies(tree: &Value, path: &str, manager: bool, found: &mut Dependencies) {
    for (key, value) in object(tree) {
        let here = format!("{path}.{key}");
        let names = key.ends_with("dependencies") || key == "requires";
        if names && value.is_array() {
            requirements(Some(value), &format!("{here}."), found);
        } else if names && value.is_object() {
            for (name, value) in object(value) {
                // Either a group of requirements or one dependency.
                match value.is_array() {
                    true => requirements(Some(value), &format!("{here}.{name}."), found),
                    false => found.add(format!("{here}.{name}"), specification(value)),
                }
            }
        } else if manager && SOURCE_KEYS.contains(&key.as_str()) {
            found.add(here, canonical(value));
        } else {
            tool_dependencies(value, &here, manager, found);
        }
    }
}

/// poetry.lock, uv.lock and pdm.lock: every package except the project itself.
pub(super) fn lock(source: &str) -> Result<Dependencies, ManifestError> {
    let root = toml(source)?;
    let mut found = Dependencies::default();
    for package in list(root.get("package")) {
        let local = |key| at(package, &["source", key]).is_some();
        if !local("editable") && !local("virtual") {
            found.add(text(package, "name").unwrap_or_default(), versioned(package));
        }
    }
    for (name, files) in at(&root, &["metadata", "files"]).into_iter().flat_map(object) {
        found.add(format!("files of {name}"), canonical(files));
    }
    Ok(found)
}

pub(super) fn pipfile(source: &str) -> Result<Dependencies, ManifestError> {
    let root = toml(source)?;
    let mut found = Dependencies::default();
    for (table, value) in object(&root) {
        match table.as_str() {
            "scripts" | "pipenv" | "requires" => {}
            "source" => found.add("source", canonical(value)),
            _ => {
                for (name, value) in object(value) {
                    found.add(format!("{table}.{name}"), specification(value));
                }
            }
        }
    }
    Ok(found)
}

pub(super) fn pipfile_lock(source: &str) -> Result<Dependencies, ManifestError> {
    let root = json(source)?;
    let mut found = Dependencies::default();
    for (table, value) in object(&root) {
        if table == "_meta" {
            found.add("sources", canonical(value.get("sources").unwrap_or(&Value::Null)));
            continue;
        }
        for (name, entry) in object(value) {
            found.add(format!("{table}.{name}"), versioned(entry));
        }
    }
    Ok(found)
}
