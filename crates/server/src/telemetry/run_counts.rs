//! Counts unfinished runs and deliveries from the change log, so that reading the metrics costs the store nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use bailiwick_fleet::ports::{Change, ChangeKind, FleetError, FleetStore, Selection};
use bailiwick_resources::{AnyObject, Kind, RunPhase};
use serde::Deserialize as _;

type Name = (String, String);

#[derive(Debug, Default)]
struct State {
    /// Unfinished runs: phase, pool and version.
    runs: BTreeMap<Name, (RunPhase, String, u64)>,
    /// Runs that ended since the start of the server.
    ended: BTreeMap<RunPhase, u64>,
    /// Deliveries that no rule has evaluated.
    deliveries: BTreeMap<Name, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct RunCounts {
    state: Mutex<State>,
}

fn name(object: &AnyObject) -> Name {
    (object.metadata.namespace.clone(), object.metadata.name.clone())
}

fn phase(object: &AnyObject) -> RunPhase {
    let phase = object.status.get("phase").map(RunPhase::deserialize);
    phase.and_then(Result::ok).unwrap_or_default()
}

fn is_evaluated(object: &AnyObject) -> bool {
    object.status.get("evaluated").and_then(serde_json::Value::as_bool).unwrap_or_default()
}

impl State {
    fn run(&mut self, object: &AnyObject, is_deleted: bool) {
        let (name, version) = (name(object), object.metadata.resource_version);
        if self.runs.get(&name).is_some_and(|(_, _, known)| *known >= version) {
            return;
        }
        let phase = phase(object);
        if is_deleted {
            self.runs.remove(&name);
        } else if !phase.is_final() {
            let pool = object.spec.get("runnerPool").and_then(serde_json::Value::as_str);
            self.runs.insert(name, (phase, pool.unwrap_or_default().to_owned(), version));
        } else if self.runs.remove(&name).is_some() {
            *self.ended.entry(phase).or_default() += 1;
        }
    }

    fn delivery(&mut self, object: &AnyObject, is_deleted: bool) {
        let (name, version) = (name(object), object.metadata.resource_version);
        if is_deleted || is_evaluated(object) {
            self.deliveries.remove(&name);
        } else {
            self.deliveries.insert(name, version);
        }
    }

    fn observe(&mut self, object: &AnyObject, is_deleted: bool) {
        if object.kind == Kind::AgentDispatchRun {
            self.run(object, is_deleted);
        } else if object.kind == Kind::WebhookDelivery {
            self.delivery(object, is_deleted);
        }
    }
}

impl RunCounts {
    /// Counts the existing objects.
    pub(crate) async fn load<S: FleetStore>(&self, store: &S) -> Result<(), FleetError> {
        let unfinished = RunPhase::ALL.into_iter().filter(|phase| !phase.is_final());
        let mut selections: Vec<Selection> = unfinished
            .map(|phase| Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str()))
            .collect();
        selections.push(Selection::of(Kind::WebhookDelivery).field("evaluated", "false"));
        for mut selection in selections {
            loop {
                let page = store.list(&selection).await?;
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                page.objects.iter().for_each(|object| state.observe(object, false));
                drop(state);
                selection.after = page.next;
                if selection.after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn observe(&self, change: &Change) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.observe(&change.object, change.kind == ChangeKind::Deleted);
    }

    pub(crate) fn write(&self, out: &mut String) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = RunPhase::ALL.into_iter().filter(|phase| !phase.is_final());
        let mut phases: BTreeMap<RunPhase, u64> = unfinished.map(|phase| (phase, 0)).collect();
        let mut pools: BTreeMap<&str, u64> = BTreeMap::new();
        for (phase, pool, _) in state.runs.values() {
            *phases.entry(*phase).or_default() += 1;
            *pools.entry(pool).or_default() += u64::from(*phase == RunPhase::Queued);
        }
        let _ = writeln!(out, "# HELP bailiwick_runs Unfinished runs by phase.");
        let _ = writeln!(out, "# TYPE bailiwick_runs gauge");
        for (phase, count) in phases {
            let _ = writeln!(out, "bailiwick_runs{{phase=\"{}\"}} {count}", phase.as_str());
        }
        let _ = writeln!(out, "# HELP bailiwick_runs_ended_total Ended runs by phase.");
        let _ = writeln!(out, "# TYPE bailiwick_runs_ended_total counter");
        for phase in RunPhase::ALL.into_iter().filter(|phase| phase.is_final()) {
            let count = state.ended.get(&phase).copied().unwrap_or_default();
            let _ =
                writeln!(out, "bailiwick_runs_ended_total{{phase=\"{}\"}} {count}", phase.as_str());
        }
        let _ = writeln!(out, "# HELP bailiwick_queue_length Queued runs by pool.");
        let _ = writeln!(out, "# TYPE bailiwick_queue_length gauge");
        for (pool, count) in pools {
            // The name of an object needs no escaping, unless it was not validated.
            let pool = pool.replace(['\\', '"', '\n'], "_");
            let _ = writeln!(out, "bailiwick_queue_length{{pool=\"{pool}\"}} {count}");
        }
        let waiting = state.deliveries.len();
        let _ = writeln!(
            out,
            "# HELP bailiwick_deliveries_waiting Deliveries that no rule has evaluated."
        );
        let _ = writeln!(out, "# TYPE bailiwick_deliveries_waiting gauge");
        let _ = writeln!(out, "bailiwick_deliveries_waiting {waiting}");
    }
}
