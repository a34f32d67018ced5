//! Our directories that Codex's sandbox lets commands write to, because our sandbox runs inside it.

use std::path::{Path, PathBuf};

use bailiwick_model::{Problem, Source};
use toml_edit::{Array, DocumentMut, Item, Table, Value};

use super::places::StateFiles;

const TABLE: &str = "sandbox_workspace_write";
const KEY: &str = "writable_roots";

/// The directories that commands of one gate need.
pub fn wanted(kept: &StateFiles) -> Vec<PathBuf> {
    vec![kept.commands(), kept.removed(), kept.scratch()]
}

/// Whether a configuration names a directory.
pub fn has(config: &DocumentMut, root: &Path) -> bool {
    let listed = config.get(TABLE).and_then(Item::as_table_like).and_then(|table| table.get(KEY));
    let listed = listed.and_then(Item::as_array).into_iter().flatten();
    listed.filter_map(Value::as_str).any(|one| Path::new(one) == root)
}

/// Adds directories that are not there yet.
pub fn put(config: &mut DocumentMut, source: &Source, roots: &[PathBuf]) -> Result<(), Problem> {
    let wrong = |what: &str| {
        Problem::error("bad-settings", source.whole(), format!("`{what}` is not what it should be"))
            .help("fix the file by hand; nothing was changed")
    };
    let missing: Vec<_> = roots.iter().filter(|root| !has(config, root)).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let table = config.entry(TABLE).or_insert_with(|| Item::Table(Table::new()));
    let table = table.as_table_like_mut().ok_or_else(|| wrong(TABLE))?;
    let list = table.entry(KEY).or_insert_with(|| Item::Value(Value::Array(Array::new())));
    let list = list.as_array_mut().ok_or_else(|| wrong(KEY))?;
    for root in missing {
        list.push(root.to_str().ok_or_else(|| wrong("the path of our directory"))?);
    }
    Ok(())
}

/// Removes directories, and what was created for them.
pub fn take(config: &mut DocumentMut, roots: &[PathBuf]) {
    let Some(table) = config.get_mut(TABLE).and_then(Item::as_table_like_mut) else { return };
    let Some(list) = table.get_mut(KEY).and_then(Item::as_array_mut) else { return };
    let before = list.len();
    list.retain(|one| {
        !one.as_str().is_some_and(|one| roots.iter().any(|root| root == Path::new(one)))
    });
    if list.len() == before || !list.is_empty() {
        return;
    }
    table.remove(KEY);
    if table.is_empty() {
        config.remove(TABLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_the_roots_restores_the_file() {
        let roots = [PathBuf::from("/state/a"), PathBuf::from("/state/b")];
        for before in [
            "",
            "model = \"m\" # mine\n",
            "[sandbox_workspace_write]\nwritable_roots = [\"/mine\"] # why\nnetwork_access = true\n",
            "[sandbox_workspace_write]\nnetwork_access = true\n",
        ] {
            let source = Source::new("config.toml", before);
            let mut config: DocumentMut = before.parse().unwrap();
            put(&mut config, &source, &roots).unwrap();
            assert!(roots.iter().all(|root| has(&config, root)), "{config}");
            let with = config.to_string();
            put(&mut config, &source, &roots).unwrap();
            assert_eq!(config.to_string(), with, "adding the roots again changes nothing");
            take(&mut config, &roots);
            assert_eq!(config.to_string(), before);
        }
    }

    #[test]
    fn setting_that_is_not_a_table_is_refused() {
        let text = "sandbox_workspace_write = 1\n";
        let mut config: DocumentMut = text.parse().unwrap();
        let source = Source::new("config.toml", text);
        assert!(put(&mut config, &source, &[PathBuf::from("/a")]).is_err());
    }
}
