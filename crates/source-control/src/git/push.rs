//! Pushing one commit to one branch, by compare-and-swap.
//!
//! It is pushed from a view on the objects alone: whatever the checkout's configuration says of
//! proxies, other addresses or certificates is not asked, because an agent may have written it. The
//! credential is handed over in the environment of that one git, bound to the address.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use thiserror::Error;

use super::command::{Git, GitError, Input};
use super::patience::Patience;
use super::work;

/// How long a push may take.
const PATIENCE: Patience = Patience {
    grace: Duration::from_secs(120),
    limit: Duration::from_secs(480),
    obstacle: |_| None,
};

/// Where something is pushed to.
pub(crate) struct Destination<'a> {
    /// An address of http, or the path of a repository on this machine.
    pub(crate) url: &'a str,
    /// What the other side wants to see, if anything.
    pub(crate) token: Option<&'a str>,
}

/// Why something was not pushed.
#[derive(Debug, Error)]
pub(crate) enum NotPushed {
    /// The branch is not where it was.
    #[error("the branch has moved")]
    Moved,
    /// The other side said no.
    #[error("{0}")]
    Refused(String),
    /// It is not known whether it was pushed.
    #[error("{0}")]
    Unknown(String),
}

/// Pushes a commit of `repository` to `branch`, which must be at `from`, or not there.
pub(crate) fn push(
    repository: &Path,
    state: &Path,
    destination: &Destination<'_>,
    branch: &str,
    commit: &str,
    from: Option<&str>,
) -> Result<(), NotPushed> {
    require_name(commit)?;
    from.map_or(Ok(()), require_name)?;
    let git = git(repository, state, destination, commit)?;
    let full = full_name(&git, branch)?;
    let have = git.succeeds(["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    if !have.map_err(|error| destination.refused(&error))? {
        let why = format!("{} has no commit {commit}", repository.display());
        return Err(NotPushed::Refused(why));
    }
    let lease = format!("--force-with-lease={full}:{}", from.unwrap_or_default());
    let refspec = format!("{commit}:{full}");
    let mut arguments = vec!["push", "--porcelain", "--no-verify", "--no-follow-tags", &lease];
    if !destination.is_http() {
        // The hooks of a repository on this machine are no more run than anybody else's.
        arguments.push("--receive-pack=git -c core.hooksPath=/dev/null receive-pack");
    }
    arguments.extend(["--", destination.url, &refspec]);
    let ended = git.end_with(arguments, Input::Nothing).map_err(|error| match error {
        GitError::Stuck { .. } => NotPushed::Unknown(destination.clean(&error.to_string())),
        GitError::Missing { .. }
        | GitError::Unsupported(_)
        | GitError::Failed { .. }
        | GitError::Unexpected { .. } => destination.refused(&error),
    })?;
    let printed = String::from_utf8_lossy(&ended.printed).into_owned();
    // A line a reference: what became of it, from where to where, in words.
    let line = printed.lines().find(|line| line.contains(&full));
    match line.map(|line| (line.starts_with('!'), line)) {
        Some((false, _)) if ended.code == Some(0) => Ok(()),
        Some((true, line)) if line.contains("(stale info)") => Err(NotPushed::Moved),
        Some((true, line)) => {
            let why = line.rsplit('\t').next().unwrap_or(line);
            Err(NotPushed::Refused(destination.clean(&format!("{why} {}", ended.complaint))))
        }
        Some((false, _)) | None => Err(unanswered(destination, &ended.complaint)),
    }
}

/// Where a branch is on the other side; nothing if it is not there.
pub(crate) fn where_is(
    repository: &Path,
    state: &Path,
    destination: &Destination<'_>,
    branch: &str,
) -> Result<Option<String>, NotPushed> {
    // Only the length matters: names of objects do not appear in what is asked.
    let git = git(repository, state, destination, &"0".repeat(40))?;
    let full = full_name(&git, branch)?;
    let arguments = ["ls-remote", "--refs", "--", destination.url, &full];
    let ended = git
        .end_with(arguments, Input::Nothing)
        .map_err(|error| NotPushed::Unknown(destination.clean(&error.to_string())))?;
    if ended.code != Some(0) {
        return Err(unanswered(destination, &ended.complaint));
    }
    let printed = String::from_utf8_lossy(&ended.printed).into_owned();
    let ours = printed.lines().filter_map(|line| line.split_once('\t'));
    Ok(ours.into_iter().find(|(_, name)| *name == full).map(|(commit, _)| commit.to_owned()))
}

impl Destination<'_> {
    fn is_http(&self) -> bool {
        self.url.starts_with("http://") || self.url.starts_with("https://")
    }

    /// Settings that go with the environment of one git, never with its arguments.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![
            // The header would go along to wherever a redirect leads.
            ("http.followRedirects".to_owned(), "false".to_owned()),
            ("http.lowSpeedLimit".to_owned(), "1".to_owned()),
            ("http.lowSpeedTime".to_owned(), "60".to_owned()),
        ];
        if crate::forge::is_local(self.url) {
            settings.push(("http.proxy".to_owned(), String::new()));
        }
        if let (true, Some(token)) = (self.is_http(), self.token) {
            let both = format!("x-access-token:{token}");
            let shown = base64::engine::general_purpose::STANDARD.encode(both);
            let name = format!("http.{}.extraHeader", self.url);
            settings.push((name, format!("Authorization: Basic {shown}")));
        }
        settings
    }

    /// What may be shown of a text of git's.
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(token) = self.token.filter(|token| !token.is_empty()) {
            text = text.replace(token, bailiwick_model::secret::PLACEHOLDER);
        }
        bailiwick_model::secret::redacted(&text).chars().take(600).collect()
    }

    fn refused(&self, error: &GitError) -> NotPushed {
        NotPushed::Refused(self.clean(&error.to_string()))
    }
}

pub(super) fn git(
    repository: &Path,
    state: &Path,
    destination: &Destination<'_>,
    object: &str,
) -> Result<Git, NotPushed> {
    let git = work::objects_of(repository, state, object)
        .map_err(|error| NotPushed::Refused(format!("{}: {}", error.what, error.why)))?;
    let protocols = if destination.is_http() { "http:https" } else { "file" };
    Ok(git.speaking(protocols).with_settings(&destination.settings()).with_patience(PATIENCE))
}

/// What the other side made of it is not known, unless it said that it does not know us.
pub(super) fn unanswered(destination: &Destination<'_>, complaint: &str) -> NotPushed {
    let complaint = destination.clean(complaint);
    if complaint.contains("could not read Username") {
        return NotPushed::Refused("it does not take the credential".to_owned());
    }
    let no = ["Authentication failed", "403", "401", "404", "not found", "does not appear to be"];
    if no.iter().any(|word| complaint.contains(word)) {
        return NotPushed::Refused(complaint);
    }
    NotPushed::Unknown(complaint)
}

pub(super) fn require_name(commit: &str) -> Result<(), NotPushed> {
    let hex = commit.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if hex && matches!(commit.len(), 40 | 64) {
        return Ok(());
    }
    Err(NotPushed::Refused(format!("`{commit}` is not the whole name of a commit")))
}

fn full_name(git: &Git, branch: &str) -> Result<String, NotPushed> {
    let full = format!("refs/heads/{branch}");
    let fits = git.succeeds(["check-ref-format", &full]).unwrap_or(false);
    // git would take what begins with a dash for an option elsewhere
    if fits && !branch.starts_with('-') {
        return Ok(full);
    }
    Err(NotPushed::Refused(format!("`{branch}` is no name of a branch")))
}
