//! The templates that are shipped, how they are copied, and the skeleton.

use bailiwick_kit::embedded::agent_templates;
use bailiwick_kit::templates::seeding::plan;
use bailiwick_kit::templates::skeleton::skeleton;
use bailiwick_kit::templates::{ListAgents, Templates, list};
use bailiwick_model::template::Template;

use super::{agent_type, template};

fn shipped(name: &str) -> Template {
    let templates = Templates::over_embedded(Vec::new());
    let found = templates.find(name).unwrap_or_else(|error| panic!("{error}"));
    found.template().clone()
}

fn allowed(name: &str) -> Vec<String> {
    shipped(name).tools.allow_list.expect("an allow list")
}

#[test]
fn exactly_these_templates_exist_and_all_follow_the_contract() {
    let templates = Templates::over_embedded(Vec::new());
    let inventory = templates.inventory();
    let names: Vec<&str> = inventory.templates.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["architect", "explorer", "orchestrator", "reviewer", "worker"]);
    assert_eq!(inventory.strays, []);
    let listed = list::list(&templates, &ListAgents::default()).unwrap();
    assert!(listed.agents.iter().all(|agent| agent.description.len() <= 120), "{listed:?}");
}

#[test]
fn orchestrator_has_no_allow_list() {
    let orchestrator = shipped("orchestrator");
    assert_eq!((orchestrator.tools.allow_list, orchestrator.tools.deny_list), (None, None));
    assert!(!orchestrator.read_only);
}

#[test]
fn worker_and_explorer_may_plan_and_list_but_not_spawn_agents() {
    for name in ["worker", "explorer", "reviewer"] {
        let list = allowed(name);
        for needed in ["update_plan", "list_agents", "list_active_agents"] {
            assert!(list.iter().any(|tool| tool == needed), "{name} lacks {needed}");
        }
        for forbidden in ["spawn_agent", "Agent", "Task", "*"] {
            assert!(!list.iter().any(|tool| tool == forbidden), "{name} has {forbidden}");
        }
        assert!(!list.iter().any(|tool| tool.contains(['*', '?'])), "{name} has a glob");
    }
}

#[test]
fn explorer_is_read_only_and_worker_is_not() {
    assert!(shipped("explorer").read_only && shipped("architect").read_only);
    assert!(!shipped("worker").read_only);
    let writers = ["Write", "Edit", "apply_patch"];
    assert!(allowed("worker").iter().any(|tool| writers.contains(&tool.as_str())));
    for reader in ["explorer", "architect", "reviewer"] {
        assert!(!allowed(reader).iter().any(|tool| writers.contains(&tool.as_str())), "{reader}");
    }
}

#[test]
fn if_the_directory_has_no_file_of_an_embedded_name_all_are_copied() {
    for present in [&[][..], &["mine.md", "worker.txt", "notes"], &["my worker.md"]] {
        let present: Vec<String> = present.iter().map(|name| (*name).to_owned()).collect();
        let files: Vec<(String, String)> =
            plan(&present).into_iter().map(|seed| (seed.file, seed.text)).collect();
        assert_eq!(files, agent_templates(), "{present:?}");
        assert_eq!(files.len(), 5);
    }
}

#[test]
fn if_the_directory_has_one_nothing_is_copied() {
    for present in ["worker.md", "Explorer.MD", "architect.md"] {
        assert_eq!(plan(&[present.to_owned()]), [], "{present}");
    }
    let all_files: Vec<String> = agent_templates().into_iter().map(|(file, _)| file).collect();
    assert_eq!(plan(&all_files), []);
}

#[test]
fn skeleton_is_valid() {
    let text = skeleton(&agent_type("auditor"));
    let found = template(&text);
    assert!(found.read_only);
    assert_eq!(found.personas.len(), 1);
    assert!(!found.default_prompt.is_empty() && found.description.contains("`auditor`"));
    assert_eq!(found.tools.deny_list.unwrap(), ["spawn_agent"]);
}
