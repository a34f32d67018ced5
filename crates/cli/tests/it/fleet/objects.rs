//! Objects: apply, get, watch, diff, explain, wait and delete.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{Place, Serving, config_map, document, written};
use crate::BAILIWICK;

#[test]
fn apply_declares_and_apply_dry_run_changes_nothing() {
    let place = Place::bare();
    let both = [config_map("a", "1"), config_map("b", "1")];
    let dry_run =
        place.run_with_input(&["apply", "-f", "-", "--dry-run"], &written(&both)).expect_code(0);
    assert_eq!(dry_run.out, "cm/a created (dry run)\ncm/b created (dry run)\n");
    assert_eq!(place.json(&["get", "configmaps"]), json!([]));
    assert_eq!(place.audit(), []);
    assert_eq!(place.apply(&both).expect_code(0).out, "cm/a created\ncm/b created\n");
    let mixed = [config_map("a", "2"), config_map("b", "1")];
    let output = place.apply(&mixed).expect_code(0).out;
    assert_eq!(output, "cm/a configured\ncm/b unchanged\n");
    let events: Vec<String> = place.audit().into_iter().map(|(event, _)| event).collect();
    assert_eq!(events, ["ConfigMapCreated", "ConfigMapCreated", "ConfigMapReplaced"]);
    // If one document is invalid, none is applied.
    let invalid = [config_map("c", "1"), document("ConfigMap", "d", json!({ "unknown": 1 }))];
    place.apply(&invalid).expect_code(2);
    assert_eq!(place.json(&["get", "configmaps"]).as_array().unwrap().len(), 2);
}

