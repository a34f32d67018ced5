//! Questions of an agent's gate become approvals; the decisions of people are sent back to the gate.

use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    ActionType, AgentApproval, AgentDispatchRun, AnyObject, ApprovalAction, ApprovalPhase,
    ApprovalReason, Object, Requester, Span, SubjectKind,
};

use super::ReconcileError;
use super::objects::ObjectQueries as _;
use super::run_controller::metadata_beside;
use crate::ports::{Clock, Engine, ObjectStore, Write};

/// The default expiry of a question about a tool call.
const TOOL_CALL_TIMEOUT: u64 = 3_600_000;
/// The annotation of an approval that names the question of a supervisor.
pub(super) const QUESTION: &str = "bailiwick.dev/question";

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Questioner<'a> {
    Attempt(&'a str),
    /// A sub-agent, with how often its agent was started.
    Child(u64),
}

/// Syncs approvals with the questions of gates.
pub(super) struct ToolApprovals<S, E, W> {
    store: Arc<S>,
    engine: Arc<E>,
    world: Arc<W>,
}

impl<S, E, W> ToolApprovals<S, E, W> {
    pub(super) fn new(store: Arc<S>, engine: Arc<E>, world: Arc<W>) -> Self {
        Self { store, engine, world }
    }
}

impl<S: ObjectStore, E: Engine, W: Clock> ToolApprovals<S, E, W> {
    /// Creates approvals for new questions, and passes answers to the gate.
    pub(super) async fn sync(
        &self,
        run: &Object<AgentDispatchRun>,
        questioner: Questioner<'_>,
        (agent, questions): (&str, &[(String, String)]),
    ) -> Result<Vec<Write>, ReconcileError> {
        let mut writes = Vec::new();
        for (question, about) in questions {
            // Each attempt numbers its questions from one, so an approval must not count for another attempt.
            let (attempt, whose) = match questioner {
                Questioner::Attempt(attempt) => (Some(attempt), attempt.to_owned()),
                Questioner::Child(attempts) => (None, format!("{}\n{attempts}", run.name())),
            };
            let identity = format!("{whose}\n{agent}\n{question}\n{about}");
            let digest = Sha256Hex::of(identity);
            let name = format!("aap-{}", digest.prefix(24));
            match self.store.typed::<AgentApproval>(&name).await? {
                None => {
                    let spec = AgentApproval {
                        dispatch_run: run.name().to_owned(),
                        attempt: attempt.map(str::to_owned),
                        requested_by: Requester {
                            kind: SubjectKind::AgentStack,
                            name: agent.to_owned(),
                        },
                        dispatched_by: None,
                        attempt_asked_by: None,
                        action: ApprovalAction {
                            kind: ActionType::ToolCall,
                            target: agent.to_owned(),
                            summary: about.clone(),
                        },
                        policy_reasons: vec![ApprovalReason::ToolCall],
                        artifact_refs: Vec::new(),
                        artifact_digest: digest.to_string(),
                        target_state: None,
                        expires_at: self.world.now().plus_millis(approval_timeout(run)),
                    };
                    let mut object = Object::new(metadata_beside(&run.metadata, name), spec);
                    object.metadata.annotations.insert(QUESTION.to_owned(), question.clone());
                    writes.push(Write::Create(AnyObject::of(&object)?));
                }
                Some(known) => match known.status.phase {
                    ApprovalPhase::Pending => {}
                    ApprovalPhase::Approved => {
                        self.engine.answer(agent, question, true).await?;
                    }
                    ApprovalPhase::Rejected | ApprovalPhase::Expired => {
                        self.engine.answer(agent, question, false).await?;
                    }
                },
            }
        }
        Ok(writes)
    }
}

fn approval_timeout(run: &Object<AgentDispatchRun>) -> u64 {
    run.spec.approval_policy.expires_after.map_or(TOOL_CALL_TIMEOUT, Span::millis)
}
