//! `bailiwick get --watch`: changes of what was listed.

use std::collections::BTreeSet;

use bailiwick_client::FleetClient;
use bailiwick_fleet::ports::{Change, ChangeKind, indexed_fields};
use bailiwick_resources::AnyObject;
use serde_json::json;

use super::super::columns::row;
use super::super::named::Named;
use super::super::{documents, now};
use super::{Get, ShownAs, value};
use crate::failure::Failure;
use crate::output;
use crate::view::plain;

/// The namespace and the name of an object.
fn place(object: &AnyObject) -> (String, String) {
    (object.metadata.namespace.clone(), object.metadata.name.clone())
}

impl Get {
    pub(super) async fn follow(
        &self,
        client: &dyn FleetClient,
        one: &Named,
        namespace: &str,
        (version, listed): (u64, &[AnyObject]),
    ) -> Result<(), Failure> {
        let mut shown: BTreeSet<(String, String)> = listed.iter().map(place).collect();
        let mut changes = client.watch(one.kind, version).await?;
        loop {
            for change in changes.next().await? {
                let place = place(&change.object);
                if self.matches(one, namespace, &change) {
                    match change.kind {
                        ChangeKind::Added | ChangeKind::Modified => shown.insert(place),
                        ChangeKind::Deleted => shown.remove(&place),
                    };
                    self.tell(&change)?;
                } else if change.object.kind == one.kind && shown.remove(&place) {
                    self.tell_left(&change)?;
                }
            }
        }
    }

    fn matches(&self, one: &Named, namespace: &str, change: &Change) -> bool {
        let object = &change.object;
        let labels = &object.metadata.labels;
        let whole = serde_json::to_value(object).unwrap_or_default();
        let field = |(name, wanted): &(String, String)| {
            let place = indexed_fields(object.kind).iter().find(|(known, _)| known == name);
            let value = place.and_then(|(_, pointer)| whole.pointer(pointer));
            value.is_some_and(|value| {
                value.as_str().map_or_else(|| value.to_string(), str::to_owned) == *wanted
            })
        };
        object.kind == one.kind
            && (one.names.is_empty() || one.names.contains(&object.metadata.name))
            && (self.all_namespaces || object.metadata.namespace == namespace)
            && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.fields.iter().all(field)
    }

    fn tell(&self, change: &Change) -> Result<(), Failure> {
        match &self.shown {
            ShownAs::Json => output::json(change),
            ShownAs::JsonPath(expression) => {
                let selected = expression.select(&json!({ "items": [value(&change.object)?] }));
                selected.into_iter().for_each(output::line);
                Ok(())
            }
            ShownAs::Yaml => {
                output::line("---");
                output::text_out(documents::yaml(&change.object)?);
                Ok(())
            }
            ShownAs::Human | ShownAs::Wide | ShownAs::Name => {
                let word = match change.kind {
                    ChangeKind::Added => "added",
                    ChangeKind::Modified => "modified",
                    ChangeKind::Deleted => "deleted",
                };
                let cells = row(&change.object, self.is_wide(), now());
                output::line(format_args!("{word:9} {}", plain(&cells.join("  "))));
                Ok(())
            }
        }
    }

    /// Reports that a listed object is no longer selected.
    fn tell_left(&self, change: &Change) -> Result<(), Failure> {
        let AnyObject { kind, metadata, .. } = &change.object;
        match &self.shown {
            ShownAs::Json => output::json(&json!({
                "type": "LEFT",
                "version": change.version,
                "object": { "kind": kind, "metadata": {
                    "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid,
                } },
            })),
            ShownAs::JsonPath(_) => Ok(()),
            ShownAs::Yaml => {
                output::line(format_args!("---\n# {}/{} left", kind.short(), metadata.name));
                Ok(())
            }
            ShownAs::Human | ShownAs::Wide | ShownAs::Name => {
                let cells = row(&change.object, self.is_wide(), now());
                output::line(format_args!("{:9} {}", "left", plain(&cells.join("  "))));
                Ok(())
            }
        }
    }
}
