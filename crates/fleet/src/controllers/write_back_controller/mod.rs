//! Writes a run's results to the forge: proposed when its agent has ended, approved, and sent once.

mod proposals;
mod rebase;

use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPhase,
    ApprovalPolicy, Moment, Object, Repository, Requester, RunPhase, Secret, SubjectKind,
    WriteBackRecord, WriteBackState, WriteBackTarget,
};

use super::audit_log::{Correlation, subject, unwritten};
use super::backoff::Backoff;
use super::forge_access::ForgeAccess;
use super::objects::ObjectQueries as _;
use super::outcome::{EndCode, RunEnd};
use super::redaction::Redaction;
use super::run_controller::metadata_beside;
use super::run_status::RunStatusWriter;
use super::write_targets::{ObservedTarget, observe_target};
use super::{ReconcileError, StoredWriteError};
use crate::admission::admit::dispatcher;
use crate::ports::{
    Clock, Commits, Engine, Forge as _, ForgeError, Forges, ObjectStore, SecretStore, StackSources,
    Worktrees, Write, WriteBack,
};
use crate::write_back::{self, Next, NotAuthorised, Plan, Policies, Proposal, next, plan, send};
use proposals::{blocked_by_dependency, final_phase};
use rebase::RebaseStep;
pub(super) use rebase::moved;

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
        let mut said = before.write_backs.clone();
        if let Some(why) = run.status.cancel_requested.clone() {
            // The remaining write-backs are not sent.
            for record in &mut run.status.write_backs {
                if matches!(record.state, WriteBackState::Ready | WriteBackState::Waiting) {
                    *record = denied(record.clone(), "the run was cancelled");
                }
            }
            let lines = unwritten(&said, &run, self.world.now());
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
                    let missed = missed(record.clone(), &error, self.world.now());
                    // A person has to act: that must not delay the run once they have.
                    let waits_for_person = missed.credential_rejected_at.is_some();
                    if missed.state != WriteBackState::Failed && !waits_for_person {
                        trouble = Some(error);
                    }
                    (missed, Vec::new())
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
                writes.extend(unwritten(&said, &run, self.world.now()));
                said.clone_from(&run.status.write_backs);
                let applied = self.store.commit(writes, self.world.now()).await?;
                let version = applied.objects.first().map(|one| one.metadata.resource_version);
                run.metadata.resource_version = version.unwrap_or(0);
            }
        }
        let lines = unwritten(&said, &run, self.world.now());
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
                        return Ok((denied(record, "a person has to be asked now"), None));
                    }
                    Plan::Denied(denial) => return Ok((denied(record, &denial.reason), None)),
                }
            }
            Some(name) => {
                let Some(approval) = self.store.typed::<AgentApproval>(name).await? else {
                    return Ok((denied(record, "the question is gone"), None));
                };
                match approval.status.phase {
                    ApprovalPhase::Pending => return Ok((record, None)),
                    ApprovalPhase::Rejected => {
                        return Ok((denied(record, "a person said no"), None));
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

/// The issue that a write-back has opened.
fn opened_issue(record: &WriteBackRecord) -> Option<u64> {
    let opened =
        record.action == WriteBackTarget::OpenIssue && record.state == WriteBackState::Written;
    record.id.as_ref().filter(|_| opened)?.parse().ok()
}

/// The commit that a run has pushed to its own branch.
pub(super) async fn pushed(
    store: &impl ObjectStore,
    run: &Object<AgentDispatchRun>,
) -> Result<Option<String>, ReconcileError> {
    let written = |one: &&WriteBackRecord| one.state == WriteBackState::Written;
    for record in run.status.write_backs.iter().filter(written) {
        match stored_write(store, record).await {
            Ok(WriteBack::Push { branch, commit, from: Some(_) })
                if run.spec.branch.as_deref() == Some(branch.as_str()) =>
            {
                return Ok(Some(commit));
            }
            Ok(_) | Err(ReconcileError::StoredWrite(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(run.status.pushed.clone())
}

/// The value that a record sends.
pub(super) async fn stored_write(
    store: &impl ObjectStore,
    record: &WriteBackRecord,
) -> Result<WriteBack, ReconcileError> {
    let bytes = store.blob(&record.digest).await?;
    let bytes = bytes
        .filter(|bytes| Sha256Hex::of(bytes).as_str() == record.digest)
        .ok_or(StoredWriteError::Gone)?;
    let read = serde_json::from_slice(&bytes);
    Ok(read.map_err(|error| StoredWriteError::Unreadable(error.to_string()))?)
}

/// How often a write is tried while the forge does not answer.
const MAX_TRIES: u32 = 16;
/// For how long it is tried, in milliseconds; a server that was stopped meanwhile tries once more.
const RETRY_DEADLINE: u64 = 24 * 60 * 60 * 1000;

/// How long a write waits for a person who has to fix the account of the token, in milliseconds.
const ACCOUNT_DEADLINE: u64 = 7 * 24 * 60 * 60 * 1000;
/// After how long it is tried again although the credential is the same: the account may have been fixed on the forge.
const ACCOUNT_RETRY: u64 = 10 * 60 * 1000;

/// The record of a write that failed: tried again later, or given up.
fn missed(record: WriteBackRecord, error: &ReconcileError, now: Moment) -> WriteBackRecord {
    let permanent = matches!(
        error,
        ReconcileError::Forge(
            ForgeError::Refused(_) | ForgeError::Moved { .. } | ForgeError::Unsupported(_),
        ) | ReconcileError::Object(_)
    );
    let tries = record.tries.saturating_add(1);
    let since = record.tried_since.unwrap_or(now);
    let needs_person = matches!(
        error,
        ReconcileError::Forge(ForgeError::Account(_)) | ReconcileError::Credential { .. }
    );
    if needs_person && now < since.plus_millis(ACCOUNT_DEADLINE) {
        return WriteBackRecord {
            tried_since: Some(since),
            next_try_at: Some(now.plus_millis(ACCOUNT_RETRY)),
            credential_rejected_at: Some(now),
            detail: error.to_string(),
            ..record
        };
    }
    let mut record = WriteBackRecord { tries, tried_since: Some(since), ..record };
    let late = tries >= MAX_TRIES || now >= since.plus_millis(RETRY_DEADLINE);
    if permanent {
        return failed(record, &error.to_string());
    }
    if late {
        return failed(record, &format!("given up after {tries} tries: {error}"));
    }
    let wait = Backoff::WRITES.delay(tries.saturating_sub(1));
    record.next_try_at = Some(now.plus_millis(wait));
    record.detail = format!("tried {tries} times: {error}");
    record
}

pub(super) fn denied(mut record: WriteBackRecord, why: &str) -> WriteBackRecord {
    record.state = WriteBackState::Denied;
    why.clone_into(&mut record.detail);
    record
}

fn failed(mut record: WriteBackRecord, why: &str) -> WriteBackRecord {
    record.state = WriteBackState::Failed;
    record.next_try_at = None;
    why.clone_into(&mut record.detail);
    record
}

pub(super) fn requester(attempt: &Object<AgentDispatchAttempt>) -> Requester {
    Requester { kind: SubjectKind::AgentStack, name: attempt.name().to_owned() }
}

/// The policies of a run. Its spec has what stack and rule allow together.
pub(super) fn policies<'a>(
    run: &'a Object<AgentDispatchRun>,
    approvals: &'a [&'a ApprovalPolicy],
) -> Policies<'a> {
    Policies {
        stack: &run.spec.write_back_policy,
        rule: None,
        approvals,
        trust: run.spec.trust_tier,
    }
}

/// Plans a proposal. The person who requested the run or the attempt cannot approve it, unless the policy allows
/// that.
pub(super) fn planned(
    run: &Object<AgentDispatchRun>,
    attempt: &Object<AgentDispatchAttempt>,
    proposal: &Proposal<'_>,
) -> Plan {
    let approvals = [&run.spec.approval_policy];
    match plan(&policies(run, &approvals), proposal) {
        Plan::Ask(mut approval) => {
            if !run.spec.write_back_policy.dispatcher_may_approve {
                approval.dispatched_by = dispatcher(&run.spec.source_event).map(str::to_owned);
                approval.attempt_asked_by = attempt_requester(run, attempt).map(str::to_owned);
            }
            Plan::Ask(approval)
        }
        other @ (Plan::Denied(_) | Plan::Write(_)) => other,
    }
}

/// The person who requested an attempt, if it is not the one who started the run.
pub(super) fn attempt_requester<'a>(
    run: &Object<AgentDispatchRun>,
    attempt: &'a Object<AgentDispatchAttempt>,
) -> Option<&'a str> {
    let first = dispatcher(&run.spec.source_event);
    attempt.spec.requested_by.as_deref().filter(|by| Some(*by) != first)
}

pub(super) fn recorded(
    run: &Object<AgentDispatchRun>,
    write: &WriteBack,
    plan: Plan,
) -> Result<(WriteBackRecord, Vec<Write>), ReconcileError> {
    let bytes = serde_json::to_vec(write).map_err(ReconcileError::encode("a write-back"))?;
    let digest = Sha256Hex::of(&bytes).to_string();
    let mut record = WriteBackRecord {
        action: write.target(),
        target: write_back::target(&run.spec.repository, write).name,
        digest: digest.clone(),
        stands_on: None,
        approval: None,
        state: WriteBackState::Ready,
        detail: String::new(),
        url: None,
        id: None,
        tries: 0,
        tried_since: None,
        next_try_at: None,
        moved_to: None,
        rebases: 0,
        credential_rejected_at: None,
    };
    let mut writes = vec![Write::Blob { digest, bytes }];
    match plan {
        Plan::Write(_) => {}
        Plan::Denied(denial) => {
            record = denied(record, &denial.to_string());
        }
        Plan::Ask(approval) => {
            let identity = format!(
                "{}\n{:?}\n{}\n{}",
                approval.attempt.as_deref().unwrap_or_default(),
                approval.action.kind,
                approval.action.target,
                approval.artifact_digest
            );
            let name = format!("aap-{}", Sha256Hex::of(identity).prefix(24));
            let object = Object::new(metadata_beside(&run.metadata, name.clone()), *approval);
            writes.push(Write::Create(AnyObject::of(&object)?));
            record.state = WriteBackState::Waiting;
            record.approval = Some(name);
        }
    }
    Ok((record, writes))
}
