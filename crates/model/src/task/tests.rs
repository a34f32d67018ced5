//! Tests of parsing a task.

use super::*;
use crate::problem::{Problem, Source};

fn read(text: &str) -> Result<Task, Problem> {
    Task::parse(&Source::new("task.toml", text))
}

#[test]
fn null_empty_and_absent_parents_all_mean_none() {
    for parent in ["parent-agent = null", "parent-agent = null  # none", "parent-agent = \"\"", ""]
    {
        let task = read(&format!("[task]\nrole = \"x\"\n{parent}\n[body]\ntext = \"go\"\n"));
        assert_eq!(task.unwrap().task.parent_agent, None, "{parent}");
    }
    let some = read("[task]\nrole = \"x\"\nparent-agent = \"ag-1\"\n").unwrap();
    assert_eq!(some.task.parent_agent.unwrap().as_str(), "ag-1");
}

#[test]
fn null_is_an_error_elsewhere_and_text_in_a_body() {
    assert!(read("[task]\nrole = null\n").is_err());
    assert!(read("[task]\nrole = \"x\"\nparent-agent = nullify\n").is_err());
    let text = "[task]\nrole = \"x\"\n[body]\ntext = \"\"\"\nparent-agent = null\n\"\"\"\n";
    assert_eq!(read(text).unwrap().body.text, "parent-agent = null\n");
}

#[test]
fn replacing_null_preserves_line_numbers() {
    let text = "[task]\nrole = \"x\"\nparent-agent = null\nrolle = \"y\"\n";
    let problem = read(text).unwrap_err();
    assert_eq!(
        (problem.code, problem.place.to_string().as_str()),
        ("unknown-key", "task.toml:4:1")
    );
    assert!(
        problem.place.source.text.contains("parent-agent = null"),
        "the source text is unchanged"
    );
    assert!(Task::normalised_text(&Source::new("t", text)).contains("parent-agent = \"\""));
}

#[test]
fn misspelt_whitelist_key_is_an_error() {
    let text = "[task]\nrole = \"x\"\n[scope]\nfiles_whitelist = [\"a/**\"]\n";
    let problem = read(text).unwrap_err();
    assert_eq!(problem.place.to_string(), "task.toml:4:1");
    assert!(problem.help.unwrap().contains("`files-whitelist`"));
}

#[test]
fn invalid_patterns_are_refused() {
    for bad in ["", "../x", "a/../../b", "!a", "a\\nb", "**/a/**/b/**/c/**/d/**"] {
        let text = format!("[task]\nrole = \"x\"\n[scope]\nfiles-whitelist = [\"{bad}\"]\n");
        assert!(read(&text).is_err(), "{bad:?} was accepted");
    }
}

#[test]
fn only_keys_that_are_set_are_parameters() {
    let text = "[task]\nrole = \"x\"\n[verification]\ncargo-test-crates = []\ntest-count-min = 3\n\
                [parameters]\nhouse-style = \"tabs\"\n";
    let names: Vec<String> =
        read(text).unwrap().parameters_set().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["test-count-min", "house-style"]);
}

#[test]
fn budget_without_a_positive_value_is_refused() {
    for bad in ["tokens = 0", "usd = 0.0", "usd = nan", "usd = -1.0", "turns = -1"] {
        assert!(read(&format!("[task]\nrole = \"x\"\n[budget]\n{bad}\n")).is_err(), "{bad}");
    }
    assert!(read("[task]\nrole = \"x\"\n[budget]\nusd = 2.5\nturns = 9\n").is_ok());
}
