//! Objects as the YAML that people declare, and YAML of people as documents.

use bailiwick_resources::{AnyObject, Metadata};
use serde_json::Value;
use serde_saphyr::MergeKeyPolicy;

/// The object without what the store and the control plane have written.
pub(crate) fn declared(object: &AnyObject) -> String {
    let Metadata { name, namespace, labels, annotations, .. } = object.metadata.clone();
    let metadata = Metadata { name, namespace, labels, annotations, ..Metadata::default() };
    let plain = AnyObject { metadata, status: Value::Null, ..object.clone() };
    serde_saphyr::to_string(&plain).unwrap_or_default()
}

/// The documents of a text; what is wrong with the text, for people.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        reject_unsupported_tags: true,
        merge_keys: MergeKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_documents: 1_000,
            max_depth: 64,
        },
    };
    let objects: Vec<AnyObject> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| error.to_string())?;
    if objects.is_empty() {
        return Err("write a document with apiVersion, kind, metadata and spec".to_owned());
    }
    objects
        .iter()
        .map(|object| serde_json::to_value(object).map_err(|error| error.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "apiVersion: bailiwick.dev/v1alpha1\nkind: RunnerPool\nmetadata:\n  name: a\n\
                        spec:\n  capacity: 2\n  trustTier: trusted\n  serviceAccountRef: r\n";

    #[test]
    fn declared_object_can_be_parsed_again() {
        let parsed = documents(&format!("{POOL}---\n{POOL}")).unwrap();
        assert_eq!(parsed.len(), 2);
        let object: AnyObject = serde_json::from_value(parsed[0].clone()).unwrap();
        assert_eq!(documents(&declared(&object)).unwrap()[0], parsed[0]);
    }

    #[test]
    fn invalid_documents_are_refused() {
        for text in ["", "a: 1", "a: &x 1\nb: *x", "kind: RunnerPool", "\u{0}"] {
            assert!(documents(text).is_err(), "{text:?}");
        }
    }
}
