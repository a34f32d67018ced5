//! A server without a control plane: it refuses every action.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    ActionError, ApprovalPreview, Caller, ChecksAnswer, DecisionAnswer, DecisionRequest,
    DispatchRequest, ExecutionAnswer, FireRequest, Fleet, LifecycleAnswer, LifecycleRequest,
    PermissionQuestion, PermissionReview, ReplayRequest, RuleSample, RuleTrial, RunAnswer,
    RunEvents, RunVerb, RunVerbRequest, Target, Unverified, WebhookRejected, WorkspaceAnswer,
    WorkspaceRequest,
};
use serde_json::Value;

/// Resources can be declared and read; nothing acts on them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoControlPlane;

fn refuse<T>() -> Result<T, ActionError> {
    Err(ActionError::Unavailable("this server has no control plane".to_owned()))
}

impl Fleet for NoControlPlane {
    async fn act_on_run(
        &self,
        _: &Caller,
        _: &Target,
        _: RunVerb,
        _: RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        refuse()
    }

    async fn dispatch(
        &self,
        _: &Caller,
        _: &str,
        _: DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        refuse()
    }

    async fn decide(
        &self,
        _: &Caller,
        _: &Target,
        _: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        refuse()
    }

    async fn try_rule(
        &self,
        _: &Caller,
        _: &Target,
        _: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        refuse()
    }

    async fn set_lifecycle(
        &self,
        _: &Caller,
        _: &Target,
        _: LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        refuse()
    }

    async fn replay_delivery(
        &self,
        _: &Caller,
        _: &Target,
        _: ReplayRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        refuse()
    }

    async fn fire(
        &self,
        _: &Caller,
        _: &Target,
        _: FireRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        refuse()
    }

    async fn materialize(
        &self,
        _: &Caller,
        _: &Target,
        _: RuleSample,
    ) -> Result<ExecutionAnswer, ActionError> {
        refuse()
    }

    async fn review_permissions(
        &self,
        _: &Caller,
        _: &str,
        _: PermissionQuestion,
    ) -> Result<PermissionReview, ActionError> {
        refuse()
    }

    async fn act_on_workspace(
        &self,
        _: &Caller,
        _: &str,
        _: Option<&str>,
        _: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        refuse()
    }

    async fn preview_approval(&self, _: &Target) -> Result<ApprovalPreview, ActionError> {
        refuse()
    }

    async fn checks(&self, _: &Target, _: &str) -> Result<ChecksAnswer, ActionError> {
        refuse()
    }

    async fn capabilities(&self) -> Result<BTreeMap<String, Value>, ActionError> {
        refuse()
    }

    async fn run_events(
        &self,
        _: &Target,
        _: Option<u32>,
        _: u64,
        _: usize,
    ) -> Result<RunEvents, ActionError> {
        refuse()
    }

    async fn wait_for_run_event(&self, _: &Target, _: u64, _: u64) {}

    fn verify_webhook(&self, _: Unverified<'_>) -> Result<(), WebhookRejected> {
        Err(WebhookRejected("this server has no control plane".to_owned()))
    }
}