#[test]
fn apply_of_an_outdated_version_is_a_conflict() {
    let place = Place::bare();
    place.apply(&[config_map("a", "1")]).expect_code(0);
    let mut outdated = place.json(&["get", "configmap", "a"]);
    place.apply(&[config_map("a", "2")]).expect_code(0);
    outdated["spec"]["data"]["k"] = json!("3");
    let refused = place.apply(std::slice::from_ref(&outdated)).expect_code(2);
    assert!(refused.err.contains("was changed meanwhile"), "{}", refused.err);
    assert_eq!(place.json(&["get", "configmap", "a"])["spec"]["data"]["k"], "2");
    // Without a version, the current one is replaced. A version of a deleted object is refused.
    outdated["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    place.apply(&[outdated]).expect_code(0);
    let last = place.json(&["get", "configmap", "a"]);
    place.run(&["delete", "configmap", "a"]).expect_code(0);
    place.apply(&[last]).expect_code(2);
}

#[test]
fn get_shows_yaml_json_wide_and_names_and_selects_by_label_and_field() {
    let place = Place::new();
    let mut labelled = config_map("a", "1");
    labelled["metadata"]["labels"] = json!({ "team": "x" });
    place.apply(&[labelled, config_map("b", "1")]).expect_code(0);
    let yaml = place.run(&["get", "configmap", "a", "-o", "yaml"]).expect_code(0).out;
    assert!(yaml.contains("kind: ConfigMap\n") && yaml.contains("team: x"), "{yaml}");
    assert_eq!(
        place.run_with_input(&["apply", "-f", "-"], &yaml).expect_code(0).out,
        "cm/a unchanged\n"
    );
    assert_eq!(place.json(&["get", "configmap/a"])["spec"]["data"]["k"], "1");
    let names = place.run(&["get", "configmaps", "-o", "name"]).expect_code(0).out;
    assert_eq!(names, "cm/a\ncm/b\n");
    let some = place.run(&["get", "configmaps", "-o", "name", "-l", "team=x"]).expect_code(0).out;
    assert_eq!(some, "cm/a\n");
    let narrow = place.run(&["get", "repositories"]).expect_code(0).out;
    let wide = place.run(&["get", "repositories", "-o", "wide"]).expect_code(0).out;
    assert!(!narrow.contains("CHECKOUT") && wide.contains("CHECKOUT"), "{narrow}{wide}");
    let rule = |state: &str| {
        let field = format!("state={state}");
        place.run(&["get", "triggers", "-o", "name", "--field", &field]).expect_code(0).out
    };
    assert_eq!((rule("draft").as_str(), rule("active").as_str()), ("trigger/broken\n", ""));
    let unknown = place.run(&["get", "triggers", "--field", "colour=red"]).expect_code(2);
    assert!(unknown.err.contains("use one of"), "{}", unknown.err);
    place.run(&["get", "configmap", "none"]).expect_code(2);
}

#[test]
fn get_watch_prints_changes() {
    let place = Place::bare();
    place.apply(&[config_map("a", "1")]).expect_code(0);
    let mut command = place.scratch.command(BAILIWICK);
    command.args(["get", "configmaps", "--watch"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("NAME"));
    assert!(next().starts_with('a'));
    place.apply(&[config_map("b", "1")]).expect_code(0);
    let line = next();
    assert!(line.starts_with("added") && line.contains('b'), "{line}");
    place.apply(&[config_map("b", "2")]).expect_code(0);
    assert!(next().starts_with("modified"));
    place.run(&["delete", "configmap", "b"]).expect_code(0);
    assert!(next().starts_with("deleted"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn get_watch_reports_objects_that_leave_the_selection() {
    let place = Place::bare();
    let with_team = |team: &str| {
        let mut map = config_map("a", "1");
        map["metadata"]["labels"] = json!({ "team": team });
        map
    };
    place.apply(&[with_team("x")]).expect_code(0);
    let mut command = place.scratch.command(BAILIWICK);
    command.args(["get", "configmaps", "--watch", "-l", "team=x"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("NAME"));
    assert!(next().starts_with('a'));
    place.apply(&[with_team("y")]).expect_code(0);
    let line = next();
    assert!(line.starts_with("left") && line.contains('a'), "{line}");
    // It is reported once, and later changes outside of the selection are not shown.
    place.apply(&[with_team("z")]).expect_code(0);
    place.apply(&[with_team("x")]).expect_code(0);
    assert!(next().starts_with("modified"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn describe_and_explain_show_unmet_conditions_and_advice() {
    let place = Place::new();
    place.run(&["delete", "toolprofile", "tools"]).expect_code(0);
    let _serving = Serving::start(&place);
    let stack = || place.json(&["get", "stack", "fixer"]);
    place.wait_for("a condition", || {
        let conditions = stack()["status"]["conditions"].as_array().cloned()?;
        conditions.iter().any(|one| one["reason"] == "ToolProfileMissing").then_some(())
    });
    let described = place.run(&["describe", "stack", "fixer"]).expect_code(0).out;
    assert!(described.contains("ToolProfileMissing"), "{described}");
    let explained = place.run(&["explain", "stack/fixer"]).expect_code(0);
    for expected in ["is not met", "ToolsAdmitted", "The tool profile does not exist"] {
        assert!(explained.out.contains(expected), "{expected}: {}", explained.out);
    }
    assert!(explained.out.contains("apply the AgentToolProfile"), "{}", explained.out);
    let value = place.json(&["explain", "stack/fixer"]);
    let first = &value["conditions"][0];
    assert_ne!(first["status"], "True", "unmet conditions come first: {value:#}");
    assert!(!value["next"].as_array().unwrap().is_empty(), "{value:#}");
    // After the fix there is no advice.
    place.apply(&place.documents()).expect_code(0);
    place.run(&["wait", "stack/fixer", "--for", "condition=ToolsAdmitted"]).expect_code(0);
    let value = place.json(&["explain", "stack/fixer"]);
    let tools = value["conditions"].as_array().unwrap();
    let tools = tools.iter().find(|one| one["type"] == "ToolsAdmitted").unwrap();
    assert_eq!((&tools["status"], &tools["advice"]), (&json!("True"), &Value::Null));
    place.run(&["explain", "stack/none"]).expect_code(2);
}

#[test]
fn explain_of_a_command_still_works() {
    let place = Place::bare();
    let output = place.run(&["explain", "--", "cat src/kept.txt"]).expect_code(0).out;
    assert!(output.contains("role developer"), "{output}");
    let output = place.run(&["explain", "--", "bin/tool"]).expect_code(0).out;
    assert!(output.contains("bin/tool"), "{output}");
}

#[test]
fn diff_of_documents_shows_changes_without_secrets() {
    let place = Place::new();
    place
        .run_with_input(&["secrets", "set", "api", "key"], "hunter2-hunter2-hunter2")
        .expect_code(0);
    place.apply(&[config_map("a", "1"), config_map("b", "1")]).expect_code(0);
    let diff =
        |documents: &[Value]| place.run_with_input(&["diff", "-f", "-"], &written(documents));
    assert_eq!(diff(&[config_map("a", "1")]).expect_code(0).out, "");
    let output = diff(&[config_map("a", "2"), config_map("b", "1"), config_map("c", "9")]);
    let output = output.expect_code(1).out;
    assert!(output.contains("--- live/cm/a\n+++ file/cm/a\n"), "{output}");
    assert!(output.contains("-    k: \"1\"\n+    k: \"2\"\n"), "{output}");
    assert!(output.contains("+++ file/cm/c\n@@ -0,0 "), "{output}");
    assert!(!output.contains("cm/b"), "{output}");
    // Nothing was changed, and an explicit default is no difference.
    assert_eq!(place.json(&["get", "configmap", "a"])["spec"]["data"]["k"], "1");
    let mut pool = place.documents().remove(2);
    pool["spec"]["paused"] = json!(false);
    assert_eq!(diff(&[pool]).expect_code(0).out, "");
    for value in ["hunter2-hunter2-hunter2", "ghp_0123456789abcdefghijABCDEFGHIJ012345"] {
        let output = diff(&[config_map("a", value)]).expect_code(1);
        assert!(!output.out.contains(value) && !output.err.contains(value), "{}", output.out);
    }
    diff(&[document("ConfigMap", "d", json!({ "unknown": 1 }))]).expect_code(2);
    diff(&[document("Secret", "s", json!({}))]).expect_code(2);
    place.run(&["diff", "-f", "nowhere.yaml"]).expect_code(2);
    place.run(&["diff"]).expect_code(2);
}

#[test]
fn delete_removes_an_object_once_and_never_a_record() {
    let place = Place::bare();
    place.apply(&[config_map("a", "1")]).expect_code(0);
    place.run(&["delete", "configmap", "a"]).expect_code(0);
    place.run(&["delete", "configmap", "a"]).expect_code(2);
    place.run(&["delete", "run", "adr-1"]).expect_code(2);
    assert_eq!(place.audit().last().unwrap().0, "ConfigMapDeleted");
}

#[test]
fn delete_by_selector_removes_matches_and_delete_dry_run_nothing() {
    let place = Place::bare();
    let mut labelled = config_map("a", "1");
    labelled["metadata"]["labels"] = json!({ "team": "x" });
    place.apply(&[labelled, config_map("b", "1")]).expect_code(0);
    let names = || place.run(&["get", "configmaps", "-o", "name"]).expect_code(0).out;
    let dry_run = place.run(&["delete", "configmap", "a", "--dry-run"]).expect_code(0);
    assert_eq!(
        (dry_run.out.as_str(), names().as_str()),
        ("cm/a deleted (dry run)\n", "cm/a\ncm/b\n")
    );
    place.run(&["delete", "configmap", "none", "--dry-run"]).expect_code(2);
    let selected = ["delete", "configmaps", "-l", "team=x"];
    let dry_run = place.run(&[&selected[..], &["--dry-run"]].concat()).expect_code(0);
    assert_eq!(
        (dry_run.out.as_str(), names().as_str()),
        ("cm/a deleted (dry run)\n", "cm/a\ncm/b\n")
    );
    assert_eq!(place.run(&selected).expect_code(0).out, "cm/a deleted\n");
    assert_eq!(names(), "cm/b\n");
    // No match is not an error. A name with a selector, neither of both, and recorded kinds are errors.
    assert_eq!(place.run(&selected).expect_code(0).out, "");
    place.run(&["delete", "configmap", "b", "-l", "team=x"]).expect_code(2);
    place.run(&["delete", "configmaps"]).expect_code(2);
    place.run(&["delete", "runs", "-l", "team=x", "--dry-run"]).expect_code(2);
}

#[test]
fn wait_succeeds_on_its_condition_and_fails_at_the_timeout() {
    let place = Place::bare();
    place.apply(&[config_map("a", "1")]).expect_code(0);
    place.run(&["wait", "configmap/none", "--for", "delete"]).expect_code(0);
    let late = place.run(&["wait", "configmap/a", "--for", "delete", "--timeout", "1s"]);
    assert!(
        late.expect_code(1)
            .err
            .contains("timed out after 1s: configmap/a has not reached `delete`")
    );
    place.run(&["wait", "configmap/a", "--for", "colour=red"]).expect_code(2);
    let mut command = place.scratch.command(BAILIWICK);
    command.args(["wait", "configmap/a", "--for", "delete"]).stdout(Stdio::null());
    let mut waiting = command.spawn().unwrap();
    place.run(&["delete", "configmap", "a"]).expect_code(0);
    assert!(waiting.wait().unwrap().success());
}
