//! The lints of a capability's two files.

use super::{Expected, assert_reported_once, error, problems};
use crate::memory::{MemoryTree, capability_toml, directory, text_md};

const TOML: &str = "repository/capabilities/quality/mine/capability.toml";

/// A valid capability in whose capability.toml `from` is replaced by `to`.
fn changed(from: &str, to: &str) -> MemoryTree {
    let right = capability_toml("quality::mine");
    assert_eq!(right.matches(from).count(), 1, "{from:?}");
    MemoryTree::default()
        .with_capability("quality::mine")
        .with(format!("{}/capability.toml", directory("quality::mine")), right.replace(from, to))
}

fn assert_each(cases: &[(&'static str, &'static str, Expected)]) {
    for (from, to, expected) in cases {
        assert_reported_once(to, &problems(changed(from, to), &[]), expected);
    }
}

/// Places in capability.toml. Written out, so that a failing case can be found by its text.
macro_rules! at {
    ($place:literal) => {
        concat!("repository/capabilities/quality/mine/capability.toml:", $place)
    };
}

#[test]
fn unknown_key_names_the_nearest_valid_one() {
    let key = |place, text, says| error("unknown-key", place, text, says);
    assert_each(&[
        ("description", "desciption", key(at!("4:1"), "desciption", "did you mean `description`?")),
        ("[verify]", "[verfy]", key(at!("9:2"), "verfy", "did you mean `verify`?")),
        (
            "tool-patterns",
            "tool_patterns",
            key(at!("7:1"), "tool_patterns", "did you mean `tool-patterns`?"),
        ),
        ("command =", "comand =", key(at!("10:1"), "comand", "did you mean `command`?")),
        (
            "[verify]",
            "[gate]\nevent = \"PreToolUse:Bash\"\nbypass_env = \"X\"\n[verify]",
            key(at!("11:1"), "bypass_env", "did you mean `bypass-env`?"),
        ),
        (
            "[verify]",
            "[parameterized]\naccept = []\n[verify]",
            key(at!("10:1"), "accept", "did you mean `accepts`?"),
        ),
        (
            "[verify]",
            "[lineage]\nfork-from = \"policy::x\"\n[verify]",
            key(at!("10:1"), "fork-from", "did you mean `fork_from`?"),
        ),
    ]);
}

#[test]
fn value_of_the_wrong_type_is_reported() {
    assert_each(&[
        ("['^rm ']", "'^rm '", error("bad-toml", at!("7:17"), "'^rm '", "expected a list")),
        ("['^rm ']", "['^rm ', 3]", error("bad-toml", at!("7:26"), "3", "expected a string")),
        ("\"Mine.\"", "7", error("bad-toml", at!("4:15"), "7", "expected a string")),
        (
            "category = \"quality\"",
            "category = \"qualty\"",
            error("unknown-value", at!("3:12"), "\"qualty\"", "did you mean `quality`?"),
        ),
        (
            "[verify]",
            "[verify]\nrun-mode = \"simulated-marge\"",
            error(
                "unknown-value",
                at!("10:12"),
                "\"simulated-marge\"",
                "did you mean `simulated-merge`?",
            ),
        ),
        (
            "[verify]",
            "[verify]\nwhen = \"on_return\"",
            error("unknown-value", at!("10:8"), "\"on_return\"", "did you mean `on-return`?"),
        ),
        (
            "[verify]",
            "[gate]\nevent = \"PreToolUse:Bash\"\nseverity = \"blok\"\n[verify]",
            error("unknown-value", at!("11:12"), "\"blok\"", "did you mean `block`?"),
        ),
        (
            "description",
            "version = \"one\"\ndescription",
            error("bad-version", at!("4:11"), "\"one\"", "write \"1.0\""),
        ),
    ]);
}

#[test]
fn list_in_the_place_of_a_table_is_refused() {
    let list = "capability = [\"quality::mine\", \"quality\", \"1.0\", \"d\"]\n[verify]\ncommand = \"true\"\n";
    let tree = MemoryTree::default()
        .with_capability("quality::mine")
        .with(format!("{}/capability.toml", directory("quality::mine")), list);
    let found = problems(tree, &[]);
    assert!(found.iter().any(|problem| problem.is_error()), "it was accepted");
}

#[test]
fn name_that_differs_from_the_directory_is_reported() {
    assert_each(&[
        (
            "quality::mine",
            "quality::yours",
            error(
                "name-mismatch",
                at!("2:8"),
                "\"quality::yours\"",
                "write name = \"quality::mine\", or move the directory",
            ),
        ),
        (
            "category = \"quality\"",
            "category = \"scope\"",
            error("name-mismatch", at!("3:12"), "\"scope\"", "must be `quality`"),
        ),
        (
            "quality::mine",
            "quality::My_Own",
            error(
                "bad-toml",
                at!("2:8"),
                "\"quality::My_Own\"",
                "`My_Own` is not a capability slug",
            ),
        ),
        (
            "quality::mine",
            "qualty::mine",
            error("bad-toml", at!("2:8"), "\"qualty::mine\"", "did you mean `quality`?"),
        ),
    ]);
}

