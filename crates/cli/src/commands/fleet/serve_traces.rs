//! Sends a trace of each run that has ended to a collector. It runs beside the controllers, which never wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_client::TraceCollector;
use bailiwick_engine::fleet::LocalPlane;
use bailiwick_fleet::ports::{Fleet as _, FleetError, FleetStore, Selection, Target};
use bailiwick_fleet::traces::EndedRun;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Moment, Object, WebhookDelivery,
};

const INTERVAL: Duration = Duration::from_secs(2);
/// How long it waits after the collector did not answer; twice as long each time.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// How many of the newest runs are looked at in each turn.
const NEWEST_RUNS: usize = 200;
/// How many events of a run are looked at: a trace is no archive.
const MAX_EVENTS: usize = 5_000;
/// How many traces wait for a collector that is away. The oldest ones are dropped first.
const MAX_WAITING: usize = 1_000;

/// Which runs are sent.
#[derive(Debug, Default)]
struct Progress {
    /// Runs that had not ended when they were last seen, by namespace and name.
    live: BTreeSet<(String, String)>,
    /// When each sent or dropped run had ended: it can be retried, and ends again.
    done: BTreeMap<(String, String), Moment>,
    /// Those that ended and are not sent.
    waiting: Vec<Object<AgentDispatchRun>>,
}

fn key(run: &Object<AgentDispatchRun>) -> (String, String) {
    (run.metadata.namespace.clone(), run.metadata.name.clone())
}

impl Progress {
    /// Notes a run as it is now. Runs that ended before this server was the leader were sent by the leader before.
    fn see(&mut self, run: Object<AgentDispatchRun>, is_first: bool) {
        let key = key(&run);
        let Some(ended) = run.status.completed_at.filter(|_| run.status.phase.is_final()) else {
            self.live.insert(key);
            return;
        };
        self.live.remove(&key);
        if self.done.insert(key, ended) != Some(ended) && !is_first {
            self.waiting.push(run);
        }
    }

    /// Forgets what is not looked at any more.
    fn limit(&mut self, newest: &BTreeSet<(String, String)>) {
        self.done.retain(|run, _| newest.contains(run));
        let excess = self.waiting.len().saturating_sub(MAX_WAITING);
        self.waiting.drain(..excess);
    }
}

/// Sends traces until it is aborted.
pub(super) async fn send_traces(plane: Arc<LocalPlane>, collector: TraceCollector) {
    let (mut progress, mut is_first) = (Progress::default(), true);
    let mut backoff = INTERVAL;
    loop {
        match look(&plane, &mut progress, is_first).await {
            Ok(()) => is_first = false,
            Err(error) => tracing::warn!(%error, "runs cannot be read for traces"),
        }
        while let Some(run) = progress.waiting.first().cloned() {
            let name = run.metadata.name.clone();
            let trace = match ended_run(&plane, run).await {
                Ok(ended) => ended.export_request(env!("CARGO_PKG_VERSION")),
                Err(error) => {
                    tracing::warn!(run = name, %error, "a run cannot be read for its trace");
                    break;
                }
            };
            if let Err(error) = collector.send(&trace).await {
                tracing::warn!(run = name, %error, "a trace was not sent; it is tried again");
                backoff = (backoff * 2).min(MAX_BACKOFF);
                break;
            }
            backoff = INTERVAL;
            progress.waiting.remove(0);
        }
        tokio::time::sleep(backoff).await;
    }
}

async fn look(
    plane: &LocalPlane,
    progress: &mut Progress,
    is_first: bool,
) -> Result<(), FleetError> {
    let newest = Selection {
        limit: NEWEST_RUNS,
        newest_first: true,
        ..Selection::of(Kind::AgentDispatchRun)
    };
    let page = FleetStore::list(plane.store.as_ref(), &newest).await?;
    let runs: Vec<Object<AgentDispatchRun>> =
        page.objects.iter().filter_map(|run| run.typed().ok()).collect();
    let names: BTreeSet<(String, String)> = runs.iter().map(key).collect();
    let older: Vec<(String, String)> = progress.live.difference(&names).cloned().collect();
    for run in runs {
        progress.see(run, is_first);
    }
    for (namespace, name) in older {
        let found =
            FleetStore::get(plane.store.as_ref(), Kind::AgentDispatchRun, &namespace, &name)
                .await?;
        match found.and_then(|run| run.typed().ok()) {
            Some(run) => progress.see(run, is_first),
            None => {
                progress.live.remove(&(namespace, name));
            }
        }
    }
    progress.limit(&names);
    Ok(())
}

/// What is recorded of a run.
async fn ended_run(
    plane: &LocalPlane,
    run: Object<AgentDispatchRun>,
) -> Result<EndedRun, FleetError> {
    let namespace = run.metadata.namespace.clone();
    let name = run.metadata.name.clone();
    let attempts = Selection::of(Kind::AgentDispatchAttempt).field("run", &name);
    let attempts = FleetStore::list(plane.store.as_ref(), &attempts).await?.objects;
    let attempts: Vec<Object<AgentDispatchAttempt>> =
        attempts.iter().filter_map(|one| one.typed().ok()).collect();
    let delivery = match &run.spec.source_refs.webhook_delivery {
        Some(delivery) => {
            FleetStore::get(plane.store.as_ref(), Kind::WebhookDelivery, &namespace, delivery)
                .await?
        }
        None => None,
    };
    let typed = |delivery: AnyObject| delivery.typed::<WebhookDelivery>().ok();
    // A trace without tool calls is better than none.
    let target = Target { namespace, name };
    let events = plane.api.run_events(&target, None, 0, MAX_EVENTS).await;
    let events = events.map(|page| page.events).unwrap_or_default();
    Ok(EndedRun { run, delivery: delivery.and_then(typed), attempts, events })
}
