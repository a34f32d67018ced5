//! Reads package.json and pnpm-workspace.yaml.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The parts of a package.json that matter here; a part of an unexpected type counts as absent.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) name: Option<String>,
    pub(super) manager: Option<String>,
    pub(super) workspaces: Option<Vec<String>>,
    pub(super) has_dependencies: bool,
    scripts: BTreeMap<String, String>,
}

/// A script that runs the tests.
pub(super) enum Script<'a> {
    Once(&'a str),
    /// It watches for changes, unless an option prevents that.
    Watching(&'a str),
}

impl Package {
    /// Nothing if the text is not a JSON object.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}');
        let Ok(Value::Object(package)) = serde_json::from_str(text) else { return None };
        let text_of = |key: &str| package.get(key).and_then(Value::as_str).map(str::to_owned);
        let scripts = package.get("scripts").and_then(Value::as_object).into_iter().flatten();
        let scripts =
            scripts.filter_map(|(name, line)| Some((name.clone(), line.as_str()?.to_owned())));
        let filled = |key: &&str| {
            package.get(*key).and_then(Value::as_object).is_some_and(|listed| !listed.is_empty())
        };
        Some(Self {
            name: text_of("name"),
            manager: text_of("packageManager"),
            workspaces: workspaces(package.get("workspaces")),
            has_dependencies: ["dependencies", "devDependencies", "optionalDependencies"]
                .iter()
                .any(filled),
            scripts: scripts.collect(),
        })
    }

    pub(super) fn has_script(&self, name: &str) -> bool {
        self.scripts.get(name).is_some_and(|line| !line.trim().is_empty())
    }

    /// The script that runs the tests once, or one that can with an option.
    pub(super) fn test_script(&self) -> Option<Script<'static>> {
        let line = self.scripts.get("test").filter(|line| is_real_test(line));
        if line.is_some_and(|line| !watches(line)) {
            return Some(Script::Once("test"));
        }
        let once = ["test:ci", "test:run", "test:once", "test:unit"];
        let once = once.into_iter().find(|name| {
            self.scripts.get(*name).is_some_and(|line| is_real_test(line) && !watches(line))
        });
        once.map(Script::Once).or_else(|| line.map(|_| Script::Watching("test")))
    }
}

/// `npm init` writes a script that only fails.
fn is_real_test(line: &str) -> bool {
    !line.trim().is_empty() && !line.contains("no test specified")
}

fn watches(line: &str) -> bool {
    let told = ["--watch=false", "--watchAll=false", "--no-watch"];
    let waits = ["--watch", "react-scripts test", "ng test", "vitest watch"];
    waits.iter().any(|part| line.contains(part)) && !told.iter().any(|part| line.contains(part))
}

fn workspaces(value: Option<&Value>) -> Option<Vec<String>> {
    let list = match value? {
        Value::Array(list) => list,
        Value::Object(object) => object.get("packages")?.as_array()?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The globs of pnpm-workspace.yaml that add packages; nothing if it cannot be parsed.
pub(super) fn pnpm_members(text: &str) -> Option<Vec<String>> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Workspace {
        packages: Vec<String>,
    }
    let read: Workspace = serde_saphyr::from_str(text).ok()?;
    Some(read.packages.into_iter().filter(|glob| !glob.starts_with('!')).collect())
}
