//! The control plane acts in one namespace. Values may be in others, if grants name them.

use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Fault, Kind};

/// Why a declaration in this namespace would be stored and never used.
pub fn namespace_fault(object: &AnyObject) -> Option<Fault> {
    let kept_anywhere = matches!(object.kind, Kind::Secret | Kind::ConfigMap);
    let namespace = &object.metadata.namespace;
    if kept_anywhere || namespace == DEFAULT_NAMESPACE {
        return None;
    }
    Some(elsewhere("metadata.namespace", namespace))
}

/// The same for a requested object.
pub(crate) fn elsewhere(field: &str, namespace: &str) -> Fault {
    let message = format!(
        "the control plane acts on `{DEFAULT_NAMESPACE}` only, and would never look at `{namespace}`; leave \
         the namespace out"
    );
    Fault::new(field, message)
}
