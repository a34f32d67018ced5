//! What webhooks failed to bring: the forge is asked which checks have ended since.

use bailiwick_model::fleet::{Kind, Object, Repository};

use super::{ControlPlane, PlaneError, Turn};
use crate::ports::fleet::{Engine, FleetStore, Forge as _, Selection, World};
use crate::triggers::{Delivery, Intent, wire};

/// The event that a check is told as.
const EVENT: &str = "workflow_run";

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Asks the forges of repositories that want it, each as often as it says. What came by a webhook already
    /// has the same key, and is a duplicate.
    pub(super) async fn poll_forges(&self, turn: &mut Turn) {
        let all = match self.all_typed::<Repository>(Selection::of(Kind::Repository)).await {
            Ok(all) => all,
            Err(error) => return turn.note("repositories", Err(error)),
        };
        for repository in all {
            let Some(every) = repository.spec.poll_every else { continue };
            let last = repository.status.polled_at;
            if last.is_some_and(|last| self.world.now() < last.plus_millis(every.millis())) {
                continue;
            }
            let name = repository.name().to_owned();
            let result = self.poll(repository).await;
            turn.note(&name, result);
        }
    }

    async fn poll(&self, mut repository: Object<Repository>) -> Result<bool, PlaneError> {
        let now = self.world.now();
        let cursor = repository.status.poll_cursor.clone();
        let asked = self.forge(&repository).await?.checks_since(cursor.as_deref()).await;
        // However it went, it is not asked again before its time.
        repository.status.polled_at = Some(now);
        let (checks, next) = match asked {
            Ok(answer) => answer,
            Err(error) => {
                repository.status.fault = Some(error.to_string());
                return self.keep_status(&repository).await;
            }
        };
        let mut trouble = None;
        for check in checks {
            let id = format!("poll/{}/{}", check.id, check.sha);
            let delivery = Delivery {
                forge: repository.spec.forge,
                id: &id,
                event: EVENT,
                repository: &repository.spec.full_name,
                name: &id,
                received_at: now,
            };
            let bytes = check.payload.to_string();
            // What cannot be read is not there; the others are.
            let Ok(mut events) = wire::read(&delivery, bytes.as_bytes()) else { continue };
            let learnt = self.learn(&repository, &mut events).await;
            let done = match learnt {
                Ok(()) => self
                    .consider(&repository, &events, Intent::Deliver, None, None)
                    .await
                    .map(|_| ()),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                trouble.get_or_insert(error.to_string());
            }
        }
        // Whatever could not be considered is asked for again, at its time; the rest has its keys.
        if trouble.is_none() {
            repository.status.poll_cursor = next.or(cursor);
        }
        repository.status.fault = trouble;
        self.keep_status(&repository).await
    }
}
