//! Pushing one commit to one branch, by compare-and-swap.

use std::path::Path;

use super::command::{Git, GitError, Input};
use super::remote::{ANY_SHA1, Remote, RemoteError, is_object_name};

/// Pushes a commit of `repository` to `branch`, which must be at `expected`, or must not exist.
pub(crate) fn push(
    repository: &Path,
    state: &Path,
    remote: &Remote<'_>,
    branch: &str,
    commit: &str,
    expected: Option<&str>,
) -> Result<(), RemoteError> {
    for name in [Some(commit), expected].into_iter().flatten() {
        if !is_object_name(name) {
            return Err(RemoteError::refused(format!("`{name}` is not the full name of a commit")));
        }
    }
    let git = remote.git(repository, state, commit)?;
    let reference = branch_reference(&git, branch)?;
    push_reference(&git, repository, remote, &reference, commit, expected)
}

/// Pushes a commit to a reference by its full name.
pub(super) fn push_reference(
    git: &Git,
    repository: &Path,
    remote: &Remote<'_>,
    reference: &str,
    commit: &str,
    expected: Option<&str>,
) -> Result<(), RemoteError> {
    let has_commit = git.succeeds(["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    if !has_commit.map_err(|error| remote.refused(&error))? {
        let why = format!("{} has no commit {commit}", repository.display());
        return Err(RemoteError::refused(why));
    }
    let lease = format!("--force-with-lease={reference}:{}", expected.unwrap_or_default());
    let refspec = format!("{commit}:{reference}");
    let mut arguments = vec!["push", "--porcelain", "--no-verify", "--no-follow-tags", &lease];
    if !remote.is_http() {
        // Hooks of a repository on this machine do not run either.
        arguments.push("--receive-pack=git -c core.hooksPath=/dev/null receive-pack");
    }
    arguments.extend(["--", remote.url, &refspec]);
    let output = git.output(arguments, Input::Nothing).map_err(|error| match error {
        GitError::TimedOut { .. } => remote.unavailable(&error),
        GitError::Missing { .. }
        | GitError::Unsupported(_)
        | GitError::Failed { .. }
        | GitError::UnexpectedOutput { .. }
        | GitError::Io { .. } => remote.refused(&error),
    })?;
    match PushReport::parse(&output.text(), reference) {
        Some(PushReport::Updated) if output.exit_code == Some(0) => Ok(()),
        Some(PushReport::Stale) => Err(RemoteError::Moved),
        Some(PushReport::Rejected(reason)) => {
            Err(RemoteError::refused(remote.redact(&format!("{reason} {}", output.stderr))))
        }
        Some(PushReport::Updated) | None => Err(remote.transfer_error(&output.stderr)),
    }
}

/// What `git push --porcelain` reports of one reference.
#[derive(Debug, PartialEq, Eq)]
enum PushReport {
    Updated,
    /// The lease did not hold: the branch is at another commit.
    Stale,
    Rejected(String),
}

impl PushReport {
    /// A line is `<flag>\t<from>:<to>\t<summary> (<reason>)`, and the flag of a rejection is `!`.
    fn parse(stdout: &str, reference: &str) -> Option<Self> {
        let line = stdout.lines().find(|line| line.contains(reference))?;
        if !line.starts_with('!') {
            return Some(Self::Updated);
        }
        let reason = line.rsplit('\t').next().unwrap_or(line);
        let is_stale = reason.ends_with("(stale info)");
        Some(if is_stale { Self::Stale } else { Self::Rejected(reason.to_owned()) })
    }
}

/// The commit of a branch on the remote; `None` if the branch does not exist.
pub(crate) fn remote_branch(
    repository: &Path,
    state: &Path,
    remote: &Remote<'_>,
    branch: &str,
) -> Result<Option<String>, RemoteError> {
    let git = remote.git(repository, state, ANY_SHA1)?;
    let reference = branch_reference(&git, branch)?;
    find_reference(&git, remote, &reference)
}

/// The commit of a reference on the remote, by its full name.
pub(super) fn find_reference(
    git: &Git,
    remote: &Remote<'_>,
    reference: &str,
) -> Result<Option<String>, RemoteError> {
    let arguments = ["ls-remote", "--refs", "--", remote.url, reference];
    let output =
        git.output(arguments, Input::Nothing).map_err(|error| remote.unavailable(&error))?;
    if output.exit_code != Some(0) {
        return Err(remote.transfer_error(&output.stderr));
    }
    let text = output.text();
    let mut listed = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(listed.find(|(_, name)| *name == reference).map(|(commit, _)| commit.to_owned()))
}

/// The full name of a branch, if it is valid.
fn branch_reference(git: &Git, branch: &str) -> Result<String, RemoteError> {
    let reference = format!("refs/heads/{branch}");
    let is_valid = git.succeeds(["check-ref-format", &reference]).unwrap_or(false);
    // Elsewhere git would take a name that begins with a dash for an option.
    if is_valid && !branch.starts_with('-') {
        return Ok(reference);
    }
    Err(RemoteError::refused(format!("`{branch}` is not a valid branch name")))
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    #[test]
    fn push_reports_of_git_are_distinguished() {
        let scratch = Scratch::repository();
        let first = scratch.commit("first");
        let second = scratch.commit("second");
        let remote = scratch.place().join("remote.git");
        let url = remote.to_str().unwrap();
        scratch.git(&["init", "--quiet", "--bare", url]);
        let push = |commit: &str, expected: &str| {
            let lease = format!("--force-with-lease=refs/heads/one:{expected}");
            let refspec = format!("{commit}:refs/heads/one");
            let git = Git::at(scratch.root()).with_protocols("file");
            let arguments = ["push", "--porcelain", &lease, "--", url, &refspec];
            let output = git.output(arguments, Input::Nothing).unwrap();
            PushReport::parse(&output.text(), "refs/heads/one")
        };
        assert_eq!(push(&first, ""), Some(PushReport::Updated));
        assert_eq!(push(&second, &second), Some(PushReport::Stale));
        let config = remote.join("config");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}[receive]\n\tdenyNonFastForwards = true\n"))
            .unwrap();
        assert_eq!(push(&second, &first), Some(PushReport::Updated));
        let rejected = push(&first, &second);
        assert!(matches!(rejected, Some(PushReport::Rejected(_))), "{rejected:?}");
        assert_eq!(PushReport::parse("", "refs/heads/one"), None);
    }
}
