//! Reports each phase of a run as a check of its commit, under one name, as far as policy allows.
//!
//! The run stores what was reported last, and only a difference is reported: a skipped phase is not reported late,
//! and after a kill between forge and store the same status is sent again, which the forge stores once.

use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPhase, CheckReport,
    Kind, Object, Repository, RunPhase, WriteBackTarget,
};

use super::audit_log::{Correlation, subject};
use super::backoff::{WRITES, retry_at};
use super::forge_access::ForgeAccess;
use super::objects::ObjectQueries as _;
use super::run_controller::metadata_beside;
use super::summary::Task;
use super::write_back_controller::{planned, requester};
use super::{ReconcileError, ReconcileSummary};
use crate::ports::{
    Clock, Commits, ForgeError, Forges, ObjectStore, SecretStore, Selection, Write, WriteBack,
};
use crate::write_back::{Authorised, Plan, Proposal, Report, authorise, check_status, send};

/// How often the report of one phase is tried while the forge does not answer: for a week, at the longest delay.
const MAX_FAILURES: u32 = 700;

/// The report to send for a run.
enum ReportDecision {
    /// This.
    Send(Authorised),
    /// An approval is requested first.
    Ask(Box<Object<AgentApproval>>),
    /// The approval is open.
    Wait,
    /// Nothing, for this reason.
    Skip(String),
}

/// The initial report of a run; nothing if its policy never allows one.
pub(super) fn begun(run: &Object<AgentDispatchRun>) -> Option<CheckReport> {
    let allowed = &run.spec.write_back_policy.allowed_targets;
    // A sub-agent is reported as a part of its parent.
    let own = run.spec.parent_run.is_none() && !run.spec.sha.is_empty();
    (own && allowed.contains(&WriteBackTarget::CheckStatus)).then(CheckReport::default)
}

/// Reports runs as checks of their commits.
pub(super) struct CommitStatusController<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
}

