//! Evaluates deliveries and events against rules, and stores the executions and runs that result.

mod deliveries;
mod delivery_filter;
mod lookups;
mod ownership;

pub(super) use deliveries::wire_delivery;

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_resources::{
    AgentApproval, AgentDispatchRun, AgentDispatchRunStatus, AgentTriggerExecution,
    AgentTriggerRule, AnyObject, EventSource, ExecutionDecision, Kind, Metadata, Moment, Object,
    Reason, Repository, Schedule, WebhookDelivery,
};
use serde_json::json;

use super::audit_log::{Correlation, subject};
use super::forge_access::ForgeAccess;
use super::idempotency::CONTENT;
use super::objects::ObjectQueries as _;
use super::repository_controller::record_workflows;
use super::run_admission::{AdmissionContext, RunAdmission};
use super::run_queries::RunQueries as _;
use super::run_queue::agent_has_ended;
use super::summary::Task;
use super::{ReconcileError, ReconcileSummary};
use crate::admission::Inventory;
use crate::ports::{
    Clock, Commits, FleetError, ForgeError, Forges, ObjectStore, SecretStore, Selection,
    StackSources, Write,
};
use crate::triggers::dedupe::was_polled;
use crate::triggers::plan::{self, PlannedExecution};
use crate::triggers::schedule;
use crate::triggers::{
    ActiveRun, EventContext, Intent, RecentExecution, SourceEvent, evaluate, occurrences,
};
use deliveries::{evaluated_delivery, is_due, postponed_delivery};
use delivery_filter::repository_of;

/// How many deliveries one pass evaluates.
const BATCH_SIZE: usize = 128;
/// How many pages of waiting deliveries are searched for those that are due.
const MAX_PAGES: usize = 64;
/// How often a plan is repeated after a write conflict.
const MAX_CONFLICT_RETRIES: usize = 8;
/// How long a delivery waits for a log, and an event that was not sent by a forge for anything, before it is
/// evaluated without it.
const FORGE_TIMEOUT: u64 = 10 * 60 * 1000;

/// The result of evaluating events.
pub(super) struct EvaluationResult {
    /// The executions, by their names.
    pub(super) executions: Vec<(String, AgentTriggerExecution)>,
    /// Why some rules were not evaluated yet.
    postponed_because: Option<String>,
}

/// The result of one plan.
enum Outcome {
    /// It is stored, with its run unless that was refused.
    Persisted(Vec<Write>, Box<AgentTriggerExecution>),
    /// It waits for a forge that did not answer.
    Deferred(String),
}

/// Evaluates deliveries against trigger rules.
pub(super) struct TriggerController<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    admission: Arc<RunAdmission<S, W>>,
}

