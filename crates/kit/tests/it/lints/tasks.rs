//! The lints of tasks.

use super::{Expected, assert_reported_once, error, problems, warning};
use crate::memory::MemoryTree;

fn assert_each(cases: &[(&'static str, Expected)]) {
    for (task, expected) in cases {
        assert_reported_once(task, &problems(MemoryTree::default(), &[task]), expected);
    }
}

#[test]
fn parameter_that_no_capability_accepts_is_reported() {
    assert_each(&[
        (
            "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"a\"]\n\
             [parameters]\nmax-file-line = 3\n",
            error(
                "unaccepted-parameter",
                "tasks/a.toml:6:1",
                "max-file-line",
                "did you mean `max-file-lines`?",
            ),
        ),
        (
            "[task]\nrole = \"git-ops\"\n[parameters]\nhouse-style = \"tabs\"\n",
            error(
                "unaccepted-parameter",
                "tasks/a.toml:4:1",
                "house-style",
                "accept no parameters",
            ),
        ),
    ]);
    // A role that only reads uses neither a whitelist nor a number of tests.
    for (table, line) in
        [("[scope]\nfiles-whitelist = [\"a\"]", 5), ("[verification]\ntest-count-min = 3", 5)]
    {
        let task = format!("[task]\nrole = \"read-only\"\n\n{table}\n");
        let found = problems(MemoryTree::default(), &[&task]);
        let [problem] = found.as_slice() else { panic!("{task:?}: {found:?}") };
        assert_eq!((problem.code, problem.is_error()), ("unaccepted-parameter", true));
        assert_eq!(problem.place.line_and_column().unwrap().0, line);
    }
}

#[test]
fn every_accepted_parameter_is_valid() {
    let task = "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"a\"]\n\
                files-denylist = [\"b\"]\n[verification]\ncargo-check-crates = [\"a\"]\n\
                cargo-test-crates = [\"a\"]\ntest-count-min = 1\nmax-file-lines = 200\n\
                allow-dependency-changes = true\n[output]\nreport-fields-required = [\"a\"]\n";
    assert_eq!(problems(MemoryTree::default(), &[task]), []);
}

#[test]
fn task_that_may_write_nothing_warns() {
    for list in ["", "[scope]\nfiles-whitelist = []\n", "[scope]\nfiles-denylist = [\"a\"]\n"] {
        let task = format!("[task]\nrole = \"edit-local\"\n{list}");
        let expected = warning(
            "writes-nothing",
            "tasks/a.toml:2:8",
            "\"edit-local\"",
            "name the files under [scope] files-whitelist",
        );
        assert_reported_once(list, &problems(MemoryTree::default(), &[&task]), &expected);
    }
    // A role without a whitelist writes nothing anyway.
    assert_eq!(problems(MemoryTree::default(), &["[task]\nrole = \"read-only\"\n"]), []);
}

#[test]
fn problem_in_a_task_is_reported() {
    assert_each(&[
        (
            "[task]\nrole = \"edit-locl\"\n",
            error(
                "unknown-role",
                "tasks/a.toml:2:8",
                "\"edit-locl\"",
                "did you mean `edit-local`?",
            ),
        ),
        (
            "[task]\nrole = \"edit-local\"\n\n[scope]\nfiles_whitelist = [\"src/**\"]\n",
            error(
                "unknown-key",
                "tasks/a.toml:5:1",
                "files_whitelist",
                "did you mean `files-whitelist`?",
            ),
        ),
        ("[task]\nrole = 3\n", error("bad-toml", "tasks/a.toml:2:8", "3", "expected a string")),
    ]);
}

#[test]
fn pattern_that_matches_nothing_is_reported_with_the_right_spelling() {
    for (pattern, instead) in [
        ("./src/**", "write \"src/**\""),
        ("src//**", "write \"src/**\""),
        ("{a,b}/**", "write \"a/**\", \"b/**\""),
    ] {
        let task = format!(
            "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"docs/**\", \"{pattern}\"]\n"
        );
        let found = problems(MemoryTree::default(), &[&task]);
        let [problem] = found.as_slice() else { panic!("{pattern}: {found:?}") };
        assert_eq!((problem.code, problem.is_error()), ("matches-nothing", false));
        assert_eq!(problem.place.text(), Some(format!("\"{pattern}\"").as_str()));
        assert_eq!(problem.help.as_deref(), Some(instead));
    }
    let denied = "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"**\"]\n\
                  files-denylist = ['./secret']\n";
    let expected = warning("matches-nothing", "tasks/a.toml:5:19", "'./secret'", "\"/secret\"");
    assert_reported_once(denied, &problems(MemoryTree::default(), &[denied]), &expected);
}

#[test]
fn malformed_pattern_is_an_error_with_its_place() {
    for list in ["files-whitelist", "files-denylist"] {
        let task = format!(
            "[task]\nrole = \"edit-local\"\n[scope]\n{list} = [\"docs/**\", \"src/[**\"]\n"
        );
        let found = problems(MemoryTree::default(), &[&task]);
        let malformed: Vec<_> =
            found.iter().filter(|finding| finding.code == "malformed-glob").collect();
        let [problem] = malformed[..] else { panic!("{list}: {found:?}") };
        assert!(problem.is_error());
        assert_eq!(problem.place.text(), Some("\"src/[**\""));
        assert_eq!(problem.help.as_deref(), Some("write 'src/\\[**'"));
    }
}

#[test]
fn all_problems_of_a_task_are_reported_together() {
    let task = "[task]\nrole = \"edit-local\"\ncolour = 1\n[scope]\nfiles_whitelist = []\n\
                [verification]\ntest-count-min = \"many\"\n";
    let found = problems(MemoryTree::default(), &[task]);
    let reported: Vec<_> =
        found.iter().map(|problem| (problem.code, problem.place.text())).collect();
    assert_eq!(
        reported,
        [
            ("unknown-key", Some("colour")),
            ("unknown-key", Some("files_whitelist")),
            ("bad-toml", Some("\"many\"")),
        ]
    );
}
