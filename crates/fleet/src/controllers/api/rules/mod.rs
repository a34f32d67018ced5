//! Rules that people try, pause and replay.

mod fire;

use std::sync::Arc;

use bailiwick_resources::{AgentTriggerRule, AnyObject, Object, Repository, WebhookDelivery};
use serde_json::json;

use super::conflict;
use super::permissions::reviewed;
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::run_queries::RunQueries as _;
use crate::controllers::trigger_controller::TriggerController;
use crate::ports::{
    ActionError, Caller, Clock, Commits, ExecutionAnswer, Forges, LifecycleAnswer,
    LifecycleRequest, MatcherResult, ObjectStore, PermissionQuestion, RuleSample, RuleTrial,
    SecretStore, StackSources, Target, Write,
};
use crate::triggers::{self, Delivery, Intent, SourceEvent, dry_run, occurrences, wire};

/// Trigger rules that people test, change, replay and fire.
pub(super) struct RuleApi<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    triggers: Arc<TriggerController<S, W>>,
}

impl<S, W> RuleApi<S, W> {
    pub(super) fn new(
        store: Arc<S>,
        world: Arc<W>,
        forges: Arc<ForgeAccess<S, W>>,
        triggers: Arc<TriggerController<S, W>>,
    ) -> Self {
        Self { store, world, forges, triggers }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources> RuleApi<S, W> {
    pub(super) async fn trial(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        let rule = self.store.named::<AgentTriggerRule>(rule).await?;
        let (repository, mut events) = self.sampled(&sample, &caller.request).await?;
        self.triggers.look_up_missing(&repository, &mut events).await?;
        let events = occurrences(events).into_iter().next().unwrap_or_default();
        let meant = events.iter().find(|event| rule.spec.sources.contains(&event.source));
        let Some(event) = meant.or(events.first()) else {
            return Err(ActionError::Unavailable("the sample says nothing".to_owned()));
        };
        let seen =
            self.triggers.event_context(&repository, &events, std::slice::from_ref(&rule)).await?;
        let tried = dry_run(event, &rule, &seen, self.world.now());
        let question = PermissionQuestion {
            agent_stack: rule.spec.agent_stack.clone(),
            repository: repository.spec.full_name.clone(),
            reference: Some(event.full_reference(&repository.spec.default_branch)),
            source: Some(event.source),
            task_kind: Some(rule.spec.task_kind.clone()),
            runner_pool: rule.spec.runner_pool.clone(),
            actor: event.actor.clone(),
        };
        let reviewed = {
            let (labels, policy) = (&rule.spec.context_labels, &rule.spec.approval_policy);
            let tier = event.trust_tier;
            reviewed(
                self.store.as_ref(),
                &self.forges,
                self.world.now(),
                &repository,
                &question,
                tier,
                (labels, policy),
            )
            .await
            .ok()
        };
        let matchers = tried.matcher.fields.iter().map(|field| MatcherResult {
            field: format!("match.{}", field.field),
            holds: field.agreed,
            why: format!("wants {}, has {}", field.expected, field.found),
        });
        Ok(RuleTrial {
            matched: tried.source_agrees && tried.matcher.matched,
            matchers: matchers.collect(),
            decision: tried.decision.unwrap_or(bailiwick_resources::ExecutionDecision::Rejected),
            reason: tried.reason.clone(),
            rendered_prompt: tried.prompt.as_ref().map(|prompt| prompt.text.clone()),
            context_bundle_plan: serde_json::to_value(&tried.context).unwrap_or_default(),
            permission_review: reviewed,
            trust_tier: tried.trust_tier,
            distrust: tried.distrust.clone(),
            lifecycle: tried.lifecycle.clone(),
            matcher_faults: tried.matcher_faults.clone(),
            prompt_fault: tried.prompt_fault.clone(),
            dedupe_key: tried.dedupe_key.clone(),
            dedupe_fault: tried.dedupe_fault.clone(),
            duplicate_of: tried.duplicate_of.clone(),
            concurrency_group: tried.concurrency_group.clone(),
            concurrency: serde_json::to_value(&tried.concurrency).unwrap_or_default(),
            expected_actions: tried.expected_actions.clone(),
        })
    }

    pub(super) async fn change_lifecycle(
        &self,
        caller: &Caller,
        rule: &Target,
        request: &LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        let mut rule = self.store.named::<AgentTriggerRule>(rule).await?;
        let generation = rule.metadata.generation;
        if request.expected_generation.is_some_and(|wanted| wanted != generation) {
            let message = format!("{} is of generation {generation}", rule.name());
            return Err(conflict("StaleGeneration", message));
        }
        let verb = request.action;
        rule.spec.lifecycle_state = triggers::lifecycle::apply(rule.spec.lifecycle_state, verb)
            .map_err(|error| conflict("IllegalLifecycle", error.to_string()))?;
        let detail = json!({ "verb": verb.as_str(), "reason": request.reason });
        let joined = Correlation::default().with("rule", Some(rule.name()));
        let writes = vec![
            Write::Replace(AnyObject::of(&rule).map_err(ReconcileError::from)?),
            joined.line_of(caller, "AgentTriggerLifecycleChanged", subject(&rule), detail),
        ];
        let applied = self.store.commit(writes, caller.at).await?;
        let generation =
            applied.objects.first().map_or(generation, |object| object.metadata.generation);
        let lifecycle_state = rule.spec.lifecycle_state;
        Ok(LifecycleAnswer { rule: rule.name().to_owned(), lifecycle_state, generation })
    }

    pub(super) async fn looked_again(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
        (intent, reason): (Intent, &str),
    ) -> Result<ExecutionAnswer, ActionError> {
        let rule = self.store.named::<AgentTriggerRule>(rule).await?;
        let (repository, events) = self.sampled(&sample, &caller.request).await?;
        let mut events: Vec<SourceEvent> =
            events.iter().map(|event| event.replayed(&caller.request, &caller.actor)).collect();
        self.triggers.look_up_missing(&repository, &mut events).await?;
        let events = occurrences(events).into_iter().next().unwrap_or_default();
        let event = match intent {
            Intent::Materialize => "AgentTriggerMaterialized",
            Intent::Deliver | Intent::Replay => "AgentTriggerReplayed",
        };
        let joined = Correlation::default()
            .with("rule", Some(rule.name()))
            .with("delivery", sample.delivery.as_deref());
        let detail = json!({ "repository": repository.spec.full_name, "reason": reason });
        let line = joined.line_of(caller, event, subject(&rule), detail);
        let only = Some(rule.name());
        let evaluation = self
            .triggers
            .evaluate_events_with(&repository, &events, intent, only, None, &[line])
            .await?;
        let Some((name, execution)) = evaluation.executions.into_iter().next() else {
            let message = format!("the rule `{}` does not mean this event", rule.name());
            return Err(conflict("NotMatched", message));
        };
        Ok(ExecutionAnswer {
            accepted: true,
            execution: name,
            decision: execution.decision,
            reason: execution.reason,
            run: execution.dispatch_run,
            work_item: execution.source_refs.work_item,
        })
    }

    /// The events of a sample: a stored delivery, or a given payload.
    async fn sampled(
        &self,
        sample: &RuleSample,
        request: &str,
    ) -> Result<(Object<Repository>, Vec<SourceEvent>), ActionError> {
        if let Some(name) = &sample.delivery {
            let target = Target {
                namespace: bailiwick_resources::DEFAULT_NAMESPACE.to_owned(),
                name: name.clone(),
            };
            let delivery = self.store.named::<WebhookDelivery>(&target).await?;
            let read = self.store.read_delivery(&delivery).await?;
            return read.map_err(|error| ActionError::Unavailable(error.to_string()));
        }
        let name = sample.repository.clone().unwrap_or_default();
        let repository = match self.store.typed::<Repository>(&name).await? {
            Some(repository) => repository,
            None => self.store.repository(&name).await?,
        };
        let delivery = Delivery {
            forge: sample.forge.unwrap_or(repository.spec.forge),
            id: request,
            event: sample.event.as_deref().unwrap_or_default(),
            repository: &repository.spec.full_name,
            name: request,
            received_at: self.world.now(),
        };
        let bytes = sample.payload.to_string();
        let events = wire::read(&delivery, bytes.as_bytes())
            .map_err(|error| ActionError::Unavailable(error.to_string()))?;
        Ok((repository, events))
    }
}
