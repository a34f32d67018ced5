//! Fetching one commit, so that work can start from it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::command::{Git, Input};
use super::remote::{ANY_SHA1, Remote, RemoteError, is_object_name};
use super::retained_commits::{RETAINED_REFS, retain_commit};

/// Whether a name below [`RETAINED_REFS`] is that of a fetch that has not ended: its process runs, and is this program.
pub(crate) fn is_temporary(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix("by-").and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, number)| {
        is_number(process) && is_number(number) && is_same_program(process)
    })
}

fn is_same_program(process: &str) -> bool {
    let name = |process: &str| std::fs::read(format!("/proc/{process}/comm")).ok();
    name(process).is_some_and(|program| Some(program) == name("self"))
}

/// Fetches `wanted` (the full name of a reference or of a commit) into `repository` and returns the commit;
/// `None` if the remote does not have it.
pub(crate) fn fetch(
    repository: &Path,
    state: &Path,
    remote: &Remote<'_>,
    wanted: &str,
) -> Result<Option<String>, RemoteError> {
    let git = remote.git(repository, state, ANY_SHA1)?;
    let is_commit = is_object_name(wanted);
    if !is_commit {
        let is_valid = git.succeeds(["check-ref-format", wanted]).unwrap_or(false);
        if !is_valid || !wanted.starts_with("refs/") {
            let why = format!("`{wanted}` is not the full name of a reference or a commit");
            return Err(RemoteError::refused(why));
        }
    }
    // Each fetch has a reference of its own, because several can run at the same time.
    static FETCHES: AtomicU64 = AtomicU64::new(0);
    let number = FETCHES.fetch_add(1, Ordering::Relaxed);
    let temporary = format!("{RETAINED_REFS}/by-{}-{number}", std::process::id());
    let refspec = format!("+{wanted}:{temporary}");
    let arguments = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--refmap=",
        "--",
        remote.url,
        &refspec,
    ];
    let output =
        git.output(arguments, Input::Nothing).map_err(|error| remote.unavailable(&error))?;
    if output.exit_code != Some(0) {
        if is_missing_on_remote(&output.stderr) {
            return Ok(None);
        }
        return Err(remote.transfer_error(&output.stderr));
    }
    let commit = git
        .line(["rev-parse", "--verify", "--end-of-options", &format!("{temporary}^{{commit}}")])
        .map_err(|error| remote.refused(&error))?;
    if is_commit && commit != wanted {
        let why = format!("the remote sent {commit} instead of {wanted}");
        return Err(RemoteError::refused(why));
    }
    retain_commit(&Git::at(repository), &commit).map_err(|error| remote.refused(&error))?;
    // If this fails, the reference only takes space.
    let _ = git.run(["update-ref", "-d", &temporary]);
    Ok(Some(commit))
}

/// Git has one exit code for every failed fetch; only the message says that the reference does not exist.
fn is_missing_on_remote(stderr: &str) -> bool {
    let messages = ["couldn't find remote ref", "not our ref", "no such remote ref"];
    messages.iter().any(|message| stderr.contains(message))
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::super::remote::Refusal;
    use super::*;

    #[test]
    fn missing_reference_is_distinguished_from_a_failed_fetch() {
        let (source, target) = (Scratch::repository(), Scratch::repository());
        let commit = source.commit("first");
        target.commit("other");
        let state = target.state();
        let fetch_from = |url: &Path, wanted: &str| {
            let remote = Remote { url: url.to_str().unwrap(), token: None };
            fetch(&target.root(), &state, &remote, wanted)
        };
        let root = source.root();
        assert_eq!(fetch_from(&root, "refs/heads/main").unwrap(), Some(commit));
        assert_eq!(fetch_from(&root, "refs/heads/missing").unwrap(), None);
        assert_eq!(fetch_from(&root, &"1".repeat(40)).unwrap(), None);
        let elsewhere = source.place().join("missing");
        let refused = fetch_from(&elsewhere, "refs/heads/main");
        assert!(matches!(refused, Err(RemoteError::Refused(Refusal::Other(_)))), "{refused:?}");
    }
}
