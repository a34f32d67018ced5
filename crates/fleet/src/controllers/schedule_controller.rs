//! Fires rules on a schedule.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_resources::{
    AgentTriggerRule, AnyObject, EventSource, LifecycleState, Moment, Object, Repository,
};

use super::objects::ObjectQueries as _;
use super::summary::Task;
use super::trigger_controller::TriggerController;
use super::{ReconcileError, ReconcileSummary};
use crate::ports::{Clock, Commits, Forges, ObjectStore, SecretStore, StackSources, Write};
use crate::triggers::schedule::Fire;
use crate::triggers::{Intent, SourceEvent, schedule};

/// Fires trigger rules on their schedules.
pub(super) struct ScheduleController<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    triggers: Arc<TriggerController<S, W>>,
    /// The times of each rule that wait for a forge: they are evaluated however old they are.
    waiting: Mutex<BTreeMap<String, VecDeque<Fire>>>,
}

impl<S, W> ScheduleController<S, W> {
    pub(super) fn new(
        store: Arc<S>,
        world: Arc<W>,
        triggers: Arc<TriggerController<S, W>>,
    ) -> Self {
        Self { store, world, triggers, waiting: Mutex::default() }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources>
    ScheduleController<S, W>
{
    /// Fires due schedules. Missed times are caught up as the rule requires; recorded ones are not repeated.
    pub(super) async fn fire_schedules(self: &Arc<Self>, summary: &mut ReconcileSummary) {
        let rules = match self.store.rules().await {
            Ok(rules) => rules,
            Err(error) => return summary.record("rules", Err(error)),
        };
        for rule in rules {
            let on_time = rule.spec.sources.contains(&EventSource::Schedule)
                && rule.spec.lifecycle_state == LifecycleState::Active;
            if on_time && !summary.is_backing_off(Task::Schedule, rule.name()) {
                let name = rule.name().to_owned();
                let this = Arc::clone(self);
                let work = Box::pin(async move { this.fire(rule).await });
                summary.run(&self.world, Task::Schedule, &name, work).await;
            }
        }
    }

    async fn fire(&self, rule: Object<AgentTriggerRule>) -> Result<bool, ReconcileError> {
        let Some(written) = &rule.spec.schedule else { return Ok(false) };
        let compiled = schedule::compile(written)?;
        let now = self.world.now();
        let next = rule.status.next_fire_at;
        if next.is_some_and(|next| now < next) {
            return Ok(false);
        }
        if let Some(next) = next {
            let repository = self.store.repository(&written.repository).await?;
            let since = Moment::from_millis(next.millis().saturating_sub(1));
            let mut fires = self.take_waiting(rule.name());
            fires.retain(|fire| fire.at > since);
            let due = compiled.due(fires.back().map_or(since, |last| last.at), now);
            fires.extend(due);
            while let Some(fire) = fires.front().copied() {
                let event = compiled.event(rule.name(), fire);
                if let Err(error) = self.fire_once(&rule, &repository, event).await {
                    self.keep_waiting(rule.name(), fires);
                    return Err(error);
                }
                fires.pop_front();
            }
        }
        // The evaluation has changed the rule's status.
        let Some(mut rule) = self.store.typed::<AgentTriggerRule>(rule.name()).await? else {
            return Ok(true);
        };
        rule.status.next_fire_at = compiled.next_after(now);
        self.store.commit(vec![Write::Status(AnyObject::of(&rule)?)], now).await?;
        Ok(true)
    }

    async fn fire_once(
        &self,
        rule: &Object<AgentTriggerRule>,
        repository: &Object<Repository>,
        event: SourceEvent,
    ) -> Result<(), ReconcileError> {
        let mut events = [event];
        let written = rule.spec.schedule.as_ref();
        self.triggers.look_up_missing_until_late(repository, &mut events, written).await?;
        let only = Some(rule.name());
        self.triggers.evaluate_events(repository, &events, Intent::Deliver, only, None).await?;
        Ok(())
    }

    fn take_waiting(&self, rule: &str) -> VecDeque<Fire> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(rule).unwrap_or_default()
    }

    fn keep_waiting(&self, rule: &str, fires: VecDeque<Fire>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(rule.to_owned(), fires);
    }
}
