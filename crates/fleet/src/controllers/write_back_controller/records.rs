//! The records of write-backs: planned from a proposal, stored with their content, and settled.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPolicy, Object, Requester,
    SubjectKind, WriteBackRecord, WriteBackState, WriteBackTarget,
};

use crate::admission::admit::dispatcher;
use crate::controllers::run_controller::metadata_beside;
use crate::controllers::{ReconcileError, StoredWriteError};
use crate::ports::{ObjectStore, Write, WriteBack};
use crate::write_back::{self, Denial, Plan, Policies, Proposal, plan};

/// The issue that a write-back has opened.
pub(in crate::controllers) fn opened_issue(record: &WriteBackRecord) -> Option<u64> {
    let opened =
        record.action == WriteBackTarget::OpenIssue && record.state == WriteBackState::Written;
    record.id.as_ref().filter(|_| opened)?.parse().ok()
}

/// The commit that a run has pushed to its own branch.
pub(in crate::controllers) async fn pushed(
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
pub(in crate::controllers) async fn stored_write(
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

pub(in crate::controllers) fn denied(mut record: WriteBackRecord, why: &str) -> WriteBackRecord {
    record.state = WriteBackState::Denied;
    why.clone_into(&mut record.detail);
    record
}

/// Denied by a rule.
pub(in crate::controllers) fn denied_by(
    record: WriteBackRecord,
    denial: &Denial,
) -> WriteBackRecord {
    let record = denied(record, &denial.to_string());
    WriteBackRecord { denied_by: Some(denial.rule), ..record }
}

pub(in crate::controllers) fn failed(mut record: WriteBackRecord, why: &str) -> WriteBackRecord {
    record.state = WriteBackState::Failed;
    record.next_try_at = None;
    why.clone_into(&mut record.detail);
    record
}

pub(in crate::controllers) fn requester(attempt: &Object<AgentDispatchAttempt>) -> Requester {
    Requester { kind: SubjectKind::AgentStack, name: attempt.name().to_owned() }
}

/// The policies of a run. Its spec contains what both the stack and the rule permit.
pub(in crate::controllers) fn policies<'a>(
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
pub(in crate::controllers) fn planned(
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
pub(in crate::controllers) fn attempt_requester<'a>(
    run: &Object<AgentDispatchRun>,
    attempt: &'a Object<AgentDispatchAttempt>,
) -> Option<&'a str> {
    let first = dispatcher(&run.spec.source_event);
    attempt.spec.requested_by.as_deref().filter(|by| Some(*by) != first)
}

pub(in crate::controllers) fn recorded(
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
        denied_by: None,
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
            record = denied_by(record, &denial);
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
