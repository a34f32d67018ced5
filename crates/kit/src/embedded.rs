//! The kit that is compiled in.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use include_dir::{Dir, File, include_dir};

use crate::layer::{Layer, Layout, Origin};
use crate::tree::{Tree, TreeError};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/embedded");

struct EmbeddedTree;

impl EmbeddedTree {
    /// All files by path, collected once, because a search in the directories compares each component with all its
    /// neighbours.
    fn files() -> &'static BTreeMap<&'static str, &'static File<'static>> {
        static FILES_BY_PATH: OnceLock<BTreeMap<&str, &File<'_>>> = OnceLock::new();
        FILES_BY_PATH.get_or_init(|| {
            let mut files = BTreeMap::new();
            gather(&FILES, &mut files);
            files
        })
    }
}

fn gather(
    directory: &'static Dir<'static>,
    files: &mut BTreeMap<&'static str, &'static File<'static>>,
) {
    files.extend(directory.files().filter_map(|file| Some((file.path().to_str()?, file))));
    for below in directory.dirs() {
        gather(below, files);
    }
}

impl Tree for EmbeddedTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        let Some(file) = Self::files().get(path) else { return Ok(None) };
        let text = file.contents_utf8().ok_or_else(|| TreeError {
            path: path.to_owned(),
            why: "it is not UTF-8".to_owned(),
        })?;
        Ok(Some(text.to_owned()))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let inside = format!("{path}/");
        let from = Self::files().range(inside.as_str()..);
        let below = from.map_while(|(file, _)| file.strip_prefix(inside.as_str()));
        let mut names: Vec<String> =
            below.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect();
        names.dedup();
        Ok(names)
    }
}

/// The embedded kit as the lowest layer.
pub fn layer() -> Layer {
    Layer::new(Origin::Embedded, Layout::Plain, "embedded/", Box::new(EmbeddedTree))
}

/// The embedded files.
pub(crate) fn tree() -> Box<dyn Tree> {
    Box::new(EmbeddedTree)
}

/// The agent templates that are shipped, by file name.
pub fn agent_templates() -> Vec<(String, String)> {
    below("agents")
}

/// The task examples for the five agents that the kit ships, by file name.
pub fn task_examples() -> Vec<(String, String)> {
    below("task-examples")
}

fn below(directory: &str) -> Vec<(String, String)> {
    let names = EmbeddedTree.list(directory).unwrap_or_default();
    let read = |name: String| {
        let text = EmbeddedTree.read(&format!("{directory}/{name}")).ok()??;
        Some((name, text))
    };
    names.into_iter().filter_map(read).collect()
}
