//! Writes a run's results to the forge: proposed when its agent has ended, approved, and sent once.

mod proposals;
mod rebase;
mod records;
mod retries;

use std::sync::Arc;

use bailiwick_resources::{
    AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPhase, Object,
    Repository, RunPhase, Secret, WriteBackRecord, WriteBackState,
};

use super::ReconcileError;
use super::audit_log::{Correlation, subject, unwritten};
use super::forge_access::ForgeAccess;
use super::objects::ObjectQueries as _;
use super::outcome::{EndCode, RunEnd};
use super::redaction::Redaction;
use super::run_status::RunStatusWriter;
use super::write_targets::{ObservedTarget, observe_target};
use crate::ports::{
    Clock, Commits, Engine, Forge as _, ForgeError, Forges, ObjectStore, SecretStore, StackSources,
    Worktrees, Write, WriteBack,
};
use crate::write_back::{self, Next, NotAuthorised, Plan, Proposal, next, send};
use proposals::{blocked_by_dependency, final_phase};
use rebase::RebaseStep;
pub(super) use rebase::moved;
pub(super) use records::{attempt_requester, planned, pushed, requester, stored_write};
use records::{denied, denied_by, failed, opened_issue};
use retries::after_failed_try;

/// Proposes the results of runs and writes them to the forge.
pub(super) struct WriteBackController<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    statuses: Arc<RunStatusWriter<S, W>>,
    redaction: Arc<Redaction<S, W>>,
}

