//! The public schemas and the parsers agree.

use bailiwick_cli::reference;
use bailiwick_kit::starter::{self, Files, Project};
use bailiwick_source_control::DirectoryTree;
use serde_json::Value;

use crate::workspace;

fn validator(name: &str) -> jsonschema::Validator {
    let (_, text) = reference::schemas().into_iter().find(|(file, _)| *file == name).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn value(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap()
}

fn embedded(pattern: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![workspace().join("crates/kit/embedded")];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.to_string_lossy().contains(pattern)
                && path.extension().is_some_and(|e| e == "toml")
            {
                found.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn every_shipped_file_is_valid_by_its_schema() {
    for (schema, pattern, count) in [
        ("capability.schema.json", "/capabilities/", 18),
        ("role.schema.json", "/roles/", 6),
        ("task.schema.json", "/task-examples/", 5),
    ] {
        let validator = validator(schema);
        let files = embedded(pattern);
        assert_eq!(files.len(), count);
        for text in files {
            let errors: Vec<String> =
                validator.iter_errors(&value(&text)).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{schema}: {errors:?}\n{text}");
        }
    }
    let tree = DirectoryTree::new(workspace());
    let project = Project::detect(&Files::new(vec!["Cargo.toml".to_owned()], &tree));
    let files = starter::files(&project);
    let (_, example) = files.iter().find(|(path, _)| path == "tasks/example.toml").unwrap();
    assert!(validator("task.schema.json").is_valid(&value(example)));
}

#[test]
fn schema_refuses_what_the_parser_refuses() {
    let good = "[task]\nrole = \"x\"\n[scope]\nfiles-whitelist = [\"a\"]\n[budget]\nusd = 1.5\n";
    assert!(validator("task.schema.json").is_valid(&value(good)), "the control must be valid");
    for (from, to) in [
        ("files-whitelist", "files_whitelist"),
        ("[\"a\"]", "7"),
        ("role = \"x\"", "role = \"X Y\""),
        ("role = \"x\"", ""),
        ("[budget]", "[bugdet]"),
        ("usd = 1.5", "usd = 0.0"),
        ("usd = 1.5", "turns = 0"),
    ] {
        let bad = good.replace(from, to);
        let source = bailiwick_model::Source::new("t", bad.as_str());
        assert!(bailiwick_model::Task::parse(&source).is_err(), "the parser accepted {bad}");
        assert!(!validator("task.schema.json").is_valid(&value(&bad)), "the schema accepted {bad}");
    }
    let good = "[capability]\nname = \"quality::x\"\ncategory = \"quality\"\ndescription = \"d\"\n\
                [verify]\ncommand = \"true\"\nrun-mode = \"both\"\n";
    assert!(
        validator("capability.schema.json").is_valid(&value(good)),
        "the control must be valid"
    );
    for (from, to) in [("both", "twice"), ("quality::x", "quality:x"), ("[verify]", "[verifies]")] {
        assert!(!validator("capability.schema.json").is_valid(&value(&good.replace(from, to))));
    }
}
