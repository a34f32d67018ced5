//! The commits of a worker are put into the worktree of its agent. What is wrong with them is told apart from what is
//! wrong with this machine: only the first is final.

use std::collections::BTreeSet;

use bailiwick_fleet::workers::WorkClaim;
use bailiwick_lifecycle::ports::{Work as _, WorkError};
use bailiwick_model::CommitId;
use bailiwick_source_control::git::{
    BundleError, Git, GitError, Input, Quarantine, ReceiveError, existing_commits, is_object_name,
};
use thiserror::Error;

use crate::failure::Failure;
use crate::verifying::AgentWork;

/// How long a list of objects may be: some millions of them.
const MAX_LISTED_BYTES: usize = 256 * 1024 * 1024;

/// What is wrong with the work that a worker sent.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    #[error("it sent no work")]
    NoWork,
    #[error("it sent no commits, and has {0}")]
    NoBundle(String),
    #[error("the names of its commits are malformed")]
    MalformedNames,
    #[error("the commit {0} was not sent")]
    CommitNotSent(String),
    #[error("the object {0} of its commits was not sent")]
    ObjectNotSent(String),
    #[error("its commits have too many objects")]
    TooManyObjects,
    #[error("its commits do not continue {0}")]
    OtherBase(CommitId),
    #[error("{commit} is not a commit on {head}")]
    NotOnHead { commit: String, head: String },
    #[error(transparent)]
    Bundle(BundleError),
    #[error(transparent)]
    Files(ReceiveError),
    #[error(transparent)]
    Worktree(WorkError),
    #[error("its files cannot be written here as they were sent")]
    OtherFiles,
    #[error("it cannot be read here, after {tries} tries: {why}")]
    Unreadable { tries: u32, why: String },
}

/// Why work was not checked.
#[derive(Debug, Error)]
pub(super) enum CheckError {
    /// The work is at fault. That is final.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The work or this machine is at fault. It is tried again a few times; then the work counts as the reason.
    #[error(transparent)]
    Undecided(Failure),
    /// This machine is at fault, and the work can be checked later.
    #[error(transparent)]
    Server(#[from] Failure),
}

/// What a failure of git means that reads the work: it fails in the same way because of the work and because of this
/// machine.
fn reading(error: GitError) -> CheckError {
    match error {
        GitError::Failed { .. } | GitError::TimedOut { .. } | GitError::UnexpectedOutput { .. } => {
            CheckError::Undecided(error.into())
        }
        GitError::Missing { .. } | GitError::Unsupported(_) | GitError::Io { .. } => {
            CheckError::Server(error.into())
        }
    }
}

impl From<BundleError> for CheckError {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Git(_) | BundleError::Unreadable(_) => {
                Self::Server(Failure::general(error.to_string()))
            }
            BundleError::Interrupted(_) => Self::Undecided(Failure::general(error.to_string())),
            BundleError::Malformed
            | BundleError::Corrupt(_)
            | BundleError::TooLarge { .. }
            | BundleError::TooManyObjects { .. } => Self::Refused(Refusal::Bundle(error)),
        }
    }
}

impl From<WorkError> for CheckError {
    fn from(error: WorkError) -> Self {
        match error.caused_by_agent {
            true => Self::Refused(Refusal::Worktree(error)),
            false => Self::Server(Failure::general(error.to_string())),
        }
    }
}

impl From<ReceiveError> for CheckError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::TooLarge { .. } | ReceiveError::PathTooLong { .. } => {
                Self::Refused(Refusal::Files(error))
            }
            ReceiveError::NotWritten(error) | ReceiveError::NotListed(error) => {
                Self::Undecided(Failure::general(error.to_string()))
            }
            ReceiveError::Work(error) => error.into(),
        }
    }
}