impl<S, W> TriggerController<S, W> {
    pub(super) fn new(
        store: Arc<S>,
        world: Arc<W>,
        forges: Arc<ForgeAccess<S, W>>,
        admission: Arc<RunAdmission<S, W>>,
    ) -> Self {
        Self { store, world, forges, admission }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources>
    TriggerController<S, W>
{
    /// Evaluates the deliveries that are due, the oldest first.
    pub(super) async fn evaluate_deliveries(self: &Arc<Self>, summary: &mut ReconcileSummary) {
        let mut waiting = Selection {
            limit: BATCH_SIZE,
            ..Selection::of(Kind::WebhookDelivery).field("evaluated", "false")
        };
        let mut room = BATCH_SIZE;
        for _ in 0..MAX_PAGES {
            let page = match self.store.list(&waiting).await {
                Ok(page) => page,
                Err(error) => return summary.record("deliveries", Err(error.into())),
            };
            let now = self.world.now();
            let due = page.objects.into_iter().filter(|object| is_due(object, now));
            let due = due
                .filter(|object| !summary.is_backing_off(Task::Delivery, &object.metadata.name))
                .filter(|object| !summary.is_running(Task::Delivery, repository_of(object)))
                .take(room);
            let due: Vec<AnyObject> = due.collect();
            room -= due.len();
            self.evaluate_all(&due, summary).await;
            waiting.after = match page.next {
                Some(next) if room > 0 => Some(next),
                Some(_) | None => return,
            };
        }
    }

    /// Evaluates a delivery, or postpones it if the forge does not answer, so that later ones need not wait.
    pub(super) async fn evaluate_or_postpone(
        &self,
        object: &AnyObject,
    ) -> Result<bool, ReconcileError> {
        let error = match self.evaluate_delivery(object).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if self.retries_exhausted(object, &error) {
            return self.evaluated(object, Vec::new(), Some(error.to_string())).await;
        }
        if error.is_waited_for() {
            let (now, why) = (self.world.now(), error.to_string());
            let postponed = postponed_delivery(object, Vec::new(), &why, now)?;
            self.store.commit(vec![postponed], now).await?;
        }
        Err(error)
    }

    /// Whether retries of a delivery are exhausted. It keeps its fault, and can be replayed.
    fn retries_exhausted(&self, object: &AnyObject, error: &ReconcileError) -> bool {
        // An unreadable secret stays unreadable; other errors of the store are temporary.
        let store = matches!(error, ReconcileError::Store(_)) && !error.is_secret_unreadable();
        // Waited for until it answers: what people did is never rejected because of the forge.
        if error.is_waited_for() {
            return false;
        }
        let received = object.typed::<WebhookDelivery>().map(|one| one.spec.received_at);
        let late = received.map(|at| self.world.now() >= at.plus_millis(2 * FORGE_TIMEOUT));
        !store && late.unwrap_or(true)
    }

    async fn evaluate_delivery(&self, object: &AnyObject) -> Result<bool, ReconcileError> {
        let delivery = object.typed::<WebhookDelivery>()?;
        let read = self.store.read_delivery(&delivery).await?;
        let (repository, mut events) = match read {
            Ok(read) => read,
            Err(unreadable) => {
                let fault = Some(unreadable.to_string());
                return self.evaluated(object, Vec::new(), fault).await;
            }
        };
        self.look_up_missing_until_late(&repository, &mut events, None).await?;
        record_workflows(self.store.as_ref(), self.world.now(), &repository, &events).await?;
        let groups = occurrences(events);
        let Some((last, others)) = groups.split_last() else { return Ok(true) };
        let mut delivery = delivery;
        for events in others {
            let evaluated =
                self.evaluate_events(&repository, events, Intent::Deliver, None, None).await?;
            let names = evaluated.executions.into_iter().map(|(name, _)| name);
            delivery.status.executions.extend(names);
        }
        let object = AnyObject::of(&delivery)?;
        self.evaluate_events(&repository, last, Intent::Deliver, None, Some(&object)).await?;
        Ok(true)
    }

    /// Marks a delivery as evaluated.
    async fn evaluated(
        &self,
        object: &AnyObject,
        executions: Vec<String>,
        fault: Option<String>,
    ) -> Result<bool, ReconcileError> {
        let write = evaluated_delivery(object, executions, fault)?;
        self.store.commit(vec![write], self.world.now()).await?;
        Ok(true)
    }

    /// Whether events are evaluated without waiting for the forge any longer. What people did waits until it answers,
    /// and a scheduled time until the next one, or as long as it is caught up.
    fn is_late(&self, events: &[SourceEvent], schedule: Option<&Schedule>) -> bool {
        let Some(event) = events.first() else { return true };
        let wait = match event.source {
            EventSource::Schedule => max_wait(schedule, event.at),
            EventSource::Manual => FORGE_TIMEOUT,
            EventSource::Ci
            | EventSource::IssueComment
            | EventSource::PrComment
            | EventSource::Label
            | EventSource::Push
            | EventSource::Tag
            | EventSource::RepositoryDispatch
            | EventSource::Webhook => return false,
        };
        self.world.now() >= event.at.plus_millis(wait)
    }

    /// Whether events are older than the time that is waited for a forge.
    fn is_timed_out(&self, events: &[SourceEvent]) -> bool {
        let now = self.world.now();
        events.first().is_none_or(|event| now >= event.at.plus_millis(FORGE_TIMEOUT))
    }

    /// Evaluates events against rules, and stores all results in one commit.
    pub(super) async fn evaluate_events(
        &self,
        repository: &Object<Repository>,
        events: &[SourceEvent],
        intent: Intent,
        only: Option<&str>,
        delivery: Option<&AnyObject>,
    ) -> Result<EvaluationResult, ReconcileError> {
        self.evaluate_events_with(repository, events, intent, only, delivery, &[]).await
    }

    /// The same, with further writes if there is a result: the audit line of the caller.
    pub(super) async fn evaluate_events_with(
        &self,
        repository: &Object<Repository>,
        events: &[SourceEvent],
        intent: Intent,
        only: Option<&str>,
        delivery: Option<&AnyObject>,
        asked: &[Write],
    ) -> Result<EvaluationResult, ReconcileError> {
        let mut tries = 0;
        loop {
            let made = self.plan_writes(repository, events, intent, only, delivery).await?;
            let (mut writes, evaluation) = made;
            if !evaluation.executions.is_empty() {
                writes.extend_from_slice(asked);
            }
            match self.store.commit(writes, self.world.now()).await {
                Ok(_) => {
                    return match (&evaluation.postponed_because, delivery) {
                        // Nothing else would evaluate it again.
                        (Some(why), None) => Err(ForgeError::Unavailable(why.clone()).into()),
                        (Some(_) | None, _) => Ok(evaluation),
                    };
                }
                Err(FleetError::Conflict { .. } | FleetError::AlreadyExists { .. })
                    if tries < MAX_CONFLICT_RETRIES =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn plan_writes(
        &self,
        repository: &Object<Repository>,
        events: &[SourceEvent],
        intent: Intent,
        only: Option<&str>,
        delivery: Option<&AnyObject>,
    ) -> Result<(Vec<Write>, EvaluationResult), ReconcileError> {
        let mut rules = self.store.rules().await?;
        rules.retain(|rule| only.is_none_or(|only| rule.name() == only));
        let polled = delivery.map(AnyObject::typed::<WebhookDelivery>).transpose()?;
        let happened = polled.and_then(|delivery| delivery.spec.happened_at);
        if let Some(happened) = happened.filter(|_| only.is_none()) {
            // An old event that is found late must not start what did not exist then. Forges count in seconds.
            let before = happened.plus_millis(1_000);
            rules.retain(|rule| rule.metadata.creation_timestamp.is_none_or(|made| made < before));
        }
        let now = self.world.now();
        let seen_now = self.event_context(repository, events, &rules).await?;
        let plans = evaluate(events, &rules, &seen_now, intent, now);
        // Most events start no run.
        let mut admission_context =
            AdmissionContext::new(match plans.iter().any(|plan| plan.run.is_some()) {
                true => self.store.inventory().await,
                false => Inventory::default(),
            });
        let mut writes = Vec::new();
        let mut executions = Vec::new();
        let (mut uncreated_runs, mut postponed_because) = (BTreeSet::new(), None);
        for plan in plans {
            let rule = rules.iter().find(|rule| rule.name() == plan.execution.trigger_rule);
            let Some(rule) = rule else { continue };
            let made = match missing_dependency(&plan, &uncreated_runs) {
                Some(run) => Outcome::Deferred(format!("{run}, which it stands on, was not made")),
                None => {
                    self.apply_plan(&mut admission_context, repository, rule, &plan, events).await?
                }
            };
            let run = plan.run.as_ref().map(|run| run.name.clone());
            match made {
                Outcome::Deferred(why) => {
                    uncreated_runs.extend(run);
                    postponed_because.get_or_insert(why);
                }
                Outcome::Persisted(more, execution) => {
                    uncreated_runs.extend(run.filter(|_| execution.dispatch_run.is_none()));
                    writes.extend(more);
                    writes.push(count_execution(rule, &execution, now)?);
                    executions.push((plan.name.clone(), *execution));
                }
            }
        }
        if let Some(delivery) = delivery {
            let names = executions.iter().map(|(name, _)| name.clone()).collect();
            writes.push(match &postponed_because {
                None => evaluated_delivery(delivery, names, None)?,
                Some(why) => postponed_delivery(delivery, names, why, now)?,
            });
        }
        Ok((writes, EvaluationResult { executions, postponed_because }))
    }

    /// The writes of a plan: its execution, and its run if that is admitted.
    async fn apply_plan(
        &self,
        admission_context: &mut AdmissionContext,
        repository: &Object<Repository>,
        rule: &Object<AgentTriggerRule>,
        plan: &PlannedExecution,
        events: &[SourceEvent],
    ) -> Result<Outcome, ReconcileError> {
        let now = self.world.now();
        let mut writes = Vec::new();
        let mut execution = plan.execution.clone();
        if let Some(draft) = &plan.run {
            match self
                .admission
                .admit_draft(admission_context, repository, rule, draft, events)
                .await
            {
                Ok(Ok(admitted)) => {
                    execution.context_bundle_digest = Some(admitted.bundle.digest.clone());
                    execution.stack_digest = Some(admitted.snapshot.digest.clone());
                    execution.approval_decision = Some(approval_summary(&admitted.approvals));
                    if !admitted.approvals.is_empty() {
                        execution.decision = ExecutionDecision::WaitingForApproval;
                    }
                    // Only an admitted run replaces others.
                    self.cancels(plan, &mut writes).await?;
                    let behind = draft.queue_behind.clone();
                    writes.extend(self.admission.admitted_writes(&admitted, behind)?);
                    let joined = Correlation::of_run(&admitted.run);
                    let detail = json!({ "stack": draft.spec.agent_stack, "rule": rule.name() });
                    let about = subject(&admitted.run);
                    writes.push(joined.line(now, "AgentDispatchQueued", about, detail));
                }
                Ok(Err(refused)) => {
                    let why = refused.reasons.iter().map(|why| {
                        format!("{}: {} ({})", why.code.as_str(), why.message, why.about)
                    });
                    reject(&mut execution, why.collect::<Vec<_>>().join("; "));
                    let detail = serde_json::to_value(&refused).unwrap_or_default();
                    let about = format!("AgentTriggerExecution/{}/{}", plan.namespace, plan.name);
                    let joined = Correlation::of_execution(&plan.name, &execution);
                    writes.push(joined.line(now, "AgentPermissionReviewDenied", about, detail));
                }
                Err(error)
                    if error.is_waited_for()
                        && self.is_late(events, rule.spec.schedule.as_ref()) =>
                {
                    let code = Reason::ArtifactFetchFailed.as_str();
                    reject(&mut execution, format!("{code}: nobody answered in time: {error}"));
                }
                Err(error) if error.is_waited_for() => {
                    return Ok(Outcome::Deferred(error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        let metadata =
            Metadata { namespace: plan.namespace.clone(), ..Metadata::named(plan.name.as_str()) };
        let mut object = Object::new(metadata, execution.clone());
        if let Some(content) = events.iter().find_map(|event| event.request_digest.clone()) {
            object.metadata.annotations.insert(CONTENT.to_owned(), content);
        }
        let joined = Correlation::of_execution(&plan.name, &execution);
        let detail = json!({ "decision": execution.decision, "reason": execution.reason });
        writes.push(joined.line(now, "AgentTriggerEvaluated", subject(&object), detail));
        writes.push(Write::Create(AnyObject::of(&object)?));
        Ok(Outcome::Persisted(writes, Box::new(execution)))
    }

    /// The stored state that the evaluation of events depends on.
    pub(super) async fn event_context(
        &self,
        repository: &Object<Repository>,
        events: &[SourceEvent],
        rules: &[Object<AgentTriggerRule>],
    ) -> Result<EventContext, ReconcileError> {
        let lookups = plan::required_lookups(events, rules);
        let mut seen = EventContext {
            repository_trust: repository.spec.trust_tier,
            default_branch: repository.spec.default_branch.clone(),
            own_accounts: repository.status.own_accounts.clone(),
            ..EventContext::default()
        };
        seen.own_work = self.own_work(&repository.spec, &seen.own_accounts, events).await?;
        for name in lookups.executions {
            if self.store.typed::<AgentTriggerExecution>(&name).await?.is_some() {
                seen.recorded.insert(name);
            }
        }
        let mut recent = Vec::new();
        for key in lookups.dedupe_keys {
            recent.extend(self.store.latest_of("dedupeKey", &key, 1).await?);
        }
        for uid in lookups.events {
            recent.extend(self.store.latest_of("event", &uid, MAX_EXECUTIONS).await?);
        }
        for failure in lookups.failures {
            recent.extend(self.store.latest_of("failure", &failure, MAX_EXECUTIONS).await?);
        }
        seen.recent = recent.into_iter().map(recorded).collect();
        for group in lookups.groups {
            for run in self.store.unfinished(&group).await? {
                seen.active.push(ActiveRun {
                    name: run.name().to_owned(),
                    group: group.clone(),
                    agent_has_ended: agent_has_ended(&run),
                });
            }
        }
        Ok(seen)
    }

    /// Requests the cancellation of the runs that a new one replaces.
    async fn cancels(
        &self,
        plan: &PlannedExecution,
        writes: &mut Vec<Write>,
    ) -> Result<(), ReconcileError> {
        for name in &plan.cancel {
            let Some(mut run) = self.store.typed::<AgentDispatchRun>(name).await? else { continue };
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

/// How many executions about one commit are searched for the same failure.
const MAX_EXECUTIONS: usize = 100;

fn recorded(execution: Object<AgentTriggerExecution>) -> RecentExecution {
    RecentExecution {
        name: execution.name().to_owned(),
        rule: format!("{}/{}", execution.metadata.namespace, execution.spec.trigger_rule),
        event_uid: execution.spec.event_uid.clone(),
        dedupe_key: execution.spec.dedupe_key.clone(),
        trust_tier: execution.spec.trust_tier,
        polled: was_polled(&execution.spec.event_uid),
        decision: execution.spec.decision,
        at: execution.spec.at,
        run: execution.spec.dispatch_run.clone(),
    }
}

/// The run that a plan depends on and that was not created.
fn missing_dependency<'a>(
    plan: &'a PlannedExecution,
    uncreated_runs: &BTreeSet<String>,
) -> Option<&'a String> {
    let joined = plan.execution.dispatch_run.as_ref().filter(|_| plan.run.is_none());
    let behind = plan.run.iter().flat_map(|run| &run.queue_behind);
    joined.into_iter().chain(behind).chain(&plan.cancel).find(|run| uncreated_runs.contains(*run))
}

fn reject(execution: &mut AgentTriggerExecution, why: String) {
    execution.decision = ExecutionDecision::Rejected;
    execution.dispatch_run = None;
    execution.reason = why;
}

/// The approvals that a run needs before its start, for people.
fn approval_summary(approvals: &[Object<AgentApproval>]) -> String {
    let each = approvals.iter().map(|one| {
        let reasons = one.spec.policy_reasons.iter().map(serialized_name);
        format!("{} ({})", reasons.collect::<Vec<_>>().join(", "), one.name())
    });
    let each: Vec<String> = each.collect();
    match each.is_empty() {
        true => "no approval was needed".to_owned(),
        false => format!("asked: {}", each.join("; ")),
    }
}

/// A value as resources spell it.
fn serialized_name(word: &impl serde::Serialize) -> String {
    let text = serde_json::to_value(word).ok();
    text.as_ref().and_then(|text| text.as_str()).unwrap_or_default().to_owned()
}

/// How long a scheduled time waits for its forge, in milliseconds.
fn max_wait(written: Option<&Schedule>, at: Moment) -> u64 {
    let compiled = written.and_then(|written| schedule::compile(written).ok());
    compiled.map_or(0, |compiled| compiled.max_wait(at)).max(FORGE_TIMEOUT)
}

/// The write that counts an execution in the rule's status.
fn count_execution(
    rule: &Object<AgentTriggerRule>,
    execution: &AgentTriggerExecution,
    now: Moment,
) -> Result<Write, ReconcileError> {
    let mut rule = rule.clone();
    let summary = &mut rule.status.execution_summary;
    let (count, came_of_it) = match execution.decision {
        ExecutionDecision::Created => (&mut summary.created, true),
        ExecutionDecision::Materialized => (&mut summary.materialized, true),
        ExecutionDecision::Coalesced => (&mut summary.coalesced, true),
        ExecutionDecision::Deduplicated => (&mut summary.deduplicated, false),
        ExecutionDecision::Rejected => (&mut summary.rejected, false),
        ExecutionDecision::WaitingForApproval => (&mut summary.waiting, true),
    };
    *count += 1;
    if came_of_it {
        rule.status.last_triggered_at = Some(now);
    }
    Ok(Write::Status(AnyObject::of(&rule)?))
}