impl<S, W> CommitStatusController<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>, forges: Arc<ForgeAccess<S, W>>) -> Self {
        Self { store, world, forges }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits> CommitStatusController<S, W> {
    /// Reports every run whose phase differs from the last report.
    pub(super) async fn report_statuses(self: &Arc<Self>, summary: &mut ReconcileSummary) {
        for selection in unreported() {
            let runs = match self.store.all_typed::<AgentDispatchRun>(selection).await {
                Ok(runs) => runs,
                Err(error) => return summary.record("statuses", Err(error)),
            };
            for run in runs.into_iter().filter(is_news) {
                // A forge that does not respond is not asked again in this pass.
                let repository = run.spec.repository.clone();
                if !summary.is_backing_off(Task::CommitStatus, &repository) {
                    let this = Arc::clone(self);
                    let work = Box::pin(async move { this.report(run).await });
                    summary.run(&self.world, Task::CommitStatus, &repository, work).await;
                }
            }
        }
    }

    async fn report(&self, mut run: Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        let Some(mut report) = run.status.check_report.clone() else { return Ok(false) };
        if report.next_try_at.is_some_and(|at| self.world.now() < at) {
            return Ok(false);
        }
        let phase = run.status.phase;
        let failure_detail = |why: &str| {
            let action = WriteBackTarget::CheckStatus;
            serde_json::json!({ "action": action, "phase": phase, "reason": why })
        };
        let line = |run: &Object<AgentDispatchRun>, event: &str, detail: serde_json::Value| {
            Correlation::of_run(run).line(self.world.now(), event, subject(run), detail)
        };
        let settled =
            |detail: String| CheckReport { told: phase, detail, ..CheckReport::default() };
        let repository = match self.store.repository(&run.spec.repository).await {
            Ok(repository) => repository,
            Err(error @ ReconcileError::RepositoryMissing(_)) => {
                run.status.check_report = Some(settled(error.to_string()));
                return self.store.store_status(&run, self.world.now()).await;
            }
            Err(error) => return Err(error),
        };
        let (allowed, mut writes) = match self.report_decision(&run).await? {
            ReportDecision::Wait => return Ok(false),
            ReportDecision::Skip(why) => {
                // Policy decides the same for every phase: only the end gets an audit line.
                let lines = match phase.is_final() {
                    true => vec![line(&run, "AgentWriteBackDenied", failure_detail(&why))],
                    false => Vec::new(),
                };
                run.status.check_report = Some(settled(why));
                let mut writes = vec![Write::Status(AnyObject::of(&run)?)];
                writes.extend(lines);
                self.store.commit(writes, self.world.now()).await?;
                return Ok(true);
            }
            ReportDecision::Ask(asked) => {
                let name = asked.name().to_owned();
                report.approval = Some(name.clone());
                run.status.check_report = Some(report);
                run.status.approvals.push(name);
                let writes = vec![
                    Write::Create(AnyObject::of(&*asked)?),
                    Write::Status(AnyObject::of(&run)?),
                ];
                self.store.commit(writes, self.world.now()).await?;
                return Ok(true);
            }
            ReportDecision::Send(allowed) => (allowed, Vec::new()),
        };
        let (report, trouble) = match self.send_status(&repository, &allowed).await {
            Ok(()) => {
                let detail = serde_json::json!({ "key": allowed.key(), "phase": phase });
                writes.push(line(&run, "AgentWriteBackApplied", detail));
                (settled(String::new()), None)
            }
            Err(ReconcileError::Forge(
                error @ (ForgeError::Unavailable(_) | ForgeError::Account(_)),
            )) => {
                report.misses = report.misses.saturating_add(1);
                if report.misses >= MAX_FAILURES {
                    writes.push(line(
                        &run,
                        "AgentWriteBackFailed",
                        failure_detail(&error.to_string()),
                    ));
                    (settled(format!("given up: {error}")), None)
                } else {
                    let misses = report.misses.saturating_sub(1);
                    report.next_try_at = Some(retry_at(self.world.now(), WRITES, misses));
                    (report, Some(ReconcileError::Forge(error)))
                }
            }
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            Err(error) => {
                writes.push(line(&run, "AgentWriteBackFailed", failure_detail(&error.to_string())));
                (settled(error.to_string()), None)
            }
        };
        run.status.check_report = Some(report);
        writes.push(Write::Status(AnyObject::of(&run)?));
        self.store.commit(writes, self.world.now()).await?;
        trouble.map_or(Ok(true), Err)
    }

    async fn send_status(
        &self,
        repository: &Object<Repository>,
        allowed: &Authorised,
    ) -> Result<(), ReconcileError> {
        let forge = self.forges.open_to_write(repository).await?;
        let answered = send(&forge, allowed).await;
        self.forges.report_write_result(repository, &answered).await;
        Ok(answered.map(drop)?)
    }

    /// The report that policy allows now. If it requires an approval, only the final phase needs one.
    async fn report_decision(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<ReportDecision, ReconcileError> {
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        let Some(attempt) = self.store.typed::<AgentDispatchAttempt>(&last).await? else {
            return Ok(ReportDecision::Skip("it has no attempt".to_owned()));
        };
        let write = status(run);
        let proposal = Proposal {
            repository: &run.spec.repository,
            dispatch_run: run.name(),
            attempt: attempt.name(),
            requested_by: requester(&attempt),
            write: &write,
            target_state: None,
            artifact_refs: run.status.artifacts.clone(),
            content: &[],
            redactor: None,
            summary: run.status.terminal_reason.clone().unwrap_or_default(),
            now: self.world.now(),
        };
        let asked = match planned(run, &attempt, &proposal) {
            Plan::Write(allowed) => return Ok(ReportDecision::Send(allowed)),
            Plan::Denied(denial) => {
                return Ok(ReportDecision::Skip(denial.to_string()));
            }
            Plan::Ask(_) if !run.status.phase.is_final() => {
                return Ok(ReportDecision::Skip("a person is asked about its end only".to_owned()));
            }
            Plan::Ask(asked) => asked,
        };
        let identity =
            format!("{}\n{}\n{}", attempt.name(), asked.action.target, asked.artifact_digest);
        let name = format!("aap-{}", Sha256Hex::of(identity).prefix(24));
        let Some(known) = self.store.typed::<AgentApproval>(&name).await? else {
            return Ok(ReportDecision::Ask(Box::new(Object::new(
                metadata_beside(&run.metadata, name),
                *asked,
            ))));
        };
        Ok(match known.status.phase {
            ApprovalPhase::Pending => ReportDecision::Wait,
            ApprovalPhase::Rejected => ReportDecision::Skip("the approval was rejected".to_owned()),
            ApprovalPhase::Expired => ReportDecision::Skip("nobody answered in time".to_owned()),
            ApprovalPhase::Approved => {
                let uid = &known.metadata.uid;
                let repository = &run.spec.repository;
                match authorise(uid, &known.spec, &known.status, repository, &write, None) {
                    Ok(allowed) => ReportDecision::Send(allowed),
                    Err(error) => ReportDecision::Skip(error.to_string()),
                }
            }
        })
    }
}

/// Selections that find all runs with something to report in few reads. A run whose end was reported has nothing more
/// to report until another attempt resets its report. Thousands of runs can be queued and reported as such: those are
/// selected by their new phase.
fn unreported() -> impl Iterator<Item = Selection> {
    let told =
        |phase: RunPhase| Selection::of(Kind::AgentDispatchRun).field("told", phase.as_str());
    let open = [RunPhase::Pending, RunPhase::Running, RunPhase::WaitingForApproval];
    let left = RunPhase::ALL
        .into_iter()
        .filter(|phase| !matches!(phase, RunPhase::Pending | RunPhase::Queued));
    let left = left.map(move |phase| told(RunPhase::Queued).field("status", phase.as_str()));
    open.map(told).into_iter().chain(left)
}

/// Whether the phase of a run differs from the last report.
fn is_news(run: &Object<AgentDispatchRun>) -> bool {
    let told = run.status.check_report.as_ref().map(|report| report.told);
    let phase = run.status.phase;
    phase != RunPhase::Pending && told.is_some_and(|told| told != phase)
}

/// The commit status of a run, named after its rule, or after its stack if a person started it.
pub(super) fn status(run: &Object<AgentDispatchRun>) -> WriteBack {
    let spec = &run.spec;
    check_status(&Report {
        name: spec.trigger_rule.as_deref().unwrap_or(&spec.agent_stack),
        sha: &spec.sha,
        phase: run.status.phase,
        reason: run.status.terminal_reason.as_deref().unwrap_or_default(),
        url: None,
    })
}
