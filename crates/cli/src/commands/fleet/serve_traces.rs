//! Sends a trace of each run that has ended to a collector. It runs beside the controllers, which never wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_client::{TraceCollector, TraceError};
use bailiwick_engine::fleet::LocalPlane;
use bailiwick_fleet::ports::{
    Change, ChangeKind, Fleet as _, FleetError, FleetStore, Selection, Target,
};
use bailiwick_fleet::traces::EndedRun;
use bailiwick_model::backoff::Backoff;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Moment, Object, WebhookDelivery,
};

use super::now;

const INTERVAL: Duration = Duration::from_secs(2);
/// How long it waits after the collector did not answer.
const BACKOFF: Backoff = Backoff::new(INTERVAL, Duration::from_secs(60));
/// How many changes are read at once, and how often in one pass.
const BATCH_SIZE: usize = 500;
const MAX_BATCHES: usize = 20;
/// How many traces are sent in one pass.
const MAX_SENT: usize = 100;
/// How many events of a run are looked at: a trace is no archive.
const MAX_EVENTS: usize = 5_000;
/// How many traces wait for a collector that is away. The oldest ones are dropped first.
const MAX_WAITING: usize = 1_000;
/// How often the trace of a run may fail while others can be sent. Then it is dropped.
const MAX_FAILURES: u32 = 5;
/// How many failures in succession end a pass.
const MAX_FAILURES_IN_SUCCESSION: usize = 3;
/// How many runs are remembered so that they are not sent twice. If they are, their trace is the same.
const MAX_REMEMBERED: usize = 10_000;

/// Which runs are sent.
#[derive(Debug)]
struct Progress {
    /// When it began. Runs that ended before were sent by the leader before.
    begun: Moment,
    /// The version of the store up to which changes were read.
    cursor: u64,
    /// When each noted run had ended, by its uid: it can be retried, and ends again.
    noted: BTreeMap<String, Moment>,
    /// Those that ended and are not sent.
    waiting: VecDeque<WaitingRun>,
}

/// A run that has ended, and whose trace is not sent.
#[derive(Debug)]
struct WaitingRun {
    run: Object<AgentDispatchRun>,
    /// How often its trace failed while others could be sent.
    failures: u32,
}

