//! Polls the forge for what webhooks may not have brought: ended checks, comments, labels, pushes, tags, statuses.
//! Repositories that ask for it are polled at their intervals, and every one once after the start of the server, once
//! when its forge answers again, and once after a webhook was refused because it is too large.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{ForgeUse, Kind, Moment, Object, Repository, WebhookDelivery};
use serde_json::Value;

use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::repository_controller::conditions::has_forge;
use crate::controllers::repository_controller::missed_events::{MissedEvents, is_away};
use crate::controllers::repository_controller::{
    Problem, RECOVERY_INTERVAL, RepositoryController, record_use, update_conditions,
};
use crate::controllers::summary::Task;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::poll_cursor::PollCursor;
use crate::ports::{
    AccountProblem, CheckRun, Clock, Commits, FleetStore, Forge as _, ForgeError, Forges,
    IncomingDelivery, PolledEvent, Selection,
};
use crate::triggers::dedupe::POLLED;
use crate::triggers::delivery_name;

/// The event of a job, as in a webhook.
const JOB: &str = "workflow_job";
/// The event of a workflow run without jobs.
const RUN: &str = "workflow_run";
/// How far the clock of a forge may be behind ours, in milliseconds.
const CLOCK_DIFFERENCE: u64 = 5 * 60 * 1000;
/// The shortest interval between polls for refused webhooks, in milliseconds. They have no signature that was verified,
/// so anybody can send them.
const REFUSED_WEBHOOK_INTERVAL: u64 = 5 * 60 * 1000;

impl<S: FleetStore, W: Clock + Forges + Commits> RepositoryController<S, W> {
    /// Polls the forges of repositories that ask for it, at their intervals. A failure that a webhook has brought is
    /// a duplicate.
    pub(in crate::controllers) async fn poll_forges(
        self: &Arc<Self>,
        summary: &mut ReconcileSummary,
    ) {
        let all = match self.store.all_typed::<Repository>(Selection::of(Kind::Repository)).await {
            Ok(all) => all,
            Err(error) => return summary.record("repositories", Err(error)),
        };
        for repository in all {
            let name = repository.name().to_owned();
            if let Err(error) = self.notice_outage(&repository).await {
                summary.record(&name, Err(error));
                continue;
            }
            if !self.is_poll_due(&repository) {
                continue;
            }
            if summary.is_backing_off(Task::Poll, &name) {
                continue;
            }
            let this = Arc::clone(self);
            let work = Box::pin(async move { this.poll(repository).await });
            summary.run(&self.world, Task::Poll, &name, work).await;
        }
    }

    fn is_poll_due(&self, repository: &Object<Repository>) -> bool {
        let (name, is_away) = (repository.name(), is_away(repository));
        let has_passed = |millis: u64| {
            let last = repository.status.polled_at;
            last.is_none_or(|last| self.world.now() >= last.plus_millis(millis))
        };
        let is_webhook_refused = has_forge(&repository.spec)
            && PollCursor::of(&repository.status).refused.is_some()
            && has_passed(REFUSED_WEBHOOK_INTERVAL);
        if is_webhook_refused {
            return true;
        }
        if let Some(every) = repository.spec.poll_every {
            let has_recovered = !is_away && self.missed_events().has_recovered(name);
            return has_recovered || has_passed(every.millis());
        }
        has_forge(&repository.spec)
            && self.missed_events().is_possible(name)
            && (!is_away || has_passed(RECOVERY_INTERVAL))
    }

    /// Remembers the last event before a problem of a forge: later ones may reach us before the poll does.
    async fn notice_outage(&self, repository: &Object<Repository>) -> Result<(), ReconcileError> {
        if has_forge(&repository.spec) && self.missed_events().follow(repository) {
            self.missed_since(repository).await?;
        }
        Ok(())
    }

    /// From when events may be missed: a little before the last one that was known when this was noticed.
    async fn missed_since(
        &self,
        repository: &Object<Repository>,
    ) -> Result<Option<String>, ReconcileError> {
        let name = repository.name();
        let known = self.missed_events().since(name);
        if let Some(since) = known {
            return Ok(since);
        }
        let since = self.last_known_event(repository).await?;
        self.missed_events().remember(name, since.clone());
        Ok(since)
    }

