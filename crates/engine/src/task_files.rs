//! Files that are handed over to an agent with its task: their texts, from the commit that it starts from.

use bailiwick_source_control::Repository;

use crate::failure::Failure;
use crate::sources::{self, Files};

/// The maximum total length. Some programs get their task as an argument, which cannot be longer.
const MAX_BYTES: usize = 96 * 1024;

/// A file that the task hands over to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFile {
    /// Its path from the root of the repository.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Reads them in a commit, each once.
pub fn read(
    repository: &Repository,
    commit: &str,
    files: &[String],
) -> Result<Vec<TaskFile>, Failure> {
    read_in(&|path| sources::committed_file(repository, commit, path), files)
}

/// The same, with the files of a commit or of the working copy.
pub(super) fn read_in(repository: &Files<'_>, files: &[String]) -> Result<Vec<TaskFile>, Failure> {
    let mut paths: Vec<&str> = Vec::new();
    for file in files {
        if !is_plain(file) {
            return Err(Failure::refused(format!("{file:?} is not a path in the repository"))
                .help("name files from its root, without `.` and `..`"));
        }
        if !paths.contains(&file.as_str()) {
            paths.push(file);
        }
    }
    let mut found = Vec::new();
    for path in paths {
        let Some(text) = repository(path)? else {
            return Err(Failure::refused(format!(
                "{path} is not in the commit that it starts from"
            )));
        };
        found.push(TaskFile { path: path.to_owned(), text });
    }
    let length: usize = found.iter().map(|one| one.text.len()).sum();
    match length <= MAX_BYTES {
        true => Ok(found),
        false => Err(Failure::refused(format!(
            "the files that are handed over have {length} bytes, and {MAX_BYTES} may be"
        ))
        .help("name them in the message: it can read them itself")),
    }
}

fn is_plain(path: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.split('/').all(part) && !path.chars().any(char::is_control)
}

/// How they are described to an agent, with those that it could not be given.
pub fn describe(files: &[TaskFile], left_out: &[String]) -> String {
    let mut text = String::new();
    if !files.is_empty() {
        text.push_str(
            "\n\n# Files handed over\n\nAs they are in the commit that you start from.\n",
        );
    }
    for TaskFile { path, text: own } in files {
        let fence = fence(own);
        let end = if own.ends_with('\n') || own.is_empty() { "" } else { "\n" };
        text += &format!("\n## {path}\n\n{fence}\n{own}{end}{fence}\n");
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        text += &format!("\n\nNot handed over, because you may not load more: {names}\n");
    }
    text
}

/// A fence that the text has not.
fn fence(text: &str) -> String {
    let (mut longest, mut now) = (0, 0);
    for c in text.chars() {
        now = if c == '`' { now + 1 } else { 0 };
        longest = longest.max(now);
    }
    "`".repeat(3.max(longest + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_of_the_directory_are_refused() {
        for good in ["a", "src/a.rs", ".gitignore", "a b/c"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../a", "a/../b", "./a", "a//b", "a/", "a\nb"] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }

    #[test]
    fn code_fence_is_longer_than_fences_in_the_file() {
        let file =
            |path: &str, text: &str| TaskFile { path: path.to_owned(), text: text.to_owned() };
        let description =
            describe(&[file("a.md", "one\n```\n"), file("b", "two")], &["c".to_owned()]);
        assert!(description.contains("\n## a.md\n\n````\none\n```\n````\n"), "{description}");
        assert!(description.contains("\n## b\n\n```\ntwo\n```\n"), "{description}");
        assert!(description.ends_with("you may not load more: c\n"), "{description}");
        assert_eq!(describe(&[], &[]), "");
    }
}
