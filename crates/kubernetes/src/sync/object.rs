//! A custom resource as an API server returns it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{FIELD_MANAGER, FINALIZER, MANAGED_BY};

/// An object of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterObject {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: Value,
    /// The observed state.
    pub status: Value,
}

impl ClusterObject {
    /// The name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The unique ID.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The version of the object.
    pub fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// The version of the spec.
    pub fn generation(&self) -> u64 {
        self.metadata.generation.and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
    }

    /// Whether it is gone as soon as its finalizers are.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the operator's finalizer keeps it.
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
    }

    /// Whether the operator has created it.
    pub fn is_managed(&self) -> bool {
        let manager = self.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
        manager.is_some_and(|manager| manager == FIELD_MANAGER)
    }

    /// A field of the metadata that people write, by its key.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}
