//! What a copy says of its origin: which object of which namespace, at which generation, with which labels and
//! annotations.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::AnyObject;

use super::COPIED_FROM;

/// The unique ID of the namespace that an operator keeps in step. No other namespace or cluster has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceUid(String);

impl NamespaceUid {
    /// Nothing if it cannot be part of a mark.
    pub fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && !text.contains('/')).then(|| Self(text.to_owned()))
    }

    /// As Kubernetes writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The origin of a copy, as its annotation has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The namespace of the object; nothing in a mark of an earlier version.
    pub namespace: Option<NamespaceUid>,
    /// The unique ID of the object of the cluster.
    pub uid: String,
    /// The generation of its spec.
    pub generation: u64,
    /// The digest of the labels and annotations, which change without a new generation.
    pub words: String,
}

impl Mark {
    pub(super) fn new(
        namespace: &NamespaceUid,
        uid: &str,
        generation: u64,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let words = Sha256Hex::of(format!("{labels:?}\n{annotations:?}")).prefix(16).to_owned();
        Self { namespace: Some(namespace.clone()), uid: uid.to_owned(), generation, words }
    }

    /// Whether the copy comes from this namespace. In a mark of an earlier version only the object's ID says so.
    pub(super) fn is_of(&self, namespace: &NamespaceUid, uid: &str) -> bool {
        match &self.namespace {
            Some(known) => known == namespace,
            None => self.uid == uid,
        }
    }

    /// Whether the copy is of this version of the object, whatever else the marks say.
    pub(super) fn is_version_of(&self, other: &Self) -> bool {
        (&self.uid, self.generation, &self.words) == (&other.uid, other.generation, &other.words)
    }

    /// The mark of a copy; nothing on an object that the operator did not copy.
    pub fn of(object: &AnyObject) -> Option<Self> {
        object.metadata.annotations.get(COPIED_FROM)?.parse().ok()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.uid, self.generation, self.words)?;
        match &self.namespace {
            Some(namespace) => write!(out, "/{}", namespace.as_str()),
            None => Ok(()),
        }
    }
}

/// The text is not a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a mark is UID/GENERATION/DIGEST/NAMESPACE")]
pub struct MalformedMark;

impl FromStr for Mark {
    type Err = MalformedMark;

    fn from_str(text: &str) -> Result<Self, MalformedMark> {
        let mut parts = text.split('/');
        let (Some(uid), Some(generation), Some(words), namespace, None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(MalformedMark);
        };
        let generation = generation.parse().map_err(|_| MalformedMark)?;
        let namespace = match namespace {
            Some(text) => Some(NamespaceUid::parse(text).ok_or(MalformedMark)?),
            None => None,
        };
        Ok(Self { namespace, uid: uid.to_owned(), generation, words: words.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::{MalformedMark, Mark, NamespaceUid};

    fn namespace_uid() -> NamespaceUid {
        NamespaceUid::parse("n-1").unwrap()
    }

    #[test]
    fn mark_round_trips_through_text() {
        let mark =
            Mark::new(&namespace_uid(), "u-1", 3, &[("a".into(), "b".into())].into(), &[].into());
        assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
        let earlier = Mark { namespace: None, ..mark };
        assert_eq!(earlier.to_string().parse(), Ok(earlier));
        for malformed in ["", "u/1", "u/x/d", "u/1/d/", "u/1/d/n/e"] {
            assert_eq!(malformed.parse::<Mark>(), Err(MalformedMark), "{malformed}");
        }
    }

    #[test]
    fn different_labels_or_annotations_give_a_different_mark() {
        let entries = |key: &str| [(key.to_owned(), "x".to_owned())].into();
        let one = Mark::new(&namespace_uid(), "u", 1, &entries("a"), &[].into());
        assert_ne!(one, Mark::new(&namespace_uid(), "u", 1, &entries("b"), &[].into()));
        assert_ne!(one, Mark::new(&namespace_uid(), "u", 1, &[].into(), &entries("a")));
    }
}
