//! A commit as a tree.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_kit::{Tree, TreeError};

use super::command::{Git, GitError, Input};

/// Files of a commit below some directories, read once and kept.
pub struct CommitTree {
    files: BTreeMap<String, Result<String, String>>,
}

impl CommitTree {
    /// The files of `commit` below `prefix/directories`; paths in the tree leave `prefix` out.
    pub fn read(
        git: &Git,
        commit: &str,
        prefix: &str,
        directories: &[&str],
    ) -> Result<Self, GitError> {
        let prefix = match prefix.trim_end_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let paths: Vec<String> = directories.iter().map(|name| format!("{prefix}{name}")).collect();
        let listing = git.run(
            ["ls-tree", "-r", "-z", "--full-tree", commit, "--"]
                .into_iter()
                .chain(paths.iter().map(String::as_str)),
        )?;
        let entries = entries(&listing)?;
        let blobs: String = entries
            .iter()
            .filter(|entry| entry.is_file())
            .map(|entry| format!("{}\n", entry.object))
            .collect();
        let contents = git.run_with(["cat-file", "--batch"], Input::Bytes(blobs.as_bytes()))?;
        let mut contents = Batch(&contents);
        let mut files = BTreeMap::new();
        for entry in entries {
            let text = if entry.is_file() {
                String::from_utf8(contents.next()?).map_err(|_| "it is not UTF-8".to_owned())
            } else {
                Err(format!("it is not a plain file (mode {})", entry.mode))
            };
            let path = entry.path.strip_prefix(&prefix).unwrap_or(&entry.path).to_owned();
            files.insert(path, text);
        }
        Ok(Self { files })
    }
}

impl Tree for CommitTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        match self.files.get(path) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text.clone())),
            Some(Err(why)) => Err(TreeError { path: path.to_owned(), why: why.clone() }),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let inside = format!("{path}/");
        let below = self.files.keys().filter_map(|file| file.strip_prefix(&inside));
        let names: BTreeSet<&str> = below.filter_map(|rest| rest.split('/').next()).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }
}

struct Entry {
    mode: String,
    object: String,
    path: String,
}

impl Entry {
    fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}

fn unexpected(command: &str, what: &str) -> GitError {
    GitError::Unexpected { command: command.to_owned(), what: what.to_owned() }
}

fn entries(listing: &[u8]) -> Result<Vec<Entry>, GitError> {
    let text = String::from_utf8_lossy(listing);
    let entry = |line: &str| {
        let (head, path) = line.split_once('\t')?;
        let [mode, _, object] = head.split(' ').collect::<Vec<_>>().try_into().ok()?;
        Some(Entry { mode: mode.to_owned(), object: object.to_owned(), path: path.to_owned() })
    };
    text.split_terminator('\0')
        .map(|line| entry(line).ok_or_else(|| unexpected("ls-tree", line)))
        .collect()
}

/// The answers of `cat-file --batch`, one after the other.
struct Batch<'a>(&'a [u8]);

impl Batch<'_> {
    fn next(&mut self) -> Result<Vec<u8>, GitError> {
        let broken = || unexpected("cat-file --batch", "an answer is cut off");
        let end = self.0.iter().position(|byte| *byte == b'\n').ok_or_else(broken)?;
        let (head, rest) = self.0.split_at_checked(end).ok_or_else(broken)?;
        let head = String::from_utf8_lossy(head);
        let size = head.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        let size = size.ok_or_else(|| unexpected("cat-file --batch", &head))?;
        let (content, rest) =
            rest.get(1..).and_then(|rest| rest.split_at_checked(size)).ok_or_else(broken)?;
        self.0 = rest.get(1..).ok_or_else(broken)?;
        Ok(content.to_owned())
    }
}
