//! Every parameter and every budget of a task is visible in the prompt.
//!
//! The parameters are read from the schemas, so that a new parameter cannot be missed.

use std::collections::BTreeSet;

use bailiwick_kit::Kit;
use bailiwick_lifecycle::brief;
use bailiwick_model::task::{Budget, Output, Scope, Verification};
use schemars::Schema;
use serde_json::Value;

use crate::kit_in_memory::{bound, with_files};

const HEADING: &str = "## Your task's scope (resolved from task.toml)";

/// A role whose capabilities accept every parameter, including one of a capability of this test.
fn kit() -> Kit {
    let role = r#"
        [role]
        name = "everything"
        [capabilities]
        required = [
          "scope::files-whitelist", "scope::files-denylist", "quality::constructor-pattern",
          "quality::cargo-check-green", "quality::tests-green", "quality::commands-green",
          "safety::no-dep-bump", "safety::no-mass-delete", "output::report-format",
          "quality::tests-kept", "quality::house-style",
        ]
    "#;
    let capability = r#"
        [capability]
        name = "quality::house-style"
        category = "quality"
        description = "The house style is kept."
        [parameterized]
        accepts = ["house-style"]
        [verify]
        command = "true"
    "#;
    with_files(&[
        ("roles/everything.toml", role),
        ("capabilities/quality/house-style/capability.toml", capability),
        ("capabilities/quality/house-style/text.md", "## House style\n\nYou MUST keep it.\n"),
    ])
}

/// One key of a task: its table, its name, and a value that is unique in the prompt.
struct Setting {
    table: &'static str,
    name: String,
    value: String,
    shown: Option<String>,
}

/// Every key in the schema of a table.
fn settings(table: &'static str, schema: Schema) -> Vec<Setting> {
    let schema = schema.to_value();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap();
    let setting = |(name, property): (&String, &Value)| {
        let kinds = property.get("type").unwrap_or(&Value::Null);
        let is = |kind: &str| {
            kinds == kind || kinds.as_array().is_some_and(|all| all.contains(&kind.into()))
        };
        let (value, shown) = if is("array") {
            let entry = format!("sentinel-of-{name}");
            (format!("[\"{entry}\"]"), Some(entry))
        } else if is("integer") {
            ("739184".to_owned(), Some("739184".to_owned()))
        } else if is("number") {
            ("73918.25".to_owned(), Some("73918.25".to_owned()))
        } else if is("boolean") {
            ("true".to_owned(), None)
        } else if property.to_string().contains("\"allowed\"") {
            ("\"allowed\"".to_owned(), None)
        } else {
            panic!("this test does not know the type of parameter {name}: {property}")
        };
        Setting { table, name: name.clone(), value, shown }
    };
    properties.iter().map(setting).collect()
}

fn parameters() -> Vec<Setting> {
    let own = Setting {
        table: "parameters",
        name: "house-style".to_owned(),
        value: "\"sentinel of ours\"".to_owned(),
        shown: Some("sentinel of ours".to_owned()),
    };
    let mut all = settings("scope", schemars::schema_for!(Scope));
    all.extend(settings("verification", schemars::schema_for!(Verification)));
    all.extend(settings("output", schemars::schema_for!(Output)));
    all.push(own);
    all
}

fn with(setting: &Setting) -> String {
    let Setting { table, name, value, .. } = setting;
    format!("[task]\nrole = \"everything\"\n[{table}]\n{name} = {value}\n")
}

#[test]
fn every_parameter_is_visible_in_the_prompt() {
    let kit = kit();
    let without = brief::compose(&bound(&kit, "[task]\nrole = \"everything\"\n")).unwrap();
    assert!(!without.contains(HEADING));
    for setting in parameters() {
        let bound = bound(&kit, &with(&setting));
        let names: Vec<String> =
            bound.task.parameters_set().into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [setting.name.as_str()],
            "it must be a parameter that a capability has to accept"
        );
        let text = brief::compose(&bound).unwrap();
        let (_, scope) = text
            .split_once(HEADING)
            .unwrap_or_else(|| panic!("`{}` is set, but it is not in the prompt", setting.name));
        let scope = scope.split("\n\n---\n\n").next().unwrap();
        assert!(!scope.trim().is_empty(), "{}: {scope}", setting.name);
        if let Some(shown) = &setting.shown {
            assert!(scope.contains(shown.as_str()), "{}: {scope}", setting.name);
            assert!(!without.contains(shown.as_str()));
        }
    }
}

