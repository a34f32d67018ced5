//! Generated files are up to date; `UPDATE=1` writes them.

use std::path::Path;

use bailiwick_cli::reference;
use bailiwick_kit::{Kit, role_matrix};

use crate::workspace;

pub(crate) fn compare(path: &str, fresh: &str) {
    let file = workspace().join(path);
    if std::env::var("UPDATE").is_ok_and(|update| update == "1") {
        std::fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).unwrap();
        std::fs::write(&file, fresh).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == fresh, "{path} is stale: run the tests with UPDATE=1, and commit it");
}

#[test]
fn schemas_are_fresh() {
    for (name, text) in reference::schemas() {
        compare(&format!("docs/schema/v1/{name}"), &text);
    }
}

#[test]
fn page_of_roles_is_fresh() {
    compare("docs/AGENT-ROLES.md", &role_matrix::render(&Kit::over_embedded(Vec::new())).unwrap());
}

#[test]
fn page_of_commands_is_fresh() {
    compare("docs/reference/commands.md", &reference::commands());
}

#[test]
fn description_of_the_api_is_fresh() {
    compare("docs/reference/openapi.json", &reference::openapi());
}

#[test]
fn page_and_schemas_of_resources_are_fresh() {
    let page = reference::resources();
    assert!(page.contains("| `role` (required) |"), "the page has no fields");
    compare("docs/reference/resources.md", &page);
    for (kind, schema) in bailiwick_server::schemas() {
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        compare(&format!("docs/schema/fleet/{kind}.json"), &text);
    }
}

/// The documents of the guide can be declared.
#[test]
fn documents_of_the_serve_guide_are_valid() {
    let text = std::fs::read_to_string(workspace().join("docs/guides/serve.md")).unwrap();
    let mut count = 0;
    for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let objects = bailiwick_cli::commands::fleet::documents::parse("serve.md", block).unwrap();
        for object in objects {
            count += 1;
            assert_eq!(object.check().unwrap(), [], "{}", object.metadata.name);
        }
    }
    assert_eq!(count, 8, "everything that a first run needs");
}

/// Every example in the guides can be parsed.
#[test]
fn examples_of_the_guides_parse() {
    let mut count = 0;
    for guide in ["kit", "task"] {
        let file = workspace().join(format!("docs/guides/{guide}.md"));
        let text = std::fs::read_to_string(file).unwrap();
        for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            count += 1;
            // The guide shows one part of a task alone.
            let is_part = block.starts_with("[workspace]");
            let block =
                if is_part { format!("[task]\nrole = \"x\"\n{block}") } else { block.to_owned() };
            let source = bailiwick_model::Source::new(guide, block.as_str());
            let problem = if block.contains("[task]") {
                bailiwick_model::Task::parse(&source).err()
            } else if block.contains("[role]") {
                bailiwick_model::toml_file::parse::<bailiwick_model::Role>(&source).err()
            } else {
                bailiwick_model::toml_file::parse::<bailiwick_model::Capability>(&source).err()
            };
            assert!(problem.is_none(), "{guide}: {problem:?}");
        }
    }
    assert_eq!(count, 5, "a capability, a role, two tasks and a part of one");
}

/// An agent can be started from the template of the guide.
#[test]
fn template_of_its_guide_parses() {
    let file = workspace().join("docs/guides/templates.md");
    let text = std::fs::read_to_string(file).unwrap();
    let (_, rest) = text.split_once("```md\n").unwrap();
    let (block, _) = rest.split_once("\n```\n").unwrap();
    let auditor = bailiwick_model::template::AgentType::parse("auditor").unwrap();
    let source = bailiwick_model::Source::new("auditor.md", block);
    let parsed = bailiwick_kit::templates::file::parse(&auditor, &source).unwrap();
    assert_eq!(parsed.template.personas.len(), 2);
}
