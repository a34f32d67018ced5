//! Shell scripts, documents, unknown languages, and an empty repository.

use bailiwick_kit::starter::{self, Content, Note};

use super::{recognise, shown};

fn example(files: &[(&str, &str)]) -> String {
    let files = starter::files(&recognise(files));
    files.into_iter().find(|(path, _)| path == "tasks/example.toml").expect("an example").1
}

#[test]
fn shell_scripts_are_parsed_and_their_tests_run() {
    let project = recognise(&[("install.sh", ""), ("lib/a.bash", ""), ("test/a.bats", "")]);
    assert_eq!(shown(&project), ["shell scripts (install.sh)"]);
    assert!(project.commands[0].ends_with("| xargs -0 -r -n 1 bash -n"), "{:?}", project.commands);
    assert_eq!(project.commands[1], "bats --recursive test");
    assert_eq!(project.stacks[0].programs, ["bash", "bats"]);
    assert_eq!(project.whitelist, ["/*.sh", "lib/**", "test/**"]);
    let checked = recognise(&[("a.sh", ""), (".shellcheckrc", ""), ("scripts/test.sh", "")]);
    assert!(checked.commands[1].ends_with("xargs -0 -r shellcheck"), "{:?}", checked.commands);
    assert_eq!(checked.commands[2], "bash scripts/test.sh");
    assert_eq!(recognise(&[("scripts/test", "")]).commands, ["./scripts/test"]);
}

#[test]
fn without_a_test_command_the_example_names_what_to_write() {
    let zig = [("README.md", ""), ("build.zig", ""), ("code/main.zig", "")];
    let project = recognise(&zig);
    assert_eq!((project.stacks.len(), project.commands.len()), (0, 0));
    assert_eq!(project.whitelist, ["/*.md", "/*.zig", "code/**"]);
    let task = example(&zig);
    assert!(task.contains("# No test command was found in this repository. Write what checks it"));
    assert!(task.contains("\ncommands = []\n"), "{task}");
    let tested = example(&[("Makefile", "test:\n\ttrue\n")]);
    assert!(!tested.contains("No test command"), "{tested}");
}

#[test]
fn content_matches_the_files_of_the_repository() {
    assert_eq!(recognise(&[("a.rs", "")]).content, Content::Code);
    assert_eq!(recognise(&[("README.md", ""), ("LICENSE", "")]).content, Content::Prose);
    let empty = recognise(&[]);
    assert_eq!(
        (empty.content, empty.whitelist),
        (Content::Nothing, vec!["src/**".to_owned(), "/*.md".to_owned()])
    );
    assert!(example(&[]).contains("Write README.md"));
    assert!(example(&[("README.md", "")]).contains("one paragraph"));
    assert!(example(&[("a.rs", "")]).contains("one function"));
}

#[test]
fn build_output_that_is_not_ignored_is_noted() {
    let noted = |ignore: &str| {
        let files = [("Cargo.toml", "[package]\n"), (".gitignore", ignore)];
        recognise(&files).notes
    };
    assert_eq!(noted("# target\n!target\n"), [Note::NotIgnored { path: "target".to_owned() }]);
    for ignore in ["target\n", "/target/\n", "/target\r\n", "**/target\n"] {
        assert_eq!(noted(ignore), [], "{ignore:?}");
    }
    let nested = |place: &str, ignore: &str| {
        let files = [("a/package.json", r#"{"dependencies": {"a": "1"}}"#), (place, ignore)];
        recognise(&files).notes.len()
    };
    assert_eq!(nested("a/.gitignore", "/node_modules\n"), 0);
    assert_eq!(nested(".gitignore", "a/node_modules\n"), 0);
    assert_eq!(nested(".gitignore", "/node_modules\n"), 1);
}

#[test]
fn unusual_names_are_written_so_that_they_are_read_back() {
    let project = recognise(&[
        ("a'b [x]/package.json", r#"{"scripts": {"test": "x"}}"#),
        ("a'b [x]/src/@WHITELIST@.js", ""),
        ("-dash/go.mod", ""),
        ("-dash/a.go", ""),
        ("new\nline/go.mod", ""),
    ]);
    assert!(project.commands.contains(&"cd 'a'\\''b [x]' && npm test".to_owned()));
    assert!(project.commands.contains(&"cd ./-dash && go test ./...".to_owned()));
}
