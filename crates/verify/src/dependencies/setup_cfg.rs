//! setup.cfg.

use super::requirements::add;
use super::{Dependencies, ManifestError};

/// Keys of `[options]` that name dependencies; in `[options.extras_require]` every key does.
const KEYS: [&str; 4] = ["install_requires", "setup_requires", "tests_require", "dependency_links"];

pub(super) fn read(source: &str) -> Result<Dependencies, ManifestError> {
    let mut found = Dependencies::default();
    let (mut section, mut key) = (String::new(), String::new());
    for line in source.lines() {
        let text = line.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            entries(&section, &key, text, &mut found);
        } else if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_owned();
            key.clear();
        } else if let Some((name, value)) = text.split_once(['=', ':']) {
            key = name.trim().to_ascii_lowercase().replace('-', "_");
            entries(&section, &key, value.trim(), &mut found);
        } else {
            return Err(ManifestError::UnknownLine);
        }
    }
    Ok(found)
}

fn entries(section: &str, key: &str, value: &str, found: &mut Dependencies) {
    let extra = section == "options.extras_require" && !key.is_empty();
    let named = section == "options" && KEYS.contains(&key);
    if value.is_empty() || !(extra || named) {
        return;
    }
    for requirement in value.split('\n') {
        add(requirement, &format!("{section}.{key}."), found);
    }
}
