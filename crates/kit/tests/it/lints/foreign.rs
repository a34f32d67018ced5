//! The lints of agent files of other programs.

use bailiwick_kit::lint::Report;
use bailiwick_kit::templates::Templates;

use super::{assert_reported_once, warning};
use crate::memory::MemoryTree;
use crate::templates::{files, layered};

fn markdown(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Looks.\n{more}---\nLook.\n")
}

fn linted(tree: &MemoryTree, templates: &Templates) -> Report {
    Report::default().and_foreign(tree, templates)
}

#[test]
fn each_problem_of_a_file_that_was_not_imported_is_warned_about_once() {
    let tree = MemoryTree::new([
        (".claude/agents/good.md", markdown("good", "")),
        (".claude/agents/README.md", "Notes.\n".to_owned()),
        (".gemini/agents/odd.md", markdown("odd", "limit: 1\n")),
    ]);
    let report = linted(&tree, &layered(MemoryTree::default(), MemoryTree::default()));
    assert_eq!(report.importable, 1);
    let odd = warning("unknown-key", ".gemini/agents/odd.md:4:1", "limit", "--drop");
    assert_reported_once("odd", &report.problems, &odd);
    // If the template was written by hand, the foreign file needs no fix.
    let by_hand = layered(files(&["odd.md", "good.md"], "mine"), MemoryTree::default());
    let report = linted(&tree, &by_hand);
    assert_eq!((report.importable, report.problems), (0, Vec::new()));
    // A template of the user is not one of the repository.
    let report = linted(&tree, &layered(MemoryTree::default(), files(&["good.md"], "mine")));
    assert_eq!((report.importable, report.problems.len()), (1, 1));
}

#[test]
fn two_files_of_one_name_and_an_unreadable_one_are_reported() {
    let tree = MemoryTree::new([
        (".claude/agents/a.md", markdown("same-one", "")),
        (".gemini/agents/b.md", markdown("same_one", "")),
    ])
    .with_unreadable(".claude/agents/c.md");
    let report = linted(&tree, &layered(MemoryTree::default(), MemoryTree::default()));
    let reported: Vec<(String, &str, bool)> = report
        .problems
        .iter()
        .map(|problem| (problem.place.source.file.to_string(), problem.code, problem.is_error()))
        .collect();
    let expected = [
        (".claude/agents/a.md".to_owned(), "same-name", false),
        (".claude/agents/c.md".to_owned(), "unreadable", false),
        (".gemini/agents/b.md".to_owned(), "same-name", false),
    ];
    assert_eq!((reported.as_slice(), report.importable), (expected.as_slice(), 0));
}
