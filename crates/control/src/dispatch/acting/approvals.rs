//! A person's answer to an approval.

use bailiwick_model::fleet::{AgentApproval, AnyObject};
use serde_json::json;

use super::super::{ControlPlane, PlaneError};
use super::{audited, conflict};
use crate::ports::fleet::{
    ActionError, Caller, DecisionAnswer, DecisionRequest, Engine, FleetStore, Target, TokenScope,
    Verdict, World, Write, WriteBackAnswer,
};
use crate::write_back::{self, Actor, ActorKind, Answer, Decision};

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    pub(super) async fn take_answer(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        let mut approval = self.named::<AgentApproval>(approval).await?;
        // A question is about one thing: a yes to a part of it would be a yes to all of it.
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
            // It is looked at again when it is written.
            target_now: None,
            now: caller.at,
        };
        approval.status = write_back::decide(&approval.spec, &approval.status, &answer)
            .map_err(|error| conflict("NotDecided", error.to_string()))?;
        let phase = approval.status.phase;
        let subject = format!("AgentApproval/{}/{}", approval.metadata.namespace, approval.name());
        let detail = json!({ "phase": phase, "digest": approval.spec.artifact_digest });
        let writes = vec![
            Write::Status(AnyObject::of(&approval).map_err(PlaneError::from)?),
            audited(caller, "AgentApprovalDecision", subject, detail),
        ];
        self.store.commit(writes, caller.at).await?;
        let write_back = match approval.spec.action.kind {
            bailiwick_model::fleet::ActionType::WriteBack(_) => Some(WriteBackAnswer {
                accepted: phase == bailiwick_model::fleet::ApprovalPhase::Approved,
                idempotency_key: format!(
                    "{}:{}:{}",
                    approval.metadata.uid,
                    approval.spec.action.target,
                    approval.spec.artifact_digest
                ),
            }),
            bailiwick_model::fleet::ActionType::SecretAccess
            | bailiwick_model::fleet::ActionType::NetworkExpanded
            | bailiwick_model::fleet::ActionType::ToolCall
            | bailiwick_model::fleet::ActionType::Escalation => None,
        };
        Ok(DecisionAnswer { approval: approval.name().to_owned(), phase, write_back })
    }
}