impl Progress {
    fn new(begun: Moment, cursor: u64) -> Self {
        Self { begun, cursor, noted: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Notes a change, if it is the end of a run.
    fn see(&mut self, change: &Change) {
        self.cursor = change.version;
        let object = &change.object;
        if object.kind != Kind::AgentDispatchRun {
            return;
        }
        if change.kind == ChangeKind::Deleted {
            self.noted.remove(&object.metadata.uid);
            return;
        }
        let Ok(run) = object.typed::<AgentDispatchRun>() else { return };
        let ended = run.status.completed_at.filter(|_| run.status.phase.is_final());
        let Some(ended) = ended.filter(|ended| *ended >= self.begun) else { return };
        // A run that has ended changes, too.
        if self.noted.insert(run.metadata.uid.clone(), ended) != Some(ended) {
            self.waiting.push_back(WaitingRun { run, failures: 0 });
        }
    }

    /// Drops what is too much; how many traces that were.
    fn limit(&mut self) -> usize {
        if self.noted.len() > MAX_REMEMBERED {
            let mut times: Vec<Moment> = self.noted.values().copied().collect();
            let (_, middle, _) = times.select_nth_unstable(MAX_REMEMBERED / 2);
            let middle = *middle;
            self.noted.retain(|_, ended| *ended > middle);
        }
        let excess = self.waiting.len().saturating_sub(MAX_WAITING);
        self.waiting.drain(..excess);
        excess
    }

    /// Puts runs whose traces failed behind the others. A run counts as the reason only if others could be sent; returns
    /// the names of those that are dropped because it was the reason too often.
    fn put_back(&mut self, failed: Vec<WaitingRun>, others_sent: bool) -> Vec<String> {
        let mut dropped = Vec::new();
        for mut waiting in failed {
            waiting.failures += u32::from(others_sent);
            match waiting.failures < MAX_FAILURES {
                true => self.waiting.push_back(waiting),
                false => dropped.push(waiting.run.metadata.name),
            }
        }
        dropped
    }
}

/// Sends traces until it is aborted.
pub(super) async fn send_traces(plane: Arc<LocalPlane>, collector: TraceCollector) {
    let begun = now();
    let cursor = loop {
        match newest_version(&plane).await {
            Ok(version) => break version,
            Err(error) => tracing::warn!(%error, "runs cannot be read for traces"),
        }
        tokio::time::sleep(INTERVAL).await;
    };
    let mut progress = Progress::new(begun, cursor);
    let (mut failures, mut retry_at) = (0_u32, Instant::now());
    loop {
        if let Err(error) = look(&plane, &mut progress).await {
            tracing::warn!(%error, "runs cannot be read for traces");
        }
        if Instant::now() >= retry_at {
            if send_waiting(&plane, &collector, &mut progress).await {
                failures = 0;
            } else {
                failures = failures.saturating_add(1);
                retry_at = Instant::now() + BACKOFF.delay(failures);
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn newest_version(plane: &LocalPlane) -> Result<u64, FleetError> {
    let selection = Selection { limit: 1, ..Selection::of(Kind::AgentDispatchRun) };
    Ok(FleetStore::list(plane.store.as_ref(), &selection).await?.version)
}

/// Reads what has changed. What one pass does not reach is read in the next one.
async fn look(plane: &LocalPlane, progress: &mut Progress) -> Result<(), FleetError> {
    for _ in 0..MAX_BATCHES {
        let read = FleetStore::changes(plane.store.as_ref(), progress.cursor, BATCH_SIZE).await;
        let changes = match read {
            Err(FleetError::Gone { oldest }) => {
                tracing::warn!("changes were deleted before they were read; traces can be missing");
                progress.cursor = oldest.saturating_sub(1);
                continue;
            }
            read => read?,
        };
        for change in &changes {
            progress.see(change);
        }
        let dropped = progress.limit();
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "too many traces wait for the collector; the oldest are dropped"
            );
        }
        if changes.len() < BATCH_SIZE {
            break;
        }
    }
    Ok(())
}

/// What came of a trace.
enum Sent {
    Yes,
    /// The collector would refuse it again.
    Refused,
    /// It is tried again. The run can be the reason.
    Failed,
    /// The collector does not answer.
    Unreachable,
}

/// Sends what waits, up to a limit; whether the collector accepts traces. One that fails does not hold back others.
async fn send_waiting(
    plane: &LocalPlane,
    collector: &TraceCollector,
    progress: &mut Progress,
) -> bool {
    let (mut failed, mut sent, mut in_succession) = (Vec::new(), 0_usize, 0);
    let mut is_reachable = true;
    for _ in 0..MAX_SENT {
        let Some(waiting) = progress.waiting.pop_front() else { break };
        match send_trace(plane, collector, waiting.run.clone()).await {
            Sent::Yes => (sent, in_succession) = (sent + 1, 0),
            Sent::Refused => in_succession = 0,
            Sent::Failed => {
                failed.push(waiting);
                in_succession += 1;
            }
            Sent::Unreachable => {
                progress.waiting.push_front(waiting);
                is_reachable = false;
            }
        }
        if !is_reachable || in_succession >= MAX_FAILURES_IN_SUCCESSION {
            break;
        }
    }
    let has_failed = !failed.is_empty();
    for run in progress.put_back(failed, sent > 0) {
        tracing::warn!(run, "a trace is dropped: it failed {MAX_FAILURES} times");
    }
    is_reachable && (sent > 0 || !has_failed)
}

async fn send_trace(
    plane: &LocalPlane,
    collector: &TraceCollector,
    run: Object<AgentDispatchRun>,
) -> Sent {
    let name = run.metadata.name.clone();
    let trace = match ended_run(plane, run).await {
        Ok(ended) => ended.export_request(env!("CARGO_PKG_VERSION")),
        Err(error) => {
            tracing::warn!(run = name, %error, "a run cannot be read for its trace");
            return Sent::Failed;
        }
    };
    match collector.send(&trace).await {
        Ok(()) => Sent::Yes,
        Err(error @ TraceError::Refused { .. }) => {
            tracing::warn!(run = name, %error, "a trace is dropped");
            Sent::Refused
        }
        Err(error @ TraceError::Failed { .. }) => {
            tracing::warn!(run = name, %error, "a trace was not sent; it is tried again");
            Sent::Failed
        }
        Err(error @ TraceError::Unreachable(_)) => {
            tracing::warn!(run = name, %error, "a trace was not sent; it is tried again");
            Sent::Unreachable
        }
    }
}

/// What is recorded of a run.
async fn ended_run(
    plane: &LocalPlane,
    run: Object<AgentDispatchRun>,
) -> Result<EndedRun, FleetError> {
    let namespace = run.metadata.namespace.clone();
    let name = run.metadata.name.clone();
    let attempts = Selection {
        namespace: Some(namespace.clone()),
        ..Selection::of(Kind::AgentDispatchAttempt).field("run", &name)
    };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const START: u64 = 1_000_000;

    /// A change of a run, which ended at the given time, if any.
    fn change(version: u64, uid: &str, phase: &str, ended: Option<u64>) -> Change {
        let ended = ended.map(|ended| Moment::from_millis(ended).to_string());
        let mut status = json!({ "phase": phase });
        if let Some(ended) = ended {
            status["completedAt"] = ended.into();
        }
        let object = json!({
            "apiVersion": "bailiwick.dev/v1alpha1",
            "kind": "AgentDispatchRun",
            "metadata": { "name": uid, "namespace": "default", "uid": uid },
            "spec": {
                "repository": "acme/app",
                "ref": "refs/heads/main",
                "sha": "0".repeat(40),
                "sourceEvent": { "source": "manual", "uid": uid },
                "agentStack": "mender",
                "taskKind": "mend",
                "runnerPool": "local",
                "trustTier": "trusted",
            },
            "status": status,
        });
        let object: AnyObject = serde_json::from_value(object).unwrap();
        object.typed::<AgentDispatchRun>().unwrap();
        Change { version, kind: ChangeKind::Modified, object }
    }

    fn waiting(progress: &Progress) -> Vec<&str> {
        progress.waiting.iter().map(|waiting| waiting.run.metadata.name.as_str()).collect()
    }

    #[test]
    fn every_run_that_ends_in_a_burst_is_recorded_once() {
        let mut progress = Progress::new(Moment::from_millis(START), 7);
        for number in 0..1_000 {
            let (uid, version) = (format!("run-{number}"), 10 + number);
            progress.see(&change(version, &uid, "running", None));
            progress.see(&change(version + 1, &uid, "succeeded", Some(START + number)));
            // Another field changes later.
            progress.see(&change(version + 2, &uid, "succeeded", Some(START + number)));
        }
        assert_eq!((progress.waiting.len(), progress.limit()), (1_000, 0));
        assert_eq!(progress.cursor, 1_011);
    }

    #[test]
    fn retried_run_has_another_trace_and_old_run_has_none() {
        let mut progress = Progress::new(Moment::from_millis(START), 0);
        progress.see(&change(1, "old", "failed", Some(START - 1)));
        assert!(waiting(&progress).is_empty());
        progress.see(&change(2, "one", "failed", Some(START)));
        progress.see(&change(3, "one", "running", None));
        progress.see(&change(4, "one", "succeeded", Some(START + 1)));
        assert_eq!(waiting(&progress), ["one", "one"]);
        let deleted = change(5, "one", "succeeded", Some(START + 1));
        progress.see(&Change { kind: ChangeKind::Deleted, ..deleted });
        assert!(progress.noted.is_empty());
    }

    #[test]
    fn trace_that_fails_waits_behind_the_others_and_is_dropped_in_the_end() {
        let mut progress = Progress::new(Moment::from_millis(START), 0);
        for uid in ["one", "two"] {
            progress.see(&change(1, uid, "failed", Some(START)));
        }
        // While the collector accepts nothing, no run is the reason.
        for _ in 0..MAX_FAILURES {
            let first = progress.waiting.pop_front().unwrap();
            assert!(progress.put_back(vec![first], false).is_empty());
        }
        assert_eq!(waiting(&progress), ["two", "one"]);
        for _ in 1..MAX_FAILURES {
            let failing = progress.waiting.pop_back().unwrap();
            assert!(progress.put_back(vec![failing], true).is_empty());
        }
        let failing = progress.waiting.pop_back().unwrap();
        assert_eq!(progress.put_back(vec![failing], true), ["one"]);
        assert_eq!(waiting(&progress), ["two"]);
    }

    #[test]
    fn oldest_traces_are_dropped_first() {
        let mut progress = Progress::new(Moment::from_millis(START), 0);
        for number in 0..MAX_WAITING + 3 {
            let ended = START + u64::try_from(number).unwrap();
            progress.see(&change(1, &format!("run-{number}"), "failed", Some(ended)));
        }
        assert_eq!(progress.limit(), 3);
        assert_eq!(waiting(&progress)[0], "run-3");
        let many = 0..=MAX_REMEMBERED;
        let at = |number: usize| Moment::from_millis(u64::try_from(number).unwrap());
        progress.noted = many.map(|number| (number.to_string(), at(number))).collect();
        progress.limit();
        assert_eq!(progress.noted.len(), MAX_REMEMBERED / 2);
        assert!(
            progress.noted.contains_key(&MAX_REMEMBERED.to_string()),
            "the newest entry is retained"
        );
    }
}
