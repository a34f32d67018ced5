//! References on a remote: texts that are read whole and changed by compare-and-swap, and commits that are set.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::command::{Git, Input};
use super::identity::{BAILIWICK, with_identity};
use super::push::{find_reference, push_reference};
use super::remote::{ANY_SHA1, Remote, RemoteError};

/// How often a reference is set again after somebody else has moved it.
const SET_ATTEMPTS: usize = 3;

/// The commit of a reference and the text of its message; `None` if the remote does not have it.
pub(crate) fn read_message(
    repository: &Path,
    state: &Path,
    remote: &Remote<'_>,
    reference: &str,
) -> Result<Option<(String, String)>, RemoteError> {
    let git = remote.git(repository, state, ANY_SHA1)?;
    let Some(commit) = find_reference(&git, remote, reference)? else { return Ok(None) };
    let has_commit = || git.succeeds(["cat-file", "-e", &commit]);
    if !has_commit().map_err(|error| remote.refused(&error))? {
        // Each fetch has a reference of its own, because several can run at the same time.
        static FETCHES: AtomicU64 = AtomicU64::new(0);
        let number = FETCHES.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("refs/bailiwick/reading/by-{}-{number}", std::process::id());
        let refspec = format!("+{reference}:{temporary}");
        let options =
            ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"];
        let arguments = options.into_iter().chain(["--refmap=", "--", remote.url, &refspec]);
        let output =
            git.output(arguments, Input::Nothing).map_err(|error| remote.unavailable(&error))?;
        // If this fails, the reference only takes space.
        let _ = git.run(["update-ref", "-d", &temporary]);
        if output.exit_code != Some(0) || !has_commit().map_err(|error| remote.refused(&error))? {
            // It may have moved since it was listed.
            return Err(RemoteError::Unavailable(remote.redact(&output.stderr)));
        }
    }
    let raw = git.run(["cat-file", "commit", &commit]).map_err(|error| remote.refused(&error))?;
    let text = String::from_utf8_lossy(&raw);
    let (_, message) = text.split_once("\n\n").unwrap_or_default();
    Ok(Some((commit, message.trim_end().to_owned())))
}

/// Sets a reference to a commit with this text, if it is at `expected`, or does not exist. Gives the commit;
/// `None` if the reference was elsewhere.
pub(crate) fn swap_message(
    repository: &Path,
    state: &Path,
    remote: &Remote<'_>,
    reference: &str,
    expected: Option<&str>,
    text: &str,
) -> Result<Option<String>, RemoteError> {
    let git = remote.git(repository, state, expected.unwrap_or(ANY_SHA1))?;
    let refused = |error: super::GitError| remote.refused(&error);
    let tree = git.run_with_input(["mktree"], Input::Bytes(b"")).map_err(refused)?;
    let tree = String::from_utf8_lossy(&tree).trim().to_owned();
    let author: Git = with_identity(git.clone(), BAILIWICK, None);
    let arguments = ["commit-tree", "--no-gpg-sign", &tree, "-F", "-"];
    let commit =
        author.run_with_input(arguments, Input::Bytes(text.as_bytes())).map_err(refused)?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    match push_reference(&git, repository, remote, reference, &commit, expected) {
        Ok(()) => Ok(Some(commit)),
        // The server's words for a lost race differ; where the reference is now does not.
        Err(RemoteError::Moved | RemoteError::Refused(_)) => {
            let found = find_reference(&git, remote, reference)?;
            if found.as_deref() == Some(&commit) {
                return Ok(Some(commit));
            }
            if found.as_deref() == expected {
                // Somebody else's push may be under way, or the account has no right: the next attempt tells.
                let why = format!("the remote did not accept {reference}");
                return Err(RemoteError::Unavailable(why));
            }
            Ok(None)
        }
        Err(error @ RemoteError::Unavailable(_)) => Err(error),
    }
}

/// Sets a reference on a remote to this commit, wherever it was.
pub(crate) fn set_reference(
    repository: &Path,
    state: &Path,
    remote: &Remote<'_>,
    reference: &str,
    commit: &str,
) -> Result<(), RemoteError> {
    let git = remote.git(repository, state, commit)?;
    let mut refusal = RemoteError::Moved;
    for _ in 0..SET_ATTEMPTS {
        let found = find_reference(&git, remote, reference)?;
        if found.as_deref() == Some(commit) {
            return Ok(());
        }
        match push_reference(&git, repository, remote, reference, commit, found.as_deref()) {
            Ok(()) => return Ok(()),
            // Some servers have words of their own for a reference that has just moved.
            Err(error @ (RemoteError::Moved | RemoteError::Refused(_))) => refusal = error,
            Err(error @ RemoteError::Unavailable(_)) => return Err(error),
        }
    }
    Err(refusal)
}
