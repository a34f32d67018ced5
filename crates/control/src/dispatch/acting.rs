//! What people ask of the control plane, by its API or the command line.

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use bailiwick_model::fleet::{
    AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AgentTriggerRule, AnyObject,
    AttemptReason, EventSource, LabelRef, Metadata, Object, Repository, RunPhase, SourceEventRef,
    TrustTier, WebhookDelivery,
};
use serde_json::{Value, json};

use super::admitting::{LAUNCH, Wish, attempt_name};
use super::following::EARLIER;
use super::{ControlPlane, PlaneError};
use crate::admission::admit::narrowed;
use crate::admission::review::{ReviewInput, Scope, Why};
use crate::admission::{Decision as Reviewed, Refused, Situation, collect, review, snapshot};
use crate::ports::fleet::{
    ActionError, ActionReason, AuditEntry, Caller, DecisionAnswer, DecisionRequest,
    DispatchRequest, Engine, ExecutionAnswer, Fleet, FleetStore, LifecycleAnswer, LifecycleRequest,
    MatcherResult, PermissionDecision, PermissionQuestion, PermissionReview, ReplayRequest,
    RuleSample, RuleTrial, RunAnswer, RunEvent, RunEvents, RunVerb, RunVerbRequest, Target,
    TokenScope, Unbelieved, Unverified, Verdict, WorkspaceAnswer, WorkspaceRequest, World, Write,
    WriteBackAnswer,
};
use crate::triggers::{self, Delivery, Intent, SignatureHeaders, SourceEvent, dry_run, wire};
use crate::write_back::{self, Actor, ActorKind, Answer, Decision};

impl From<PlaneError> for ActionError {
    fn from(error: PlaneError) -> Self {
        match error {
            PlaneError::Store(error) => Self::Store(error),
            other @ (PlaneError::Object(_)
            | PlaneError::Forge(_)
            | PlaneError::Engine(_)
            | PlaneError::Other(_)) => Self::Unavailable(other.to_string()),
        }
    }
}

fn conflict(code: &str, message: impl Into<String>) -> ActionError {
    ActionError::Conflict { code: code.to_owned(), message: message.into() }
}