impl<S, W> WriteBackController<S, W> {
    pub(super) fn new(
        store: Arc<S>,
        world: Arc<W>,
        forges: Arc<ForgeAccess<S, W>>,
        statuses: Arc<RunStatusWriter<S, W>>,
        redaction: Arc<Redaction<S, W>>,
    ) -> Self {
        Self { store, world, forges, statuses, redaction }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources + Worktrees>
    WriteBackController<S, W>
{
    /// Sends the write-backs that are ready; whether anything changed.
    pub(super) async fn follow_writes(
        &self,
        engine: &impl Engine,
        run: Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<bool, ReconcileError> {
        let mut run = run;
        let before = run.status.clone();
        let mut audited = before.write_backs.clone();
        if let Some(why) = run.status.cancel_requested.clone() {
            // The remaining write-backs are not sent.
            for record in &mut run.status.write_backs {
                if matches!(record.state, WriteBackState::Ready | WriteBackState::Waiting) {
                    *record = denied(record.clone(), "the run was cancelled");
                }
            }
            let lines = unwritten(&audited, &run, self.world.now());
            return self.statuses.end_with(run, RunEnd::cancelled(why), lines).await;
        }
        let repository = match self.store.repository(&run.spec.repository).await {
            Ok(repository) => repository,
            // The repository is gone: trying again does not help.
            Err(error @ ReconcileError::RepositoryMissing(_)) => {
                return self.give_up_writing(run, &error.to_string()).await;
            }
            Err(error) => return Err(error),
        };
        let mut blocked = None;
        let mut trouble = None;
        for at in 0..run.status.write_backs.len() {
            let Some(record) = run.status.write_backs.get(at).cloned() else { break };
            let open = matches!(record.state, WriteBackState::Ready | WriteBackState::Waiting);
            if !open {
                continue;
            }
            // Later write-backs can depend on earlier ones.
            if blocked.is_some() {
                break;
            }
            if let Some(why) = blocked_by_dependency(&run, &record) {
                if let Some(kept) = run.status.write_backs.get_mut(at) {
                    *kept = denied(record, &why);
                }
                continue;
            }
            let waits = record.next_try_at.is_some_and(|at| self.world.now() < at);
            if waits && !self.has_new_credential(&repository, &record).await? {
                blocked = Some(record.state);
                break;
            }
            let tried = match &record.moved_to {
                // Both futures are large, so they are boxed.
                None => Box::pin(self.settle_write(&repository, &run, attempt, record.clone()))
                    .await
                    .map(|(settled, line)| (settled, Vec::from_iter(line))),
                Some(_) => {
                    match Box::pin(self.rebase(engine, &repository, &mut run, attempt, at)).await {
                        Ok(RebaseStep::Running) => {
                            blocked = Some(WriteBackState::Ready);
                            break;
                        }
                        Ok(RebaseStep::Settled(writes)) => {
                            let settled = run.status.write_backs.get(at).cloned();
                            Ok((settled.unwrap_or_else(|| record.clone()), writes))
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            let (settled, more) = match tried {
                Ok(settled) => settled,
                Err(error @ ReconcileError::Store(_)) => return Err(error),
                Err(error) => {
                    if let ReconcileError::Forge(error) = &error {
                        self.forges.report_write_result(&repository, &Err(error.clone())).await;
                    }
                    let updated = after_failed_try(record.clone(), &error, self.world.now());
                    // A person has to act: that must not delay the run once they have.
                    let waits_for_person = updated.credential_rejected_at.is_some();
                    if updated.state != WriteBackState::Failed && !waits_for_person {
                        trouble = Some(error);
                    }
                    (updated, Vec::new())
                }
            };
            if matches!(settled.state, WriteBackState::Ready | WriteBackState::Waiting) {
                blocked = Some(settled.state);
            }
            let changed = record != settled;
            if let Some(issue) = opened_issue(&settled) {
                run.status.opened_issue = Some(issue);
            }
            if let Some(kept) = run.status.write_backs.get_mut(at) {
                *kept = settled;
            }
            if changed {
                // Each result is stored immediately, whatever happens to the next.
                let mut writes = vec![Write::Status(AnyObject::of(&run)?)];
                writes.extend(more);
                writes.extend(unwritten(&audited, &run, self.world.now()));
                audited.clone_from(&run.status.write_backs);
                let applied = self.store.commit(writes, self.world.now()).await?;
                let version = applied.objects.first().map(|one| one.metadata.resource_version);
                run.metadata.resource_version = version.unwrap_or(0);
            }
        }
        let lines = unwritten(&audited, &run, self.world.now());
        match blocked {
            Some(WriteBackState::Waiting) => run.status.phase = RunPhase::WaitingForApproval,
            Some(_) => run.status.phase = RunPhase::Running,
            None => {
                let end = final_phase(&run, attempt);
                return self.statuses.end_with(run, end, lines).await;
            }
        }
        if run.status != before {
            let mut writes = vec![Write::Status(AnyObject::of(&run)?)];
            writes.extend(lines);
            self.store.commit(writes, self.world.now()).await?;
        }
        match trouble {
            Some(error) => Err(error),
            None => Ok(run.status != before),
        }
    }

    /// Whether the credential of a repository has changed since the forge rejected it.
    async fn has_new_credential(
        &self,
        repository: &Object<Repository>,
        record: &WriteBackRecord,
    ) -> Result<bool, ReconcileError> {
        let (Some(rejected), Some(key)) =
            (record.credential_rejected_at, &repository.spec.credential_ref)
        else {
            return Ok(false);
        };
        let secret = self.store.typed::<Secret>(&key.name).await?;
        let known = secret.as_ref().and_then(|secret| secret.spec.keys.get(&key.key));
        Ok(known.is_some_and(|known| known.set_at > rejected))
    }

    /// Fails all open write-backs and the run.
    async fn give_up_writing(
        &self,
        mut run: Object<AgentDispatchRun>,
        why: &str,
    ) -> Result<bool, ReconcileError> {
        let before = run.status.write_backs.clone();
        for record in &mut run.status.write_backs {
            if matches!(record.state, WriteBackState::Ready | WriteBackState::Waiting) {
                *record = failed(record.clone(), why);
            }
        }
        let lines = unwritten(&before, &run, self.world.now());
        self.statuses.end_with(run, EndCode::WriteBackFailed.because(why), lines).await
    }

    async fn settle_write(
        &self,
        repository: &Object<Repository>,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        mut record: WriteBackRecord,
    ) -> Result<(WriteBackRecord, Option<Write>), ReconcileError> {
        let write = match stored_write(self.store.as_ref(), &record).await {
            Ok(write) => write,
            Err(error @ ReconcileError::StoredWrite(_)) => {
                return Ok((failed(record, &error.to_string()), None));
            }
            Err(error) => return Err(error),
        };
        let forge = self.forges.open_to_write(repository).await?;
        let allowed = match &record.approval {
            None => {
                let proposal = Proposal {
                    repository: &run.spec.repository,
                    dispatch_run: run.name(),
                    attempt: attempt.name(),
                    requested_by: requester(attempt),
                    write: &write,
                    target_state: None,
                    artifact_refs: Vec::new(),
                    content: &[],
                    redactor: None,
                    summary: String::new(),
                    now: self.world.now(),
                };
                match planned(run, attempt, &proposal) {
                    Plan::Write(allowed) => allowed,
                    Plan::Ask(_) => {
                        return Ok((denied(record, "an approval is needed now"), None));
                    }
                    Plan::Denied(denial) => return Ok((denied_by(record, &denial), None)),
                }
            }
            Some(name) => {
                let Some(approval) = self.store.typed::<AgentApproval>(name).await? else {
                    return Ok((denied(record, "the approval was deleted"), None));
                };
                match approval.status.phase {
                    ApprovalPhase::Pending => return Ok((record, None)),
                    ApprovalPhase::Rejected => {
                        return Ok((denied(record, "the approval was rejected"), None));
                    }
                    ApprovalPhase::Expired => {
                        return Ok((denied(record, "nobody answered in time"), None));
                    }
                    ApprovalPhase::Approved => {}
                }
                let target = observe_target(&forge, &run.spec, &approval.spec, &write).await?;
                if let Some(obstacle) = &target.obstacle {
                    return Ok((failed(record, &obstacle.denial().to_string()), None));
                }
                let allowed = write_back::authorise(
                    &approval.metadata.uid,
                    &approval.spec,
                    &approval.status,
                    &run.spec.repository,
                    &write,
                    target.state_before(&write),
                );
                match allowed {
                    Ok(allowed) => allowed,
                    Err(error @ NotAuthorised::Moved { .. }) => {
                        let record = match target.moved_to(&write) {
                            Some(now) => moved(record, now),
                            None => failed(record, &error.to_string()),
                        };
                        return Ok((record, None));
                    }
                    Err(error) => return Ok((denied(record, &error.to_string()), None)),
                }
            }
        };
        let answered = send(&forge, &allowed).await;
        self.forges.report_write_result(repository, &answered).await;
        if let Err(away @ (ForgeError::Unavailable(_) | ForgeError::Account(_))) = answered {
            return Err(ReconcileError::Forge(away));
        }
        match next(answered) {
            Next::Done(written) => {
                record.state = WriteBackState::Written;
                record.next_try_at = None;
                record.credential_rejected_at = None;
                record.url = written.url;
                record.id = Some(written.id.clone());
                record.detail = format!("written as {}", written.id);
                let detail = serde_json::json!({
                    "key": allowed.key(), "id": written.id, "wasThere": written.was_there,
                });
                let joined = Correlation::of_run(run).with("approval", record.approval.as_deref());
                let now = self.world.now();
                let line = joined.line(now, "AgentWriteBackApplied", subject(run), detail);
                Ok((record, Some(line)))
            }
            Next::TryAgain { why } => Err(ForgeError::Unavailable(why).into()),
            Next::RebaseFirst { why } => {
                let now = match &write {
                    WriteBack::Push { branch, from: Some(_), .. } => forge.branch(branch).await?,
                    WriteBack::Push { from: None, .. }
                    | WriteBack::OpenIssue { .. }
                    | WriteBack::Comment { .. }
                    | WriteBack::Review(_)
                    | WriteBack::OpenPullRequest { .. }
                    | WriteBack::CheckStatus { .. }
                    | WriteBack::Rerun { .. }
                    | WriteBack::ReleaseNote { .. }
                    | WriteBack::DeploymentApproval { .. } => None,
                };
                let target = ObservedTarget { state: now, obstacle: None };
                match target.moved_to(&write) {
                    Some(now) => Ok((moved(record, now), None)),
                    None => Ok((failed(record, &why), None)),
                }
            }
            Next::Failed { why } => Ok((failed(record, &why), None)),
        }
    }
}
