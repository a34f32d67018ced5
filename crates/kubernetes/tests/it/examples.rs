//! The API server and the embedded database accept every object in the guides.

#![expect(clippy::disallowed_methods, reason = "the guides are files")]

use std::path::Path;

use bailiwick_kubernetes::crds::{Home, home};
use bailiwick_resources::{API_VERSION, AnyObject, Kind};
use serde_json::Value;

use crate::{api_server, schema, workspace};

#[test]
fn every_example_of_the_guides_is_accepted() {
    let (mut checked, mut native) = (0, 0);
    for (page, text) in examples(&workspace().join("docs")) {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{page}: {error}"));
        for document in documents.into_iter().filter(|one| one["apiVersion"] == API_VERSION) {
            let kind: Kind = document["kind"].as_str().unwrap().parse().unwrap();
            if home(kind) != Home::CustomResource {
                native += 1;
                continue;
            }
            let object: AnyObject = serde_json::from_value(document.clone())
                .unwrap_or_else(|error| panic!("{page}: {error}"));
            let found = api_server::errors(&schema(object.kind), &document);
            assert!(found.is_empty(), "{page}: {} {found:#?}", object.kind);
            assert_eq!(object.check().unwrap(), [], "{page}");
            checked += 1;
        }
    }
    assert!(checked > 20, "found only {checked} examples, and {native} of kinds of Kubernetes");
}

/// All blocks of YAML, each with the path of its page.
fn examples(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(examples(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            let text = std::fs::read_to_string(&path).unwrap();
            let blocks = text.split("```yaml\n").skip(1);
            found.extend(blocks.filter_map(|block| {
                let yaml = block.split("\n```").next()?;
                yaml.contains("apiVersion").then(|| (path.display().to_string(), yaml.to_owned()))
            }));
        }
    }
    found
}
