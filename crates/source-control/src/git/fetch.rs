//! Bringing one commit here, so that work can start from it.
//!
//! As with pushes, the checkout's own configuration is not asked, and the credential goes along in the
//! environment of one git.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bailiwick_fleet::ports::FetchedCommit;
use bailiwick_resources::Moment;

use super::command::{Git, GitError, Input};
use super::push::{Destination, NotPushed, git, unanswered};

/// Where what was fetched is held, so that nothing sweeps it away.
const KEPT: &str = "refs/bailiwick/fetched";

/// The commit that `wanted` (a whole ref, or the whole name of a commit) is on the other side, brought into
/// `repository`; nothing if the other side has none.
pub(crate) fn fetch(
    repository: &Path,
    state: &Path,
    source: &Destination<'_>,
    wanted: &str,
) -> Result<Option<String>, NotPushed> {
    let refused = |why: String| NotPushed::Refused(source.clean(&why));
    let is_commit = super::push::require_name(wanted).is_ok();
    let objects = git(repository, state, source, &"0".repeat(40))?;
    if !is_commit {
        let fits = objects.succeeds(["check-ref-format", wanted]).unwrap_or(false);
        if !fits || !wanted.starts_with("refs/") {
            return Err(NotPushed::Refused(format!("`{wanted}` is no whole ref and no commit")));
        }
    }
    // Others may fetch at the same time, also in this process.
    static FETCHES: AtomicU64 = AtomicU64::new(0);
    let number = FETCHES.fetch_add(1, Ordering::Relaxed);
    let here = format!("{KEPT}/by-{}-{number}", std::process::id());
    let refspec = format!("+{wanted}:{here}");
    let arguments = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--refmap=",
        "--",
        source.url,
        &refspec,
    ];
    let ended = objects
        .end_with(arguments, Input::Nothing)
        .map_err(|error| NotPushed::Unknown(source.clean(&error.to_string())))?;
    if ended.code != Some(0) {
        let missing = ["couldn't find remote ref", "not our ref", "no such remote ref"];
        if missing.iter().any(|words| ended.complaint.contains(words)) {
            return Ok(None);
        }
        return Err(unanswered(source, &ended.complaint));
    }
    let found = objects
        .run(["rev-parse", "--verify", "--end-of-options", &format!("{here}^{{commit}}")])
        .map_err(|error| refused(error.to_string()))?;
    let commit = String::from_utf8_lossy(&found).trim().to_owned();
    if is_commit && commit != wanted {
        return Err(NotPushed::Refused(format!("asked for {wanted}, it gave {commit}")));
    }
    hold(&Git::at(repository), &commit).map_err(|error| refused(error.to_string()))?;
    // If it stays, it only takes room.
    let _ = objects.run(["update-ref", "-d", &here]);
    Ok(Some(commit))
}

/// What was fetched and is held, by its commit; or by another name where a fetch was cut off.
pub fn fetched(git: &Git) -> Result<Vec<FetchedCommit>, GitError> {
    let what = "--format=%(refname)%00%(objectname)%00%(taggerdate:unix)";
    let listed = git.run(["for-each-ref", what, KEPT])?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let held = listed.lines().filter_map(|line| {
        let mut parts = line.split('\0');
        let name = parts.next()?.strip_prefix(KEPT)?.strip_prefix('/')?.to_owned();
        let by = parts.next()?.to_owned();
        let seconds = parts.next().and_then(|seconds| seconds.parse::<u64>().ok());
        let at = seconds.map(|seconds| Moment::from_millis(seconds.saturating_mul(1_000)));
        Some(FetchedCommit { name, at, by })
    });
    Ok(held.collect())
}

/// Holds a commit that is here already, by its whole name, as if it had been fetched. What holds it is a tag that
/// says when, and another each time: whoever lets it go sees whether it was held again.
pub fn hold(git: &Git, commit: &str) -> Result<(), GitError> {
    static HOLDS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (process, number) = (std::process::id(), HOLDS.fetch_add(1, Ordering::Relaxed));
    let (seconds, nanos) = (now.as_secs(), now.as_nanos());
    let tag = format!(
        "object {commit}\ntype commit\ntag held\n\
         tagger bailiwick <bailiwick@localhost> {seconds} +0000\n\n{process} {number} {nanos}\n"
    );
    let tag = git.run_with(["mktag"], Input::Bytes(tag.as_bytes()))?;
    let tag = String::from_utf8_lossy(&tag).trim().to_owned();
    git.run(["update-ref", "--no-deref", &format!("{KEPT}/{commit}"), &tag]).map(drop)
}

/// Holds it no longer, unless it was held again since it was listed. The commit itself stays for as long as git
/// keeps what nothing names.
pub fn let_go(git: &Git, held: &FetchedCommit) -> Result<(), GitError> {
    let name = format!("{KEPT}/{}", held.name);
    let Err(error) = git.run(["update-ref", "--no-deref", "-d", &name, &held.by]) else {
        return Ok(());
    };
    // Somebody was faster: it is held by something else now, or not at all.
    match fetched(git)?.iter().any(|now| now.name == held.name && now.by == held.by) {
        true => Err(error),
        false => Ok(()),
    }
}
