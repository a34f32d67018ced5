//! The differences between two trees, and the contents of changed files.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_lifecycle::ports::Commit;
use bailiwick_model::CommitId;
use bailiwick_verify::Change;
use bailiwick_verify::change::{Entry, Mode};
use bailiwick_verify::facts::Texts;

use super::escaped_path::escape_path;
use crate::git::command::{Git, GitError, Input};
use crate::git::commit_tree::Batch;

/// The changed files; renames are detected.
pub(super) fn between(git: &Git, before: &str, after: &str) -> Result<Vec<Change>, GitError> {
    // A `.gitmodules` file can hide changes of a submodule.
    let options = [
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--no-abbrev",
        "--find-renames",
        "--ignore-submodules=none",
    ];
    let stdout = git.run(options.into_iter().chain(["--end-of-options", before, after, "--"]))?;
    let mut fields = stdout.split(|byte| *byte == 0);
    let mut changes = Vec::new();
    while let Some(head) = fields.next().filter(|field| !field.is_empty()) {
        let head = String::from_utf8_lossy(head).into_owned();
        changes.push(change(&head, &mut fields).ok_or_else(|| unexpected(&head))?);
    }
    Ok(changes)
}

/// Every path that a commit between `base` and `head` changed. Of a merge commit, only changes that the
/// merge itself does not explain.
pub(super) fn touched(git: &Git, base: &str, head: &str) -> Result<Vec<String>, GitError> {
    let options = ["log", "-z", "--format=", "--name-only", "--no-renames", "--remerge-diff"];
    let range = format!("{base}..{head}");
    let more = ["--ignore-submodules=none", "--end-of-options", &range, "--"];
    let stdout = git.run(options.into_iter().chain(more))?;
    let paths = stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(escape_path).collect::<BTreeSet<String>>().into_iter().collect())
}

/// The commits between `base` and `head`.
pub(super) fn commits(git: &Git, base: &str, head: &str) -> Result<Vec<Commit>, GitError> {
    let range = format!("{base}..{head}");
    let stdout = git.run(["rev-list", "--parents", "--end-of-options", &range, "--"])?;
    let lines = String::from_utf8_lossy(&stdout).into_owned();
    let commit = |line: &str| {
        let mut names = line.split(' ').map(CommitId::new);
        Some(Commit { name: names.next()?, parents: names.collect() })
    };
    Ok(lines.lines().filter_map(commit).collect())
}

/// `:<mode> <mode> <object> <object> <status>`, then a path, or two for a rename.
fn change<'a>(head: &str, paths: &mut impl Iterator<Item = &'a [u8]>) -> Option<Change> {
    let words: Vec<&str> = head.strip_prefix(':')?.split(' ').collect();
    let [mode_before, mode_after, object_before, object_after, status] = words.try_into().ok()?;
    let first = escape_path(paths.next()?);
    let (path, from) = match status.as_bytes().first()? {
        b'R' | b'C' => (escape_path(paths.next()?), Some(first)),
        _ => (first, None),
    };
    Some(Change {
        path,
        from,
        copied: status.starts_with('C'),
        before: entry(mode_before, object_before)?,
        after: entry(mode_after, object_after)?,
    })
}

#[expect(clippy::option_option, reason = "a missing file is known, an unknown mode is not")]
fn entry(mode: &str, object: &str) -> Option<Option<Entry>> {
    let mode = match mode {
        "000000" => return Some(None),
        "100644" | "100664" => Mode::File,
        "100755" => Mode::Executable,
        "120000" => Mode::Link,
        "160000" => Mode::Submodule,
        _ => return None,
    };
    Some(Some(Entry { mode, object: object.to_owned() }))
}

/// The contents of changed files, read by one process; submodules have none.
pub(super) fn texts(
    git: &Git,
    changes: &[Change],
    wanted: &[String],
) -> Result<BTreeMap<String, Texts>, GitError> {
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let changes: Vec<&Change> =
        changes.iter().filter(|change| wanted.contains(change.path.as_str())).collect();
    let sides = changes.iter().flat_map(|change| [&change.before, &change.after]);
    let objects: BTreeSet<&str> = sides.filter_map(|side| text_of(side.as_ref())).collect();
    let input: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let stdout = git.run_with_input(["cat-file", "--batch"], Input::Bytes(input.as_bytes()))?;
    let mut batch = Batch::new(&stdout);
    let mut contents = BTreeMap::new();
    for object in objects {
        contents.insert(object, batch.next()?);
    }
    let content =
        |side: &Option<Entry>| contents.get(text_of(side.as_ref())?).map(|text| text.to_owned());
    let texts = changes.into_iter().map(|change| {
        let texts = Texts { before: content(&change.before), after: content(&change.after) };
        (change.path.clone(), texts)
    });
    Ok(texts.collect())
}

fn text_of(side: Option<&Entry>) -> Option<&str> {
    side.filter(|entry| entry.mode != Mode::Submodule).map(|entry| entry.object.as_str())
}

fn unexpected(what: &str) -> GitError {
    GitError::UnexpectedOutput { command: "diff-tree".to_owned(), output: what.to_owned() }
}
