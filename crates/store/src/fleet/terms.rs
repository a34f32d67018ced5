//! The index terms of an object: its labels, its indexed fields and the digests that it names.

use std::collections::BTreeSet;

use bailiwick_fleet::ports::{indexed_fields, named_digests};
use bailiwick_resources::{AnyObject, Kind};
use serde_json::Value;

use crate::sql::escaped;

/// An index term and its value.
pub(super) type Term = (String, String);

pub(super) fn label(kind: Kind, name: &str) -> String {
    format!("{kind}#{}", escaped(name))
}

pub(super) fn field(kind: Kind, name: &str) -> String {
    format!("{kind}.{name}")
}

/// The term of every digest that an object names; bytes without such a term are deleted.
pub(super) const DIGEST: &str = "#digest";

/// All index terms of an object.
pub(super) fn terms(object: &AnyObject) -> BTreeSet<Term> {
    let labels = object.metadata.labels.iter();
    let labels = labels.map(|(name, value)| (label(object.kind, name), escaped(value)));
    let fields = indexed_fields(object.kind).iter().filter_map(|(name, pointer)| {
        let value = match pointer.strip_prefix("/spec") {
            Some(inside) => object.spec.pointer(inside),
            None => object.status.pointer(pointer.strip_prefix("/status")?),
        };
        Some((field(object.kind, name), text(value?)))
    });
    let digests = named_digests(object).into_iter().map(|digest| (DIGEST.to_owned(), digest));
    labels.chain(fields).chain(digests).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), escaped)
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::indexed_fields;
    use bailiwick_resources::Kind;

    #[test]
    fn every_indexed_field_is_in_spec_or_status() {
        for (name, pointer) in Kind::ALL.iter().flat_map(|kind| indexed_fields(*kind)) {
            let inside = pointer.strip_prefix("/spec").or(pointer.strip_prefix("/status"));
            assert!(inside.is_some_and(|inside| inside.starts_with('/')), "{name}: {pointer}");
        }
    }
}
