//! The commands in docs/guides/kubernetes.md print objects for a cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A fake kubectl that stores the objects that it applies.
const KUBECTL: &str = "#!/bin/sh\n[ \"$1\" != apply ] || cat >> \"$APPLIED\"\ncat > /dev/null\n";

#[test]
fn commands_of_the_guide_print_objects_for_a_cluster() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/kubernetes.md");
    let text = fs::read_to_string(guide).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubectl = directory.path().join("kubectl");
    fs::write(&kubectl, KUBECTL).unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_bailiwick-kubernetes")).parent().unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", directory.path().display(), program.display());
    let applied = directory.path().join("applied.yaml");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut completed = 0;
    // These commands need an API server; `real_cluster` tests them.
    let needs_cluster = |block: &str| {
        ["operator", "review"]
            .iter()
            .any(|word| block.contains(&format!("bailiwick-kubernetes {word}")))
    };
    let prints_objects =
        |block: &&str| block.contains("bailiwick-kubernetes") && !needs_cluster(block);
    for block in blocks.filter(prints_objects) {
        let status = Command::new("bash")
            .args(["-euo", "pipefail", "-c", block])
            .env_clear()
            .current_dir(directory.path())
            .env("PATH", &path)
            .env("APPLIED", &applied)
            .stdin(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{block}");
        completed += 1;
    }
    assert_eq!(completed, 10);
    let applied: Vec<Value> =
        serde_saphyr::from_multiple(&fs::read_to_string(applied).unwrap()).unwrap();
    let kind = |kind: &str| applied.iter().filter(|one| one["kind"] == kind).count();
    assert!(kind("CustomResourceDefinition") > 20);
    assert_eq!((kind("Deployment"), kind("NetworkPolicy"), kind("Service")), (4, 2, 1));
    assert_eq!((kind("Role"), kind("RoleBinding")), (4, 4));
    for file in [
        "base/kustomization.yaml",
        "base/deployment.yaml",
        "base/jobs/kustomization.yaml",
        "bailiwick-chart/Chart.yaml",
        "bailiwick-chart/templates/jobs/deployment.yaml",
    ] {
        assert!(directory.path().join(file).exists(), "{file}");
    }
    let read = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
    let kustomization: Value = serde_saphyr::from_str(&read("kustomization.yaml")).unwrap();
    for name in kustomization["resources"].as_array().unwrap() {
        let list = format!("{}/kustomization.yaml", name.as_str().unwrap());
        assert!(directory.path().join(&list).exists(), "{list}");
    }
    let roles: Vec<Value> = serde_saphyr::from_multiple(&read("fleet/jobs/role.yaml")).unwrap();
    assert_eq!(roles.len(), 2, "one for each namespace");
}
