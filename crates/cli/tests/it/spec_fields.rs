//! Every field that people can declare is read somewhere in the code; otherwise it would have no effect.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Fields whose use this test does not find by name, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    // Records: written by the control plane, read by people and by programs through the API.
    ("AgentTriggerExecution", "failure_key", "read by the store, which finds executions by it"),
    ("JobResources", "cpu", "read by a pattern, in the Job of an attempt"),
    ("PatchDetail", "unsafe_files", "a record"),
    ("PatchDetail", "apply_strategy", "a record"),
    ("AgentReviewArtifact", "target_ref", "a record"),
    ("AgentContextBundle", "assembled_at", "a record"),
    ("MissingGrant", "suggested_name", "a record"),
    ("MissingGrant", "blocking", "a record"),
    ("ChildRun", "context_digest", "a record"),
    ("ChildRun", "contract_fulfilled", "a record"),
    ("WriteBackPolicy", "modes", "read in the model, which knows the default of each target"),
    ("WorkItemSessionLink", "work_item_ref", "read in model, as a field to select by"),
    ("WorkItemSessionLink", "session_ref", "read in model, as a field to select by"),
    ("WorkItemSessionLink", "branch_name", "a record"),
    ("WorkItemWorkspaceLink", "work_item_ref", "read in model, as a field to select by"),
    ("WorkItemWorkspaceLink", "branch_name", "a record"),
    ("RoleBinding", "subjects", "a record that is compared as a whole"),
    ("AgentSession", "forked_from", "a record"),
    ("AgentTriggerExecution", "rule_generation", "a record"),
    ("AgentWorkspace", "ownership", "a record"),
    // Declared and refused.
    ("ContextBundleTemplate", "redact_secrets", "refused by the model when it is false"),
];

struct Field {
    of: String,
    name: String,
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn sources(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The fields of every type except the statuses, which only the control plane writes.
fn fields() -> Vec<Field> {
    let mut texts = Vec::new();
    sources(&crates().join("resources/src"), &mut texts);
    let mut found = Vec::new();
    for text in texts {
        let mut of: Option<String> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("pub struct ") {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
                of = (!name.ends_with("Status")).then_some(name);
            } else if line.starts_with('}') {
                of = None;
            } else if let (Some(of), Some(rest)) = (&of, line.strip_prefix("    pub ")) {
                let name: String =
                    rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if rest.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(':')) {
                    found.push(Field { of: of.clone(), name });
                }
            }
        }
    }
    found
}

/// Every word after a dot that is neither a call nor part of a file name, outside of the model.
fn read_somewhere() -> BTreeSet<String> {
    let mut texts = Vec::new();
    for name in
        ["lifecycle", "fleet", "engine", "cli", "server", "store", "runner", "source-control"]
    {
        sources(&crates().join(name).join("src"), &mut texts);
    }
    sources(&crates().join("kubernetes/src/jobs"), &mut texts);
    let mut found = BTreeSet::new();
    for text in &texts {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = code.collect::<Vec<_>>().join("\n");
        for rest in code.split('.').skip(1) {
            let rest = rest.trim_start();
            let word: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if !word.is_empty()
                && rest.strip_prefix(&word).is_some_and(|after| !after.starts_with(['(', ':', '-']))
            {
                found.insert(word);
            }
        }
    }
    found
}

#[test]
fn every_declarable_field_is_read_in_the_code() {
    let (all, read) = (fields(), read_somewhere());
    assert!(all.len() > 300, "the control: fields are found: {}", all.len());
    assert!(!read.contains("a_field_that_nobody_has"), "the control: not everything is read");
    let is_exception = |field: &Field| {
        EXCEPTIONS.iter().any(|(of, name, _)| *of == field.of && *name == field.name)
    };
    let unread: Vec<String> = all
        .iter()
        .filter(|field| !read.contains(&field.name) && !is_exception(field))
        .map(|field| format!("{}.{}", field.of, field.name))
        .collect();
    assert_eq!(unread, [""; 0], "no code reads these fields: use each, or refuse it");
    // An exception must not be read by name, and must exist.
    let stale: Vec<_> = EXCEPTIONS
        .iter()
        .filter(|(of, name, _)| {
            read.contains(*name) || !all.iter().any(|one| one.of == *of && one.name == *name)
        })
        .collect();
    assert!(stale.is_empty(), "{stale:?}");
}
