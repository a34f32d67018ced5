//! Both sides as they were last seen, without what is never shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bailiwick_kubernetes::sync::{ClusterObject, History, is_kept, kept, owner};
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind, Moment};

/// An object on both sides: in the operator's namespace of the cluster, and in `default` of the control plane.
pub(super) type Key = (Kind, String);

/// What is known of both sides.
pub(super) struct Cache {
    state: Mutex<State>,
    history: History,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<ClusterObject>>,
    records: BTreeMap<Key, Arc<AnyObject>>,
}

impl Cache {
    /// Runs that ended before the history are not kept.
    pub(super) fn new(history: History) -> Self {
        Self { state: Mutex::default(), history }
    }

    /// What is kept of an object of the control plane.
    pub(super) fn kept(&self, record: AnyObject, now: Moment) -> Option<AnyObject> {
        let is_ours = record.metadata.namespace == DEFAULT_NAMESPACE;
        is_ours.then_some(record).and_then(|record| kept(record, self.history, now))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn object(&self, key: &Key) -> Option<Arc<ClusterObject>> {
        self.state().objects.get(key).cloned()
    }

    pub(super) fn record(&self, key: &Key) -> Option<Arc<AnyObject>> {
        self.state().records.get(key).cloned()
    }

    pub(super) fn keys(&self) -> BTreeSet<Key> {
        let state = self.state();
        state.objects.keys().chain(state.records.keys()).cloned().collect()
    }

    /// Stores an object as the API server returned it.
    pub(super) fn set_object(&self, kind: Kind, object: ClusterObject) -> Key {
        let key = (kind, object.name().to_owned());
        self.state().objects.insert(key.clone(), Arc::new(object));
        key
    }

    pub(super) fn remove_object(&self, key: &Key) {
        self.state().objects.remove(key);
    }

    /// Replaces all objects of a kind with those of a list, and returns the keys of both.
    pub(super) fn replace_objects(&self, kind: Kind, list: Vec<ClusterObject>) -> BTreeSet<Key> {
        let mut state = self.state();
        let mut keys: BTreeSet<Key> =
            state.objects.keys().filter(|key| key.0 == kind).cloned().collect();
        state.objects.retain(|key, _| key.0 != kind);
        for object in list {
            let key = (kind, object.name().to_owned());
            keys.insert(key.clone());
            state.objects.insert(key, Arc::new(object));
        }
        keys
    }

    /// Stores an object of the control plane, unless a newer version is known.
    pub(super) fn set_record(&self, record: AnyObject, now: Moment) -> Option<Key> {
        if record.metadata.namespace != DEFAULT_NAMESPACE {
            return None;
        }
        let key = (record.kind, record.metadata.name.clone());
        let mut state = self.state();
        let version = |record: &AnyObject| record.metadata.resource_version;
        let is_older =
            state.records.get(&key).is_some_and(|known| version(known) > version(&record));
        if !is_older {
            match self.kept(record, now) {
                Some(record) => state.records.insert(key.clone(), Arc::new(record)),
                None => state.records.remove(&key),
            };
        }
        Some(key)
    }

    /// Removes an object that the control plane deleted at this version.
    pub(super) fn remove_record(&self, kind: Kind, name: &str, version: u64) -> Key {
        let key = (kind, name.to_owned());
        let mut state = self.state();
        let is_newer =
            state.records.get(&key).is_some_and(|known| known.metadata.resource_version > version);
        if !is_newer {
            state.records.remove(&key);
        }
        key
    }

    /// Replaces all objects of a kind with those of a list of which only `kept` is left, and returns the keys of both.
    pub(super) fn replace_records(&self, kind: Kind, list: Vec<AnyObject>) -> BTreeSet<Key> {
        let mut state = self.state();
        let mut keys: BTreeSet<Key> =
            state.records.keys().filter(|key| key.0 == kind).cloned().collect();
        state.records.retain(|key, _| key.0 != kind);
        for record in list {
            let key = (kind, record.metadata.name.clone());
            keys.insert(key.clone());
            state.records.insert(key, Arc::new(record));
        }
        keys
    }

    /// Forgets runs that ended before the history by now, and what belongs to runs that are not kept. What the cluster
    /// still shows is left until it is deleted there.
    pub(super) fn forget_old(&self, now: Moment) {
        let mut state = self.state();
        let State { objects, records } = &mut *state;
        let runs: Vec<Key> = records
            .iter()
            .filter(|(key, run)| {
                key.0 == Kind::AgentDispatchRun && !is_kept(run, self.history, now)
            })
            .map(|(key, _)| key.clone())
            .filter(|key| !objects.contains_key(key))
            .collect();
        runs.iter().for_each(|key| drop(records.remove(key)));
        // A record that is younger may have arrived before its run.
        let is_old = |created: Moment| created.plus_millis(self.history.millis) < now;
        let orphans: Vec<Key> = records
            .iter()
            .filter(|(key, record)| {
                key.0 != Kind::AgentDispatchRun
                    && !objects.contains_key(*key)
                    && record.metadata.creation_timestamp.is_some_and(is_old)
                    && owner(record).is_some_and(|run| {
                        !records.contains_key(&(Kind::AgentDispatchRun, run.to_owned()))
                    })
            })
            .map(|(key, _)| key.clone())
            .collect();
        orphans.iter().for_each(|key| drop(records.remove(key)));
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{API_VERSION, Metadata};
    use serde_json::{Value, json};

    use super::*;

    const HOUR: u64 = 3_600_000;

    fn now() -> Moment {
        Moment::from_millis(100 * HOUR)
    }

    fn record(kind: Kind, name: &str, spec: Value, status: Value) -> AnyObject {
        let metadata = Metadata {
            resource_version: 1,
            creation_timestamp: Some(Moment::from_millis(1)),
            ..Metadata::named(name)
        };
        AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
    }

    fn run(name: &str, ended: Option<u64>) -> AnyObject {
        let status = match ended {
            None => json!({ "phase": "running" }),
            Some(hour) => {
                json!({ "phase": "succeeded", "completedAt": Moment::from_millis(hour * HOUR) })
            }
        };
        record(Kind::AgentDispatchRun, name, json!({}), status)
    }

    fn attempt(name: &str, run: &str) -> AnyObject {
        let spec = json!({ "agentDispatchRun": run,
            "agentStackSnapshot": { "digest": "d", "objects": [{ "spec": {} }] } });
        let status = json!({ "exitReason": "completed", "limits": [{}], "eventCursor": "1" });
        record(Kind::AgentDispatchAttempt, name, spec, status)
    }

    fn names(cache: &Cache) -> Vec<String> {
        cache.keys().into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn runs_that_ended_before_the_history_are_not_kept() {
        let cache = Cache::new(History { millis: 10 * HOUR });
        for run in [run("going-on", None), run("recent", Some(95)), run("old", Some(80))] {
            cache.set_record(run, now());
        }
        assert_eq!(names(&cache), ["going-on", "recent"]);
        cache.set_record(run("going-on", Some(80)), now());
        assert_eq!(names(&cache), ["recent"], "it is known to have ended long ago");
        let later = Moment::from_millis(106 * HOUR);
        cache.forget_old(later);
        assert!(names(&cache).is_empty());
    }

    #[test]
    fn attempts_are_cut_and_forgotten_with_their_run() {
        let cache = Cache::new(History { millis: 10 * HOUR });
        cache.set_record(run("recent", Some(95)), now());
        for (name, run) in [("a", "recent"), ("b", "old"), ("shown", "old")] {
            cache.set_record(attempt(name, run), now());
        }
        let mut young = attempt("young", "not-yet-listed");
        young.metadata.creation_timestamp = Some(now());
        cache.set_record(young, now());
        let mut shown = ClusterObject::default();
        shown.metadata.name = Some("shown".to_owned());
        cache.set_object(Kind::AgentDispatchAttempt, shown);
        let kept = cache.record(&(Kind::AgentDispatchAttempt, "a".to_owned())).unwrap();
        assert_eq!(kept.spec["agentStackSnapshot"], json!({ "digest": "d", "objects": [] }));
        assert_eq!(kept.status, json!({ "exitReason": "completed" }));
        cache.forget_old(now());
        let mut left = names(&cache);
        left.sort();
        assert_eq!(left, ["a", "recent", "shown", "young"]);
    }

    #[test]
    fn definitions_are_kept_as_they_are() {
        let cache = Cache::new(History { millis: HOUR });
        let spec = json!({ "agentStackSnapshot": { "objects": [1] } });
        let pool = record(Kind::RunnerPool, "fast", spec, json!({ "limits": [1] }));
        cache.set_record(pool.clone(), now());
        assert_eq!(*cache.record(&(Kind::RunnerPool, "fast".to_owned())).unwrap(), pool);
    }
}
