//! Tests that a change of a `Cargo.toml` switches off: they would not fail, they would not run.

use toml::{Table, Value};

use super::Subject;
use crate::change::Change;
use crate::facts::Facts;

/// What a target says of its tests.
const SWITCHES: [&str; 3] = ["test", "harness", "doctest"];

/// The manifests whose texts are looked at.
pub(super) fn manifests<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_one = |change: &&Change| change.path.rsplit('/').next() == Some("Cargo.toml");
    // A package that is new or gone has no tests that ran before and could run now.
    let stays = |change: &&Change| change.before.is_some() && change.after.is_some();
    subject.changes.iter().filter(is_one).filter(stays)
}

/// What is switched off, each with its manifest; an error for a manifest whose text is not known.
pub(super) fn found(subject: &Subject<'_>, facts: &Facts) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for change in manifests(subject) {
        let path = change.path.escape_debug();
        let texts = facts.texts.get(&change.path);
        let read = |text: Option<&Vec<u8>>| std::str::from_utf8(text?).ok()?.parse::<Table>().ok();
        let before = texts.and_then(|texts| read(texts.before.as_ref()));
        let after = texts.and_then(|texts| read(texts.after.as_ref()));
        match (before, after) {
            (Some(before), Some(after)) => {
                let newly = off(&after).into_iter().filter(|one| !off(&before).contains(one));
                found.extend(newly.map(|one| format!("{path}: {one}")));
            }
            // One that did not parse before ran no tests.
            (None, Some(_)) if texts.is_some() => {}
            (_, None) | (None, Some(_)) => return Err(format!("`{path}` could not be read")),
        }
    }
    Ok(found)
}

/// All that a manifest switches off.
fn off(manifest: &Table) -> Vec<String> {
    let is_off = |table: &Table, key: &str| table.get(key).and_then(Value::as_bool) == Some(false);
    let mut all = Vec::new();
    if manifest.get("package").and_then(Value::as_table).is_some_and(|it| is_off(it, "autotests")) {
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
        let switches = SWITCHES.into_iter().filter(|key| is_off(table, key));
        all.extend(switches.map(|key| format!("{target}.{key} = false")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{added, agent, changed, facts, subject, task, texts};

    fn between(before: &str, after: &str) -> Result<Vec<String>, String> {
        let (task, agent, changes) = (task(""), agent(), [changed("a/Cargo.toml")]);
        let mut facts = facts();
        facts.texts.insert("a/Cargo.toml".to_owned(), texts(Some(before), Some(after)));
        found(&subject(&task, &agent, &changes), &facts)
    }

    #[test]
    fn what_a_change_switches_off_is_found_and_what_was_off_before_is_not() {
        let plain = "[package]\nname = \"a\"\n";
        let auto = "[package]\nname = \"a\"\nautotests = false\n";
        let test = "[package]\nname = \"a\"\n[[test]]\nname = \"it\"\ntest = false\n";
        let lib = "[package]\nname = \"a\"\n[lib]\ndoctest = false\n";
        assert_eq!(between(plain, auto).unwrap(), ["a/Cargo.toml: package.autotests = false"]);
        assert_eq!(between(plain, test).unwrap(), ["a/Cargo.toml: test.it.test = false"]);
        assert_eq!(between(plain, lib).unwrap(), ["a/Cargo.toml: lib.doctest = false"]);
        for same in [plain, auto, test, lib] {
            assert_eq!(between(same, same), Ok(Vec::new()));
            assert_eq!(between(same, plain), Ok(Vec::new()), "more tests run");
        }
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_told_and_a_new_one_is_not_looked_at() {
        assert!(between("[package]\n", "[package\n").is_err());
        let (task, agent) = (task(""), agent());
        let known = |change| found(&subject(&task, &agent, &[change]), &facts());
        assert!(known(changed("Cargo.toml")).is_err());
        assert_eq!(known(added("Cargo.toml")), Ok(Vec::new()));
        assert_eq!(known(changed("src/lib.rs")), Ok(Vec::new()));
    }
}
