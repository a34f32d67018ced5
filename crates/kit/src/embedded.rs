//! The kit that is compiled in.

use include_dir::{Dir, include_dir};

use crate::kit::{Layer, Layout, Origin};
use crate::tree::{Tree, TreeError};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/embedded");

struct EmbeddedTree;

impl Tree for EmbeddedTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        let Some(file) = FILES.get_file(path) else {
            return Ok(None);
        };
        let text = file.contents_utf8().ok_or_else(|| TreeError {
            path: path.to_owned(),
            why: "it is not UTF-8".to_owned(),
        })?;
        Ok(Some(text.to_owned()))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let Some(directory) = FILES.get_dir(path) else {
            return Ok(Vec::new());
        };
        let names = directory.entries().iter().filter_map(|entry| entry.path().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.sort_unstable();
        Ok(names)
    }
}

/// The embedded kit as the lowest layer.
pub fn layer() -> Layer {
    Layer::new(Origin::Embedded, Layout::Plain, "embedded/", Box::new(EmbeddedTree))
}

/// The task examples for the five agents that the kit ships, by file name.
pub fn task_examples() -> Vec<(String, String)> {
    let names = EmbeddedTree.list("task-examples").unwrap_or_default();
    let read = |name: String| {
        let text = EmbeddedTree.read(&format!("task-examples/{name}")).ok()??;
        Some((name, text))
    };
    names.into_iter().filter_map(read).collect()
}
