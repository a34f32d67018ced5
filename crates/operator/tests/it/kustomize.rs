//! `manifests --kustomize` writes the objects that the other commands print.

use std::path::Path;

use serde_json::Value;

use crate::{SERVER_ARGUMENTS, run};

const BASE: [&str; 2] = ["--kustomize", "base"];
/// `job-manifests` has these options, too.
const JOBS: [&str; 10] = [
    "--attempts",
    "attempts",
    "--attempts",
    "untrusted",
    "--installation",
    "second",
    "--model-network",
    "203.0.113.0/24",
    "--quota-pods",
    "20",
];
const ADDRESS: [&str; 2] = ["--server", "https://agents.example:8443"];

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn printed(arguments: &[&[&str]]) -> Vec<Value> {
    let output = run(&arguments.concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    documents(&String::from_utf8(output.stdout).unwrap())
}

fn error_output(arguments: &[&[&str]]) -> String {
    let output = run(&arguments.concat());
    assert!(!output.status.success() && output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The objects that a kustomization in a directory lists.
fn listed(directory: &Path) -> Vec<Value> {
    let read = |path: &str| std::fs::read_to_string(directory.join(path)).unwrap();
    let list: Value = serde_saphyr::from_str(&read("kustomization.yaml")).unwrap();
    let files = list["resources"].as_array().unwrap();
    files.iter().flat_map(|file| documents(&read(file.as_str().unwrap()))).collect()
}

#[test]
fn directories_contain_the_objects_that_commands_print() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base");
    let kustomize = ["--kustomize", base.to_str().unwrap()];
    let operator = ["--operator-namespace", "team", "--operator-token", "access/admin"];
    let output = run(&[&SERVER_ARGUMENTS[..], &kustomize, &operator, &JOBS, &ADDRESS].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    assert_eq!(listed(&base), printed(&[&SERVER_ARGUMENTS]));
    let access = ["access", "--namespace", "team", "--image", "bailiwick:1"];
    let token = ["--token", "access/admin"];
    assert_eq!(listed(&base.join("operator")), printed(&[&access, &token, &ADDRESS]));
    let jobs = ["job-manifests", "--image", "bailiwick:1", "--database", "db/url"];
    assert_eq!(listed(&base.join("jobs")), printed(&[&jobs, &JOBS, &ADDRESS]));
}

#[test]
fn operators_connect_to_the_host_if_no_address_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base");
    let output = run(&[&SERVER_ARGUMENTS[..], &["--kustomize", base.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let address = ["--server", "https://agents.example"];
    let access = ["access", "--namespace", "agents", "--image", "bailiwick:1"];
    let token = ["--token", "operator/token"];
    assert_eq!(listed(&base.join("operator")), printed(&[&access, &token, &address]));
    let jobs = ["job-manifests", "--image", "bailiwick:1", "--database", "db/url"];
    assert_eq!(listed(&base.join("jobs")), printed(&[&jobs, &address]));
}

#[test]
fn options_of_the_operators_require_a_directory() {
    for option in [&JOBS[..2], &ADDRESS, &["--operator-token", "operator/token"]] {
        let message = error_output(&[&SERVER_ARGUMENTS, option]);
        assert!(message.contains("--kustomize <DIR>"), "{message}");
    }
}

#[test]
fn host_that_is_not_an_address_requires_the_server_option() {
    let local = ["manifests", "--image", "i", "--host", "[::1]", "--database", "db/url"];
    let message = error_output(&[&local, &BASE]);
    assert!(message.contains("https://[::1] is not the address of a server"), "{message}");
    assert!(message.contains("--server"), "{message}");
}

/// The objects of a base as `kubectl apply -k` reads it; none on a machine without kubectl, unless CI says that it has one.
fn built(directory: &Path) -> Option<Vec<Value>> {
    let output = std::process::Command::new("kubectl").arg("kustomize").arg(directory).output();
    let Ok(output) = output else {
        assert!(std::env::var_os("BAILIWICK_TEST_KUBECTL").is_none(), "kubectl is missing");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(documents(&String::from_utf8(output.stdout).unwrap()))
}

/// In an order that does not depend on the program that has written them.
fn sorted(mut objects: Vec<Value>) -> Vec<String> {
    objects.retain(|object| !object.is_null());
    let mut texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    texts.sort();
    texts
}

#[test]
fn kubectl_builds_the_directories_into_the_printed_objects() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("fleet");
    let kustomize = ["--kustomize", base.to_str().unwrap()];
    let output = run(&[&SERVER_ARGUMENTS[..], &kustomize, &JOBS, &ADDRESS].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = "resources: [fleet, fleet/operator, fleet/jobs]\n";
    std::fs::write(directory.path().join("kustomization.yaml"), all).unwrap();
    let mut expected = Vec::new();
    for part in ["", "operator", "jobs"] {
        let part = base.join(part);
        let Some(objects) = built(&part) else { return };
        assert_eq!(sorted(objects), sorted(listed(&part)), "{}", part.display());
        expected.extend(listed(&part));
    }
    let objects = built(directory.path()).unwrap();
    assert_eq!(sorted(objects), sorted(expected));
}