    async fn poll(&self, repository: Object<Repository>) -> Result<bool, ReconcileError> {
        let now = self.world.now();
        let mut cursor = PollCursor::of(&repository.status);
        let refused = cursor.refused;
        if cursor.activity.is_none() || repository.spec.poll_every.is_none() {
            let since = self.missed_since(&repository).await?;
            cursor.start_from(since, repository.spec.poll_every.is_none());
        }
        let asked = self.ask(&repository, &cursor).await;
        // The status has changed meanwhile where the forge was slow.
        let Some(mut repository) = self.store.typed::<Repository>(repository.name()).await? else {
            return Ok(true);
        };
        // Also after an error the interval passes before the next poll.
        repository.status.polled_at = Some(now);
        let Polled { checks, checks_error, events, mut next } = match asked {
            Ok(answer) => answer,
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            Err(error) => {
                // That it did not answer was reported where it was noticed.
                if !error.is_waited_for() {
                    let problem = Some(Problem::of(&error));
                    record_use(&mut repository.status, ForgeUse::Asking, problem);
                    update_conditions(&mut repository, self.world.now());
                }
                return self.store.store_status(&repository, self.world.now()).await;
            }
        };
        for check in checks {
            let event = if check.payload.get(JOB).is_some() { JOB } else { RUN };
            let digest = Sha256Hex::of(check.payload.to_string());
            let id = format!("{}/{}/{}", check.id, check.sha, digest.prefix(16));
            self.store_polled(&repository, (id, event, check.ended_at), &check.payload, now)
                .await?;
        }
        // A list may show what happened before the repository was declared. Forges count in seconds.
        let declared = repository.metadata.creation_timestamp.unwrap_or_default();
        let events = events.into_iter().filter(|event| event.at.plus_millis(1_000) > declared);
        for PolledEvent { id, event, payload, at } in events {
            self.store_polled(&repository, (id, &event, Some(at)), &payload, now).await?;
        }
        self.missed_events().found(repository.name());
        next.refused = PollCursor::of(&repository.status).refused;
        next.forget_refused_webhooks(refused);
        next.store(&mut repository.status);
        record_use(&mut repository.status, ForgeUse::Asking, None);
        update_conditions(&mut repository, self.world.now());
        let is_stored = self.store.store_status(&repository, self.world.now()).await?;
        checks_error.map_or(Ok(is_stored), |error| Err(error.into()))
    }

    async fn ask(
        &self,
        repository: &Object<Repository>,
        cursor: &PollCursor,
    ) -> Result<Polled, ReconcileError> {
        let forge = self.forges.open(repository).await?;
        let since = cursor.checks.as_deref();
        let listed = forge.checks_since(since).await;
        let (checks, next_checks, checks_error) = match (repository.spec.poll_every, listed) {
            (_, Ok((checks, next))) => (checks, next, None),
            // A repository that did not ask for polling may have a forge or a token without this list.
            (
                None,
                Err(
                    ForgeError::Unsupported(_)
                    | ForgeError::Account(AccountProblem::RightMissing { .. }),
                ),
            ) => (Vec::new(), None, None),
            // A retry does not help: the other events are read nevertheless.
            (None, Err(error @ (ForgeError::Refused(_) | ForgeError::Moved { .. }))) => {
                (Vec::new(), None, Some(error))
            }
            (_, Err(error)) => return Err(error.into()),
        };
        let (events, activity) = forge.activity_since(cursor.activity.as_deref()).await?;
        let checks_cursor = next_checks.or_else(|| cursor.checks.clone());
        // A cursor leaves room for events that appear late, but not for those from before the declaration.
        let declared = repository.metadata.creation_timestamp.unwrap_or_default().to_string();
        let activity = activity.map(|next| next.max(declared));
        let activity = activity.or_else(|| cursor.activity.clone());
        let next = PollCursor { checks: checks_cursor, activity, refused: None };
        Ok(Polled { checks, checks_error, events, next })
    }

    /// A polled event is stored like a webhook before rules see it, so that it can be replayed and is stored once.
    async fn store_polled(
        &self,
        repository: &Object<Repository>,
        (id, event, happened_at): (String, &str, Option<Moment>),
        payload: &Value,
        now: Moment,
    ) -> Result<(), ReconcileError> {
        let delivery_id = format!("{POLLED}{id}");
        let name = delivery_name(&repository.spec.full_name, &delivery_id);
        let bytes = payload.to_string().into_bytes();
        let spec = WebhookDelivery {
            forge: repository.spec.forge,
            delivery_id,
            event: event.to_owned(),
            repository: repository.name().to_owned(),
            payload_digest: Sha256Hex::of(&bytes).to_string(),
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            received_at: now,
            happened_at,
            headers: BTreeMap::new(),
        };
        // The context of an event may have changed since it was stored: the first version stays.
        self.store.receive(IncomingDelivery { name, spec, payload: bytes }).await?;
        Ok(())
    }

    /// The time of the last delivery, or of a refused webhook before it, with room for clocks that differ; nothing if
    /// there was neither.
    async fn last_known_event(
        &self,
        repository: &Object<Repository>,
    ) -> Result<Option<String>, ReconcileError> {
        let newest = Selection {
            newest_first: true,
            limit: 1,
            ..Selection::of(Kind::WebhookDelivery).field("repository", repository.name())
        };
        let found = self.store.list(&newest).await?.objects;
        let received = match found.first() {
            Some(last) => Some(last.typed::<WebhookDelivery>()?.spec.received_at),
            None => None,
        };
        let refused = PollCursor::of(&repository.status).refused.map(|refused| refused.first);
        let Some(last) = received.into_iter().chain(refused).min() else { return Ok(None) };
        let since = Moment::from_millis(last.millis().saturating_sub(CLOCK_DIFFERENCE));
        // Events before the declaration of the repository are ignored.
        let declared = repository.metadata.creation_timestamp.unwrap_or_default();
        Ok(Some(since.max(declared).to_string()))
    }

    fn missed_events(&self) -> MutexGuard<'_, MissedEvents> {
        self.missed_events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a poll.
struct Polled {
    checks: Vec<CheckRun>,
    /// Why the list of checks cannot be read.
    checks_error: Option<ForgeError>,
    events: Vec<PolledEvent>,
    next: PollCursor,
}
