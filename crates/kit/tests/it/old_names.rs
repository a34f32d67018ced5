//! The names of an earlier version: they resolve to the current ones, with one warning.

use bailiwick_kit::bind;
use bailiwick_model::Source;

use crate::memory::{MemoryTree, capability_name, role_toml};

#[test]
fn old_name_resolves_to_the_current_capability() {
    for (old, new) in [
        ("tools::read-only", "tools::deny-tools"),
        ("tools::cargo-only-bash", "tools::bash-allowlist"),
    ] {
        let required = format!("required = [\"{old}\"]\n");
        let kit = MemoryTree::new([("roles/mine.toml", role_toml("mine", &required))]).into_kit();
        let bound = bind(&kit, &Source::new("task.toml", "[task]\nrole = \"mine\"\n")).unwrap();
        assert_eq!(bound.role.capabilities, [capability_name(new)]);
        let [found] = bound.capabilities.as_slice() else { panic!("{old}") };
        assert_eq!(*found.declared.name(), capability_name(new));
        assert!(found.declared.has_gate());
    }
}

#[test]
fn old_name_that_a_role_uses_several_times_warns_once() {
    let lists = "required = [\"tools::read-only\", \"tools::read-only\"]\n";
    let kit = MemoryTree::new([("roles/mine.toml", role_toml("mine", lists))]).into_kit();
    let bound = bind(&kit, &Source::new("task.toml", "[task]\nrole = \"mine\"\n")).unwrap();
    let codes: Vec<&str> = bound.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["old-name"]);
    let text = bound.warnings.first().map(ToString::to_string).unwrap();
    assert!(text.contains("`tools::read-only`") && text.contains("`tools::deny-tools`"), "{text}");
}

#[test]
fn current_name_does_not_warn() {
    let lists = "required = [\"tools::deny-tools\", \"tools::deny-tools\"]\n";
    let kit = MemoryTree::new([("roles/mine.toml", role_toml("mine", lists))]).into_kit();
    let bound = bind(&kit, &Source::new("task.toml", "[task]\nrole = \"mine\"\n")).unwrap();
    assert_eq!(bound.warnings, []);
}
