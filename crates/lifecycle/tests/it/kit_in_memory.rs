//! Kits with a layer from the test, and tasks bound to them.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_kit::{Bound, Kit, Layer, Layout, Origin, Tree, TreeError, bind};
use bailiwick_model::{AgentId, Source};

/// The files of a layer by path.
struct Files(BTreeMap<String, String>);

impl Tree for Files {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        Ok(self.0.get(path).cloned())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let inside = format!("{path}/");
        let below = self.0.keys().filter_map(|file| file.strip_prefix(&inside));
        let names: BTreeSet<&str> = below.filter_map(|rest| rest.split('/').next()).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }
}

pub(crate) fn embedded() -> Kit {
    Kit::over_embedded(vec![])
}

/// The embedded kit with these files as a layer above it.
pub(crate) fn with_files(files: &[(&str, &str)]) -> Kit {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let tree = Box::new(Files(files.collect()));
    let layer = Layer::new(Origin::Repository, Layout::Plain, ".bailiwick/", tree);
    Kit::over_embedded(vec![layer])
}

pub(crate) fn bound(kit: &Kit, task: &str) -> Bound {
    match bind(kit, &Source::new("task.toml", task)) {
        Ok(bound) => bound,
        Err(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            panic!("{}\n{task}", problems.join("\n"))
        }
    }
}

pub(crate) fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}