/// Puts the work into the worktree. What is found there afterwards is what counts.
pub(super) fn receive(
    subject: &AgentWork,
    claim: &WorkClaim,
    bundle: &[u8],
) -> Result<(), CheckError> {
    let git = subject.repository.git();
    require_names(claim)?;
    let work = subject.git_work()?;
    let (head, commit) = (CommitId::new(claim.head.as_str()), CommitId::new(claim.commit.as_str()));
    if bundle.is_empty() {
        require_unchanged(&subject.base, claim)?;
    } else {
        // What is refused leaves nothing in the repository.
        let received = Quarantine::receive_bytes(&git, bundle, Some(subject.base.as_str()))?;
        require_continues(received.git(), &subject.base, claim)?;
        require_sent(&received, &subject.base, claim)?;
        work.require_accepted_files(received.git(), &subject.base, (&head, &commit))?;
        received.accept()?;
    }
    work.receive(&subject.base, (&head, &commit))?;
    let found = work.snapshot(&work.base()?)?;
    let tree = git.line(["rev-parse", &format!("{commit}^{{tree}}")]).map_err(reading)?;
    match found.tree.as_str() == tree {
        true => Ok(()),
        false => Err(Refusal::OtherFiles.into()),
    }
}

fn require_names(claim: &WorkClaim) -> Result<(), Refusal> {
    match is_object_name(&claim.head) && is_object_name(&claim.commit) {
        true => Ok(()),
        false => Err(Refusal::MalformedNames),
    }
}

/// Only an agent that changed nothing sends no bundle.
fn require_unchanged(base: &CommitId, claim: &WorkClaim) -> Result<(), Refusal> {
    match claim.head == base.as_str() && claim.commit == base.as_str() {
        true => Ok(()),
        false => Err(Refusal::NoBundle(claim.commit.clone())),
    }
}

/// Every object since the base must have been sent by this worker: another attempt may have left others here.
fn require_sent(
    received: &Quarantine,
    base: &CommitId,
    claim: &WorkClaim,
) -> Result<(), CheckError> {
    let since = format!("^{base}");
    let listed = received.git().line(["rev-list", claim.commit.as_str(), &since]);
    let listed = listed.map_err(reading)?;
    if let Some(other) = listed.lines().find(|commit| !received.has(commit)) {
        return Err(Refusal::CommitNotSent(other.to_owned()).into());
    }
    let needed = objects(received.git(), &[claim.commit.as_str(), &since])?;
    let mut missing: BTreeSet<&str> =
        needed.lines().filter(|object| !received.has(object)).collect();
    if !missing.is_empty() {
        // Those of the history of the base need not be sent.
        let known = objects(received.git(), &[base.as_str()])?;
        for object in known.lines() {
            missing.remove(object);
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(object) => Err(Refusal::ObjectNotSent((*object).to_owned()).into()),
    }
}

/// The names of the objects of revisions, one in each line.
fn objects(git: &Git, revisions: &[&str]) -> Result<String, CheckError> {
    let list = ["rev-list", "--objects", "--no-object-names"];
    let arguments: Vec<&str> = list.into_iter().chain(revisions.iter().copied()).collect();
    let listed = git.run_limited(&arguments, MAX_LISTED_BYTES).map_err(reading)?;
    let listed = listed.ok_or(Refusal::TooManyObjects)?;
    Ok(String::from_utf8_lossy(&listed).into_owned())
}

/// The commits must continue the base that the attempt was launched on.
fn require_continues(git: &Git, base: &CommitId, claim: &WorkClaim) -> Result<(), CheckError> {
    let WorkClaim { head, commit } = claim;
    let existing = existing_commits(git, &[head.as_str(), commit.as_str()]).map_err(reading)?;
    let missing = [head, commit].into_iter().find(|name| !existing.contains(&name.as_str()));
    if let Some(name) = missing {
        return Err(Refusal::CommitNotSent(name.clone()).into());
    }
    if !is_ancestor(git, base, head).map_err(reading)? {
        return Err(Refusal::OtherBase(base.clone()).into());
    }
    let parents = git.line(["rev-list", "--parents", "--max-count=1", commit]);
    let parents = parents.map_err(reading)?;
    if head != commit && parents != format!("{commit} {head}") {
        return Err(Refusal::NotOnHead { commit: commit.clone(), head: head.clone() }.into());
    }
    Ok(())
}

/// Git answers by its exit code, and fails with another one.
fn is_ancestor(git: &Git, base: &CommitId, head: &str) -> Result<bool, GitError> {
    let arguments = ["merge-base", "--is-ancestor", base.as_str(), head];
    let output = git.output(arguments, Input::Nothing)?;
    match output.exit_code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        Some(_) | None => Err(output.into_error()),
    }
}
