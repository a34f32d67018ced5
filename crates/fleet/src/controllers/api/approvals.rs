//! A person's answer to an approval, and who owns a question of an agent.

use std::sync::Arc;

use bailiwick_resources::{
    ActionType, AgentApproval, AgentArtifact, AgentDispatchAttempt, AgentDispatchRun, AnyObject,
    ApprovalPhase, Kind, Object, PatchDetail,
};
use serde_json::json;

use super::conflict;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::commit_status;
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::tool_approvals::QUESTION;
use crate::controllers::write_back_controller::{moved, stored_write};
use crate::controllers::write_targets::{ObservedTarget, observe_target};
use crate::controllers::{ReconcileError, StoredWriteError};
use crate::ports::{
    ActionError, ApprovalPreview, Caller, Clock, Commits, DecisionAnswer, DecisionRequest,
    Forge as _, Forges, ObjectStore, SecretStore, Selection, Target, TokenScope, Verdict, Write,
    WriteBack, WriteBackAnswer,
};
use crate::write_back::{self, Actor, ActorKind, Answer, Decision, NotDecided};

/// Who answers a question of an agent.
#[derive(Debug, Clone)]
pub enum QuestionOwner {
    /// The person who started the agent: the control plane did not.
    Elsewhere,
    /// The control plane, through this approval.
    Here(Box<Object<AgentApproval>>),
    /// The control plane, which has no open approval for it: not yet, or not any more.
    Unknown,
}

/// Answers to approvals.
pub(super) struct ApprovalApi<S, W> {
    store: Arc<S>,
    forges: Arc<ForgeAccess<S, W>>,
}

