//! The fence of the operator's writes to the control plane: a ConfigMap there that each new leader changes.
//!
//! Every write requires it at the version that the leader has written, in the same transaction. A leader that was paused
//! and replaced names an older version, and the control plane refuses the whole write. It also names the namespace of
//! the cluster whose copies the control plane has: an operator of another namespace or cluster does not lead there.

use std::collections::BTreeMap;

use bailiwick_resources::{AnyObject, ConfigMap, Metadata, OPERATOR_FENCE, Object, ObjectError};

use super::mark::NamespaceUid;

/// The name of the ConfigMap.
pub const FENCE_NAME: &str = OPERATOR_FENCE;
const EPOCH: &str = "epoch";
const HOLDER: &str = "holder";
const NAMESPACE: &str = "namespace";

/// From whom a leader takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// From a leader of the same namespace.
    SameNamespace,
    /// From a leader of any namespace of any cluster. Its copies stay as they are.
    AnyNamespace,
}

/// Why a leader may not take over.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// There is something else under its name.
    #[error("ConfigMap `bailiwick-operator` of the server is not a fence: {0}")]
    Malformed(#[from] ObjectError),
    /// The control plane follows another namespace.
    #[error(
        "the server follows another namespace or cluster: the uid of its namespace is {known}, here it is {ours}; \
         check KUBECONFIG, --namespace and --server, or start the operator once with --take-over"
    )]
    OtherNamespace {
        /// The namespace that it follows.
        known: String,
        /// The namespace of this operator.
        ours: String,
    },
}

/// The fence as this leader has written it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fence(AnyObject);

/// Another operator has become the leader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("another operator leads: the fence is at version {found}, ours is {ours}")]
pub struct FenceLost {
    /// The version that is there.
    pub found: u64,
    /// The version that this leader has written.
    pub ours: u64,
}

impl Fence {
    /// The document by which a new leader takes over from the one before. It replaces exactly that version.
    pub fn takeover(
        there: Option<&AnyObject>,
        holder: &str,
        namespace: &NamespaceUid,
        takeover: Takeover,
    ) -> Result<AnyObject, TakeoverError> {
        let before = there.map(AnyObject::typed::<ConfigMap>).transpose()?;
        let field = |key: &str| before.as_ref().and_then(|fence| fence.spec.data.get(key));
        // A fence of an earlier version names no namespace.
        if let Some(known) = field(NAMESPACE)
            && known != namespace.as_str()
            && takeover == Takeover::SameNamespace
        {
            let (known, ours) = (known.clone(), namespace.as_str().to_owned());
            return Err(TakeoverError::OtherNamespace { known, ours });
        }
        let epoch: u64 = field(EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        let data = BTreeMap::from([
            (EPOCH.to_owned(), epoch.saturating_add(1).to_string()),
            (HOLDER.to_owned(), holder.to_owned()),
            (NAMESPACE.to_owned(), namespace.as_str().to_owned()),
        ]);
        let mut metadata = Metadata::named(FENCE_NAME);
        metadata.resource_version = before.map_or(0, |fence| fence.metadata.resource_version);
        Ok(AnyObject::of(&Object::new(metadata, ConfigMap { data }))?)
    }

    /// The fence as the control plane has stored it.
    pub fn written(stored: AnyObject) -> Self {
        Self(stored)
    }

    /// The version that every write of this leader requires.
    pub fn version(&self) -> u64 {
        self.0.metadata.resource_version
    }

    /// Whether this leader is still the last one that wrote the fence.
    pub fn check(&self, there: Option<&AnyObject>) -> Result<(), FenceLost> {
        let found = there.map_or(0, |fence| fence.metadata.resource_version);
        let ours = self.version();
        if found == ours { Ok(()) } else { Err(FenceLost { found, ours }) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fence, NamespaceUid, Takeover, TakeoverError};

    fn uid(text: &str) -> NamespaceUid {
        NamespaceUid::parse(text).unwrap()
    }

    #[test]
    fn each_leader_has_a_higher_epoch_and_replaces_the_version_it_read() {
        let (here, same) = (uid("n"), Takeover::SameNamespace);
        let mut first = Fence::takeover(None, "a", &here, same).unwrap();
        assert_eq!(
            (first.metadata.resource_version, &first.spec["data"]["epoch"]),
            (0, &"1".into())
        );
        first.metadata.resource_version = 7;
        let mut second = Fence::takeover(Some(&first), "b", &here, same).unwrap();
        assert_eq!(second.metadata.resource_version, 7);
        let data = serde_json::json!({ "epoch": "2", "holder": "b", "namespace": "n" });
        assert_eq!(second.spec["data"], data);
        second.metadata.resource_version = 9;
        let stale = Fence::written(first);
        assert!(stale.check(Some(&second)).is_err() && stale.check(None).is_err());
        assert_eq!(stale.version(), 7, "the stale version is sent, so the write is refused");
        assert!(Fence::written(second.clone()).check(Some(&second)).is_ok());
    }

    #[test]
    fn operator_of_another_namespace_takes_over_only_if_allowed() {
        let first = Fence::takeover(None, "a", &uid("n"), Takeover::SameNamespace).unwrap();
        let refused = Fence::takeover(Some(&first), "b", &uid("m"), Takeover::SameNamespace);
        assert!(matches!(refused, Err(TakeoverError::OtherNamespace { .. })), "{refused:?}");
        let allowed =
            Fence::takeover(Some(&first), "b", &uid("m"), Takeover::AnyNamespace).unwrap();
        assert_eq!(allowed.spec["data"]["namespace"], "m");
        // An earlier version of the operator stored no namespace.
        let mut earlier = first;
        earlier.spec["data"].as_object_mut().unwrap().remove("namespace");
        assert!(Fence::takeover(Some(&earlier), "b", &uid("m"), Takeover::SameNamespace).is_ok());
    }
}
