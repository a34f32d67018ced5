//! A person's answer to an approval, and who owns a question of an agent.

use std::sync::Arc;

use bailiwick_resources::{
    ActionType, AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPhase,
    Kind, Object,
};
use serde_json::json;

use super::conflict;
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::tool_approvals::QUESTION;
use crate::ports::{
    ActionError, Caller, DecisionAnswer, DecisionRequest, ObjectStore, Selection, Target,
    TokenScope, Verdict, Write, WriteBackAnswer,
};
use crate::write_back::{self, Actor, ActorKind, Answer, Decision};

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
pub(super) struct ApprovalApi<S> {
    store: Arc<S>,
}

impl<S> ApprovalApi<S> {
    pub(super) fn new(store: Arc<S>) -> Self {
        Self { store }
    }
}

impl<S: ObjectStore> ApprovalApi<S> {
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
        // The newest: a resumed agent may have asked the same before.
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
        let answer = Answer {
            by: &by,
            decision: match request.decision {
                Verdict::Approve => Decision::Approve,
                Verdict::Reject => Decision::Reject,
            },
            comment: Some(request.comment.clone()).filter(|text| !text.is_empty()),
            expected_digest: &request.expected_artifact_digest,
            // The target is checked when the result is written.
            target_now: None,
            now: caller.at,
        };
        approval.status = write_back::decide(&approval.spec, &approval.status, &answer)
            .map_err(|error| conflict("NotDecided", error.to_string()))?;
        let phase = approval.status.phase;
        let key = write_back::approved_key(&approval.metadata.uid, &approval.spec);
        if phase == ApprovalPhase::Approved {
            approval.status.write_back_key.clone_from(&key);
        }
        let detail = json!({ "phase": phase, "digest": approval.spec.artifact_digest });
        let joined = match self.store.typed::<AgentDispatchRun>(&approval.spec.dispatch_run).await?
        {
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
}
