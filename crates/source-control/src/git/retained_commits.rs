//! References that protect fetched commits from garbage collection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bailiwick_control::ports::fleet::Held;
use bailiwick_model::fleet::Moment;

use super::command::{Git, GitError, Input};

pub(super) const RETAINED_REFS: &str = "refs/bailiwick/fetched";

/// All retained commits, by their name. An interrupted fetch leaves a reference with another name.
pub fn retained_commits(git: &Git) -> Result<Vec<Held>, GitError> {
    let format = "--format=%(refname)%00%(objectname)%00%(taggerdate:unix)";
    let listed = git.run(["for-each-ref", format, RETAINED_REFS])?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let retained = listed.lines().filter_map(|line| {
        let mut parts = line.split('\0');
        let name = parts.next()?.strip_prefix(RETAINED_REFS)?.strip_prefix('/')?.to_owned();
        let by = parts.next()?.to_owned();
        let seconds = parts.next().and_then(|seconds| seconds.parse::<u64>().ok());
        let at = seconds.map(|seconds| Moment::from_millis(seconds.saturating_mul(1_000)));
        Some(Held { name, at, by })
    });
    Ok(retained.collect())
}

/// Retains a commit of this repository. The reference names a new tag each time, which records when:
/// so `release_commit` sees whether the commit was retained again.
pub fn retain_commit(git: &Git, commit: &str) -> Result<(), GitError> {
    static TAGS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (process, number) = (std::process::id(), TAGS.fetch_add(1, Ordering::Relaxed));
    let (seconds, nanos) = (now.as_secs(), now.as_nanos());
    let tag = format!(
        "object {commit}\ntype commit\ntag held\n\
         tagger bailiwick <bailiwick@localhost> {seconds} +0000\n\n{process} {number} {nanos}\n"
    );
    let tag = git.run_with_input(["mktag"], Input::Bytes(tag.as_bytes()))?;
    let tag = String::from_utf8_lossy(&tag).trim().to_owned();
    git.run(["update-ref", "--no-deref", &format!("{RETAINED_REFS}/{commit}"), &tag]).map(drop)
}

/// Removes the reference of a retained commit, unless it was retained again since it was listed.
pub fn release_commit(git: &Git, retained: &Held) -> Result<(), GitError> {
    let name = format!("{RETAINED_REFS}/{}", retained.name);
    let Err(error) = git.run(["update-ref", "--no-deref", "-d", &name, &retained.by]) else {
        return Ok(());
    };
    // Another process may have retained or released it meanwhile.
    let is_unchanged = |now: &Held| now.name == retained.name && now.by == retained.by;
    if retained_commits(git)?.iter().any(is_unchanged) { Err(error) } else { Ok(()) }
}
