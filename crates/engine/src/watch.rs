//! Whether what a command read of the repository's kit is what would bind an agent.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bailiwick_kit::{Tree, TreeError};
use bailiwick_source_control::git::Listing;
use bailiwick_source_control::{DirectoryTree, Repository};

use crate::counted::counted;
use crate::failure::Failure;
use crate::notices::Notices;

type ReadFiles = Rc<RefCell<BTreeMap<String, Option<String>>>>;

/// A directory that records which files were read and which were missing.
pub struct WatchedTree {
    tree: DirectoryTree,
    seen: ReadFiles,
}

impl WatchedTree {
    pub fn new(tree: DirectoryTree, seen: ReadFiles) -> Self {
        Self { tree, seen }
    }
}

impl Tree for WatchedTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        let text = self.tree.read(path)?;
        self.seen.borrow_mut().insert(path.to_owned(), text.clone());
        Ok(text)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        self.tree.list(path)
    }
}

/// Whether the repository's kit is committed, so that it applies to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KitState {
    /// All files that were read are committed.
    Committed,
    /// Some differ from the commit.
    Differs,
}

/// Compares what was read with the commit. Git is asked at the beginning and answers meanwhile.
pub struct Watch {
    repository: Repository,
    prefix: String,
    seen: ReadFiles,
    listing: Listing,
}

impl Watch {
    /// Watches the directory `prefix` of the repository.
    pub fn start(repository: Repository, prefix: &str) -> Result<Self, Failure> {
        let listing = repository.start_listing(prefix)?;
        let prefix = match prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        Ok(Self { repository, prefix, seen: ReadFiles::default(), listing })
    }

    pub fn seen(&self) -> ReadFiles {
        Rc::clone(&self.seen)
    }

    /// Says which files that were read differ from the commit that would bind an agent.
    pub fn note(self, notices: &Notices) -> Result<KitState, Failure> {
        let committed = self.listing.finish()?;
        let read_files = self.seen.borrow();
        let suspect = read_files.iter().filter(|(path, text)| match &committed {
            Some(committed) => !committed.matches(path, text.as_deref()),
            None => text.is_some(),
        });
        let paths: Vec<String> =
            suspect.map(|(path, _)| format!("{}{path}", self.prefix)).collect();
        // What is behind a link is no difference to git, and yet it is not in the commit.
        let unknown = |path: &&String| match &committed {
            Some(committed) => !committed.contains(path.strip_prefix(&self.prefix).unwrap_or(path)),
            None => true,
        };
        let read = |path: &&String| {
            let inside = path.strip_prefix(&self.prefix).unwrap_or(path);
            read_files.get(inside).is_some_and(Option::is_some)
        };
        let behind = paths.iter().filter(unknown).find(read);
        let all = match self.prefix.trim_end_matches('/') {
            "" => paths.clone(),
            directory => vec![directory.to_owned()],
        };
        match (note_differences(notices, &self.repository, &paths, &all)?, behind) {
            (KitState::Committed, Some(path)) => {
                notices.note(format_args!(
                    "{path} was read through a link and is not in the commit; an agent is bound by \
                     what is committed"
                ));
                Ok(KitState::Differs)
            }
            (content, _) => Ok(content),
        }
    }
}

/// Says how these files differ from the commit, and how many do below `all`. Git has the last word: it knows
/// of line endings and filters.
pub fn note_differences(
    notices: &Notices,
    repository: &Repository,
    paths: &[String],
    all: &[String],
) -> Result<KitState, Failure> {
    let differing = |paths: &[String]| -> Result<_, Failure> {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        Ok(if paths.is_empty() { Vec::new() } else { repository.differences(&paths)? })
    };
    let differences = differing(paths)?;
    let Some(first) = differences.first() else { return Ok(KitState::Committed) };
    let count = differing(all)?.len().max(differences.len());
    let more = match count - 1 {
        0 => String::new(),
        more => format!(", and {}", counted(more, "more file")),
    };
    notices.note(format_args!(
        "{} {}{more}; an agent is bound by what is committed",
        first.path, first.kind
    ));
    Ok(KitState::Differs)
}
