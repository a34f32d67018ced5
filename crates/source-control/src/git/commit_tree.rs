//! Reading the files of a commit as a `Tree`.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_kit::{Tree, TreeError};

use super::command::{Git, GitError, Input};

/// The files of a commit below some directories, read at once.
pub struct CommitTree {
    files: BTreeMap<String, Content>,
}

enum Content {
    Text(String),
    Bytes,
    /// A link or a submodule, with its mode: its target is not in the commit.
    Unreadable(String),
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
        if entries.is_empty() {
            require_directory(git, commit, &prefix)?;
        }
        let blobs: String = entries
            .iter()
            .filter(|entry| entry.is_file())
            .map(|entry| format!("{}\n", entry.object))
            .collect();
        let contents =
            git.run_with_input(["cat-file", "--batch"], Input::Bytes(blobs.as_bytes()))?;
        let mut contents = Batch(&contents);
        let mut files = BTreeMap::new();
        for entry in entries {
            let path = entry.path.strip_prefix(&prefix).unwrap_or(&entry.path).to_owned();
            let content = if entry.is_file() {
                String::from_utf8(contents.next()?).map_or(Content::Bytes, Content::Text)
            } else {
                Content::Unreadable(entry.mode)
            };
            files.insert(path, content);
        }
        Ok(Self { files })
    }

    /// Returns an error if `path` or a directory above it is a link or a submodule.
    fn require_readable(&self, path: &str) -> Result<(), TreeError> {
        for parent in path_and_parents(path) {
            let why = match self.files.get(parent) {
                Some(Content::Unreadable(mode)) => {
                    format!("{parent} is not a plain file or directory (mode {mode})")
                }
                Some(Content::Text(_) | Content::Bytes) if parent != path => {
                    format!("{parent} is a file where a directory belongs")
                }
                Some(Content::Text(_) | Content::Bytes) | None => continue,
            };
            return Err(TreeError { path: path.to_owned(), why });
        }
        Ok(())
    }
}

/// The directories above a path, the outermost first, and the path itself.
fn path_and_parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(end, _)| path.get(..end)).chain([path])
}

/// A prefix that is a link or a submodule must not look like a missing one.
fn require_directory(git: &Git, commit: &str, prefix: &str) -> Result<(), GitError> {
    let Some(prefix) = prefix.strip_suffix('/') else { return Ok(()) };
    let options = ["ls-tree", "-z", "--full-tree", commit, "--"];
    let listing = git.run(options.into_iter().chain(path_and_parents(prefix)))?;
    let other = entries(&listing)?.into_iter().find(|entry| !entry.is_directory());
    other.map_or(Ok(()), |entry| {
        let what = format!("{} is not a directory (mode {})", entry.path, entry.mode);
        Err(unexpected("ls-tree", &what))
    })
}

impl Tree for CommitTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        self.require_readable(path)?;
        let refuse = |why: &str| Err(TreeError { path: path.to_owned(), why: why.to_owned() });
        match self.files.get(path) {
            Some(Content::Text(text)) => Ok(Some(text.clone())),
            Some(Content::Bytes) => refuse("it is not UTF-8"),
            Some(Content::Unreadable(_)) => refuse("it is not a plain file"),
            None if !self.list(path)?.is_empty() => refuse("it is a directory"),
            None => Ok(None),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        self.require_readable(&format!("{path}/"))?;
        let inside = if path.is_empty() { String::new() } else { format!("{path}/") };
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

    fn is_directory(&self) -> bool {
        self.mode == "040000"
    }
}

fn unexpected(command: &str, what: &str) -> GitError {
    GitError::UnexpectedOutput { command: command.to_owned(), output: what.to_owned() }
}

fn entries(listing: &[u8]) -> Result<Vec<Entry>, GitError> {
    let text = std::str::from_utf8(listing)
        .map_err(|_| unexpected("ls-tree", "a name that is not UTF-8"))?;
    let entry = |line: &str| {
        let (head, path) = line.split_once('\t')?;
        let [mode, _, object] = head.split(' ').collect::<Vec<_>>().try_into().ok()?;
        Some(Entry { mode: mode.to_owned(), object: object.to_owned(), path: path.to_owned() })
    };
    text.split_terminator('\0')
        .map(|line| entry(line).ok_or_else(|| unexpected("ls-tree", line)))
        .collect()
}

/// The output of `cat-file --batch`, object by object.
pub(crate) struct Batch<'a>(&'a [u8]);

impl<'a> Batch<'a> {
    pub(crate) fn new(stdout: &'a [u8]) -> Self {
        Self(stdout)
    }

    pub(crate) fn next(&mut self) -> Result<Vec<u8>, GitError> {
        let broken = || unexpected("cat-file --batch", "an object is incomplete");
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
