//! Lands work: advances the base branch to exactly the tree that was verified.

use std::path::PathBuf;

use bailiwick_lifecycle::commit_subject::{CommitTitle, commit_subject};
use bailiwick_lifecycle::landing::{self, LandEvent, LandResult, LandingRequest, NotLanded};
use bailiwick_lifecycle::ports::{LandError, Landing, Method, RunStore as _, Work as _};
use bailiwick_lifecycle::verification::{Progress, Verification};
use bailiwick_model::capability::RunMode;
use bailiwick_model::settings::LandMethod;
use bailiwick_model::{AgentId, CommitId, LedgerNote, Run, RunState, RunStatus, Sha256Hex, TreeId};
use bailiwick_store::Event;
use bailiwick_verify::Verdict;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::CheckOptions;
use crate::running::{next_step_hint, require_landable};
use crate::verifying::{AgentWork, ComparisonBase, VerificationReport, WorkOptions};
use crate::{claiming, system};

const TESTS_KEPT: &str = "quality::tests-kept";

/// A landing as stored in the ledger, for a rollback.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
pub struct LandedRecord {
    pub agent_id: String,
    pub branch: String,
    pub onto: CommitId,
    pub commit: CommitId,
    pub tree: TreeId,
    pub method: String,
    pub checkouts: Vec<PathBuf>,
}

/// A landing in progress: a `LandedRecord` without the commit and the checkouts.
#[derive(Debug, Serialize, serde::Deserialize)]
struct PendingLanding {
    agent_id: String,
    branch: String,
    onto: CommitId,
    tree: TreeId,
    method: String,
}

/// A request to land work.
#[derive(Debug, Clone)]
pub struct LandRequest {
    /// The agent.
    pub agent: AgentId,
    /// The branch to create in place of advancing the base.
    pub branch: Option<String>,
    /// How the agent's commits are landed; the settings decide if unset.
    pub method: Option<Method>,
    /// Subject of the commit; chosen with the run, else from the task, if unset.
    pub title: Option<CommitTitle>,
    /// The branch to land on; detected if unset.
    pub base: Option<String>,
    /// How the work is checked.
    pub checks: CheckOptions,
}

impl LandRequest {
    /// The defaults at the end of a run.
    pub fn of(agent: AgentId, checks: CheckOptions) -> Self {
        Self { agent, branch: None, method: None, title: None, base: None, checks }
    }
}

/// The progress of a landing.
pub enum LandStage<'a> {
    /// All preconditions are met, and its checks begin.
    Checking(&'a AgentWork),
    /// A step of the checks.
    Progress(Progress<'a>),
}

/// Work that has landed.
#[derive(Debug, Clone)]
pub struct LandedWork {
    /// Its record in the ledger.
    pub record: LandedRecord,
    /// Weaker tests that the task allows, and how many tests were executed.
    pub test_changes: Option<String>,
}

/// Why work did not land.
#[derive(Debug, thiserror::Error)]
pub enum LandFailure {
    /// A check failed.
    #[error("checks failed")]
    ChecksFailed(Box<VerificationReport>),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Failure),
}

