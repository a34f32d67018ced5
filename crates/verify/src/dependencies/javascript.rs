//! package.json, npm's lock files and deno.json.

use serde_json::Value;

use super::data::{at, canonical, json, object, plain, text, versioned};
use super::{Dependencies, ManifestError};

/// Keys of package.json whose entries are dependencies or overrides of dependencies.
const TABLES: [&str; 9] = [
    "dependencies",
    "devDependencies",
    "peerDependencies",
    "optionalDependencies",
    "overrides",
    "resolutions",
    "peerDependenciesMeta",
    "dependenciesMeta",
    "pnpm",
];

pub(super) fn package(source: &str) -> Result<Dependencies, ManifestError> {
    let root = table(json(source)?)?;
    let mut found = Dependencies::default();
    for key in TABLES {
        for (name, value) in root.get(key).into_iter().flat_map(object) {
            found.add(format!("{key}.{name}"), plain(value));
        }
    }
    for key in ["bundledDependencies", "bundleDependencies"] {
        match root.get(key) {
            None => {}
            Some(Value::Array(names)) => {
                names.iter().for_each(|name| found.add("bundledDependencies", canonical(name)));
            }
            Some(value) => found.add("bundledDependencies", canonical(value)),
        }
    }
    for keys in [&["packageManager"][..], &["workspaces", "catalog"], &["workspaces", "catalogs"]] {
        if let Some(value) = at(&root, keys) {
            found.add(keys.join("."), plain(value));
        }
    }
    Ok(found)
}

/// Every entry except the root and the workspace packages, which are outside of node_modules.
pub(super) fn lock(source: &str) -> Result<Dependencies, ManifestError> {
    let root = table(json(source)?)?;
    let mut found = Dependencies::default();
    for (path, entry) in root.get("packages").into_iter().flat_map(object) {
        let linked = entry.get("link").and_then(Value::as_bool) == Some(true);
        let installed = path.split('/').any(|part| part == "node_modules");
        if installed && !linked {
            found.add(path, versioned(entry));
        }
    }
    nested(&root, "", &mut found);
    Ok(found)
}

/// Entries of lock file version 1, which are nested.
fn nested(tree: &Value, prefix: &str, found: &mut Dependencies) {
    for (name, entry) in tree.get("dependencies").into_iter().flat_map(object) {
        let here = format!("{prefix}{name}");
        let local = text(entry, "version").is_some_and(|version| version.starts_with("file:"));
        if !local {
            let mut own = entry.clone();
            own.as_object_mut().map(|own| own.remove("dependencies"));
            found.add(&here, versioned(&own));
        }
        nested(entry, &format!("{here} > "), found);
    }
}

pub(super) fn deno(source: &str) -> Result<Dependencies, ManifestError> {
    let root = table(json(source)?)?;
    let mut found = Dependencies::default();
    for key in ["imports", "scopes", "importMap", "links", "patch", "catalog", "catalogs"] {
        match root.get(key) {
            None => {}
            Some(Value::Object(map)) => {
                map.iter()
                    .for_each(|(name, value)| found.add(format!("{key}.{name}"), canonical(value)));
            }
            Some(value) => found.add(key, canonical(value)),
        }
    }
    Ok(found)
}

fn table(value: Value) -> Result<Value, ManifestError> {
    if value.is_object() { Ok(value) } else { Err(ManifestError::NotAnObject) }
}
