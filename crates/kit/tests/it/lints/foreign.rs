//! Owns the lints of agent files of other programs.

use bailiwick_kit::lint::Report;
use bailiwick_kit::templates::Templates;

use super::{assert_told_once, warning};
use crate::memory::MemoryTree;
use crate::templates::{files, layered};

fn markdown(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Looks.\n{more}---\nLook.\n")
}

fn linted(tree: &MemoryTree, templates: &Templates) -> Report {
    Report::default().and_foreign(tree, templates)
}

#[test]
fn each_fault_of_a_file_that_nobody_has_imported_is_a_warning_told_once() {
    let tree = MemoryTree::new([
        (".claude/agents/good.md", markdown("good", "")),
        (".claude/agents/README.md", "Notes.\n".to_owned()),
        (".gemini/agents/odd.md", markdown("odd", "limit: 1\n")),
    ]);
    let report = linted(&tree, &layered(MemoryTree::default(), MemoryTree::default()));
    assert_eq!(report.importable, 1);
    let odd = warning("unknown-key", ".gemini/agents/odd.md:4:1", "limit", "--drop");
    assert_told_once("odd", &report.problems, &odd);
    // If the template was written by hand, the other file needs no repair.
    let own = layered(files(&["odd.md", "good.md"], "mine"), MemoryTree::default());
    let report = linted(&tree, &own);
    assert_eq!((report.importable, report.problems), (0, Vec::new()));
    // A template that is only the user's is not the repository's.
    let report = linted(&tree, &layered(MemoryTree::default(), files(&["good.md"], "mine")));
    assert_eq!((report.importable, report.problems.len()), (1, 1));
}

#[test]
fn two_files_of_one_name_and_one_that_cannot_be_read_are_told() {
    let tree = MemoryTree::new([
        (".claude/agents/a.md", markdown("same-one", "")),
        (".gemini/agents/b.md", markdown("same_one", "")),
    ])
    .with_unreadable(".claude/agents/c.md");
    let report = linted(&tree, &layered(MemoryTree::default(), MemoryTree::default()));
    let told: Vec<(String, &str, bool)> = report
        .problems
        .iter()
        .map(|one| (one.place.source.file.to_string(), one.code, one.is_error()))
        .collect();
    let expected = [
        (".claude/agents/a.md".to_owned(), "same-name", false),
        (".claude/agents/c.md".to_owned(), "unreadable", false),
        (".gemini/agents/b.md".to_owned(), "same-name", false),
    ];
    assert_eq!((told.as_slice(), report.importable), (expected.as_slice(), 0));
}
