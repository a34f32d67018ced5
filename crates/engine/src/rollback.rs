//! Rolls back what a run has landed, by a commit on the current base.

use bailiwick_lifecycle::landing;
use bailiwick_lifecycle::ports::{
    Base, LandError, Landing, Merge, Method, RunStore as _, Snapshot, Work as _, WorkError,
};
use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::{AgentId, CommitId, LedgerNote, Run, RunState, RunStatus, TreeId};
use bailiwick_source_control::{GitWork, SpawnLock};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::landing::LandedRecord;
use crate::options::CheckOptions;
use crate::running::next_step_hint;
use crate::verifying::{AgentWork, VerificationReport, WorkOptions};

/// How often a rollback is tried while its branch moves.
const MAX_ATTEMPTS: u32 = 5;

/// The result of a rollback.
#[derive(Debug, Serialize)]
pub struct RolledBack {
    pub agent_id: String,
    pub branch: String,
    pub commit: CommitId,
    pub reverted: CommitId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why a rollback failed.
#[derive(Debug, thiserror::Error)]
pub enum RollbackFailure {
    /// A check of the reverted tree failed.
    #[error("checks failed")]
    ChecksFailed(Box<VerificationReport>),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Failure),
}

impl From<bailiwick_source_control::GitError> for RollbackFailure {
    fn from(error: bailiwick_source_control::GitError) -> Self {
        Self::Other(error.into())
    }
}

/// A locked run whose landed work can be reverted.
pub struct Rollback {
    subject: AgentWork,
    run: Run,
    /// Its landing.
    pub record: LandedRecord,
    _lock: SpawnLock,
}

impl Rollback {
    /// Looks up what a run has landed; an error if there is nothing to revert.
    pub fn begin(context: &Context, agent: &AgentId) -> Result<Self, Failure> {
        let mut subject = AgentWork::of_agent(context, agent, &WorkOptions::default())?;
        let lock = subject.lock(agent)?;
        subject.recover()?;
        let (run, record) = landed(&subject, agent)?;
        // The agent's worktree may be gone; what has landed is in the repository.
        let root = subject.repository.root().to_path_buf();
        subject.work =
            GitWork::open(&root, &root, &subject.context.state, agent, Some(record.branch.clone()));
        Ok(Self { subject, run, record, _lock: lock })
    }

    /// Reverts it, and records that in the ledger. Without `checks` the reverted tree is not checked.
    pub fn revert(
        &self,
        reason: Option<&str>,
        checks: Option<CheckOptions>,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RolledBack, RollbackFailure> {
        let context = &self.subject.context;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(result) = self.attempt(reason, checks, tell)? {
                self.record_rollback(&result)?;
                return Ok(result);
            }
            context.notices.note("the branch moved meanwhile; trying again");
        }
        let branch = &self.record.branch;
        Err(Failure::general(format!("{branch} kept moving; try again")).into())
    }

