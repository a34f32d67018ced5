//! Package managers: the manifests and lock files that they change, the directories that they create.

use std::borrow::Cow;

use super::super::WriteKind;
use super::super::field::Field;
use super::super::walk::Walker;
use crate::package_managers;

/// Whether the program is one of them.
pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) -> bool {
    let (manifest, lock) = match name {
        "cargo" => ("Cargo.toml", "Cargo.lock"),
        "npm" => ("package.json", "package-lock.json"),
        "pnpm" => ("package.json", "pnpm-lock.yaml"),
        "yarn" => ("package.json", "yarn.lock"),
        _ => return false,
    };
    let words: Vec<Cow<'_, str>> = arguments.iter().map(Field::shown).collect();
    let has = |option: &str| words.iter().any(|word| word == option);
    if has("--help") || has("--dry-run") || has("-g") || has("--global") {
        return true;
    }
    let readings = package_managers::readings(&words);
    if package_managers::changes_read(name, &readings, &words) {
        let only_lock = |verb: &str| matches!(verb, "update" | "generate-lockfile" | "dedupe");
        if !readings.iter().any(|reading| only_lock(reading.verb)) {
            walker.wrote(Field::text(manifest), WriteKind::Change, name);
        }
        walker.wrote(Field::text(lock), WriteKind::Change, name);
    }
    if let Some(new) = readings.iter().find(|reading| name == "cargo" && reading.verb == "new") {
        let place = new.operands.first().map_or_else(Field::unknown, |place| Field::text(*place));
        walker.wrote(place, WriteKind::WriteBelow, name);
    }
    true
}