#[test]
fn parameters_set_together_have_one_distinct_entry_each() {
    let all = parameters();
    let mut task = "[task]\nrole = \"everything\"\n".to_owned();
    for table in ["scope", "verification", "output", "parameters"] {
        task += &format!("[{table}]\n");
        for setting in all.iter().filter(|setting| setting.table == table) {
            task += &format!("{} = {}\n", setting.name, setting.value);
        }
    }
    let bound = bound(&kit(), &task);
    let set: BTreeSet<String> =
        bound.task.parameters_set().into_iter().map(|(name, _)| name).collect();
    assert_eq!(set, all.iter().map(|setting| setting.name.clone()).collect());
    let text = brief::compose(&bound).unwrap();
    let scope = text.split_once(HEADING).unwrap().1.split("\n\n---\n\n").next().unwrap();
    let entries: Vec<&str> = scope.trim().split("\n\n").collect();
    assert_eq!(entries.len(), all.len(), "one entry for each parameter: {scope}");
    let distinct: BTreeSet<&str> = entries.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "two parameters have the same entry: {scope}");
}

#[test]
fn every_budget_is_visible_in_the_prompt_of_its_task() {
    let kit = kit();
    let without = brief::compose(&bound(&kit, "[task]\nrole = \"everything\"\n")).unwrap();
    assert!(!without.contains("**budget**"));
    let budgets = settings("budget", schemars::schema_for!(Budget));
    assert!(budgets.len() >= 5);
    // `unlimited` sets no limit.
    for setting in budgets.into_iter().filter(|setting| setting.name != "unlimited") {
        let text = brief::compose(&bound(&kit, &with(&setting))).unwrap();
        let line = text.lines().find(|line| line.starts_with("**budget**")).unwrap();
        assert!(line.contains(setting.shown.as_deref().unwrap()), "{}: {line}", setting.name);
    }
}

#[test]
fn small_budget_is_shown_as_it_was_written() {
    let kit = kit();
    for usd in ["0.001", "0.005", "0.125", "2.5"] {
        let task = format!("[task]\nrole = \"everything\"\n[budget]\nusd = {usd}\n");
        let text = brief::compose(&bound(&kit, &task)).unwrap();
        let line = text.lines().find(|line| line.starts_with("**budget**")).unwrap();
        assert!(line.contains(usd), "{usd} dollars are shown as: {line}");
    }
}

#[test]
fn default_budget_is_shown_only_for_a_run_without_a_budget() {
    let kit = kit();
    let plain =
        bound(&kit, "[task]\nrole = \"everything\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n");
    let budget = bailiwick_lifecycle::supervision::Budget::of_run(&plain.task.budget).0;
    let text = brief::compose_for_run(&plain, &budget).unwrap();
    let line = text.lines().find(|line| line.starts_with("**budget**")).unwrap();
    assert!(line.ends_with(": 20000000 tokens (default), 500 turns (default)"), "{line}");
    // A prompt that is not for a run has no budget.
    assert!(!brief::compose(&plain).unwrap().contains("**budget**"));
    let with_budget = "[task]\nrole = \"everything\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[budget]\nturns = 7\n";
    let with_budget = bound(&kit, with_budget);
    let of_run = brief::compose_for_run(&with_budget, &budget).unwrap();
    assert_eq!(of_run, brief::compose(&with_budget).unwrap());
}

#[test]
fn prompt_says_when_no_file_is_writable() {
    let kit = kit();
    let prompt_for = |scope: &str| {
        let bound = bound(&kit, &format!("[task]\nrole = \"everything\"\n{scope}"));
        brief::compose_for_run(&bound, &Default::default()).unwrap()
    };
    let sentence = "**you may change no file**: the task's files-whitelist is empty";
    assert!(prompt_for("").contains(sentence));
    assert!(!prompt_for("[scope]\nfiles-whitelist = [\"src/**\"]\n").contains(sentence));
}
