//! An object of a cluster as a document for the control plane.

use std::collections::BTreeMap;

use bailiwick_resources::{API_VERSION, AnyObject, DEFAULT_NAMESPACE, Kind, Metadata};
use serde_json::Value;

use super::mark::{Mark, NamespaceUid, Origin};
use super::object::ClusterObject;
use super::{ADOPT, COPIED_FROM};

/// The document of an object, and where it comes from. The operator's namespace is `default` in the control plane.
pub fn document(kind: Kind, object: &ClusterObject, namespace: &NamespaceUid) -> (AnyObject, Mark) {
    let labels = object.metadata.labels.clone().unwrap_or_default();
    let mut annotations: BTreeMap<String, String> = object
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| is_copied(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let origin = Origin { namespace: namespace.clone(), kind, name: object.name().to_owned() };
    let mark = Mark::new(origin, object.uid(), object.generation(), &labels, &annotations);
    annotations.insert(COPIED_FROM.to_owned(), mark.to_string());
    let metadata = Metadata {
        name: object.name().to_owned(),
        namespace: DEFAULT_NAMESPACE.to_owned(),
        labels,
        annotations,
        ..Metadata::default()
    };
    let document = AnyObject {
        api_version: API_VERSION.to_owned(),
        kind,
        metadata,
        spec: object.spec.clone(),
        status: Value::Null,
    };
    (document, mark)
}

/// Annotations of Kubernetes and its tools stay in the cluster; ours about the copy are written here.
fn is_copied(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let of_kubernetes = ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|suffix| domain == *suffix || domain.ends_with(&format!(".{suffix}")));
    !of_kubernetes && key != COPIED_FROM && key != ADOPT
}

#[cfg(test)]
mod tests {
    use super::is_copied;

    #[test]
    fn annotations_of_tools_are_not_copied() {
        for ignored in [
            "kubectl.kubernetes.io/last-applied-configuration",
            "kubernetes.io/x",
            "helm.k8s.io/y",
            "bailiwick.dev/copied-from",
            "bailiwick.dev/adopt",
        ] {
            assert!(!is_copied(ignored), "{ignored}");
        }
        for copied in ["team", "example.com/owner", "notkubernetes.io/x"] {
            assert!(is_copied(copied), "{copied}");
        }
    }
}
