//! Kits in memory: a tree of texts, and small files for the tests.

use std::collections::BTreeMap;

use bailiwick_kit::fork::ForkedCapability;
use bailiwick_kit::{Kit, Layer, Layout, Origin, Tree, TreeError};
use bailiwick_model::{CapabilityName, RoleName};

/// Files by path; a file without a text exists but cannot be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryTree(BTreeMap<String, Option<String>>);

impl MemoryTree {
    pub(crate) fn new<P: Into<String>, T: Into<String>>(
        files: impl IntoIterator<Item = (P, T)>,
    ) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.into(), Some(text.into()))).collect())
    }

    pub(crate) fn with(mut self, path: impl Into<String>, text: impl Into<String>) -> Self {
        self.0.insert(path.into(), Some(text.into()));
        self
    }

    pub(crate) fn with_unreadable(mut self, path: impl Into<String>) -> Self {
        self.0.insert(path.into(), None);
        self
    }

    /// A valid capability with its own text.
    pub(crate) fn with_capability(self, name: &str) -> Self {
        let directory = directory(name);
        self.with(format!("{directory}/capability.toml"), capability_toml(name))
            .with(format!("{directory}/text.md"), text_md(name))
    }

    pub(crate) fn into_layer(self, origin: Origin) -> Layer {
        let shown_as = format!("{origin}/");
        Layer::new(origin, Layout::Plain, &shown_as, Box::new(self))
    }

    /// The kit of a repository with these files.
    pub(crate) fn into_kit(self) -> Kit {
        Kit::over_embedded(vec![self.into_layer(Origin::Repository)])
    }
}

impl Tree for MemoryTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        match self.0.get(path) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text.clone())),
            Some(None) => {
                Err(TreeError { path: path.to_owned(), why: "it is not UTF-8".to_owned() })
            }
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let inside = self.0.keys().filter_map(|name| name.strip_prefix(path)?.strip_prefix('/'));
        let mut names: Vec<String> =
            inside.filter_map(|rest| rest.split('/').next().map(str::to_owned)).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

pub(crate) fn capability_name(text: &str) -> CapabilityName {
    text.parse().expect("a capability name")
}

pub(crate) fn role_name(text: &str) -> RoleName {
    text.parse().expect("a role name")
}

/// The directory of a capability.
pub(crate) fn directory(name: &str) -> String {
    format!("capabilities/{}", name.replace("::", "/"))
}

/// capability.toml of a capability that a shell command checks; nine lines.
pub(crate) fn capability_toml(name: &str) -> String {
    let category = name.split("::").next().unwrap_or_default();
    format!(
        "[capability]\nname = \"{name}\"\ncategory = \"{category}\"\ndescription = \"Mine.\"\n\n\
         [restricts]\ntool-patterns = ['^rm ']\n\n[verify]\ncommand = \"true\"\n"
    )
}

/// A text that starts with its rule and repeats no other text.
pub(crate) fn text_md(name: &str) -> String {
    let slug = name.split("::").last().unwrap_or_default();
    format!("## {slug}\n\nYou MUST keep to {slug}, because of {slug}.\n")
}

/// A role with these lines in its `[capabilities]` table, which starts in line 5.
pub(crate) fn role_toml(name: &str, capabilities: &str) -> String {
    format!(
        "[role]\nname = \"{name}\"\ndescription = \"Mine.\"\n\n[capabilities]\n{capabilities}\n\
         [tools]\nallowed = [\"Read\"]\n"
    )
}

/// The files of a fork, at their paths in a layer.
pub(crate) fn with_fork(tree: MemoryTree, name: &str, forked: &ForkedCapability) -> MemoryTree {
    let directory = directory(name);
    tree.with(format!("{directory}/capability.toml"), &forked.toml)
        .with(format!("{directory}/{}", forked.text_path), &forked.text)
}
