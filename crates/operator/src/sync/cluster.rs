//! Reads and writes of custom resources in one namespace of the cluster.
//!
//! Every write names the unique ID of the object that it is meant for, and every write but a deletion also its version,
//! unless the object is not there yet. An operator that was paused and replaced gets a conflict.

use bailiwick_kubernetes::sync::{
    ClusterObject, FIELD_MANAGER, FINALIZER, NamespaceUid, Transition, event,
};
use bailiwick_resources::{API_VERSION, Kind};
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    Preconditions,
};
use serde_json::{Value, json};
use thiserror::Error;

/// Why a request to the API server failed.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The object was changed or replaced since it was read.
    #[error("the object was changed meanwhile")]
    Conflict,
    /// The object is gone.
    #[error("the object is gone")]
    NotFound,
    /// The API server does not accept it: trying again does not help.
    #[error("the API server refuses it: {0}")]
    Rejected(String),
    /// The API server has accepted that the finalizer is removed, and it is still there.
    #[error(
        "the finalizer bailiwick.dev/copy is still there: an admission webhook may add it again"
    )]
    FinalizerKept,
    /// It may work later.
    #[error("{0}")]
    Unavailable(kube::Error),
}

impl ClusterError {
    /// Whether the API server would refuse the same request again.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::NotFound => true,
            Self::Unavailable(kube::Error::Api(status)) => {
                (400..500).contains(&status.code) && !matches!(status.code, 401 | 408 | 429)
            }
            Self::Unavailable(_) | Self::Conflict | Self::FinalizerKept => false,
        }
    }
}

impl From<kube::Error> for ClusterError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else { return Self::Unavailable(error) };
        match status.code {
            404 => Self::NotFound,
            409 => Self::Conflict,
            400 | 422 => Self::Rejected(status.message.clone()),
            _ => Self::Unavailable(error),
        }
    }
}

/// One namespace of a cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (group, version) = API_VERSION.split_once('/').unwrap_or(("", API_VERSION));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: API_VERSION.to_owned(),
            kind: kind.to_string(),
            plural: kind.plural().to_owned(),
        };
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// The unique ID of the namespace.
    pub async fn namespace_uid(&self) -> Result<NamespaceUid, ClusterError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let uid = namespaces.get(&self.namespace).await?.metadata.uid.unwrap_or_default();
        NamespaceUid::parse(&uid).ok_or(ClusterError::NotFound)
    }

    /// Reads one object.
    pub async fn get(&self, kind: Kind, name: &str) -> Result<Option<ClusterObject>, ClusterError> {
        Ok(self.api(kind).get_opt(name).await?.map(read))
    }

    /// The names of all objects of a kind.
    pub async fn names(&self, kind: Kind) -> Result<Vec<String>, ClusterError> {
        let all = self.api(kind).list_metadata(&ListParams::default()).await?;
        Ok(all.items.into_iter().filter_map(|object| object.metadata.name).collect())
    }

    /// Adds our finalizer; those of others stay.
    pub async fn add_finalizer(
        &self,
        kind: Kind,
        object: &ClusterObject,
    ) -> Result<ClusterObject, ClusterError> {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {
                "name": object.name(),
                "uid": object.uid(),
                "resourceVersion": object.resource_version(),
                "finalizers": [FINALIZER],
            },
        });
        self.apply(kind, object.name(), &body).await
    }

    /// Removes our finalizer; those of others stay. A server-side apply would keep it if another field manager has it,
    /// too: a person who edits finalizers by hand, or a restored backup.
    pub async fn remove_finalizer(
        &self,
        kind: Kind,
        object: &ClusterObject,
    ) -> Result<ClusterObject, ClusterError> {
        let all = object.metadata.finalizers.iter().flatten();
        let others: Vec<&String> = all.filter(|name| *name != FINALIZER).collect();
        // At exactly this version: the list replaces the one that is there.
        let body = json!({
            "metadata": {
                "uid": object.uid(),
                "resourceVersion": object.resource_version(),
                "finalizers": others,
            },
        });
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&body);
        let written = read(self.api(kind).patch(object.name(), &parameters, &patch).await?);
        match written.has_finalizer() {
            true => Err(ClusterError::FinalizerKept),
            false => Ok(written),
        }
    }

    /// Creates or changes an object by server-side apply.
    pub async fn apply(
        &self,
        kind: Kind,
        name: &str,
        body: &Value,
    ) -> Result<ClusterObject, ClusterError> {
        let written = self.api(kind).patch(name, &parameters(), &Patch::Apply(body)).await?;
        Ok(read(written))
    }

    /// Writes a status by server-side apply.
    pub async fn apply_status(
        &self,
        kind: Kind,
        name: &str,
        body: &Value,
    ) -> Result<ClusterObject, ClusterError> {
        let written = self.api(kind).patch_status(name, &parameters(), &Patch::Apply(body)).await?;
        Ok(read(written))
    }

    /// Deletes exactly this object.
    pub async fn delete(&self, kind: Kind, object: &ClusterObject) -> Result<(), ClusterError> {
        let preconditions =
            Preconditions { uid: Some(object.uid().to_owned()), resource_version: None };
        let parameters = DeleteParams::background().preconditions(preconditions);
        match self.api(kind).delete(object.name(), &parameters).await.map_err(ClusterError::from) {
            Ok(_) | Err(ClusterError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Records an Event at an object, once.
    pub async fn record(
        &self,
        kind: Kind,
        object: &ClusterObject,
        change: &Transition,
        now: Timestamp,
    ) -> Result<(), ClusterError> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let event = event(kind, object, change, now);
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match events.create(&parameters, &event).await.map_err(ClusterError::from) {
            // It was recorded before a restart.
            Ok(_) | Err(ClusterError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Only fields that this manager writes are taken from others.
fn parameters() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

/// What is needed of an object.
pub(super) fn read(object: DynamicObject) -> ClusterObject {
    let DynamicObject { mut metadata, mut data, .. } = object;
    // Who manages which field takes more memory than all the rest.
    metadata.managed_fields = None;
    let mut part = |name: &str| data.get_mut(name).map(Value::take).unwrap_or_default();
    ClusterObject { spec: part("spec"), status: part("status"), metadata }
}
