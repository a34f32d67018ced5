//! The actions that people request, by the API or the command line.
//!
//! ```text
//! runs   events   checks   rules   approvals   permissions   workspaces      one file for each
//! ```

mod approvals;
mod checks;
mod events;
mod permissions;
mod rules;
mod runs;
mod workspaces;

pub use approvals::QuestionOwner;

use std::collections::BTreeMap;

use bailiwick_resources::{DEFAULT_NAMESPACE, Object, Resource};
use serde_json::Value;

use super::{ControlPlane, ReconcileError};
use crate::admission::Refused;
use crate::ports::{
    ActionError, ActionReason, Caller, ChecksAnswer, DecisionAnswer, DecisionRequest,
    DispatchRequest, Engine, ExecutionAnswer, FireRequest, Fleet, FleetError, FleetStore,
    LifecycleAnswer, LifecycleRequest, PermissionQuestion, PermissionReview, ReplayRequest,
    RuleSample, RuleTrial, RunAnswer, RunEvents, RunVerb, RunVerbRequest, Target, Unverified,
    WebhookRejected, WorkspaceAnswer, WorkspaceRequest, World,
};
use crate::resources::namespaces::elsewhere;
use crate::triggers::{self, Intent, SignatureHeaders};

/// How often something is done again that was changed meanwhile.
const MAX_CONFLICT_RETRIES: usize = 16;

impl From<ReconcileError> for ActionError {
    fn from(error: ReconcileError) -> Self {
        if let ReconcileError::Store(error) = error {
            return Self::Store(error);
        }
        Self::Unavailable(error.to_string())
    }
}

/// Does again what could not be done because what it changes was changed or made meanwhile. The one who asks has not
/// seen the state that is gone, and what they may do is decided by the one that is there now.
async fn settled<T, F>(attempt: impl Fn() -> F) -> Result<T, ActionError>
where
    F: Future<Output = Result<T, ActionError>>,
{
    for _ in 0..MAX_CONFLICT_RETRIES {
        match attempt().await {
            Err(ActionError::Store(
                FleetError::Conflict { .. } | FleetError::AlreadyExists { .. },
            )) => {}
            done => return done,
        }
    }
    attempt().await
}

fn conflict(code: &str, message: impl Into<String>) -> ActionError {
    ActionError::Conflict { code: code.to_owned(), message: message.into() }
}

fn refusal(refused: &Refused) -> ActionError {
    let reasons = refused.reasons.iter().map(|why| ActionReason {
        code: why.code.as_str().to_owned(),
        field: why.about.clone(),
        message: why.message.clone(),
    });
    let message = format!("not admitted at step {:?}", refused.step);
    ActionError::Denied { message, reasons: reasons.collect() }
}

/// Refuses what is asked for where nobody looks.
fn require_here(namespace: &str) -> Result<(), ActionError> {
    match namespace {
        DEFAULT_NAMESPACE => Ok(()),
        other => Err(ActionError::Invalid(vec![elsewhere("namespace", other)])),
    }
}

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    pub(super) async fn named<R: Resource>(
        &self,
        target: &Target,
    ) -> Result<Object<R>, ActionError> {
        let found = self.store.get(R::KIND, &target.namespace, &target.name).await?;
        let found = found.ok_or_else(|| {
            ActionError::NotFound(format!("there is no {} `{}`", R::KIND, target.name))
        })?;
        Ok(found.typed::<R>().map_err(ReconcileError::from)?)
    }
}

impl<S: FleetStore, E: Engine, W: World> Fleet for ControlPlane<S, E, W> {
    async fn act_on_run(
        &self,
        caller: &Caller,
        run: &Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        settled(|| self.act_on_named_run(caller, run, verb, &request)).await
    }

    async fn dispatch(
        &self,
        caller: &Caller,
        namespace: &str,
        request: DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        require_here(namespace)?;
        settled(|| self.request_run(caller, namespace, &request)).await
    }

    async fn decide(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        settled(|| self.record_answer(caller, approval, &request)).await
    }

    async fn try_rule(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        self.trial(caller, rule, sample).await
    }

    async fn set_lifecycle(
        &self,
        caller: &Caller,
        rule: &Target,
        request: LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        settled(|| self.change_lifecycle(caller, rule, &request)).await
    }

    async fn replay_delivery(
        &self,
        caller: &Caller,
        rule: &Target,
        request: ReplayRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        let sample =
            RuleSample { delivery: Some(request.delivery.clone()), ..RuleSample::default() };
        self.looked_again(caller, rule, sample, (Intent::Replay, &request.reason)).await
    }

    async fn fire(
        &self,
        caller: &Caller,
        rule: &Target,
        request: FireRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.fire_rule(caller, rule, request).await
    }

    async fn materialize(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<ExecutionAnswer, ActionError> {
        let reason = sample.reason.clone();
        self.looked_again(caller, rule, sample, (Intent::Materialize, &reason)).await
    }

    async fn review_permissions(
        &self,
        _: &Caller,
        _: &str,
        question: PermissionQuestion,
    ) -> Result<PermissionReview, ActionError> {
        let repository = self.repository(&question.repository).await?;
        let tier = repository.spec.trust_tier;
        self.reviewed(&repository, &question, tier, (&[], &Default::default())).await
    }

    async fn act_on_workspace(
        &self,
        caller: &Caller,
        namespace: &str,
        workspace: Option<&str>,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        require_here(namespace)?;
        self.act_on_named_workspace(caller, namespace, workspace, request).await
    }

    async fn checks(&self, repository: &Target, sha: &str) -> Result<ChecksAnswer, ActionError> {
        self.checks_of(repository, sha).await
    }

    async fn capabilities(&self) -> Result<BTreeMap<String, Value>, ActionError> {
        Ok(self.world.capabilities().await)
    }

    async fn run_events(
        &self,
        run: &Target,
        attempt: Option<u32>,
        after: u64,
        limit: usize,
    ) -> Result<RunEvents, ActionError> {
        self.events_after(run, attempt, (after, limit)).await
    }

    async fn wait_for_run_event(&self, _: &Target, _: u64, millis: u64) {
        self.world.sleep(millis.min(500)).await;
    }

    fn verify_webhook(&self, webhook: Unverified<'_>) -> Result<(), WebhookRejected> {
        let header = |name: &str| webhook.headers.get(name).map(String::as_str);
        let headers = SignatureHeaders {
            hub_256: header("x-hub-signature-256"),
            gitea: header("x-gitea-signature").or(header("x-forgejo-signature")),
            bailiwick: header("x-bailiwick-signature"),
        };
        let secret = Some(webhook.secret).filter(|secret| !secret.is_empty());
        triggers::signature::verify(webhook.forge, headers, secret, webhook.body, self.world.now())
            .map_err(|error| WebhookRejected(error.to_string()))
    }
}