#[test]
fn directory_name_that_is_not_a_slug_is_reported() {
    for (path, shown, says) in [
        (
            "capabilities/quality/My_Own/capability.toml",
            "repository/capabilities/quality/My_Own",
            "`My_Own` is not a capability slug",
        ),
        (
            "capabilities/qualty/mine/capability.toml",
            "repository/capabilities/qualty",
            "did you mean `quality`?",
        ),
    ] {
        let tree = MemoryTree::new([(path, "")]);
        assert_reported_once(path, &problems(tree, &[]), &error("bad-name", shown, None, says));
    }
}

#[test]
fn missing_file_is_reported() {
    let (toml, text) = (capability_toml("quality::mine"), text_md("quality::mine"));
    let directory = directory("quality::mine");
    let says = "a capability is a directory with capability.toml and the text that it names";
    let tree = MemoryTree::new([(format!("{directory}/text.md"), text.clone())]);
    assert_reported_once(
        "no toml",
        &problems(tree, &[]),
        &error("missing-artefact", TOML, None, says),
    );
    let tree = MemoryTree::new([(format!("{directory}/capability.toml"), toml.clone())]);
    let shown = "repository/capabilities/quality/mine/text.md";
    assert_reported_once(
        "no text",
        &problems(tree, &[]),
        &error("missing-artefact", shown, None, says),
    );
    let tree = MemoryTree::new([
        (format!("{directory}/capability.toml"), format!("{toml}[text]\npath = \"rule.md\"\n")),
        (format!("{directory}/text.md"), text),
    ]);
    let shown = "repository/capabilities/quality/mine/rule.md";
    assert_reported_once(
        "other",
        &problems(tree, &[]),
        &error("missing-artefact", shown, None, says),
    );
}

#[test]
fn text_outside_of_the_directory_is_refused() {
    let bad = |path, text| error("bad-path", path, text, "is not a file beside capability.toml");
    assert_each(&[
        (
            "[verify]",
            "[text]\npath = \"../../text.md\"\n[verify]",
            bad(at!("10:8"), "\"../../text.md\""),
        ),
        ("[verify]", "[text]\npath = \"/etc/motd\"\n[verify]", bad(at!("10:8"), "\"/etc/motd\"")),
        ("[verify]", "[text]\npath = \"\"\n[verify]", bad(at!("10:8"), "\"\"")),
    ]);
}

#[test]
fn unknown_module_names_the_nearest_one() {
    let missing = |place, text, says| error("no-such-module", place, text, says);
    assert_each(&[
        (
            "[verify]",
            "[verify]\nrust-module = \"verifies::quality_test_green\"",
            missing(
                at!("10:15"),
                "\"verifies::quality_test_green\"",
                "did you mean `verifies::quality_tests_green`?",
            ),
        ),
        (
            "[verify]",
            "[gate]\nevent = \"PreToolUse:Bash\"\nrust-module = \"gates::no_git_ops\"\n[verify]",
            missing(
                at!("11:15"),
                "\"gates::no_git_ops\"",
                "did you mean `gates::policy_no_git_ops`?",
            ),
        ),
        (
            "[verify]",
            "[verify]\nrust-module = \"zzz\"",
            missing(at!("10:15"), "\"zzz\"", "use [verify] command"),
        ),
    ]);
}

#[test]
fn invalid_pattern_event_variable_tool_or_command_is_reported() {
    assert_each(&[
        (
            "'^rm '",
            "'^rm ', '^(git'",
            error("bad-pattern", at!("7:26"), "'^(git'", "unclosed group"),
        ),
        (
            "[verify]",
            "[gate]\nevent = \"PostToolUse:Bash\"\n[verify]",
            error("bad-event", at!("10:9"), "\"PostToolUse:Bash\"", "write \"PreToolUse:\""),
        ),
        (
            "[verify]",
            "[gate]\nevent = \"PreToolUse:Edit|\"\n[verify]",
            error("bad-event", at!("10:9"), "\"PreToolUse:Edit|\"", "joined by |"),
        ),
        (
            "[verify]",
            "[gate]\nevent = \"PreToolUse:Bash\"\nbypass-env = \"1X\"\n[verify]",
            error("bad-variable", at!("11:14"), "\"1X\"", "`1X` cannot be the name"),
        ),
        (
            "['^rm ']",
            "[]\ntools-denied = [\"Edit\", \" \"]",
            error("bad-tool", at!("8:25"), "\" \"", "names no tool"),
        ),
        (
            "command = \"true\"",
            "command = \" \"",
            error("bad-command", at!("10:11"), "\" \"", "checks nothing"),
        ),
    ]);
}

#[test]
fn invalid_list_entry_is_reported_with_its_line() {
    assert_each(&[(
        "[verify]",
        "[parameterized]\naccepts = [\n  \"right\",\n  \"B_c\",\n]\n[verify]",
        error("bad-toml", at!("12:3"), "\"B_c\"", "`B_c` is not a parameter name"),
    )]);
}
