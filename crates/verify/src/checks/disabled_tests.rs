//! Tests that a change of a `Cargo.toml` disables: they would not fail, because they would not run.

use toml::{Table, Value};

use super::Subject;
use crate::change::Change;
use crate::facts::Facts;

/// The keys of a target that disable tests.
const SWITCHES: [&str; 3] = ["test", "harness", "doctest"];

/// The changed manifests; an added or deleted package has no tests to compare.
pub(super) fn manifests<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_manifest = |change: &&Change| change.path.rsplit('/').next() == Some("Cargo.toml");
    let exists_on_both_sides = |change: &&Change| change.before.is_some() && change.after.is_some();
    subject.changes.iter().filter(is_manifest).filter(exists_on_both_sides)
}

/// A manifest that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` could not be read", path.escape_debug())]
pub(super) struct UnreadableManifest {
    path: String,
}

/// The settings that newly disable tests, each with its manifest.
pub(super) fn find(
    subject: &Subject<'_>,
    facts: &Facts,
) -> Result<Vec<String>, UnreadableManifest> {
    let mut found = Vec::new();
    for change in manifests(subject) {
        let path = change.path.escape_debug();
        let texts = facts.texts.get(&change.path);
        let read = |text: Option<&Vec<u8>>| std::str::from_utf8(text?).ok()?.parse::<Table>().ok();
        let before = texts.and_then(|texts| read(texts.before.as_ref()));
        let after = texts.and_then(|texts| read(texts.after.as_ref()));
        match (before, after) {
            (Some(before), Some(after)) => {
                let old = disabling_settings(&before);
                let newly = disabling_settings(&after).into_iter().filter(|one| !old.contains(one));
                found.extend(newly.map(|one| format!("{path}: {one}")));
            }
            // A manifest that did not parse before ran no tests.
            (None, Some(_)) if texts.is_some() => {}
            (_, None) | (None, Some(_)) => {
                return Err(UnreadableManifest { path: change.path.clone() });
            }
        }
    }
    Ok(found)
}

/// The settings of a manifest that disable tests.
fn disabling_settings(manifest: &Table) -> Vec<String> {
    let is_false =
        |table: &Table, key: &str| table.get(key).and_then(Value::as_bool) == Some(false);
    let mut all = Vec::new();
    if manifest.get("package").and_then(Value::as_table).is_some_and(|it| is_false(it, "autotests"))
    {
        all.push("package.autotests = false".to_owned());
    }
    let lib = manifest.get("lib").and_then(Value::as_table).map(|table| ("lib".to_owned(), table));
    let named = ["test", "bin"].into_iter().flat_map(|kind| {
        let targets = manifest.get(kind).and_then(Value::as_array).into_iter().flatten();
        targets.filter_map(Value::as_table).map(move |table| {
            let name = table.get("name").and_then(Value::as_str).unwrap_or_default();
            (format!("{kind}.{name}"), table)
        })
    });
    for (target, table) in lib.into_iter().chain(named) {
        let switches = SWITCHES.into_iter().filter(|key| is_false(table, key));
        all.extend(switches.map(|key| format!("{target}.{key} = false")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{added, agent, changed, facts, subject, task, texts};

    fn between(before: &str, after: &str) -> Result<Vec<String>, UnreadableManifest> {
        let (task, agent, changes) = (task(""), agent(), [changed("a/Cargo.toml")]);
        let mut facts = facts();
        facts.texts.insert("a/Cargo.toml".to_owned(), texts(Some(before), Some(after)));
        find(&subject(&task, &agent, &changes), &facts)
    }

    #[test]
    fn newly_disabled_tests_are_found_and_those_disabled_before_are_not() {
        let plain = "[package]\nname = \"a\"\n";
        let auto = "[package]\nname = \"a\"\nautotests = false\n";
        let test = "[package]\nname = \"a\"\n[[test]]\nname = \"it\"\ntest = false\n";
        let lib = "[package]\nname = \"a\"\n[lib]\ndoctest = false\n";
        assert_eq!(between(plain, auto).unwrap(), ["a/Cargo.toml: package.autotests = false"]);
        assert_eq!(between(plain, test).unwrap(), ["a/Cargo.toml: test.it.test = false"]);
        assert_eq!(between(plain, lib).unwrap(), ["a/Cargo.toml: lib.doctest = false"]);
        for manifest in [plain, auto, test, lib] {
            assert_eq!(between(manifest, manifest), Ok(Vec::new()));
            assert_eq!(between(manifest, plain), Ok(Vec::new()), "more tests run");
        }
    }

    #[test]
    fn unreadable_manifest_is_an_error_and_a_new_one_is_ignored() {
        assert!(between("[package]\n", "[package\n").is_err());
        let (task, agent) = (task(""), agent());
        let disabled_by = |change| find(&subject(&task, &agent, &[change]), &facts());
        assert!(disabled_by(changed("Cargo.toml")).is_err());
        assert_eq!(disabled_by(added("Cargo.toml")), Ok(Vec::new()));
        assert_eq!(disabled_by(changed("src/lib.rs")), Ok(Vec::new()));
    }
}
