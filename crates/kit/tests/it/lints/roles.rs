//! The lints of roles.

use super::{Expected, assert_reported_once, error, problems, warning};
use crate::memory::{MemoryTree, role_toml};

/// A role with these lines in `[capabilities]`, from line 6 on.
fn role(capabilities: &str) -> MemoryTree {
    MemoryTree::new([("roles/mine.toml", role_toml("mine", capabilities))])
}

fn assert_each(cases: &[(&'static str, Expected)]) {
    for (capabilities, expected) in cases {
        assert_reported_once(capabilities, &problems(role(capabilities), &[]), expected);
    }
}

macro_rules! at {
    ($place:literal) => {
        concat!("repository/roles/mine.toml:", $place)
    };
}

#[test]
fn problem_in_a_role_file_is_reported() {
    assert_each(&[
        (
            "requires = []\n",
            error("unknown-key", at!("6:1"), "requires", "did you mean `required`?"),
        ),
        (
            "[escalation]\npolicy = \"fail_fast\"\n",
            error("unknown-value", at!("7:10"), "\"fail_fast\"", "did you mean `fail-fast`?"),
        ),
        ("required = \"x\"\n", error("bad-toml", at!("6:12"), "\"x\"", "expected a list")),
        ("extends = []\n", error("bad-toml", at!("6:11"), "[]", "expected a string")),
        (
            "extends = \"Edit_Local\"\n",
            error("bad-toml", at!("6:11"), "\"Edit_Local\"", "is not a role name"),
        ),
    ]);
}

#[test]
fn role_name_that_differs_from_the_file_name_is_reported() {
    let tree = MemoryTree::new([("roles/mine.toml", role_toml("yours", ""))]);
    let says = "write name = \"mine\", or rename the file";
    let expected = error("name-mismatch", at!("2:8"), "\"yours\"", says);
    assert_reported_once("another name", &problems(tree, &[]), &expected);
    let tree = MemoryTree::new([("roles/My_Own.toml", "")]);
    let expected =
        error("bad-name", "repository/roles/My_Own.toml", None, "`My_Own` is not a role name");
    assert_reported_once("no slug", &problems(tree, &[]), &expected);
}

#[test]
fn invalid_pattern_or_tool_is_reported() {
    for (from, to, expected) in [
        (
            "allowed = [\"Read\"]",
            "allowed = [\"Read\"]\nbash-patterns-allowed = ['^ls', '(']",
            error("bad-pattern", at!("9:33"), "'('", "unclosed group"),
        ),
        ("\"Read\"", "\"Read\", \"\"", error("bad-tool", at!("8:20"), "\"\"", "names no tool")),
    ] {
        let text = role_toml("mine", "").replace(from, to);
        let tree = MemoryTree::new([("roles/mine.toml", text)]);
        assert_reported_once(to, &problems(tree, &[]), &expected);
    }
}

#[test]
fn unknown_capability_names_the_nearest_one() {
    assert_each(&[
        (
            "required = [\n  \"output::report-format\",\n  \"policy::no-git-op\",\n]\n",
            error(
                "unknown-capability",
                at!("8:3"),
                "\"policy::no-git-op\"",
                "did you mean `policy::no-git-ops`?",
            ),
        ),
        (
            "extends = \"edit-locl\"\n",
            error("unknown-role", at!("6:11"), "\"edit-locl\"", "did you mean `edit-local`?"),
        ),
        (
            "extends = \"zzzzzzzzzzzz\"\n",
            error("unknown-role", at!("6:11"), "\"zzzzzzzzzzzz\"", "roles list"),
        ),
    ]);
}

#[test]
fn problem_of_a_parent_is_reported_once_for_any_number_of_children() {
    let mut tree = role("required = [\"policy::no-git-op\"]\n");
    for child in ["one", "two", "three"] {
        tree = tree.with(format!("roles/{child}.toml"), role_toml(child, "extends = \"mine\"\n"));
    }
    let expected = error("unknown-capability", at!("6:13"), "\"policy::no-git-op\"", "no-git-ops");
    assert_reported_once("children", &problems(tree, &[]), &expected);
}

#[test]
fn role_that_extends_itself_is_named() {
    let expected =
        error("role-cycle", at!("6:11"), "\"mine\"", "`mine` extends itself: mine → mine");
    assert_reported_once("itself", &problems(role("extends = \"mine\"\n"), &[]), &expected);
}

#[test]
fn cycle_names_only_the_roles_in_it() {
    // tail → a → b → a
    let tree = MemoryTree::new([("tail", "a"), ("a", "b"), ("b", "a")].map(|(child, parent)| {
        (format!("roles/{child}.toml"), role_toml(child, &format!("extends = \"{parent}\"\n")))
    }));
    let found = problems(tree, &[]);
    assert!(!found.is_empty());
    for problem in &found {
        assert_eq!((problem.code, problem.is_error()), ("role-cycle", true), "{problem}");
        let innocent = problem.message.contains("tail");
        let named = problem.message.contains("`a` extends itself: a → b → a")
            || problem.message.contains("`b` extends itself: b → a → b");
        assert!(named && !innocent, "{problem}");
        let file = &*problem.place.source.file;
        assert!(file == "repository/roles/a.toml" || file == "repository/roles/b.toml", "{file}");
    }
}

#[test]
fn chain_that_is_too_long_is_reported() {
    let roles = (0..18).map(|number| {
        let extends = format!("extends = \"r{}\"\n", number + 1);
        let last = "required = [\"policy::no-git-ops\"]\n";
        let extends = if number == 17 { last } else { &extends };
        (format!("roles/r{number}.toml"), role_toml(&format!("r{number}"), extends))
    });
    let found = problems(MemoryTree::new(roles), &[]);
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((problem.code, problem.is_error()), ("role-too-deep", true));
    assert!(problem.message.contains("more than 16 times"), "{problem}");
}

#[test]
fn suspicious_role_warns() {
    assert_each(&[
        (
            "relaxes = [\"policy::no-git-ops\"]\nextends = \"read-only\"\n",
            warning("relaxes-nothing", at!("6:12"), "\"policy::no-git-ops\"", "does not inherit"),
        ),
        ("", warning("no-limits", at!("2:8"), "\"mine\"", "spawnable = false")),
        (
            "required = [\"tools::read-only\"]\n",
            warning(
                "old-name",
                at!("6:13"),
                "\"tools::read-only\"",
                "it is called `tools::deny-tools` now",
            ),
        ),
        (
            "required = [\"tools::cargo-only-bash\"]\n",
            warning(
                "old-name",
                at!("6:13"),
                "\"tools::cargo-only-bash\"",
                "it is called `tools::bash-allowlist` now",
            ),
        ),
    ]);
    for (line, code) in [("description = \"Mine.\"\n", "no-description"), ("\"Read\"", "no-tools")]
    {
        let toml = role_toml("mine", "required = [\"policy::no-git-ops\"]\n").replace(line, "");
        let tree = MemoryTree::new([("roles/mine.toml", toml)]);
        let expected = warning(code, at!("2:8"), "\"mine\"", "");
        assert_reported_once(code, &problems(tree, &[]), &expected);
    }
}

#[test]
fn invalid_list_entry_is_reported_with_its_line() {
    let list = |entry| format!("required = [\n  \"policy::no-git-ops\",\n  \"{entry}\",\n]\n");
    for (entry, text, says) in [
        ("policy::No_Git", "\"policy::No_Git\"", "`No_Git` is not a capability slug"),
        ("no-git-ops", "\"no-git-ops\"", "write `<category>::<slug>`"),
        ("polcy::no-git-ops", "\"polcy::no-git-ops\"", "did you mean `policy`?"),
    ] {
        let found = problems(role(&list(entry)), &[]);
        assert_reported_once(entry, &found, &error("bad-toml", at!("8:3"), text, says));
    }
}

#[test]
fn all_problems_of_a_role_are_reported_together() {
    let toml = role_toml("mine", "required = [\"policy::no-git-ops\"]\ncolour = 1\n");
    let found = problems(MemoryTree::new([("roles/mine.toml", format!("{toml}[more]\n"))]), &[]);
    let reported: Vec<_> =
        found.iter().map(|problem| (problem.code, problem.place.text())).collect();
    assert_eq!(reported, [("unknown-key", Some("colour")), ("unknown-key", Some("more"))]);
}
