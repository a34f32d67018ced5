//! A change as it is sent, serialized once for all watchers.

use std::sync::OnceLock;

use bailiwick_fleet::ports::{Change, ChangeKind, Selection, indexed_fields};
use bailiwick_resources::{AnyObject, Kind};
use bytes::Bytes;
use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) change: Change,
    text: OnceLock<Bytes>,
    left: OnceLock<Bytes>,
    whole: OnceLock<Value>,
}

/// A server-sent event.
pub(crate) fn event(name: &str, id: Option<u64>, data: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}event: {name}\ndata: {data}\n\n"))
}

/// A heartbeat; its id is the version from which an interrupted stream continues.
pub(crate) fn heartbeat(id: u64) -> Bytes {
    Bytes::from(format!(": heartbeat\nid: {id}\n\n"))
}

impl Frame {
    pub(crate) fn new(change: Change) -> Self {
        Self { change, text: OnceLock::new(), left: OnceLock::new(), whole: OnceLock::new() }
    }

    fn text(&self) -> Bytes {
        let make = || {
            let change = &self.change;
            event("change", Some(change.version), &serde_json::to_value(change).unwrap_or_default())
        };
        self.text.get_or_init(make).clone()
    }

    /// The event for an object that the filter does not select, or no longer selects.
    fn left(&self) -> Bytes {
        let make = || {
            let AnyObject { kind, metadata, .. } = &self.change.object;
            let metadata = json!({ "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid });
            let data = json!({
                "type": "LEFT",
                "version": self.change.version,
                "object": { "kind": kind, "metadata": metadata },
            });
            event("change", Some(self.change.version), &data)
        };
        self.left.get_or_init(make).clone()
    }

    fn field(&self, name: &str) -> Option<String> {
        let object = &self.change.object;
        let (_, pointer) = indexed_fields(object.kind).iter().find(|(known, _)| *known == name)?;
        let whole = self.whole.get_or_init(|| serde_json::to_value(object).unwrap_or_default());
        let value = whole.pointer(pointer)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// What a watcher with this filter receives.
    pub(crate) fn render_for(&self, filter: &Filter) -> Option<Bytes> {
        let AnyObject { kind, metadata, .. } = &self.change.object;
        let kind_matches = filter.kinds.is_empty() || filter.kinds.contains(kind);
        let namespace_matches =
            filter.namespace.as_ref().is_none_or(|name| *name == metadata.namespace);
        if !kind_matches || !namespace_matches {
            return None;
        }
        let labels =
            filter.labels.iter().all(|(name, value)| metadata.labels.get(name) == Some(value));
        let fields = filter
            .fields
            .iter()
            .all(|(name, value)| self.field(name).is_some_and(|found| found == *value));
        match (labels && fields, self.change.kind) {
            (true, _) => Some(self.text()),
            (false, ChangeKind::Modified | ChangeKind::Deleted) => Some(self.left()),
            (false, ChangeKind::Added) => None,
        }
    }
}

/// Selects the changes that a watcher receives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// All kinds if empty.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) fields: Vec<(String, String)>,
}

impl From<Selection> for Filter {
    fn from(selection: Selection) -> Self {
        Self {
            kinds: vec![selection.kind],
            namespace: selection.namespace,
            labels: selection.labels.into_iter().collect(),
            fields: selection.fields.into_iter().collect(),
        }
    }
}