/// Verifies an agent's work on today's base and lands exactly that tree.
pub fn land(
    context: &Context,
    request: &LandRequest,
    tell: &mut dyn FnMut(LandStage<'_>),
) -> Result<LandedWork, LandFailure> {
    let base = request.base.clone();
    let options = WorkOptions { base, against: ComparisonBase::Branch, ..WorkOptions::default() };
    let subject = AgentWork::of_agent(context, &request.agent, &options)?;
    let Some(run) = subject.run.clone() else {
        return Err(Failure::general(format!("`{}` is not in the ledger", request.agent)).into());
    };
    let _lock = subject.lock(&run.id)?;
    may_land(&run)?;
    require_landable(context, &run.id)?;
    subject.recover()?;
    let branch = match &request.branch {
        Some(branch) => full_name(branch),
        None => {
            let base = subject.git_work()?.base();
            base.map_err(|error| Failure::general(error.to_string()))?.branch
        }
    };
    if let Some(record) = already_landed(&subject, &run, &branch)? {
        context
            .notices
            .note(format_args!("`{}` has landed, but the ledger could not be updated", run.id));
        request.record_in_ledger(&subject, &run, &record)?;
        request.release_claim(&subject, &run);
        return Ok(LandedWork { record, test_changes: None });
    }
    claiming::require_valid_claim(&subject, &run.id)?;
    let method = request.method(&subject);
    let landing_request = LandingRequest {
        agent: run.id.clone(),
        branch: request.branch.as_deref().map(full_name),
        method,
        message: request.message(&subject, &run)?,
    };
    // The checks can take long; what no check can change is refused before them.
    let check = subject.git_work()?.check_landing(landing_request.branch.as_deref());
    check.map_err(|error| refused(&subject, &request.agent, error.into()))?;
    tell(LandStage::Checking(&subject));
    let mut failure = None;
    let landed = landing::land(
        &landing_request,
        subject.git_work()?,
        &mut || {
            let mut step = |progress: Progress<'_>| tell(LandStage::Progress(progress));
            match subject.verify(RunMode::Both, request.checks, &[], &mut step) {
                Ok(verification) => verification,
                Err(error) => {
                    failure = Some(error);
                    Verification::default()
                }
            }
        },
        &mut |event| match event {
            LandEvent::Landing(landing) => {
                // The checks may have taken longer than the lease.
                claiming::require_claim_covers(&subject, &run.id, landing)?;
                write_pending_landing(&subject, landing, method)
            }
            LandEvent::Moved { branch, now } => {
                context
                    .notices
                    .note(format_args!("{branch} moved to {now:.12}; verifying the new merge"));
                Ok(())
            }
        },
    );
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    let result = landed.map_err(|error| refused(&subject, &request.agent, error))?;
    let report = VerificationReport::new(Some(run.id.to_string()), &result.verification);
    subject.record(&report)?;
    let record = record(&run.id, &result, method);
    request.record_in_ledger(&subject, &run, &record)?;
    request.release_claim(&subject, &run);
    Ok(LandedWork { record, test_changes: test_changes(&result.verification) })
}

impl LandRequest {
    fn method(&self, subject: &AgentWork) -> Method {
        self.method.unwrap_or(match subject.settings.land.method {
            LandMethod::Merge => Method::Merge,
            LandMethod::Squash => Method::Squash,
            LandMethod::Rebase => Method::Rebase,
        })
    }

    fn message(&self, subject: &AgentWork, run: &Run) -> Result<String, Failure> {
        let chosen = match &self.title {
            Some(title) => Some(title.to_string()),
            None => subject.context.with_store(async |store| {
                Ok(chosen_title(&store.events(run.id.as_str()).await?))
            })?,
        };
        let title =
            chosen.unwrap_or_else(|| commit_subject(&subject.bound.task.body.text, &run.id));
        let policy = subject.context.state.join("runs").join(run.id.as_str()).join("policy.json");
        let policy = match std::fs::read(&policy) {
            Ok(text) => Some(Sha256Hex::of(text).to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(Failure::general(format!("cannot read {}: {error}", policy.display())));
            }
        };
        Ok(landing::message(&title, run, policy.as_deref()))
    }

    /// A branch that waits for a pull request keeps its claim.
    fn release_claim(&self, subject: &AgentWork, run: &Run) {
        if self.branch.is_none() {
            claiming::forge::release(&subject.context, &run.id);
        }
    }

    /// A run that lands is done first; one whose branch waits for a pull request stays done.
    fn record_in_ledger(
        &self,
        subject: &AgentWork,
        run: &Run,
        record: &LandedRecord,
    ) -> Result<(), Failure> {
        let detail = serde_json::to_string(record)
            .map_err(|error| Failure::general(format!("the result cannot be written: {error}")))?;
        let note = if self.branch.is_some() { LedgerNote::Proposed } else { LedgerNote::Landed };
        subject.context.with_store(async |store| {
            store.append_run_note(&run.id, note, &detail).await?;
            if run.status == RunStatus::Running {
                store.change_status(&run.id, RunStatus::Done, Some("verified")).await?;
            }
            if self.branch.is_none() {
                let branch = record.branch.trim_start_matches("refs/heads/");
                let summary = format!("landed as {:.12} on {branch}", record.commit);
                store.change_status(&run.id, RunStatus::Merged, Some(&summary)).await?;
            }
            Ok(())
        })
    }
}

/// The subject that a person chose last for the commit of a run.
pub fn chosen_title(events: &[Event]) -> Option<String> {
    let last = events.iter().rev().find(|event| event.is(LedgerNote::Title))?;
    Some(last.detail.clone())
}

/// Where it is recorded that an agent's work is about to land.
fn pending_landing_file(subject: &AgentWork, agent: &str) -> PathBuf {
    subject.context.state.join("runs").join(agent).join("landing.json")
}

/// Records the pending landing.
fn write_pending_landing(
    subject: &AgentWork,
    landing: &Landing,
    method: Method,
) -> Result<(), Failure> {
    let record = PendingLanding {
        agent_id: landing.agent.clone(),
        branch: landing.branch.clone(),
        onto: landing.onto.clone(),
        tree: landing.tree.clone(),
        method: name(method).to_owned(),
    };
    let text = serde_json::to_string(&record)
        .map_err(|error| Failure::general(format!("the landing cannot be recorded: {error}")))?;
    system::write_whole(&pending_landing_file(subject, &landing.agent), &text)
}

/// What became of tests: weaker ones that the task allows, and how many were executed.
fn test_changes(verification: &Verification) -> Option<String> {
    let mut results = verification.results.iter().rev();
    match results.find(|result| result.capability == TESTS_KEPT).map(|result| &result.verdict) {
        Some(Verdict::Pass { evidence }) => Some(format!("{TESTS_KEPT}: {evidence}")),
        Some(Verdict::Fail { .. }) | None => None,
    }
}

/// The landing of a run that is missing in the ledger, because this process was killed in between: a commit
/// of the branch that has the tree which was verified, on the base which it was verified on.
fn already_landed(
    subject: &AgentWork,
    run: &Run,
    branch: &str,
) -> Result<Option<LandedRecord>, Failure> {
    let pending =
        system::read_json::<PendingLanding>(&pending_landing_file(subject, run.id.as_str()))?;
    let Some(pending) = pending else { return Ok(None) };
    let tip = subject.repository.commit(branch)?.filter(|_| pending.branch == branch);
    let Some(tip) = tip else { return Ok(None) };
    let range = format!("{}..{tip}", pending.onto);
    let format = "--format=%H %T %(trailers:key=Bailiwick-Agent,valueonly,separator=%x20)";
    let suffix = format!(" {} {}", pending.tree, run.id);
    let log = subject.repository.git().run(["log", "--first-parent", format, &range])?;
    let log = String::from_utf8_lossy(&log);
    let landed = log.lines().find_map(|line| line.trim_end().strip_suffix(&suffix));
    Ok(landed.map(|commit| LandedRecord {
        agent_id: pending.agent_id,
        branch: pending.branch,
        onto: pending.onto,
        commit: CommitId::new(commit),
        tree: pending.tree,
        method: pending.method,
        checkouts: Vec::new(),
    }))
}

fn may_land(run: &Run) -> Result<(), Failure> {
    match run.status {
        RunStatus::Running | RunStatus::Done if !run.half_spawned => Ok(()),
        RunStatus::Merged if run.state == RunState::Merged => {
            Err(Failure::refused(format!("`{}` is merged: it has landed already", run.id))
                .help(next_step_hint(run)))
        }
        RunStatus::Running
        | RunStatus::Done
        | RunStatus::Failed
        | RunStatus::Merged
        | RunStatus::Rejected => {
            let text = format!("`{}` is {}, and cannot land", run.id, run.state);
            Err(Failure::refused(text).help(next_step_hint(run)))
        }
    }
}

fn full_name(branch: &str) -> String {
    if branch.starts_with("refs/") { branch.to_owned() } else { format!("refs/heads/{branch}") }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Merge => "merge",
        Method::Squash => "squash",
        Method::Rebase => "rebase",
    }
}