fn audited(caller: &Caller, event: &str, subject: String, detail: Value) -> Write {
    let correlation = BTreeMap::from([("correlationId".to_owned(), caller.correlation.clone())]);
    let (at, actor) = (caller.at, caller.actor.clone());
    Write::Audit(AuditEntry { at, actor, event: event.to_owned(), subject, correlation, detail })
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

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    async fn named<R: bailiwick_model::fleet::Resource>(
        &self,
        target: &Target,
    ) -> Result<Object<R>, ActionError> {
        let found = self.store.get(R::KIND, &target.namespace, &target.name).await?;
        let found = found.ok_or_else(|| {
            ActionError::NotFound(format!("there is no {} `{}`", R::KIND, target.name))
        })?;
        Ok(found.typed::<R>().map_err(PlaneError::from)?)
    }

    /// The events of a sample: of a delivery that is kept, or of a payload that was made up.
    async fn sampled(
        &self,
        sample: &RuleSample,
        request: &str,
    ) -> Result<(Object<Repository>, Vec<SourceEvent>), ActionError> {
        if let Some(name) = &sample.delivery {
            let target = Target {
                namespace: bailiwick_model::fleet::DEFAULT_NAMESPACE.to_owned(),
                name: name.clone(),
            };
            let delivery = self.named::<WebhookDelivery>(&target).await?;
            return self.read(&delivery).await?.map_err(ActionError::Unavailable);
        }
        let name = sample.repository.clone().unwrap_or_default();
        let repository = match self.typed::<Repository>(&name).await? {
            Some(repository) => repository,
            None => self.repository(&name).await?,
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

    /// Another attempt of a run, in the place of the last one.
    async fn again(
        &self,
        caller: &Caller,
        mut run: Object<AgentDispatchRun>,
        reason: AttemptReason,
        request: &RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        if !run.status.phase.is_final() {
            let message = format!("{} has not ended; cancel it first", run.name());
            return Err(conflict("RunActive", message));
        }
        if !self.is_let_start(&run).await? {
            let message = format!("{} was not approved; ask for a new one", run.name());
            return Err(conflict("NotApproved", message));
        }
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        let Some(last) = self.typed::<AgentDispatchAttempt>(&last).await? else {
            return Err(conflict("NoAttempt", format!("{} has no attempt", run.name())));
        };
        let number = last.spec.number.saturating_add(1);
        let name = attempt_name(run.name(), number);
        let mut attempt = Object::new(
            Metadata {
                namespace: run.metadata.namespace.clone(),
                ..Metadata::named(name.as_str())
            },
            AgentDispatchAttempt {
                number,
                attempt_reason: reason,
                message: Some(request.message.clone()).filter(|text| !text.is_empty()),
                ..last.spec.clone()
            },
        );
        let launch = last.metadata.annotations.get(LAUNCH).cloned().unwrap_or_default();
        attempt.metadata.annotations.insert(LAUNCH.to_owned(), launch);
        let goes_on = match reason {
            AttemptReason::Resume | AttemptReason::Continuation => true,
            AttemptReason::Initial
            | AttemptReason::Retry
            | AttemptReason::Repair
            | AttemptReason::RerunAfterFix => false,
        };
        if goes_on {
            if last.status.agent_mux_session_id.is_none() {
                let message = "its conversation is not known; retry it instead";
                return Err(conflict("NotResumable", message));
            }
            attempt.status.agent_mux_run_id.clone_from(&last.status.agent_mux_run_id);
            let agent = super::launching::agent_of(&attempt);
            let known = self.engine.state(&agent).await.map_err(PlaneError::from)?;
            let earlier = known.map_or(0, |known| known.attempts);
            attempt.metadata.annotations.insert(EARLIER.to_owned(), earlier.to_string());
        }
        attempt.status.queue_entered_at = Some(caller.at);
        attempt.status.runtime_identity.clone_from(&last.status.runtime_identity);
        attempt.status.runner_identity.clone_from(&last.status.runner_identity);
        run.status.attempts.push(name.clone());
        run.status.phase = RunPhase::Queued;
        run.status.queue_entered_at = Some(caller.at);
        run.status.started_at = None;
        run.status.completed_at = None;
        run.status.terminal_reason = None;
        run.status.cancel_requested = None;
        run.status.write_backs.clear();
        let subject = format!("AgentDispatchRun/{}/{}", run.metadata.namespace, run.name());
        let detail = json!({ "attempt": name, "reason": request.reason });
        let writes = vec![
            Write::Create(AnyObject::of(&attempt).map_err(PlaneError::from)?),
            Write::Status(AnyObject::of(&run).map_err(PlaneError::from)?),
            audited(caller, "AgentDispatchQueued", subject, detail),
        ];
        self.store.commit(writes, caller.at).await?;
        Ok(RunAnswer {
            accepted: true,
            run: run.name().to_owned(),
            attempt: Some(name),
            phase: RunPhase::Queued,
        })
    }

    async fn cancel(
        &self,
        caller: &Caller,
        mut run: Object<AgentDispatchRun>,
        request: &RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        if run.status.phase.is_final() {
            return Err(conflict("RunEnded", format!("{} has ended", run.name())));
        }
        let why = match request.reason.as_str() {
            "" => format!("cancelled by {}", caller.actor),
            reason => format!("cancelled by {}: {reason}", caller.actor),
        };
        run.status.cancel_requested = Some(why.clone());
        let subject = format!("AgentDispatchRun/{}/{}", run.metadata.namespace, run.name());
        let writes = vec![
            Write::Status(AnyObject::of(&run).map_err(PlaneError::from)?),
            audited(caller, "AgentDispatchCancelRequested", subject, json!({ "reason": why })),
        ];
        self.store.commit(writes, caller.at).await?;
        let (phase, attempt) = (run.status.phase, run.status.attempts.last().cloned());
        Ok(RunAnswer { accepted: true, run: run.name().to_owned(), attempt, phase })
    }

    /// Admits a run that a person wants, and keeps it.
    async fn admit_person(
        &self,
        caller: &Caller,
        repository: &Object<Repository>,
        name: &str,
        spec: AgentDispatchRun,
        wish: Wish<'_>,
    ) -> Result<RunAnswer, ActionError> {
        if let Some(known) = self.typed::<AgentDispatchRun>(name).await? {
            // The same wish twice is the same run.
            let (phase, attempt) = (known.status.phase, known.status.attempts.last().cloned());
            return Ok(RunAnswer { accepted: true, run: name.to_owned(), attempt, phase });
        }
        let inventory = self.inventory().await;
        let narrower = wish.write_back_policy.clone();
        let admitted = self.admit_wish(&inventory, repository, name, &spec, wish).await?;
        let mut admitted = admitted.map_err(|refused| refusal(&refused))?;
        if let Some(narrower) = narrower {
            let policy = &mut admitted.run.spec.write_back_policy;
            *policy = narrowed(policy, &narrower);
        }
        let mut writes = self.admitted_writes(&admitted, Vec::new())?;
        let subject = format!("AgentDispatchRun/{}/{name}", repository.metadata.namespace);
        let detail = json!({ "stack": spec.agent_stack, "repository": spec.repository });
        writes.push(audited(caller, "AgentDispatchQueued", subject, detail));
        self.store.commit(writes, caller.at).await?;
        Ok(RunAnswer {
            accepted: true,
            run: name.to_owned(),
            attempt: Some(admitted.attempt.name().to_owned()),
            phase: admitted.run.status.phase,
        })
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
        let run = self.named::<AgentDispatchRun>(run).await?;
        let generation = run.metadata.generation;
        if request.expected_generation.is_some_and(|wanted| wanted != generation) {
            let message = format!("{} is of generation {generation}", run.name());
            return Err(conflict("StaleGeneration", message));
        }
        match verb {
            RunVerb::Cancel => self.cancel(caller, run, &request).await,
            RunVerb::Retry => self.again(caller, run, AttemptReason::Retry, &request).await,
            RunVerb::Resume => self.again(caller, run, AttemptReason::Resume, &request).await,
            RunVerb::Continue => {
                if request.message.is_empty() {
                    return Err(conflict("NothingToSay", "say what the agent is to do now"));
                }
                self.again(caller, run, AttemptReason::Continuation, &request).await
            }
            RunVerb::Fork => {
                let repository = self.repository(&run.spec.repository).await?;
                let seed = format!("fork of {}\n{}", run.name(), caller.correlation);
                let name = run_name(&seed);
                let task = match request.message.as_str() {
                    "" => run.spec.task.clone(),
                    message => message.to_owned(),
                };
                let spec = AgentDispatchRun {
                    source_event: SourceEventRef {
                        source: EventSource::Manual,
                        uid: caller.correlation.clone(),
                        actor: Some(caller.actor.clone()),
                    },
                    trigger_rule: None,
                    task: task.clone(),
                    concurrency_group: None,
                    ..run.spec.clone()
                };
                let mut wish = Wish::of_person(&caller.actor, task);
                wish.approval_policy = run.spec.approval_policy.clone();
                wish.write_back_policy = Some(run.spec.write_back_policy.clone());
                self.admit_person(caller, &repository, &name, spec, wish).await
            }
        }
    }

    async fn dispatch(
        &self,
        caller: &Caller,
        namespace: &str,
        request: DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        let target = Target { namespace: namespace.to_owned(), name: request.repository.clone() };
        let repository = match self.named::<Repository>(&target).await {
            Ok(repository) => repository,
            Err(ActionError::NotFound(_)) => self.repository(&request.repository).await?,
            Err(error) => return Err(error),
        };
        let default = format!("refs/heads/{}", repository.spec.default_branch);
        let reference = request.reference.clone().unwrap_or(default);
        let sha = request.sha.as_deref();
        let found = self.world.commit(&repository.spec, &reference, sha).await;
        let Some(sha) = found.map_err(ActionError::Unavailable)? else {
            return Err(ActionError::NotFound(format!("{reference} names no commit")));
        };
        // A ref that is not one of the repository's own branches or tags may be anybody's, and so may a
        // commit that is not where such a ref is now.
        let own = (reference.starts_with("refs/heads/") || reference.starts_with("refs/tags/"))
            && request.sha.is_none();
        let trust_tier = if own { repository.spec.trust_tier } else { TrustTier::Untrusted };
        let uid = request.request_id.clone().unwrap_or_else(|| caller.correlation.clone());
        let name = run_name(&format!("request of {}\n{uid}", caller.actor));
        let spec = AgentDispatchRun {
            repository: repository.spec.full_name.clone(),
            branch: reference.strip_prefix("refs/heads/").map(str::to_owned),
            reference,
            sha,
            source_event: SourceEventRef {
                source: EventSource::Manual,
                uid,
                actor: Some(caller.actor.clone()),
            },
            source_refs: request.source_refs.clone(),
            agent_stack: request.agent_stack.clone(),
            task_kind: request.task_kind.clone(),
            trigger_rule: None,
            task: request.task.clone(),
            context_bundle_ref: None,
            workspace_ref: None,
            runner_pool: request.runner_pool.clone().unwrap_or_default(),
            trust_tier,
            approval_policy: Default::default(),
            write_back_policy: Default::default(),
            parent_run: None,
            concurrency_group: None,
        };
        let mut wish = Wish::of_person(&caller.actor, request.task.clone());
        wish.runner_pool = request.runner_pool.clone();
        let label = |name: String| LabelRef { name, digest: None };
        wish.labels = request.context_labels.into_iter().map(label).collect();
        self.admit_person(caller, &repository, &name, spec, wish).await
    }

    async fn decide(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        let mut approval = self.named::<AgentApproval>(approval).await?;
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

    async fn try_rule(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        let rule = self.named::<AgentTriggerRule>(rule).await?;
        let (repository, mut events) = self.sampled(&sample, &caller.correlation).await?;
        self.learn(&repository, &mut events).await?;
        let meant = events.iter().find(|event| rule.spec.sources.contains(&event.source));
        let Some(event) = meant.or(events.first()) else {
            return Err(ActionError::Unavailable("the sample says nothing".to_owned()));
        };
        let seen = self.seen(&repository, &events, std::slice::from_ref(&rule)).await?;
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
        let reviewed = self.reviewed(&repository, &question, event.trust_tier).await.ok();
        let matchers = tried.matcher.fields.iter().map(|field| MatcherResult {
            field: format!("match.{}", field.field),
            holds: field.agreed,
            why: format!("wants {}, has {}", field.expected, field.found),
        });
        Ok(RuleTrial {
            matched: tried.source_agrees && tried.matcher.matched,
            matchers: matchers.collect(),
            decision: tried.decision.unwrap_or(bailiwick_model::fleet::ExecutionDecision::Rejected),
            reason: tried.reason.clone(),
            rendered_prompt: tried.prompt.as_ref().map(|prompt| prompt.text.clone()),
            context_bundle_plan: serde_json::to_value(&tried.context).unwrap_or_default(),
            permission_review: reviewed,
            dedupe_key: tried.dedupe_key.clone(),
            expected_actions: tried.expected_actions.clone(),
        })
    }

    async fn set_lifecycle(
        &self,
        caller: &Caller,
        rule: &Target,
        request: LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        let mut rule = self.named::<AgentTriggerRule>(rule).await?;
        let generation = rule.metadata.generation;
        if request.expected_generation.is_some_and(|wanted| wanted != generation) {
            let message = format!("{} is of generation {generation}", rule.name());
            return Err(conflict("StaleGeneration", message));
        }
        let verb = request.action;
        rule.spec.lifecycle_state = triggers::lifecycle::apply(rule.spec.lifecycle_state, verb)
            .map_err(|error| conflict("IllegalLifecycle", error.to_string()))?;
        let subject = format!("AgentTriggerRule/{}/{}", rule.metadata.namespace, rule.name());
        let detail = json!({ "verb": verb.as_str(), "reason": request.reason });
        let writes = vec![
            Write::Replace(AnyObject::of(&rule).map_err(PlaneError::from)?),
            audited(caller, "AgentTriggerLifecycleChanged", subject, detail),
        ];
        let applied = self.store.commit(writes, caller.at).await?;
        let generation =
            applied.objects.first().map_or(generation, |object| object.metadata.generation);
        let lifecycle_state = rule.spec.lifecycle_state;
        Ok(LifecycleAnswer { rule: rule.name().to_owned(), lifecycle_state, generation })
    }

    async fn replay_delivery(
        &self,
        caller: &Caller,
        rule: &Target,
        request: ReplayRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        let sample =
            RuleSample { delivery: Some(request.delivery.clone()), ..RuleSample::default() };
        self.looked_again(caller, rule, sample, Intent::Replay).await
    }

    async fn materialize(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.looked_again(caller, rule, sample, Intent::Materialize).await
    }

    async fn review_permissions(
        &self,
        _: &Caller,
        _: &str,
        question: PermissionQuestion,
    ) -> Result<PermissionReview, ActionError> {
        let repository = self.repository(&question.repository).await?;
        let tier = repository.spec.trust_tier;
        self.reviewed(&repository, &question, tier).await
    }

    async fn act_on_workspace(
        &self,
        _: &Caller,
        _: &str,
        _: Option<&str>,
        _: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        Err(ActionError::Unavailable("workspaces cannot be acted on by the API yet".to_owned()))
    }

    async fn capabilities(&self) -> Result<BTreeMap<String, Value>, ActionError> {
        Ok(self.world.capabilities().await)
    }

    async fn run_events(
        &self,
        run: &Target,
        after: u64,
        limit: usize,
    ) -> Result<RunEvents, ActionError> {
        let run = self.named::<AgentDispatchRun>(run).await?;
        let Some(agent) = &run.status.agent_mux_run_id else {
            return Ok(RunEvents { events: Vec::new(), ended: run.status.phase.is_final() });
        };
        let events = self.engine.events(agent, after, limit).await.map_err(PlaneError::from)?;
        let ended = run.status.phase.is_final() && events.len() < limit;
        let told = events.into_iter().map(|event| RunEvent {
            cursor: event.number,
            at: bailiwick_model::fleet::Moment::from_millis(event.at),
            kind: event.kind,
            body: event.body,
        });
        Ok(RunEvents { events: told.collect(), ended })
    }

    async fn wait_for_run_event(&self, _: &Target, _: u64, millis: u64) {
        self.world.sleep(millis.min(500)).await;
    }

    fn verify_webhook(&self, webhook: Unverified<'_>) -> Result<(), Unbelieved> {
        let header = |name: &str| webhook.headers.get(name).map(String::as_str);
        let headers = SignatureHeaders {
            hub_256: header("x-hub-signature-256"),
            gitea: header("x-gitea-signature").or(header("x-forgejo-signature")),
            bailiwick: header("x-bailiwick-signature"),
        };
        let secret = Some(webhook.secret).filter(|secret| !secret.is_empty());
        triggers::signature::verify(webhook.forge, headers, secret, webhook.body, self.world.now())
            .map_err(|error| Unbelieved(error.to_string()))
    }
}

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    async fn looked_again(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
        intent: Intent,
    ) -> Result<ExecutionAnswer, ActionError> {
        let rule = self.named::<AgentTriggerRule>(rule).await?;
        let (repository, events) = self.sampled(&sample, &caller.correlation).await?;
        let mut events: Vec<SourceEvent> =
            events.iter().map(|event| event.replayed(&caller.correlation)).collect();
        self.learn(&repository, &mut events).await?;
        let considered =
            self.consider(&repository, &events, intent, Some(rule.name()), None).await?;
        let Some((name, execution)) = considered.executions.into_iter().next() else {
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

    async fn reviewed(
        &self,
        repository: &Object<Repository>,
        question: &PermissionQuestion,
        tier: TrustTier,
    ) -> Result<PermissionReview, ActionError> {
        let inventory = self.inventory().await;
        let namespace = &repository.metadata.namespace;
        let frozen = snapshot(&inventory, namespace, &question.agent_stack, &[])
            .map_err(|error| ActionError::NotFound(error.to_string()))?;
        let default = format!("refs/heads/{}", repository.spec.default_branch);
        let situation = Situation {
            repository: repository.spec.full_name.clone(),
            reference: question.reference.clone().unwrap_or(default),
            trust_tier: tier.min(repository.spec.trust_tier),
            actor: question.actor.clone(),
            memberships: Vec::new(),
            source: question.source.unwrap_or(EventSource::Manual),
            workflow: None,
            job: None,
            task_kind: question.task_kind.clone().unwrap_or_default(),
        };
        let pool = question.runner_pool.as_ref().or(frozen.stack.spec.runner_pool.as_ref());
        let pool = match pool {
            Some(name) => inventory.get(namespace, name).here(),
            None => None,
        };
        let reviewed = review(&ReviewInput {
            frozen: &frozen,
            requirements: &collect(&frozen),
            inventory: &inventory,
            scope: Scope::Here(&situation),
            pool: pool.as_ref(),
            approval_policy: &Default::default(),
            now: self.world.now(),
        });
        let reason = |why: &Why| ActionReason {
            code: why.code.as_str().to_owned(),
            field: why.about.clone(),
            message: why.message.clone(),
        };
        let asked = reviewed.approval_requirements.iter();
        Ok(PermissionReview {
            decision: match reviewed.decision {
                Reviewed::Allowed => PermissionDecision::Allowed,
                Reviewed::RequiresApproval => PermissionDecision::RequiresApproval,
                Reviewed::Denied => PermissionDecision::Denied,
            },
            runtime_identity: reviewed.runtime_identity.clone(),
            runner_identity: reviewed.runner_identity.clone(),
            required_roles: reviewed.required_roles.iter().map(|role| role.role.clone()).collect(),
            required_secrets: keys(
                reviewed
                    .required_secrets
                    .iter()
                    .map(|one| (one.need.name.as_str(), one.need.key.as_str())),
            ),
            required_configs: keys(
                reviewed
                    .required_configs
                    .iter()
                    .map(|one| (one.need.name.as_str(), one.need.key.as_str())),
            ),
            missing_grants: reviewed.missing_grants.clone(),
            approval_requirements: asked.map(|one| format!("{one:?}")).collect(),
            yaml_preview: reviewed.yaml_preview.clone(),
            reasons: reviewed.reasons.iter().map(reason).collect(),
            snapshot_digest: reviewed.digest().to_string(),
        })
    }
}

/// Keys by what has them.
fn keys<'a>(
    needs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<bailiwick_model::fleet::KeysRef> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, key) in needs {
        all.entry(name.to_owned()).or_default().push(key.to_owned());
    }
    let reference = |(name, keys)| bailiwick_model::fleet::KeysRef { name, namespace: None, keys };
    all.into_iter().map(reference).collect()
}

/// The name of a run that a person wishes for: the same for the same wish.
fn run_name(seed: &str) -> String {
    format!("adr-{}", Sha256Hex::of(seed).prefix(26))
}

impl Wish<'_> {
    /// A person's own.
    fn of_person(actor: &str, task: String) -> Self {
        Self {
            rule: None,
            labels: Vec::new(),
            trigger: None,
            task: Some((actor.to_owned(), task)),
            workflow: None,
            job: None,
            approval_policy: Default::default(),
            write_back_policy: None,
            runner_pool: None,
        }
    }
}
