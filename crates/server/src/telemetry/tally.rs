//! Runs and deliveries that are not done, counted by following the log of changes: a look at the
//! figures costs the store nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use bailiwick_fleet::ports::{Change, ChangeKind, FleetError, FleetStore, Selection};
use bailiwick_resources::{AnyObject, Kind, RunPhase};
use serde::Deserialize as _;

type Name = (String, String);

#[derive(Debug, Default)]
struct State {
    /// Runs that are not at an end: how far they are, where they are executed, and as of which version.
    runs: BTreeMap<Name, (RunPhase, String, u64)>,
    /// Runs that came to an end while we looked.
    ended: BTreeMap<RunPhase, u64>,
    /// Deliveries that no rule has looked at.
    deliveries: BTreeMap<Name, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
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
    fn run(&mut self, object: &AnyObject, gone: bool) {
        let (name, version) = (name(object), object.metadata.resource_version);
        if self.runs.get(&name).is_some_and(|(_, _, known)| *known >= version) {
            return;
        }
        let phase = phase(object);
        if gone {
            self.runs.remove(&name);
        } else if !phase.is_final() {
            let pool = object.spec.get("runnerPool").and_then(serde_json::Value::as_str);
            self.runs.insert(name, (phase, pool.unwrap_or_default().to_owned(), version));
        } else if self.runs.remove(&name).is_some() {
            *self.ended.entry(phase).or_default() += 1;
        }
    }

    fn delivery(&mut self, object: &AnyObject, gone: bool) {
        let (name, version) = (name(object), object.metadata.resource_version);
        if gone || is_evaluated(object) {
            self.deliveries.remove(&name);
        } else {
            self.deliveries.insert(name, version);
        }
    }

    fn see(&mut self, object: &AnyObject, gone: bool) {
        if object.kind == Kind::AgentDispatchRun {
            self.run(object, gone);
        } else if object.kind == Kind::WebhookDelivery {
            self.delivery(object, gone);
        }
    }
}

impl Tally {
    /// Counts what is there.
    pub(crate) async fn begin<S: FleetStore>(&self, store: &S) -> Result<(), FleetError> {
        let unfinished = RunPhase::ALL.into_iter().filter(|phase| !phase.is_final());
        let mut selections: Vec<Selection> = unfinished
            .map(|phase| Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str()))
            .collect();
        selections.push(Selection::of(Kind::WebhookDelivery).field("evaluated", "false"));
        for mut selection in selections {
            loop {
                let page = store.list(&selection).await?;
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                page.objects.iter().for_each(|object| state.see(object, false));
                drop(state);
                selection.after = page.next;
                if selection.after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn see(&self, change: &Change) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.see(&change.object, change.kind == ChangeKind::Deleted);
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
        let _ = writeln!(out, "# HELP bailiwick_runs Runs that are not at an end, by phase.");
        let _ = writeln!(out, "# TYPE bailiwick_runs gauge");
        for (phase, count) in phases {
            let _ = writeln!(out, "bailiwick_runs{{phase=\"{}\"}} {count}", phase.as_str());
        }
        let _ = writeln!(out, "# HELP bailiwick_runs_ended_total Runs that came to an end.");
        let _ = writeln!(out, "# TYPE bailiwick_runs_ended_total counter");
        for phase in RunPhase::ALL.into_iter().filter(|phase| phase.is_final()) {
            let count = state.ended.get(&phase).copied().unwrap_or_default();
            let _ =
                writeln!(out, "bailiwick_runs_ended_total{{phase=\"{}\"}} {count}", phase.as_str());
        }
        let _ = writeln!(out, "# HELP bailiwick_queue_length Runs that wait, by pool.");
        let _ = writeln!(out, "# TYPE bailiwick_queue_length gauge");
        for (pool, count) in pools {
            // A pool's name is an object's name: nothing in it needs to be escaped but by a liar.
            let pool = pool.replace(['\\', '"', '\n'], "_");
            let _ = writeln!(out, "bailiwick_queue_length{{pool=\"{pool}\"}} {count}");
        }
        let waiting = state.deliveries.len();
        let _ =
            writeln!(out, "# HELP bailiwick_deliveries_waiting Deliveries that no rule has seen.");
        let _ = writeln!(out, "# TYPE bailiwick_deliveries_waiting gauge");
        let _ = writeln!(out, "bailiwick_deliveries_waiting {waiting}");
    }
}
