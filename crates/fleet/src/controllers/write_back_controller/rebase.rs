//! A push whose branch has moved: the change is replayed on the new tip, verified as before, and requested again
//! with its new digest.

use bailiwick_resources::{
    AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPhase, Object,
    Repository, WriteBackRecord, WriteBackState,
};
use serde_json::json;

use super::WriteBackController;
use super::proposals::PushContents;
use super::records::{failed, planned, recorded, requester};
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::launch::agent_of;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::run_results::ResultWriter;
use crate::ports::{
    Clock, Commits, Engine, FinishedWork, Forges, ObjectStore, Rebased, SecretStore, StackSources,
    Worktrees, Write, WriteBack,
};
use crate::write_back::{Plan, Proposal};

/// How often one change is rebased: a branch that moves more often is left to a new run.
const MAX_REBASES: u32 = 10;

/// The effect of a rebase on a record.
pub(super) enum RebaseStep {
    /// It is under way.
    Running,
    /// The record was replaced or has failed; these writes belong to it.
    Settled(Vec<Write>),
}

/// The record of a push whose branch has moved.
pub(in crate::controllers) fn moved(mut record: WriteBackRecord, to: &str) -> WriteBackRecord {
    record.detail = format!("the branch has moved to {to}: the change is being rebased");
    record.moved_to = Some(to.to_owned());
    record.state = WriteBackState::Ready;
    record
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources + Worktrees>
    WriteBackController<S, W>
{
    /// Rebases the change of the record at this position onto the commit that its branch has moved to.
    pub(super) async fn rebase(
        &self,
        engine: &impl Engine,
        repository: &Object<Repository>,
        run: &mut Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        at: usize,
    ) -> Result<RebaseStep, ReconcileError> {
        let Some(record) = run.status.write_backs.get(at).cloned() else {
            return Ok(RebaseStep::Settled(Vec::new()));
        };
        let Some(onto) = record.moved_to.clone() else {
            return Ok(RebaseStep::Settled(Vec::new()));
        };
        let write = super::stored_write(self.store.as_ref(), &record).await;
        let branch = match write {
            Ok(WriteBack::Push { branch, from: Some(_), .. }) => branch,
            Ok(_) => return Ok(give_up(run, at, "only a push to a branch is rebased")),
            Err(error @ ReconcileError::StoredWrite(_)) => {
                return Ok(give_up(run, at, &error.to_string()));
            }
            Err(error) => return Err(error),
        };
        if record.rebases >= MAX_REBASES {
            let why = format!("{branch} has moved {MAX_REBASES} times since; start a new run");
            return Ok(give_up(run, at, &why));
        }
        let reference = format!("refs/heads/{branch}");
        let fetched = self.forges.fetched_commit(repository, &reference, Some(&onto)).await?;
        if fetched.is_none() {
            let why = format!("{branch} has moved to {onto}, which the forge does not give");
            return Ok(give_up(run, at, &why));
        }
        let work = match engine.rebase(&agent_of(attempt), &onto).await? {
            Rebased::Running => return Ok(RebaseStep::Running),
            Rebased::Rejected(why) => {
                let words = self.redaction.texts(run).await?;
                let why = format!(
                    "{branch} has moved to {onto}, and the change cannot be rebased: {}",
                    words.clean(&why)
                );
                return Ok(give_up(run, at, &why));
            }
            Rebased::Verified(work) => work,
        };
        let write = WriteBack::Push { branch, commit: work.commit.clone(), from: Some(onto) };
        let writes = self.request_again(run, attempt, at, (&write, work)).await?;
        Ok(RebaseStep::Settled(writes))
    }

    /// Replaces a record by the request for the rebased change.
    async fn request_again(
        &self,
        run: &mut Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        at: usize,
        (write, mut work): (&WriteBack, FinishedWork),
    ) -> Result<Vec<Write>, ReconcileError> {
        let Some(before) = run.status.write_backs.get(at).cloned() else { return Ok(Vec::new()) };
        let words = self.redaction.texts(run).await?;
        work.verdict = words.clean(&work.verdict);
        let mut writes = Vec::new();
        let mut attempt = attempt.clone();
        let writer = ResultWriter { run, attempt: &mut attempt, writes: &mut writes };
        writer.store_rebased(&work, &words)?;
        let contents = PushContents::of(&work, &words);
        let proposal = Proposal {
            repository: &run.spec.repository,
            dispatch_run: run.name(),
            attempt: attempt.name(),
            requested_by: requester(&attempt),
            write,
            target_state: None,
            artifact_refs: run.status.artifacts.clone(),
            content: &contents.content(),
            redactor: words.redactor().ok(),
            summary: format!("rebased: {}", work.verdict),
            now: self.world.now(),
        };
        let plan = match (planned(run, &attempt, &proposal), contents.unread(write)) {
            (Plan::Ask(_) | Plan::Write(_), Some(denial)) => Plan::Denied(denial),
            (plan, _) => plan,
        };
        let (mut record, more) = recorded(run, write, plan)?;
        writes.extend(more);
        record.stands_on.clone_from(&before.stands_on);
        record.rebases = before.rebases.saturating_add(1);
        if record.state == WriteBackState::Ready {
            "rebased".clone_into(&mut record.detail);
        }
        writes.extend(self.close_request(&before, &record).await?);
        let approvals = &mut run.status.approvals;
        approvals.retain(|name| Some(name) != before.approval.as_ref());
        approvals.extend(record.approval.clone());
        for other in &mut run.status.write_backs {
            if other.stands_on.as_ref() == Some(&before.digest) {
                other.stands_on = Some(record.digest.clone());
            }
        }
        let detail = json!({
            "target": record.target, "onto": before.moved_to, "digest": record.digest,
        });
        let line = Correlation::of_run(run).with("approval", record.approval.as_deref()).line(
            self.world.now(),
            "AgentWriteBackRebased",
            subject(run),
            detail,
        );
        writes.push(line);
        writes.push(Write::Status(AnyObject::of(&attempt)?));
        if let Some(kept) = run.status.write_backs.get_mut(at) {
            *kept = record;
        }
        Ok(writes)
    }

    /// Closes the approval of the old change, if it is open.
    async fn close_request(
        &self,
        before: &WriteBackRecord,
        after: &WriteBackRecord,
    ) -> Result<Option<Write>, ReconcileError> {
        let Some(name) = &before.approval else { return Ok(None) };
        let Some(mut approval) = self.store.typed::<AgentApproval>(name).await? else {
            return Ok(None);
        };
        if approval.status.phase != ApprovalPhase::Pending {
            return Ok(None);
        }
        approval.status.phase = ApprovalPhase::Expired;
        approval.status.decided_at = Some(self.world.now());
        let next = after.approval.as_deref().unwrap_or("no approval");
        approval.status.comment = Some(format!("the target has moved; requested again as {next}"));
        Ok(Some(Write::Status(AnyObject::of(&approval)?)))
    }
}

fn give_up(run: &mut Object<AgentDispatchRun>, at: usize, why: &str) -> RebaseStep {
    if let Some(record) = run.status.write_backs.get_mut(at) {
        *record = failed(WriteBackRecord { moved_to: None, ..record.clone() }, why);
    }
    RebaseStep::Settled(Vec::new())
}
