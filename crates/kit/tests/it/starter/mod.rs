//! The stacks that `init` recognises in a repository, and the kit that it writes.

mod built_tools;
mod javascript;
mod monorepos;
mod python;
mod unknown;

use bailiwick_kit::lint::lint;
use bailiwick_kit::starter::{self, Files, Note, Project};
use bailiwick_kit::{Layer, Layout, Origin};
use bailiwick_model::globs::Globs;
use bailiwick_model::{Source, Task};

use crate::memory::MemoryTree;

/// Recognises a repository with these files, and checks what is true for every repository: the kit
/// lints clean, the example names the commands found, and each glob matches a file.
fn recognise(repository: &[(&str, &str)]) -> Project {
    let tree = MemoryTree::new(repository.iter().copied());
    let paths: Vec<String> = repository.iter().map(|(path, _)| (*path).to_owned()).collect();
    let project = Project::detect(&Files::new(paths.clone(), &tree));
    for glob in project.whitelist.iter().filter(|_| !repository.is_empty()) {
        let globs = Globs::parse(std::slice::from_ref(glob));
        assert!(paths.iter().any(|path| globs.matches(path, false)), "{glob} matches no file");
    }
    assert!(!project.whitelist.is_empty());
    let files = starter::files(&project);
    let tasks: Vec<Source> = files
        .iter()
        .filter(|(path, _)| path.starts_with("tasks/"))
        .map(|(path, text)| Source::new(path.as_str(), text.as_str()))
        .collect();
    assert_eq!(tasks.len(), 6, "an example and one for each of the five agents");
    let example = Task::parse(&tasks[0]).expect("the example is a task");
    let lines = |list: &[bailiwick_model::task::ShellCommand]| -> Vec<String> {
        list.iter().map(|line| line.as_str().to_owned()).collect()
    };
    assert_eq!(lines(example.workspace.setup.get()), project.setup);
    assert_eq!(lines(example.verification.commands.get()), project.commands);
    let kit = MemoryTree::new(files);
    let layer = Layer::new(Origin::Repository, Layout::Plain, ".bailiwick/", Box::new(kit));
    let report = lint(&bailiwick_kit::Kit::over_embedded(vec![layer]), &tasks);
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "{repository:?}: {problems:#?}");
    assert_eq!((report.capabilities, report.roles), (19, 7));
    project
}

fn shown(project: &Project) -> Vec<String> {
    project.stacks.iter().map(ToString::to_string).collect()
}

fn malformed(project: &Project) -> Vec<&str> {
    project.notes.iter().filter_map(malformed_file).collect()
}

fn malformed_file(note: &Note) -> Option<&str> {
    match note {
        Note::Malformed { file } => Some(file),
        Note::NotIgnored { .. } | Note::NoLockFile { .. } | Note::MoreStacks { .. } => None,
    }
}

/// The single expected stack, with its setup, commands and whitelist.
#[track_caller]
fn assert_project(
    project: &Project,
    stack: &str,
    setup: &[&str],
    commands: &[&str],
    globs: &[&str],
) {
    assert_eq!(shown(project), [stack]);
    assert_eq!(project.setup, setup, "setup");
    assert_eq!(project.commands, commands, "commands");
    assert_eq!(project.whitelist, globs, "whitelist");
}