impl<S, W> ApprovalApi<S, W> {
    pub(super) fn new(store: Arc<S>, forges: Arc<ForgeAccess<S, W>>) -> Self {
        Self { store, forges }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits> ApprovalApi<S, W> {
    pub(super) async fn question_owner(
        &self,
        line: &[&str],
        question: &str,
    ) -> Result<QuestionOwner, ActionError> {
        let mut ours = false;
        for agent in line {
            ours = ours || self.is_own_agent(agent).await?;
        }
        if !ours {
            return Ok(QuestionOwner::Elsewhere);
        }
        let open = Selection::of(Kind::AgentApproval).field("phase", "pending");
        let agent = line.first().copied().unwrap_or_default();
        // The newest one: a resumed agent may have asked the same before.
        let found = self.store.all_typed::<AgentApproval>(open).await?.into_iter().rfind(|one| {
            let asked = one.metadata.annotations.get(QUESTION).map(String::as_str);
            let action = &one.spec.action;
            action.kind == ActionType::ToolCall && action.target == agent && asked == Some(question)
        });
        Ok(found.map_or(QuestionOwner::Unknown, |one| QuestionOwner::Here(Box::new(one))))
    }

    /// Whether an agent is an attempt of a run, or a sub-agent that is recorded as one.
    async fn is_own_agent(&self, agent: &str) -> Result<bool, ActionError> {
        if self.store.typed::<AgentDispatchAttempt>(agent).await?.is_some() {
            return Ok(true);
        }
        let runs = Selection::of(Kind::AgentDispatchRun).field("agent", agent);
        Ok(!self.store.all_typed::<AgentDispatchRun>(runs).await?.is_empty())
    }

    pub(super) async fn record_answer(
        &self,
        caller: &Caller,
        approval: &Target,
        request: &DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        let mut approval = self.store.named::<AgentApproval>(approval).await?;
        // An approval is about one action: approving a part would approve all of it.
        let own = [&approval.spec.action.target, &approval.spec.artifact_digest];
        if request.approved_action_subset.iter().any(|part| !own.contains(&part)) {
            let message = "an approval is about one action: approve it, or reject it";
            return Err(conflict("NoSubset", message));
        }
        let by = Actor {
            name: caller.actor.clone(),
            kind: ActorKind::Person,
            may_approve: matches!(caller.scope, TokenScope::Approver | TokenScope::Admin),
        };
        let requested = self.requested_write(&approval).await?;
        // Only an approval needs the forge. If it does not respond, the target is checked when the result is
        // written.
        let target = match (&requested, request.decision) {
            (Some((run, write)), Verdict::Approve) => {
                self.observe(&approval, run, write).await?.unwrap_or_default()
            }
            (Some(_), Verdict::Reject) | (None, _) => ObservedTarget::default(),
        };
        let target_now = match &requested {
            Some((_, write)) => target.state_before(write),
            None => None,
        };
        let answer = Answer {
            by: &by,
            decision: match request.decision {
                Verdict::Approve => Decision::Approve,
                Verdict::Reject => Decision::Reject,
            },
            comment: Some(request.comment.clone()).filter(|text| !text.is_empty()),
            expected_digest: &request.expected_artifact_digest,
            target_now,
            obstacle: target.obstacle.clone(),
            now: caller.at,
        };
        let decided = write_back::decide(&approval.spec, &approval.status, &answer);
        if let (Err(NotDecided::Moved { then, now }), Some((run, write))) = (&decided, requested)
            && let Some(to) = target.moved_to(&write)
        {
            self.request_rebase(caller, run, &approval, to).await?;
            let message = format!(
                "the target was at {then} and is at {now}: the change is rebased and verified, and you are asked \
                 again (see: bailiwick approvals list)"
            );
            return Err(conflict("TargetMoved", message));
        }
        approval.status = decided.map_err(|error| match error {
            NotDecided::Moved { .. } => conflict("TargetMoved", error.to_string()),
            NotDecided::Obstructed { .. } => conflict("ForgeRefuses", error.to_string()),
            NotDecided::AlreadyDecided { .. }
            | NotDecided::Expired { .. }
            | NotDecided::NotAPerson(_)
            | NotDecided::NotAllowed(_)
            | NotDecided::OwnRequest(_)
            | NotDecided::Mismatch { .. } => conflict("NotDecided", error.to_string()),
        })?;
        let phase = approval.status.phase;
        let run = self.store.typed::<AgentDispatchRun>(&approval.spec.dispatch_run).await?;
        let run_uid = run.as_ref().map(|run| run.metadata.uid.as_str());
        let key = write_back::approved_key(&approval.metadata.uid, run_uid, &approval.spec);
        if phase == ApprovalPhase::Approved {
            approval.status.write_back_key.clone_from(&key);
        }
        let detail = json!({ "phase": phase, "digest": approval.spec.artifact_digest });
        let joined = match run {
            Some(run) => Correlation::of_run(&run),
            None => Correlation::default().with("run", Some(&approval.spec.dispatch_run)),
        };
        let joined = joined.with("attempt", approval.spec.attempt.as_deref());
        let line = joined.line_of(caller, "AgentApprovalDecision", subject(&approval), detail);
        let writes =
            vec![Write::Status(AnyObject::of(&approval).map_err(ReconcileError::from)?), line];
        self.store.commit(writes, caller.at).await?;
        let accepted = phase == ApprovalPhase::Approved;
        let write_back = key.map(|idempotency_key| WriteBackAnswer { accepted, idempotency_key });
        Ok(DecisionAnswer { approval: approval.name().to_owned(), phase, write_back })
    }
    /// The run of an approval, and the value that it would write; nothing for another action, or if that value is
    /// not requested any more.
    async fn requested_write(
        &self,
        approval: &Object<AgentApproval>,
    ) -> Result<Option<(Object<AgentDispatchRun>, WriteBack)>, ActionError> {
        let ActionType::WriteBack(_) = approval.spec.action.kind else { return Ok(None) };
        let name = &approval.spec.dispatch_run;
        let Some(run) = self.store.typed::<AgentDispatchRun>(name).await? else { return Ok(None) };
        let own = |asked: &Option<String>| asked.as_deref() == Some(approval.name());
        if run.status.check_report.as_ref().is_some_and(|report| own(&report.approval)) {
            let write = commit_status::status(&run);
            return Ok(Some((run, write)));
        }
        let record = run.status.write_backs.iter().find(|record| own(&record.approval)).cloned();
        let Some(record) = record else { return Ok(None) };
        match stored_write(self.store.as_ref(), &record).await {
            Ok(write) => Ok(Some((run, write))),
            Err(ReconcileError::StoredWrite(
                StoredWriteError::Gone | StoredWriteError::Unreadable(_),
            )) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The current target of an approval, or why it is not known.
    async fn observe(
        &self,
        approval: &Object<AgentApproval>,
        run: &Object<AgentDispatchRun>,
        write: &WriteBack,
    ) -> Result<Result<ObservedTarget, ReconcileError>, ActionError> {
        let observed = async || -> Result<ObservedTarget, ReconcileError> {
            let repository = self.store.repository(&run.spec.repository).await?;
            let forge = self.forges.open(&repository).await?;
            Ok(observe_target(&forge, &run.spec, &approval.spec, write).await?)
        };
        match observed().await {
            Ok(target) => Ok(Ok(target)),
            Err(error @ ReconcileError::Store(_)) => Err(error.into()),
            Err(error) => Ok(Err(error)),
        }
    }

    /// The rules of a branch that may refuse a push. An unknown rule is no error: the push will report it.
    async fn branch_note(
        &self,
        run: &Object<AgentDispatchRun>,
        branch: &str,
    ) -> Result<Option<String>, ActionError> {
        let read = async || -> Result<Vec<String>, ReconcileError> {
            let repository = self.store.repository(&run.spec.repository).await?;
            Ok(self.forges.open(&repository).await?.branch_rules(branch).await?)
        };
        match read().await {
            Ok(rules) if !rules.is_empty() => Ok(Some(format!(
                "the forge has rules for {branch} ({}), and does not say whether its account is exempt",
                rules.join(", ")
            ))),
            Ok(_) => Ok(None),
            Err(error @ ReconcileError::Store(_)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// Notes that the branch of a change has moved, so that the change is rebased.
    async fn request_rebase(
        &self,
        caller: &Caller,
        mut run: Object<AgentDispatchRun>,
        approval: &Object<AgentApproval>,
        to: &str,
    ) -> Result<(), ActionError> {
        let own = |asked: &Option<String>| asked.as_deref() == Some(approval.name());
        for record in run.status.write_backs.iter_mut().filter(|record| own(&record.approval)) {
            *record = moved(record.clone(), to);
        }
        let detail = json!({ "target": approval.spec.action.target, "movedTo": to });
        let joined = Correlation::of_run(&run).with("approval", Some(approval.name()));
        let line = joined.line_of(caller, "AgentApprovalTargetMoved", subject(approval), detail);
        let status = Write::Status(AnyObject::of(&run).map_err(ReconcileError::from)?);
        self.store.commit(vec![status, line], caller.at).await?;
        Ok(())
    }

    /// Exactly what an approval allows, and the state of its target now.
    pub(super) async fn preview(&self, approval: &Target) -> Result<ApprovalPreview, ActionError> {
        let approval = self.store.named::<AgentApproval>(approval).await?;
        let spec = &approval.spec;
        let mut preview = ApprovalPreview {
            approval: approval.name().to_owned(),
            phase: approval.status.phase,
            action: spec.action.kind,
            target: spec.action.target.clone(),
            summary: spec.action.summary.clone(),
            run: spec.dispatch_run.clone(),
            attempt: spec.attempt.clone(),
            requested_by: spec.requested_by.name.clone(),
            digest: spec.artifact_digest.clone(),
            expires_at: spec.expires_at,
            target_state: spec.target_state.clone(),
            target_now: None,
            obstacle: None,
            note: None,
            unknown: None,
            content: None,
            commits: Vec::new(),
            diff: None,
        };
        let Some((run, write)) = self.requested_write(&approval).await? else { return Ok(preview) };
        // The shown content must match the digest.
        if write_back::digest(&run.spec.repository, &write).as_str() != preview.digest {
            preview.unknown = Some("what was requested has changed since".to_owned());
            return Ok(preview);
        }
        match self.observe(&approval, &run, &write).await? {
            Ok(target) => {
                preview.target_now = target.state;
                preview.obstacle = target.obstacle.map(|one| format!("{one}; {}", one.remedy()));
            }
            Err(error) => preview.unknown = Some(error.to_string()),
        }
        if let WriteBack::Push { branch, commit, .. } = &write {
            preview.note = self.branch_note(&run, branch).await?;
            if let Some((detail, diff)) = self.patch_of(&approval, commit).await? {
                preview.commits = detail.commits;
                preview.diff = diff;
            }
        }
        let content = serde_json::to_value(&write);
        preview.content = Some(content.map_err(ReconcileError::encode("a write-back"))?);
        Ok(preview)
    }

    /// The stored patch of a commit, if it is known, and its diff, if that is still stored.
    async fn patch_of(
        &self,
        approval: &Object<AgentApproval>,
        commit: &str,
    ) -> Result<Option<(PatchDetail, Option<String>)>, ActionError> {
        for name in &approval.spec.artifact_refs {
            let Some(artifact) = self.store.typed::<AgentArtifact>(name).await? else { continue };
            let patch = artifact.spec.patch;
            let Some(patch) = patch.filter(|patch| patch.commit.as_deref() == Some(commit)) else {
                continue;
            };
            let bytes = self.store.blob(&artifact.spec.digest).await?;
            let diff = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            return Ok(Some((patch, diff)));
        }
        Ok(None)
    }
}
