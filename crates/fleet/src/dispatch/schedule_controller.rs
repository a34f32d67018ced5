//! Fires rules on a schedule.

use bailiwick_resources::{
    AgentTriggerRule, AnyObject, EventSource, LifecycleState, Moment, Object,
};

use super::{ControlPlane, ReconcileError, Turn};
use crate::ports::{Engine, FleetStore, World, Write};
use crate::triggers::{Intent, schedule};

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Lets schedules fire whose time has come. A fire that was missed while nobody looked is caught up as
    /// far as its rule says; one that was recorded is not made again.
    pub(super) async fn fire_schedules(&self, turn: &mut Turn) {
        let rules = match self.rules().await {
            Ok(rules) => rules,
            Err(error) => return turn.note("rules", Err(error)),
        };
        for rule in rules {
            let on_time = rule.spec.sources.contains(&EventSource::Schedule)
                && rule.spec.lifecycle_state == LifecycleState::Active;
            if on_time && !turn.is_backing_off("schedule", rule.name()) {
                let name = rule.name().to_owned();
                let result = self.fire(rule).await;
                turn.tried("schedule", &name, result);
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
            let repository = self.repository(&written.repository).await?;
            let since = Moment::from_millis(next.millis().saturating_sub(1));
            for fire in compiled.due(since, now) {
                let mut events = [compiled.event(rule.name(), fire)];
                self.look_up_missing_until_late(&repository, &mut events).await?;
                let only = Some(rule.name());
                self.evaluate_events(&repository, &events, Intent::Deliver, only, None).await?;
            }
        }
        // What was considered has counted in the rule's status.
        let Some(mut rule) = self.typed::<AgentTriggerRule>(rule.name()).await? else {
            return Ok(true);
        };
        rule.status.next_fire_at = compiled.next_after(now);
        self.store.commit(vec![Write::Status(AnyObject::of(&rule)?)], now).await?;
        Ok(true)
    }
}
