//! composer.json and composer.lock.

use super::data::{canonical, json, list, object, plain, text, versioned};
use super::{Dependencies, ManifestError};

pub(super) fn manifest(source: &str) -> Result<Dependencies, ManifestError> {
    let root = json(source)?;
    let mut found = Dependencies::default();
    for key in ["require", "require-dev", "replace", "provide", "conflict"] {
        for (name, value) in root.get(key).into_iter().flat_map(object) {
            found.add(format!("{key}.{name}"), plain(value));
        }
    }
    for key in ["repositories", "minimum-stability", "prefer-stable"] {
        if let Some(value) = root.get(key) {
            found.add(key, canonical(value));
        }
    }
    Ok(found)
}

pub(super) fn lock(source: &str) -> Result<Dependencies, ManifestError> {
    let root = json(source)?;
    let mut found = Dependencies::default();
    for key in ["packages", "packages-dev"] {
        for package in list(root.get(key)) {
            let name = text(package, "name").unwrap_or_default();
            found.add(format!("{key}.{name}"), versioned(package));
        }
    }
    Ok(found)
}
