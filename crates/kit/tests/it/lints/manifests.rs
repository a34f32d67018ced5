//! The lints of manifests.

use super::{assert_reported_once, error, problems};
use crate::memory::{MemoryTree, role_toml};

const MINE: &str = "name = \"mine\"\ndescription = \"x\"\nsubstrate_role = \"read-only\"\n\
                    tools = [\"Read\"]\nrole = \"Look.\"\n";

#[test]
fn manifest_that_cannot_be_assembled_is_reported() {
    let with = |text: &str| MemoryTree::default().with("manifests/mine.toml", text);
    assert_eq!(problems(with(MINE), &[]), []);
    let place = "repository/manifests/mine.toml:3:18";
    assert_reported_once(
        MINE,
        &problems(with(&MINE.replace("read-only", "red-only")), &[]),
        &error("unknown-role", place, "\"red-only\"", "did you mean `read-only`?"),
    );
    let place = "repository/manifests/mine.toml:4:10";
    assert_reported_once(
        MINE,
        &problems(with(&MINE.replace("\"Read\"", "\"Bash\"")), &[]),
        &error("wider-than-role", place, "\"Bash\"", "the role has Read"),
    );
}

#[test]
fn overriding_role_causes_no_problem_in_shipped_manifests() {
    let narrow = role_toml("read-only", "required = [\"output::report-format\"]\n");
    let tree = MemoryTree::default().with("roles/read-only.toml", narrow);
    assert_eq!(problems(tree, &[]), []);
}
