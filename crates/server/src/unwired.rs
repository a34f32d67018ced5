//! A control plane that is not there: everything that is asked of it is refused, with the reason.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    ActionError, Caller, ChecksAnswer, DecisionAnswer, DecisionRequest, DispatchRequest,
    ExecutionAnswer, FireRequest, Fleet, LifecycleAnswer, LifecycleRequest, PermissionQuestion,
    PermissionReview, ReplayRequest, RuleSample, RuleTrial, RunAnswer, RunEvents, RunVerb,
    RunVerbRequest, Target, Unverified, WebhookRejected, WorkspaceAnswer, WorkspaceRequest,
};
use serde_json::Value;

/// Resources can be declared and looked at; nothing acts on them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwired;

fn none<T>() -> Result<T, ActionError> {
    Err(ActionError::Unavailable("this server has no control plane behind it".to_owned()))
}

impl Fleet for Unwired {
    async fn act_on_run(
        &self,
        _: &Caller,
        _: &Target,
        _: RunVerb,
        _: RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        none()
    }

    async fn dispatch(
        &self,
        _: &Caller,
        _: &str,
        _: DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        none()
    }

    async fn decide(
        &self,
        _: &Caller,
        _: &Target,
        _: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        none()
    }

    async fn try_rule(
        &self,
        _: &Caller,
        _: &Target,
        _: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        none()
    }

    async fn set_lifecycle(
        &self,
        _: &Caller,
        _: &Target,
        _: LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        none()
    }

    async fn replay_delivery(
        &self,
        _: &Caller,
        _: &Target,
        _: ReplayRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        none()
    }

    async fn fire(
        &self,
        _: &Caller,
        _: &Target,
        _: FireRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        none()
    }

    async fn materialize(
        &self,
        _: &Caller,
        _: &Target,
        _: RuleSample,
    ) -> Result<ExecutionAnswer, ActionError> {
        none()
    }

    async fn review_permissions(
        &self,
        _: &Caller,
        _: &str,
        _: PermissionQuestion,
    ) -> Result<PermissionReview, ActionError> {
        none()
    }

    async fn act_on_workspace(
        &self,
        _: &Caller,
        _: &str,
        _: Option<&str>,
        _: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        none()
    }

    async fn checks(&self, _: &Target, _: &str) -> Result<ChecksAnswer, ActionError> {
        none()
    }

    async fn capabilities(&self) -> Result<BTreeMap<String, Value>, ActionError> {
        none()
    }

    async fn run_events(
        &self,
        _: &Target,
        _: Option<u32>,
        _: u64,
        _: usize,
    ) -> Result<RunEvents, ActionError> {
        none()
    }

    async fn wait_for_run_event(&self, _: &Target, _: u64, _: u64) {}

    fn verify_webhook(&self, _: Unverified<'_>) -> Result<(), WebhookRejected> {
        Err(WebhookRejected("this server has no control plane behind it".to_owned()))
    }
}
