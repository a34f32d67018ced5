//! Cargo.toml, Cargo.lock and the overrides in .cargo/config.toml.

use serde_json::Value;

use super::data::{at, canonical, list, object, specification, text, toml};
use super::{Dependencies, ManifestError};

/// The dependency tables, in both spellings that Cargo accepts.
const TABLES: [&str; 5] = [
    "dependencies",
    "dev-dependencies",
    "dev_dependencies",
    "build-dependencies",
    "build_dependencies",
];

pub(super) fn manifest(source: &str) -> Result<Dependencies, ManifestError> {
    let root = toml(source)?;
    let mut found = Dependencies::default();
    tables(&root, "", &mut found);
    for (target, tree) in root.get("target").into_iter().flat_map(object) {
        tables(tree, &format!("target.{target}."), &mut found);
    }
    for (name, value) in at(&root, &["workspace", "dependencies"]).into_iter().flat_map(object) {
        found.add(format!("workspace.dependencies.{name}"), specification(value));
    }
    overrides(&root, &mut found);
    Ok(found)
}

fn tables(tree: &Value, prefix: &str, found: &mut Dependencies) {
    for table in TABLES {
        for (name, value) in tree.get(table).into_iter().flat_map(object) {
            let table = table.replace('_', "-");
            found.add(format!("{prefix}{table}.{name}"), specification(value));
        }
    }
}

fn overrides(root: &Value, found: &mut Dependencies) {
    for (source, patches) in root.get("patch").into_iter().flat_map(object) {
        for (name, value) in object(patches) {
            found.add(format!("patch.{source}.{name}"), specification(value));
        }
    }
    for (name, value) in root.get("replace").into_iter().flat_map(object) {
        found.add(format!("replace.{name}"), specification(value));
    }
}

/// The packages from other sources; packages of the workspace have no source.
pub(super) fn lock(source: &str) -> Result<Dependencies, ManifestError> {
    let root = toml(source)?;
    let mut found = Dependencies::default();
    let unused = list(at(&root, &["patch", "unused"]));
    let external = list(root.get("package"))
        .filter(|package| package.get("source").is_some() || package.get("checksum").is_some());
    for (prefix, package) in
        external.map(|one| ("", one)).chain(unused.map(|one| ("unused patch ", one)))
    {
        let part = |key| text(package, key).unwrap_or_default();
        let version = format!("{} {} {}", part("version"), part("source"), part("checksum"));
        found.add(format!("{prefix}{}", part("name")), version.trim_end());
    }
    // Older lock files have the checksums in their own table.
    for (key, value) in root.get("metadata").into_iter().flat_map(object) {
        found.add(key, canonical(value));
    }
    Ok(found)
}

/// The settings of .cargo/config.toml that decide where dependencies come from.
pub(super) fn configuration(source: &str) -> Result<Dependencies, ManifestError> {
    let root = toml(source)?;
    let mut found = Dependencies::default();
    overrides(&root, &mut found);
    for key in ["paths", "source", "registries", "registry"] {
        if let Some(value) = root.get(key) {
            found.add(key, canonical(value));
        }
    }
    Ok(found)
}