    /// One attempt; `None` if the branch moved away under it.
    fn attempt(
        &self,
        reason: Option<&str>,
        checks: Option<CheckOptions>,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Option<RolledBack>, RollbackFailure> {
        let Self { subject, run, record, .. } = self;
        let work = subject.git_work()?;
        let failed = |error: WorkError| Failure::refused(error.to_string());
        let base = tip(subject, &record.branch)?;
        let plan = work.plan_rollback(&record.commit, Some(&record.onto), &base.tip);
        let tree = match plan.map_err(failed)?.merge {
            Merge::Clean { tree } => tree,
            Merge::Conflicts(conflicts) => {
                let paths: Vec<&str> = conflicts.iter().map(|c| c.path.as_str()).collect();
                return Err(Failure::refused(format!(
                    "later work on the same lines is in the way: {}",
                    paths.join(", ")
                ))
                .help(format!("revert it by hand: git revert {}", by_hand(subject, record)?))
                .into());
            }
        };
        let reverted = Snapshot {
            head: base.tip.clone(),
            commit: base.tip.clone(),
            tree: tree.clone(),
            merge_base: base.tip.clone(),
            merge_base_tree: base.tree.clone(),
        };
        let landing = Landing {
            agent: run.id.to_string(),
            branch: base.branch.clone(),
            expected: Some(base.tip.clone()),
            onto: base.tip.clone(),
            work: reverted,
            tree,
            method: Method::Squash,
            message: self.message(reason),
        };
        // The checks can take long; what no check can change is refused before them.
        match work.check_landing_of(&landing) {
            Err(LandError::Moved { .. }) => return Ok(None),
            Err(error @ LandError::Unclean { .. }) => {
                return Err(Failure::refused(error.to_string())
                    .help("commit or stash what is there")
                    .into());
            }
            Err(error) => return Err(Failure::refused(error.to_string()).into()),
            Ok(()) => {}
        }
        if let Some(checks) = checks.filter(|_| base.tip != record.commit) {
            let verification = subject.verify_reverted(&base, &landing.work, checks, tell)?;
            if !verification.results.is_empty() && !verification.all_passed() {
                let report = VerificationReport::new(Some(run.id.to_string()), &verification);
                return Err(RollbackFailure::ChecksFailed(Box::new(report)));
            }
        }
        match work.land(&landing) {
            Ok(landed) => Ok(Some(RolledBack {
                agent_id: run.id.to_string(),
                branch: base.branch,
                commit: landed.commit,
                reverted: record.commit.clone(),
                reason: reason.map(ToOwned::to_owned),
            })),
            Err(LandError::Moved { .. }) => Ok(None),
            Err(error) => Err(Failure::refused(error.to_string()).into()),
        }
    }

    fn message(&self, reason: Option<&str>) -> String {
        let Self { run, record, .. } = self;
        let reason = reason.map(|text| format!("\n\n{}", text.trim()));
        let title = format!("Roll {} back{}", run.id, reason.unwrap_or_default());
        let message = landing::message(&title, run, None);
        format!("{message}Bailiwick-Reverts: {}\n", record.commit)
    }

    fn record_rollback(&self, result: &RolledBack) -> Result<(), Failure> {
        let detail = serde_json::to_string(result)
            .map_err(|error| Failure::general(format!("the result cannot be written: {error}")))?;
        self.subject.context.with_store(async |store| {
            let summary = format!("rolled back by {:.12} on {}", result.commit, result.branch);
            Ok(store.roll_back(&self.run.id, &summary, &detail).await?)
        })
    }
}

/// What a run has landed, if it has and that was not taken back.
fn landed(subject: &AgentWork, agent: &AgentId) -> Result<(Run, LandedRecord), Failure> {
    let (run, events) = subject.context.with_store(async |store| {
        let run = store.find(agent).await?;
        Ok((run, store.events(agent.as_str()).await?))
    })?;
    let Some(run) = run else {
        return Err(Failure::general(format!("`{agent}` is not in the ledger")));
    };
    if run.state == RunState::RolledBack {
        let text = format!("`{agent}` was rolled back already");
        return Err(Failure::refused(text).help(next_step_hint(&run)));
    }
    if run.status != RunStatus::Merged {
        let text = format!("`{agent}` is {}, and has not landed", run.state);
        return Err(Failure::refused(text).help(next_step_hint(&run)));
    }
    let record = events.iter().rev().find(|event| event.is(LedgerNote::Landed));
    let record = record.and_then(|event| serde_json::from_str(&event.detail).ok());
    let Some(record) = record else {
        return Err(Failure::refused(format!("nothing tells what `{agent}` has landed"))
            .help("it was merged by other means; revert it by hand"));
    };
    Ok((run, record))
}

/// The branch that the work has landed on, as it is now.
fn tip(subject: &AgentWork, branch: &str) -> Result<Base, Failure> {
    let missing = || Failure::refused(format!("{branch} does not exist any more"));
    let tip = subject.repository.commit(branch)?.ok_or_else(missing)?;
    let tree = subject.repository.git().line(["rev-parse", &format!("{tip}^{{tree}}")])?;
    Ok(Base {
        branch: branch.to_owned(),
        tip: CommitId::new(tip),
        tree: TreeId::new(tree),
        found: "it has landed there".to_owned(),
    })
}

/// What `git revert` must be given to revert a landing.
fn by_hand(subject: &AgentWork, record: &LandedRecord) -> Result<String, Failure> {
    let parents = subject.repository.git().line(["rev-list", "-1", "--parents", &record.commit])?;
    let LandedRecord { onto, commit, .. } = record;
    Ok(match parents.split_whitespace().count() {
        // A commit, and the two that it merges.
        3 => format!("-m 1 {commit:.12}"),
        _ => format!("{onto:.12}..{commit:.12}"),
    })
}
