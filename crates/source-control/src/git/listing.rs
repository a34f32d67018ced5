//! Listing the files of a commit in the background.

use std::collections::BTreeMap;
use std::process::Child;

use sha1::{Digest as _, Sha1};

use super::command::{Git, GitError};

/// A running `git ls-tree`.
pub struct Listing {
    child: Child,
}

/// The files of a commit below a directory, each with the name of its blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedFiles {
    files: BTreeMap<String, String>,
}

impl Listing {
    /// Lists the files of the checked-out commit below `prefix`.
    pub(super) fn start(git: &Git, prefix: &str) -> Result<Self, GitError> {
        let tree = format!("HEAD:{prefix}");
        Ok(Self { child: git.spawn(["ls-tree", "-r", "-z", "--end-of-options", &tree])? })
    }

    /// Waits for the list; `None` if there is no commit, or no such directory in it.
    pub fn finish(self) -> Result<Option<CommittedFiles>, GitError> {
        let unreadable = |error| GitError::io("cannot read the output of git ls-tree", error);
        let output = self.child.wait_with_output().map_err(unreadable)?;
        if !output.status.success() {
            return Ok(None);
        }
        let unexpected = |output: &str| GitError::UnexpectedOutput {
            command: "ls-tree".to_owned(),
            output: output.to_owned(),
        };
        let text = std::str::from_utf8(&output.stdout)
            .map_err(|_| unexpected("a name that is not UTF-8"))?;
        let entry = |line: &str| {
            let (head, path) = line.split_once('\t')?;
            Some((path.to_owned(), head.rsplit(' ').next()?.to_owned()))
        };
        let files =
            text.split_terminator('\0').map(|line| entry(line).ok_or_else(|| unexpected(line)));
        Ok(Some(CommittedFiles { files: files.collect::<Result<_, _>>()? }))
    }
}

impl CommittedFiles {
    /// Whether the commit has a file at this path.
    pub fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Whether the commit has exactly this text at `path`, or no file if there is no text.
    pub fn matches(&self, path: &str, text: Option<&str>) -> bool {
        match (self.files.get(path), text) {
            (None, None) => true,
            (Some(object), Some(text)) => is_blob(object, text.as_bytes()),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// Whether this is the SHA-1 or SHA-256 name of a blob with this content.
fn is_blob(name: &str, content: &[u8]) -> bool {
    let head = format!("blob {}\0", content.len());
    if name.len() == 40 {
        is_hex_of(name, &Sha1::new().chain_update(head).chain_update(content).finalize())
    } else {
        bailiwick_model::Sha256Hex::of([head.as_bytes(), content].concat()).as_str() == name
    }
}

fn is_hex_of(hex: &str, bytes: &[u8]) -> bool {
    let digit = |value: u8| char::from_digit(u32::from(value), 16);
    let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.eq(hex.chars().map(Some))
}

#[cfg(test)]
mod tests {
    use super::is_blob;

    #[test]
    fn blob_names_match_those_of_git() {
        assert!(is_blob("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", b""));
        assert!(is_blob("ce013625030ba8dba906f756967f9e9ca394464a", b"hello\n"));
        assert!(!is_blob("ce013625030ba8dba906f756967f9e9ca394464a", b"hello"));
        assert!(!is_blob("ce013625030ba8dba906f756967f9e9ca394464b", b"hello\n"));
        let long = "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813";
        assert!(is_blob(long, b"") && !is_blob(long, b"x"));
    }
}
