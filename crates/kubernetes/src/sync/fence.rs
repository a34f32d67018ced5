//! The fence of the operator's writes to the control plane: a ConfigMap there that each new leader changes.
//!
//! Every write is applied together with this document at the version that the leader has written, all or nothing.
//! A leader that was paused and replaced names an older version, and the control plane refuses the whole write.

use std::collections::BTreeMap;

use bailiwick_resources::{AnyObject, ConfigMap, Metadata, Object, ObjectError};

/// The name of the ConfigMap.
pub const FENCE_NAME: &str = "bailiwick-operator";
const EPOCH: &str = "epoch";
const HOLDER: &str = "holder";

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
    pub fn takeover(there: Option<&AnyObject>, holder: &str) -> Result<AnyObject, ObjectError> {
        let before = there.map(AnyObject::typed::<ConfigMap>).transpose()?;
        let epoch = before.as_ref().and_then(|fence| fence.spec.data.get(EPOCH)?.parse().ok());
        let epoch: u64 = epoch.unwrap_or_default();
        let data = BTreeMap::from([
            (EPOCH.to_owned(), epoch.saturating_add(1).to_string()),
            (HOLDER.to_owned(), holder.to_owned()),
        ]);
        let mut metadata = Metadata::named(FENCE_NAME);
        metadata.resource_version = before.map_or(0, |fence| fence.metadata.resource_version);
        AnyObject::of(&Object::new(metadata, ConfigMap { data }))
    }

    /// The fence as the control plane has stored it.
    pub fn written(stored: AnyObject) -> Self {
        Self(stored)
    }

    /// The documents of a fenced write.
    pub fn guard(&self, document: AnyObject) -> [AnyObject; 2] {
        [self.0.clone(), document]
    }

    /// Whether this leader is still the last one that wrote the fence.
    pub fn check(&self, there: Option<&AnyObject>) -> Result<(), FenceLost> {
        let found = there.map_or(0, |fence| fence.metadata.resource_version);
        let ours = self.0.metadata.resource_version;
        if found == ours { Ok(()) } else { Err(FenceLost { found, ours }) }
    }
}

#[cfg(test)]
mod tests {
    use super::Fence;

    #[test]
    fn each_leader_has_a_higher_epoch_and_replaces_the_version_it_has_seen() {
        let mut first = Fence::takeover(None, "a").unwrap();
        assert_eq!(
            (first.metadata.resource_version, &first.spec["data"]["epoch"]),
            (0, &"1".into())
        );
        first.metadata.resource_version = 7;
        let mut second = Fence::takeover(Some(&first), "b").unwrap();
        assert_eq!(second.metadata.resource_version, 7);
        assert_eq!(second.spec["data"], serde_json::json!({ "epoch": "2", "holder": "b" }));
        second.metadata.resource_version = 9;
        let stale = Fence::written(first.clone());
        assert!(stale.check(Some(&second)).is_err() && stale.check(None).is_err());
        assert!(Fence::written(second.clone()).check(Some(&second)).is_ok());
        assert_eq!(stale.guard(second)[0], first, "the stale version is named, and refused");
    }
}
