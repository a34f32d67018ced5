//! References that have the memory of agents: issues and claims. Their commits have no files.

use bailiwick_memory::{CLAIMS_REF, ClaimTable};

use super::command::{Git, GitError, Input};
use super::commit_tree::Batch;
use super::issue_operation::is_issue_commit;

/// Where issues are.
pub(crate) const ISSUE_REFS: &str = "refs/bailiwick/issues/";
/// Where the issues of other clones are fetched to: `<remote>/issues/<number>`.
const REMOTE_REFS: &str = "refs/bailiwick/remotes/";

/// What a reference has of the memory.
#[derive(Clone, Copy)]
enum Memory {
    Issue,
    Claims,
}

fn memory_of(name: &str) -> Option<Memory> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_remote = || name.strip_prefix(REMOTE_REFS)?.rsplit_once("/issues/");
    if name == CLAIMS_REF {
        Some(Memory::Claims)
    } else if name.strip_prefix(ISSUE_REFS).is_some_and(is_number)
        || of_remote().is_some_and(|(_, number)| is_number(number))
    {
        Some(Memory::Issue)
    } else {
        None
    }
}

/// Whether a reference belongs to the memory, and all these commits are changes of it and nothing else.
pub(super) fn has_only_memory(git: &Git, name: &str, commits: &[String]) -> Result<bool, GitError> {
    let Some(memory) = memory_of(name) else { return Ok(false) };
    let empty = git.run_with_input(["hash-object", "-t", "tree", "--stdin"], Input::Bytes(b""))?;
    let empty = String::from_utf8_lossy(&empty).trim().to_owned();
    let listed = commits.join("\n");
    let raw = git.run_with_input(["cat-file", "--batch"], Input::Bytes(listed.as_bytes()))?;
    let mut batch = Batch::new(&raw);
    for _ in commits {
        let commit = batch.next()?;
        let is_memory = match memory {
            Memory::Issue => is_issue_commit(&commit, &empty),
            Memory::Claims => is_claims_commit(&commit, &empty),
        };
        if !is_memory {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_claims_commit(raw: &[u8], empty_tree: &str) -> bool {
    let text = String::from_utf8_lossy(raw);
    let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    // git uses the first line, whatever others say.
    let first = head.lines().next().and_then(|line| line.strip_prefix("tree "));
    let has_no_files = first == Some(empty_tree);
    has_no_files && ClaimTable::parse(message).is_ok()
}

#[cfg(test)]
mod tests {
    use super::memory_of;

    #[test]
    fn memory_has_its_own_reference_names() {
        for name in [
            "refs/bailiwick/claims",
            "refs/bailiwick/issues/3",
            "refs/bailiwick/remotes/origin/issues/12",
        ] {
            assert!(memory_of(name).is_some(), "{name}");
        }
        for name in [
            "refs/bailiwick/claims/1",
            "refs/bailiwick/issues/",
            "refs/bailiwick/issues/x",
            "refs/bailiwick/issues/1/2",
            "refs/bailiwick/remotes/origin/1",
            "refs/heads/issues/3",
        ] {
            assert!(memory_of(name).is_none(), "{name}");
        }
    }
}
