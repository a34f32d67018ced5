//! The actions that people request, by the API or the command line.
//!
//! ```text
//! runs   events   checks   rules   approvals   permissions   workspaces      one file for each
//! ```

mod approvals;
mod checks;
mod context_refresh;
mod events;
mod permissions;
mod reruns;
mod rules;
mod runs;
mod workspaces;

pub use approvals::QuestionOwner;

use std::collections::BTreeMap;
use std::sync::Arc;

use approvals::ApprovalApi;
use bailiwick_resources::DEFAULT_NAMESPACE;
use checks::CheckApi;
use events::EventApi;
use permissions::reviewed;
use rules::RuleApi;
use runs::RunApi;
use serde_json::Value;
use workspaces::WorkspaceApi;

use super::ReconcileError;
use super::forge_access::ForgeAccess;
use super::objects::ObjectQueries as _;
use super::run_admission::RunAdmission;
use super::sessions::SessionRecorder;
use super::trigger_controller::TriggerController;
use super::workspace_controller::WorkspaceController;
use crate::admission::Refused;
use crate::ports::{
    ActionError, ActionReason, ApprovalPreview, Caller, ChecksAnswer, DecisionAnswer,
    DecisionRequest, DispatchRequest, Engine, ExecutionAnswer, FireRequest, Fleet, FleetError,
    FleetStore, LifecycleAnswer, LifecycleRequest, PermissionQuestion, PermissionReview,
    ReplayRequest, RuleSample, RuleTrial, RunAnswer, RunEvents, RunVerb, RunVerbRequest, Target,
    Unverified, WebhookRejected, WorkspaceAnswer, WorkspaceRequest, World,
};
use crate::resources::namespaces::elsewhere;
use crate::triggers::{self, Intent, SignatureHeaders};

/// How often an action is repeated after a write conflict.
const MAX_CONFLICT_RETRIES: usize = 16;

impl From<ReconcileError> for ActionError {
    fn from(error: ReconcileError) -> Self {
        if let ReconcileError::Store(error) = error {
            return Self::Store(error);
        }
        Self::Unavailable(error.to_string())
    }
}

/// Repeats an action after a write conflict. The caller has not seen the old state, so the new one decides.
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

/// Refuses a namespace that no controller watches.
fn require_here(namespace: &str) -> Result<(), ActionError> {
    match namespace {
        DEFAULT_NAMESPACE => Ok(()),
        other => Err(ActionError::Invalid(vec![elsewhere("namespace", other)])),
    }
}

/// The actions that people and programs request.
pub struct Api<S, E, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    runs: RunApi<S, E, W>,
    events: EventApi<S, E>,
    checks: CheckApi<S, W>,
    rules: RuleApi<S, W>,
    approvals: ApprovalApi<S, W>,
    workspaces: WorkspaceApi<S, E, W>,
}

impl<S: FleetStore, E: Engine, W: World> Api<S, E, W> {
    pub(super) fn new(
        (store, engine, world): (Arc<S>, Arc<E>, Arc<W>),
        forges: &Arc<ForgeAccess<S, W>>,
        admission: &Arc<RunAdmission<S, W>>,
        sessions: &Arc<SessionRecorder<S, W>>,
        triggers: &Arc<TriggerController<S, W>>,
        workspaces: &Arc<WorkspaceController<S, E, W>>,
    ) -> Self {
        let s = || Arc::clone(&store);
        Self {
            runs: RunApi::new(
                s(),
                Arc::clone(&engine),
                Arc::clone(forges),
                Arc::clone(admission),
                Arc::clone(sessions),
            ),
            events: EventApi::new(s(), engine),
            checks: CheckApi::new(s(), Arc::clone(forges)),
            rules: RuleApi::new(s(), Arc::clone(&world), Arc::clone(forges), Arc::clone(triggers)),
            approvals: ApprovalApi::new(s(), Arc::clone(forges)),
            workspaces: WorkspaceApi::new(
                s(),
                Arc::clone(&world),
                Arc::clone(forges),
                Arc::clone(workspaces),
            ),
            store,
            world,
            forges: Arc::clone(forges),
        }
    }

    /// Who answers a question of the first of these agents; the others are its ancestors. Questions of agents that
    /// the control plane started are answered through it alone: once, by a person, with a line in the audit log.
    pub async fn question_owner(
        &self,
        line: &[&str],
        question: &str,
    ) -> Result<QuestionOwner, ActionError> {
        self.approvals.question_owner(line, question).await
    }
}

impl<S: FleetStore, E: Engine, W: World> Fleet for Api<S, E, W> {
    async fn act_on_run(
        &self,
        caller: &Caller,
        run: &Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        settled(|| self.runs.act_on_named_run(caller, run, verb, &request)).await
    }

    async fn dispatch(
        &self,
        caller: &Caller,
        namespace: &str,
        request: DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        require_here(namespace)?;
        settled(|| self.runs.request_run(caller, namespace, &request)).await
    }

    async fn decide(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        settled(|| Box::pin(self.approvals.record_answer(caller, approval, &request))).await
    }

    async fn preview_approval(&self, approval: &Target) -> Result<ApprovalPreview, ActionError> {
        self.approvals.preview(approval).await
    }

    async fn try_rule(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        self.rules.trial(caller, rule, sample).await
    }

    async fn set_lifecycle(
        &self,
        caller: &Caller,
        rule: &Target,
        request: LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        settled(|| self.rules.change_lifecycle(caller, rule, &request)).await
    }

    async fn replay_delivery(
        &self,
        caller: &Caller,
        rule: &Target,
        request: ReplayRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        let sample =
            RuleSample { delivery: Some(request.delivery.clone()), ..RuleSample::default() };
        self.rules.looked_again(caller, rule, sample, (Intent::Replay, &request.reason)).await
    }

    async fn fire(
        &self,
        caller: &Caller,
        rule: &Target,
        request: FireRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.rules.fire_rule(caller, rule, request).await
    }

    async fn materialize(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<ExecutionAnswer, ActionError> {
        let reason = sample.reason.clone();
        self.rules.looked_again(caller, rule, sample, (Intent::Materialize, &reason)).await
    }

    async fn review_permissions(
        &self,
        _: &Caller,
        _: &str,
        question: PermissionQuestion,
    ) -> Result<PermissionReview, ActionError> {
        let repository = self.store.repository(&question.repository).await?;
        let tier = repository.spec.trust_tier;
        let policy = Default::default();
        let (store, now) = (self.store.as_ref(), self.world.now());
        let forges = &self.forges;
        reviewed(store, forges, now, &repository, &question, tier, (&[], &policy)).await
    }

    async fn act_on_workspace(
        &self,
        caller: &Caller,
        namespace: &str,
        workspace: Option<&str>,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        require_here(namespace)?;
        self.workspaces.act_on_named_workspace(caller, namespace, workspace, request).await
    }

    async fn checks(&self, repository: &Target, sha: &str) -> Result<ChecksAnswer, ActionError> {
        self.checks.checks_of(repository, sha).await
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
        self.events.events_after(run, attempt, (after, limit)).await
    }

    async fn wait_for_run_event(&self, _: &Target, _: u64, millis: u64) {
        self.events.wait_for_event(self.world.sleep(millis.min(500))).await;
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
