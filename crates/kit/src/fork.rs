//! Copying a capability under a new name, with its lineage.

use bailiwick_model::{CapabilityName, Problem};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::kit::FoundCapability;

/// The files of a fork, not yet written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkedCapability {
    /// capability.toml.
    pub toml: String,
    /// The text, byte for byte that of the source.
    pub text: String,
    /// The name of the text's file.
    pub text_path: String,
    /// The number of fields that differ from the source.
    pub fields_rewritten: usize,
}

/// Copies `source` as `name`. The fork has the same compiled gate and check, because they are found by module, not
/// by the name of the capability.
pub fn fork(
    source: &FoundCapability,
    name: &CapabilityName,
    creator: &str,
    created: &str,
) -> Result<ForkedCapability, Problem> {
    let mut document: DocumentMut =
        source.source.text.parse().map_err(|error: toml_edit::TomlError| {
            let place = source.source.whole();
            Problem::error("bad-toml", place, error.message().to_owned())
        })?;
    let mut fields_rewritten = 0;
    if let Some(header) = document.get_mut("capability").and_then(Item::as_table_like_mut) {
        for (key, new) in [("name", name.to_string()), ("category", name.category().to_string())] {
            if header.get(key).and_then(Item::as_str) != Some(&new) {
                fields_rewritten += 1;
                replace(header, key, new);
            }
        }
    }
    let parent = source.declared.name().to_string();
    let mut lineage = Table::new();
    lineage.insert("fork_from", value(&parent));
    lineage.insert("parents", value(Array::from_iter([parent])));
    lineage.insert("creator", value(creator));
    lineage.insert("created", value(created));
    fields_rewritten += lineage.len();
    document.insert("lineage", Item::Table(lineage));
    Ok(ForkedCapability {
        toml: document.to_string(),
        text: source.text.text.to_string(),
        text_path: source.declared.text.path.get_ref().clone(),
        fields_rewritten,
    })
}

/// Sets a value and keeps the comments above and behind it.
fn replace(table: &mut dyn toml_edit::TableLike, key: &str, new: String) {
    let Some(old) = table.get_mut(key).and_then(Item::as_value_mut) else {
        table.insert(key, value(new));
        return;
    };
    let decor = old.decor().clone();
    *old = new.into();
    *old.decor_mut() = decor;
}
