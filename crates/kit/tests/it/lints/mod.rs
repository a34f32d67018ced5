//! The lints: each problem is reported once, with its code, file, line, text and the fix.

mod capability_files;
mod foreign;
mod manifests;
mod roles;
mod tasks;
mod templates;
mod texts;

use bailiwick_kit::lint::lint;
use bailiwick_model::{Problem, Severity, Source};

use crate::memory::{MemoryTree, role_toml};

/// The one problem that a kit should have.
struct Expected {
    severity: Severity,
    code: &'static str,
    /// File, and line and column if there are any.
    place: &'static str,
    /// The offending text.
    text: Option<&'static str>,
    /// Part of the help, or of the message if there is no help.
    says: &'static str,
}

fn error(
    code: &'static str,
    place: &'static str,
    text: impl Into<Option<&'static str>>,
    says: &'static str,
) -> Expected {
    Expected { severity: Severity::Error, code, place, text: text.into(), says }
}

fn warning(
    code: &'static str,
    place: &'static str,
    text: impl Into<Option<&'static str>>,
    says: &'static str,
) -> Expected {
    Expected { severity: Severity::Warning, ..error(code, place, text, says) }
}

fn problems(tree: MemoryTree, tasks: &[&str]) -> Vec<Problem> {
    let tasks: Vec<Source> = tasks.iter().map(|text| Source::new("tasks/a.toml", *text)).collect();
    lint(&tree.into_kit(), &tasks).problems
}

fn assert_reported_once(what: &str, problems: &[Problem], expected: &Expected) {
    let [problem] = problems else { panic!("{what}: {problems:#?}") };
    assert_eq!(
        (problem.severity, problem.code, problem.place.to_string().as_str(), problem.place.text()),
        (expected.severity, expected.code, expected.place, expected.text),
        "{what}: {problem}"
    );
    let text = problem.help.as_ref().unwrap_or(&problem.message);
    assert!(text.contains(expected.says), "{what}: {text:?} does not contain {:?}", expected.says);
}

#[test]
fn valid_kit_has_no_problem() {
    let tree = MemoryTree::default()
        .with_capability("quality::mine")
        .with("roles/mine.toml", role_toml("mine", "required = [\"quality::mine\"]\n"));
    let task = "[task]\nrole = \"mine\"\n[body]\ntext = \"Go.\"\n";
    assert_eq!(problems(tree, &[task]), []);
    assert_eq!(problems(MemoryTree::default(), &[]), []);
}
