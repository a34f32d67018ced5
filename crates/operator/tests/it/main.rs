//! The program as it is run from the command line.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test helpers panic on failure"
)]

mod api_server;
mod exchanges;
mod guide;
mod job_safety;
mod jobs;
mod jobs_on_a_cluster;
mod kustomize;
mod real_cluster;
mod recorded_scenarios;
mod sync;

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bailiwick-kubernetes")).args(arguments).output().unwrap()
}

fn kinds(arguments: &[&str]) -> Vec<String> {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let kind = |document: &Value| {
        assert_eq!(document["kind"], "CustomResourceDefinition");
        document["spec"]["names"]["kind"].as_str().unwrap().to_owned()
    };
    documents.iter().map(kind).collect()
}

#[test]
fn crds_prints_all_kinds_or_the_named_ones() {
    let all = kinds(&["crds"]);
    assert!(all.contains(&"AgentStack".to_owned()) && all.len() > 20, "{all:?}");
    assert_eq!(kinds(&["crds", "stack", "RunnerPool"]), ["AgentStack", "RunnerPool"]);
}

#[test]
fn kinds_that_are_not_custom_resources_are_refused_with_a_reason() {
    for (kind, reason) in [
        ("secret", "Kubernetes has the kind Secret itself"),
        ("delivery", "kept in the database only: read it with `bailiwick get delivery`"),
        ("stak", "did you mean `stack`?"),
    ] {
        let output = run(&["crds", kind]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(reason) && output.stdout.is_empty(), "{message}");
    }
}

const SERVER_ARGUMENTS: [&str; 7] =
    ["manifests", "--image", "bailiwick:1", "--host", "agents.example", "--database", "db/url"];

#[test]
fn manifests_prints_the_objects_of_a_server() {
    assert_eq!(seccomp_profile(&[]), "RuntimeDefault");
    assert_eq!(seccomp_profile(&["--agents"]), "Unconfined");
    let output = run(&["manifests", "--image", "a b", "--host", "x", "--database", "db"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("write an image such as"), "{message}");
}

fn seccomp_profile(more: &[&str]) -> String {
    let output = run(&[&SERVER_ARGUMENTS, more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let deployment = documents.iter().find(|one| one["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "bailiwick:1");
    pod["securityContext"]["seccompProfile"]["type"].as_str().unwrap().to_owned()
}

#[test]
fn access_prints_the_pod_of_the_operator_if_an_image_is_given() {
    let kinds = |more: &[&str]| -> Vec<String> {
        let output = run(&[&["access", "--namespace", "agents"][..], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        documents.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
    };
    let account = ["ServiceAccount", "Role", "RoleBinding"];
    assert_eq!(kinds(&[]), account);
    let pod = ["--image", "i", "--server", "https://agents.example", "--token", "operator/token"];
    assert_eq!(kinds(&pod), [&account[..], &["Deployment"]].concat());
    let output = run(&["access", "--namespace", "agents", "--image", "i"]);
    assert_eq!(output.status.code(), Some(2), "the pod needs a server and a token");
}

#[test]
fn worker_prints_a_pod_that_connects_to_the_server() {
    let arguments = ["worker", "--image", "i", "--pool", "p", "--join-token", "s/k", "--server"];
    let output = run(&[&arguments[..], &["https://agents.example"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("https://agents.example"));
    let output = run(&[&arguments[..], &["http://agents.example"]].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("write an address such as https://"), "{message}");
}
