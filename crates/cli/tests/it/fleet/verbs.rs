//! Verbs and options that users know from kubectl: edit, audit, api-resources, sorting, JSONPath, several kinds.

use bailiwick_testkit::scratch::Ran;
use serde_json::json;

use super::{Place, config_map, written};

fn edit(place: &Place, editor: &str, arguments: &[&str]) -> Ran {
    let mut command = place.scratch.command(crate::BAILIWICK);
    command.arg("edit").args(arguments).env("EDITOR", editor);
    Ran::from(command.output().unwrap())
}

#[test]
fn edit_applies_changes_and_keeps_the_file_of_a_conflict() {
    let place = Place::bare();
    place.apply(&[config_map("a", "1")]).expect_code(0);
    let value = || place.json(&["get", "configmap", "a"])["spec"]["data"]["k"].clone();
    assert_eq!(edit(&place, "true", &["configmap", "a"]).expect_code(0).out, "cm/a unchanged\n");
    let change = "sed -i 's/k:.*/k: edited/'";
    assert_eq!(edit(&place, change, &["configmap/a"]).expect_code(0).out, "cm/a edited\n");
    assert_eq!(value(), "edited");
    // Another user changes the object while the editor is open.
    place.scratch.write("other.json", &config_map("a", "theirs").to_string());
    let concurrent_change = format!(
        "{} -q apply -f other.json >/dev/null && sed -i 's/k:.*/k: mine/'",
        crate::BAILIWICK
    );
    let conflict = edit(&place, &concurrent_change, &["configmap", "a"]).expect_code(2);
    assert!(conflict.err.contains("was changed meanwhile"), "{}", conflict.err);
    assert_eq!(value(), "theirs");
    let kept_file = conflict.err.split("is kept: ").nth(1).unwrap().trim();
    assert!(std::fs::read_to_string(kept_file).unwrap().contains("k: mine"));
    std::fs::remove_file(kept_file).unwrap();
    let wrong = edit(&place, "sed -i 's/spec:/spce:/'", &["configmap", "a"]).expect_code(2);
    let kept_file = wrong.err.split("is kept: ").nth(1).unwrap().trim();
    std::fs::remove_file(kept_file).unwrap();
    let renamed = edit(&place, "sed -i 's/name: a/name: b/'", &["configmap", "a"]).expect_code(2);
    let kept_file = renamed.err.split("is kept: ").nth(1).unwrap().trim();
    std::fs::remove_file(kept_file).unwrap();
    edit(&place, "false", &["configmap", "a"]).expect_code(1);
    edit(&place, "true", &["run", "adr-1"]).expect_code(2);
    edit(&place, "true", &["secret", "s"]).expect_code(2);
    assert_eq!(value(), "theirs");
}

#[test]
fn get_of_several_kinds_sorts_and_selects_by_jsonpath() {
    let place = Place::new();
    place
        .apply(&[config_map("b", "2"), config_map("a", "10"), config_map("c", "1")])
        .expect_code(0);
    let get = |arguments: &[&str]| place.run(&[&["get"], arguments].concat()).expect_code(0).out;
    let both = get(&["configmaps,pools", "-o", "name"]);
    assert_eq!(both, "cm/b\ncm/a\ncm/c\npool/inside\n");
    let tables = get(&["configmaps,pools"]);
    assert_eq!(tables.lines().filter(|line| line.starts_with("NAME")).count(), 2, "{tables}");
    assert_eq!(place.json(&["get", "configmaps,pools"]).as_array().unwrap().len(), 4);
    assert_eq!(
        get(&["configmaps", "-o", "name", "--sort-by", ".metadata.name"]),
        "cm/a\ncm/b\ncm/c\n"
    );
    let names = get(&["configmaps", "-o", "jsonpath={.items[*].spec.data.k}"]);
    assert_eq!(names, "2\n10\n1\n");
    assert_eq!(get(&["configmap", "a", "-o", "jsonpath={.spec.data.k}"]), "10\n");
    place.run(&["get", "configmaps", "-o", "jsonpath={.a}{.b}"]).expect_code(2);
    place.run(&["get", "configmaps", "-o", "xml"]).expect_code(2);
    place.run(&["get", "configmaps,things"]).expect_code(2);
}

#[test]
fn delete_of_documents_removes_what_they_declare() {
    let place = Place::bare();
    let documents = [config_map("a", "1"), config_map("b", "1")];
    place.apply(&documents).expect_code(0);
    let delete = |arguments: &[&str]| {
        place.run_with_input(&[&["delete", "-f", "-"], arguments].concat(), &written(&documents))
    };
    assert_eq!(
        delete(&["--dry-run"]).expect_code(0).out,
        "cm/b deleted (dry run)\ncm/a deleted (dry run)\n"
    );
    assert_eq!(delete(&[]).expect_code(0).out, "cm/b deleted\ncm/a deleted\n");
    // All of them must exist, or nothing is deleted.
    place.apply(&documents[..1]).expect_code(0);
    delete(&[]).expect_code(2);
    assert_eq!(place.run(&["get", "configmaps", "-o", "name"]).expect_code(0).out, "cm/a\n");
    place.run(&["delete", "-f", "x.json", "configmap", "a"]).expect_code(2);
}

#[test]
fn audit_shows_who_did_what() {
    let place = Place::bare();
    place.apply(&[config_map("a", "1")]).expect_code(0);
    place.run(&["tokens", "new", "ada"]).expect_code(0);
    let lines = place.json(&["audit"]);
    let events: Vec<&str> = lines
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["entry"]["event"].as_str().unwrap())
        .collect();
    assert_eq!(events, ["ConfigMapCreated", "TokenCreated"]);
    let user = place.scratch.run("id", &["-un"]).out;
    let shown =
        place.run(&["audit", "--actor", user.trim(), "--subject", "ConfigMap/"]).expect_code(0).out;
    assert!(shown.contains("ConfigMap/default/a") && !shown.contains("TokenCreated"), "{shown}");
    assert_eq!(place.json(&["audit", "--last", "1"])[0]["entry"]["event"], "TokenCreated");
    assert_eq!(place.json(&["audit", "--event", "Nothing"]), json!([]));
}

// trigger_ names of verbs with a hyphen: api-resources
#[test]
fn api_resources_lists_kinds_and_describes_fields() {
    let place = Place::bare();
    let all = place.run(&["api-resources"]).expect_code(0).out;
    assert!(all.contains("agentstacks") && all.contains("control plane"), "{all}");
    let scope = place.run(&["api-resources", "stack.spec.scope"]).expect_code(0).out;
    assert!(scope.contains("AgentStack.spec.scope") && scope.contains("filesWhitelist"), "{scope}");
    assert_eq!(place.json(&["api-resources", "stack.spec.scope"])["name"], "scope");
    let wrong = place.run(&["api-resources", "stack.spec.scpoe"]).expect_code(2);
    assert!(wrong.err.contains("its fields are") && wrong.err.contains("scope"), "{}", wrong.err);
    place.run(&["api-resources", "things"]).expect_code(2);
}
