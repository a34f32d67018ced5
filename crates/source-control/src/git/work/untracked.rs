//! Listing the files of a worktree that its base neither tracks nor ignores.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::regular_file;
use crate::git::command::{Git, GitError};
use crate::git::timeout::Timeout;

/// An agent can create a pipe where git reads a file.
const TIMEOUT: Timeout = Timeout {
    grace: Duration::from_secs(2),
    limit: Duration::from_secs(60),
    find_obstacle: regular_file::find_blocking_file,
};

const IGNORE_FILE: &str = ".gitignore";
const GIT: &str = ".git";

/// The rules of all `.gitignore` files of a commit, as one file at the root. With them, an agent cannot
/// hide files by writing to a `.gitignore`.
pub fn ignore_rules(git: &Git, commit: &str) -> Result<Vec<u8>, GitError> {
    let listed = git.run(["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit])?;
    let is_ignore_file =
        |path: &&[u8]| path.rsplit(|byte| *byte == b'/').next() == Some(IGNORE_FILE.as_bytes());
    let mut files: Vec<&[u8]> = listed.split(|byte| *byte == 0).filter(is_ignore_file).collect();
    // Rules of deeper files come later: the last rule that matches decides.
    files.sort_by_key(|path| path.iter().filter(|byte| **byte == b'/').count());
    let mut rules = Vec::new();
    for path in files {
        let name = [commit.as_bytes(), b":", path].concat();
        let text =
            git.run([OsStr::new("cat-file"), OsStr::new("blob"), OsStr::from_bytes(&name)])?;
        let directory = path.strip_suffix(IGNORE_FILE.as_bytes()).unwrap_or_default();
        for line in text.split(|byte| *byte == b'\n') {
            rules.extend(anchored(line, directory));
            rules.push(b'\n');
        }
    }
    Ok(rules)
}

/// Converts a rule of the `.gitignore` in a directory (`a/b/`, or nothing) to one of the root.
fn anchored(line: &[u8], directory: &[u8]) -> Vec<u8> {
    if directory.is_empty() || line.is_empty() || line.starts_with(b"#") {
        return line.to_vec();
    }
    let (sign, rule): (&[u8], &[u8]) = match line.strip_prefix(b"!") {
        Some(rule) => (b"!", rule),
        None => (b"", line),
    };
    let name = rule.strip_suffix(b"/").unwrap_or(rule);
    let below: &[u8] = if name.contains(&b'/') { b"" } else { b"**/" };
    let escaped: Vec<u8> = directory
        .iter()
        .flat_map(|byte| match byte {
            b'*' | b'?' | b'[' | b'\\' => vec![b'\\', *byte],
            _ => vec![*byte],
        })
        .collect();
    [sign, b"/", &escaped, below, rule.strip_prefix(b"/").unwrap_or(rule)].concat()
}

/// The files of another directory that would be new in a worktree, except those that the rules in
/// `ignored` match. A directory with only new files is listed once, with a slash at its end.
pub fn new_files(
    worktree: &Path,
    directory: &Path,
    ignored: &Path,
) -> Result<Vec<PathBuf>, GitError> {
    let git = Git::at(directory)
        .with_env("GIT_DIR", worktree.join(".git"))
        .with_env("GIT_WORK_TREE", directory);
    others(git, ignored, &["--directory", "--no-empty-directory"])
}

/// The files of a worktree that are neither tracked nor matched by the rules in `ignored`, and those that
/// git does not list: pipes, sockets, devices, and what is in other repositories.
pub fn untracked(worktree: &Path, ignored: &Path) -> Result<Vec<PathBuf>, GitError> {
    let mut found = others(Git::at(worktree), ignored, &[])?;
    let mut unlisted = Vec::new();
    find_unlisted(worktree, Path::new(""), Owner::Worktree, &mut unlisted);
    found.extend(unlisted);
    Ok(found)
}

/// The repository that a directory belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Worktree,
    Nested,
}

/// Adds the files at or below a directory of a worktree that git does not list. No link is followed; what
/// cannot be read is passed over, because the agent may remove it meanwhile.
fn find_unlisted(worktree: &Path, directory: &Path, owner: Owner, found: &mut Vec<PathBuf>) {
    let entries = || std::fs::read_dir(worktree.join(directory)).into_iter().flatten().flatten();
    let is_root = directory.as_os_str().is_empty();
    let has_git = || entries().any(|entry| entry.file_name() == GIT);
    let owner = if !is_root && has_git() { Owner::Nested } else { owner };
    for entry in entries().filter(|entry| entry.file_name() != GIT) {
        let Ok(kind) = entry.file_type() else { continue };
        let path = directory.join(entry.file_name());
        if kind.is_dir() {
            find_unlisted(worktree, &path, owner, found);
        } else if owner == Owner::Nested || !(kind.is_file() || kind.is_symlink()) {
            found.push(path);
        }
    }
}

fn others(git: Git, ignored: &Path, options: &[&str]) -> Result<Vec<PathBuf>, GitError> {
    let mut excluding = OsString::from("--exclude-from=");
    excluding.push(ignored);
    let arguments = ["ls-files", "--others", "--full-name", "-z"];
    let arguments = arguments.iter().chain(options).map(OsString::from).chain([excluding]);
    let listed = git.with_timeout(TIMEOUT).run(arguments)?;
    let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_of_a_directory_is_converted_to_a_rule_of_the_root() {
        for (line, directory, expected) in [
            ("target", "", "target"),
            ("node_modules", "web/", "/web/**/node_modules"),
            ("/dist", "web/", "/web/dist"),
            ("out/", "web/", "/web/**/out/"),
            ("a/b", "web/", "/web/a/b"),
            ("!keep", "web/", "!/web/**/keep"),
            ("# note", "web/", "# note"),
            ("x", "odd[1]/", "/odd\\[1]/**/x"),
        ] {
            let rule = anchored(line.as_bytes(), directory.as_bytes());
            assert_eq!(String::from_utf8(rule).unwrap(), expected);
        }
    }
}