fn record(agent: &AgentId, result: &LandResult, method: Method) -> LandedRecord {
    LandedRecord {
        agent_id: agent.to_string(),
        branch: result.branch.clone(),
        onto: result.onto.clone(),
        commit: result.landed.commit.clone(),
        tree: result.tree.clone(),
        method: name(method).to_owned(),
        checkouts: result.landed.checkouts.clone(),
    }
}

/// The next step for an agent that has changed nothing.
fn nothing_to_land(run: Option<&Run>, agent: &AgentId) -> String {
    match run.map(|run| run.state) {
        Some(RunState::Ready) => {
            format!(
                "it was never started: bailiwick run {agent}; or remove it: bailiwick rm {agent}"
            )
        }
        Some(_) | None => format!(
            "see what it did: bailiwick logs {agent}; begin its task again: bailiwick respawn {agent} \
             --reason TEXT"
        ),
    }
}

fn refused(subject: &AgentWork, agent: &AgentId, error: NotLanded<Failure>) -> LandFailure {
    match error {
        NotLanded::Failed(verification) => {
            let report = VerificationReport::new(Some(agent.to_string()), &verification);
            match subject.record(&report) {
                Ok(()) => LandFailure::ChecksFailed(Box::new(report)),
                Err(failure) => failure.into(),
            }
        }
        NotLanded::Refused(error @ LandError::Unclean { .. }) => {
            Failure::refused(error.to_string())
                .help(
                    "commit or stash what is there, or land on a branch of its own: --branch NAME",
                )
                .into()
        }
        NotLanded::Refused(LandError::Nothing { branch, .. }) => {
            let short = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
            Failure::refused(format!("nothing to land: {short} has all that `{agent}` made"))
                .help(nothing_to_land(subject.run.as_ref(), agent))
                .into()
        }
        NotLanded::Refused(error) => Failure::refused(error.to_string()).into(),
        NotLanded::Stopped(failure) => failure.into_failed().into(),
        NotLanded::KeptMoving { .. } => Failure::general(error.to_string()).into(),
    }
}
