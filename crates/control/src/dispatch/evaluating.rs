//! From what came in to what rules make of it.

use bailiwick_model::fleet::{
    AgentDispatchRun, AgentDispatchRunStatus, AgentTriggerExecution, AgentTriggerRule, AnyObject,
    DEFAULT_NAMESPACE, ExecutionDecision, Kind, Metadata, Moment, Object, Repository,
    WebhookDelivery,
};

use super::{ControlPlane, PlaneError, Turn};
use crate::ports::fleet::{
    Engine, FleetError, FleetStore, Forge, ForgeError, Selection, World, Write,
};
use crate::triggers::plan::{self, Planned};
use crate::triggers::{
    ActiveRun, Delivery, Intent, Lookup, RecentExecution, Seen, SourceEvent, evaluate, lookups,
    wire,
};

/// How many deliveries are taken at once.
const TAKEN: usize = 64;
/// How often a plan is made again when somebody else wrote meanwhile.
const TRIES: usize = 8;
/// How long a delivery waits for a forge that does not answer before it is judged by itself.
const PATIENCE: u64 = 10 * 60 * 1000;

/// What was done with events.
pub(super) struct Considered {
    /// The executions, by their names.
    pub(super) executions: Vec<(String, AgentTriggerExecution)>,
}

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Lets rules look at what came in, the oldest first.
    pub(super) async fn evaluate_deliveries(&self, turn: &mut Turn) {
        let waiting = Selection {
            limit: TAKEN,
            ..Selection::of(Kind::WebhookDelivery).field("evaluated", "false")
        };
        let page = match self.store.list(&waiting).await {
            Ok(page) => page,
            Err(error) => return turn.note("deliveries", Err(error.into())),
        };
        for object in page.objects {
            let name = object.metadata.name.clone();
            let result = match self.evaluate_delivery(&object).await {
                Err(error) if self.is_hopeless(&object, &error) => {
                    self.evaluated(&object, Vec::new(), Some(error.to_string())).await
                }
                other => other,
            };
            turn.note(&name, result);
        }
    }

    /// Whether a delivery has been tried for long enough: it would stand in the way of others for ever. It
    /// keeps its fault, and can be replayed.
    fn is_hopeless(&self, object: &AnyObject, error: &PlaneError) -> bool {
        let store = matches!(error, PlaneError::Store(_));
        let received = object.typed::<WebhookDelivery>().map(|one| one.spec.received_at);
        let late = received.map(|at| self.world.now() >= at.plus_millis(2 * PATIENCE));
        !store && late.unwrap_or(true)
    }

    async fn evaluate_delivery(&self, object: &AnyObject) -> Result<bool, PlaneError> {
        let delivery = object.typed::<WebhookDelivery>()?;
        let read = self.read(&delivery).await?;
        let (repository, mut events) = match read {
            Ok(read) => read,
            Err(fault) => return self.evaluated(object, Vec::new(), Some(fault)).await,
        };
        let now = self.world.now();
        let late = now.millis() >= delivery.spec.received_at.millis().saturating_add(PATIENCE);
        match self.learn(&repository, &mut events).await {
            Ok(()) => {}
            // It is asked again in the next turn; not for ever.
            Err(PlaneError::Forge(ForgeError::Unavailable(why))) if !late => {
                return Err(PlaneError::Forge(ForgeError::Unavailable(why)));
            }
            Err(PlaneError::Forge(_)) => {}
            Err(error) => return Err(error),
        }
        self.consider(&repository, &events, Intent::Deliver, None, Some(object)).await?;
        Ok(true)
    }

    /// The events of a delivery and its repository, or why it says nothing.
    pub(super) async fn read(
        &self,
        delivery: &Object<WebhookDelivery>,
    ) -> Result<Result<(Object<Repository>, Vec<SourceEvent>), String>, PlaneError> {
        let spec = &delivery.spec;
        let Some(repository) = self.typed::<Repository>(&spec.repository).await? else {
            return Ok(Err(format!("the repository `{}` is gone", spec.repository)));
        };
        let Some(payload) = self.store.blob(&spec.payload_digest).await? else {
            return Ok(Err("its bytes are not kept any more".to_owned()));
        };
        let delivery = Delivery {
            forge: spec.forge,
            id: &spec.delivery_id,
            event: &spec.event,
            repository: &repository.spec.full_name,
            name: delivery.name(),
            received_at: spec.received_at,
        };
        Ok(match wire::read(&delivery, &payload) {
            Ok(events) => Ok((repository, events)),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Notes that a delivery was looked at and nothing came of it.
    async fn evaluated(
        &self,
        object: &AnyObject,
        executions: Vec<String>,
        fault: Option<String>,
    ) -> Result<bool, PlaneError> {
        let write = seen(object, executions, fault)?;
        self.store.commit(vec![write], self.world.now()).await?;
        Ok(true)
    }

    /// Asks the forge and git for what was not sent.
    pub(super) async fn learn(
        &self,
        repository: &Object<Repository>,
        events: &mut [SourceEvent],
    ) -> Result<(), PlaneError> {
        let rules = self.rules().await?;
        for event in events {
            for lookup in lookups(event, &rules) {
                self.look_up(repository, event, lookup).await?;
            }
        }
        Ok(())
    }

    async fn look_up(
        &self,
        repository: &Object<Repository>,
        event: &mut SourceEvent,
        lookup: Lookup,
    ) -> Result<(), PlaneError> {
        match lookup {
            Lookup::PullRequest(number) => {
                let state = self.forge(repository).await?.pull_request(number).await?;
                event.learn_pull_request(&state);
            }
            Lookup::Branch(branch) => {
                let branch = branch.unwrap_or_else(|| repository.spec.default_branch.clone());
                if let Some(head) = self.forge(repository).await?.branch(&branch).await? {
                    event.learn_branch(&branch, &head);
                }
            }
            Lookup::Commit(reference) => {
                let found = self.world.commit(&repository.spec, &reference, None).await;
                event.sha = found.map_err(PlaneError::Other)?;
            }
            Lookup::ChangedPaths { base, head } => {
                event.changed_paths =
                    self.world.changed_paths(&repository.spec, &base, &head).await.ok();
            }
            Lookup::JobLog(job) => {
                let log = self.forge(repository).await?.job_log(&job, LONGEST_LOG).await;
                event.failure_log = log.ok();
            }
        }
        Ok(())
    }

    pub(super) async fn rules(&self) -> Result<Vec<Object<AgentTriggerRule>>, PlaneError> {
        let selection = Selection {
            namespace: Some(DEFAULT_NAMESPACE.to_owned()),
            ..Selection::of(Kind::AgentTriggerRule)
        };
        self.all_typed(selection).await
    }

    /// Lets rules judge events, and keeps all that comes of it at once.
    pub(super) async fn consider(
        &self,
        repository: &Object<Repository>,
        events: &[SourceEvent],
        intent: Intent,
        only: Option<&str>,
        delivery: Option<&AnyObject>,
    ) -> Result<Considered, PlaneError> {
        let mut tries = 0;
        loop {
            let made = self.planned(repository, events, intent, only, delivery).await?;
            let (writes, considered) = made;
            match self.store.commit(writes, self.world.now()).await {
                Ok(_) => return Ok(considered),
                Err(FleetError::Conflict { .. } | FleetError::AlreadyExists { .. })
                    if tries < TRIES =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn planned(
        &self,
        repository: &Object<Repository>,
        events: &[SourceEvent],
        intent: Intent,
        only: Option<&str>,
        delivery: Option<&AnyObject>,
    ) -> Result<(Vec<Write>, Considered), PlaneError> {
        let mut rules = self.rules().await?;
        rules.retain(|rule| only.is_none_or(|only| rule.name() == only));
        let now = self.world.now();
        let seen_now = self.seen(repository, events, &rules).await?;
        let plans = evaluate(events, &rules, &seen_now, intent, now);
        let inventory = self.inventory().await;
        let mut writes = Vec::new();
        let mut executions = Vec::new();
        for plan in plans {
            let rule = rules.iter().find(|rule| rule.name() == plan.execution.trigger_rule);
            let Some(rule) = rule else { continue };
            let (name, mut execution) = (plan.name.clone(), plan.execution.clone());
            self.cancels(&plan, &mut writes).await?;
            if let Some(draft) = &plan.run {
                let admitted =
                    self.admit_draft(&inventory, repository, rule, draft, events).await?;
                match admitted {
                    Ok(admitted) => {
                        execution.context_bundle_digest = Some(admitted.bundle.digest.clone());
                        execution.stack_digest = Some(admitted.snapshot.digest.clone());
                        if !admitted.approvals.is_empty() {
                            execution.decision = ExecutionDecision::WaitingForApproval;
                        }
                        let behind = draft.queue_behind.clone();
                        writes.extend(self.admitted_writes(&admitted, behind)?);
                    }
                    Err(refused) => {
                        execution.decision = ExecutionDecision::Rejected;
                        execution.dispatch_run = None;
                        let why = refused.reasons.iter().map(|why| {
                            format!("{}: {} ({})", why.code.as_str(), why.message, why.about)
                        });
                        execution.reason = why.collect::<Vec<_>>().join("; ");
                        let detail = serde_json::to_value(&refused).unwrap_or_default();
                        let subject = format!("AgentTriggerExecution/{}/{name}", plan.namespace);
                        writes.push(self.audit("AgentPermissionReviewDenied", subject, detail));
                    }
                }
            }
            let metadata =
                Metadata { namespace: plan.namespace.clone(), ..Metadata::named(name.as_str()) };
            let object = AnyObject::of(&Object::new(metadata, execution.clone()))?;
            writes.push(Write::Create(object));
            writes.push(counted(rule, &execution, now)?);
            executions.push((name, execution));
        }
        if let Some(delivery) = delivery {
            let names = executions.iter().map(|(name, _)| name.clone()).collect();
            writes.push(seen(delivery, names, None)?);
        }
        Ok((writes, Considered { executions }))
    }

    /// What has to be known before events can be judged.
    pub(super) async fn seen(
        &self,
        repository: &Object<Repository>,
        events: &[SourceEvent],
        rules: &[Object<AgentTriggerRule>],
    ) -> Result<Seen, PlaneError> {
        let interests = plan::interests(events, rules);
        let mut seen = Seen {
            repository_trust: repository.spec.trust_tier,
            default_branch: repository.spec.default_branch.clone(),
            ..Seen::default()
        };
        for name in interests.executions {
            if self.typed::<AgentTriggerExecution>(&name).await?.is_some() {
                seen.recorded.insert(name);
            }
        }
        for key in interests.dedupe_keys {
            let same = Selection::of(Kind::AgentTriggerExecution).field("dedupeKey", key);
            for execution in self.all_typed::<AgentTriggerExecution>(same).await? {
                seen.recent.push(RecentExecution {
                    name: execution.name().to_owned(),
                    dedupe_key: execution.spec.dedupe_key.clone(),
                    decision: execution.spec.decision,
                    at: execution.spec.at,
                    run: execution.spec.dispatch_run.clone(),
                });
            }
        }
        for group in interests.groups {
            let same = Selection::of(Kind::AgentDispatchRun).field("group", group.as_str());
            for run in self.all_typed::<AgentDispatchRun>(same).await? {
                if !run.status.phase.is_final() {
                    seen.active
                        .push(ActiveRun { name: run.name().to_owned(), group: group.clone() });
                }
            }
        }
        Ok(seen)
    }

    /// Marks the runs that a new one takes the place of.
    async fn cancels(&self, plan: &Planned, writes: &mut Vec<Write>) -> Result<(), PlaneError> {
        for name in &plan.cancel {
            let Some(mut run) = self.typed::<AgentDispatchRun>(name).await? else { continue };
            let status: &mut AgentDispatchRunStatus = &mut run.status;
            if status.phase.is_final() || status.cancel_requested.is_some() {
                continue;
            }
            status.cancel_requested = Some(format!("{} takes its place", plan.name));
            writes.push(Write::Status(AnyObject::of(&run)?));
        }
        Ok(())
    }
}

/// How much is read of a job's log.
const LONGEST_LOG: usize = 256 * 1024;

/// The delivery, as it was looked at.
fn seen(
    object: &AnyObject,
    executions: Vec<String>,
    fault: Option<String>,
) -> Result<Write, PlaneError> {
    let mut delivery = object.typed::<WebhookDelivery>()?;
    delivery.status.evaluated = true;
    delivery.status.executions = executions;
    delivery.status.fault = fault;
    Ok(Write::Status(AnyObject::of(&delivery)?))
}

/// The rule, with one execution more.
fn counted(
    rule: &Object<AgentTriggerRule>,
    execution: &AgentTriggerExecution,
    now: Moment,
) -> Result<Write, PlaneError> {
    let mut rule = rule.clone();
    let summary = &mut rule.status.execution_summary;
    let count = match execution.decision {
        ExecutionDecision::Created | ExecutionDecision::Materialized => &mut summary.created,
        ExecutionDecision::Coalesced => &mut summary.coalesced,
        ExecutionDecision::Deduplicated => &mut summary.deduplicated,
        ExecutionDecision::Rejected => &mut summary.rejected,
        ExecutionDecision::WaitingForApproval => &mut summary.waiting,
    };
    *count += 1;
    rule.status.last_triggered_at = Some(now);
    Ok(Write::Status(AnyObject::of(&rule)?))
}
