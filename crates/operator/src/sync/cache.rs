//! Both sides as they were last seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bailiwick_kubernetes::sync::ClusterObject;
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind};

/// An object on both sides: in the operator's namespace of the cluster, and in `default` of the control plane.
pub(super) type Key = (Kind, String);

/// What is known of both sides.
#[derive(Default)]
pub(super) struct Cache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<ClusterObject>>,
    records: BTreeMap<Key, Arc<AnyObject>>,
}

impl Cache {
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
    pub(super) fn set_record(&self, record: AnyObject) -> Option<Key> {
        if record.metadata.namespace != DEFAULT_NAMESPACE {
            return None;
        }
        let key = (record.kind, record.metadata.name.clone());
        let mut state = self.state();
        let version = |record: &AnyObject| record.metadata.resource_version;
        let is_older =
            state.records.get(&key).is_some_and(|known| version(known) > version(&record));
        if !is_older {
            state.records.insert(key.clone(), Arc::new(record));
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

    /// Replaces all objects of a kind with those of a list, and returns the keys of both.
    pub(super) fn replace_records(&self, kind: Kind, list: Vec<AnyObject>) -> BTreeSet<Key> {
        let mut state = self.state();
        let mut keys: BTreeSet<Key> =
            state.records.keys().filter(|key| key.0 == kind).cloned().collect();
        state.records.retain(|key, _| key.0 != kind);
        for record in list {
            if record.metadata.namespace == DEFAULT_NAMESPACE {
                let key = (kind, record.metadata.name.clone());
                keys.insert(key.clone());
                state.records.insert(key, Arc::new(record));
            }
        }
        keys
    }
}
