//! What a copy says of its origin: which object of which namespace, at which generation, with which labels and
//! annotations.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::{AnyObject, Kind};

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

/// Which object a copy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The namespace of the object.
    pub namespace: NamespaceUid,
    /// Its kind.
    pub kind: Kind,
    /// Its name, which is also that of the copy.
    pub name: String,
}

/// The origin of a copy, as its annotation has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The object; nothing in a mark of an earlier version.
    pub origin: Option<Origin>,
    /// The unique ID of the object of the cluster.
    pub uid: String,
    /// The generation of its spec.
    pub generation: u64,
    /// The digest of the labels and annotations, which change without a new generation.
    pub words: String,
}

impl Mark {
    pub(super) fn new(
        origin: Origin,
        uid: &str,
        generation: u64,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let words = Sha256Hex::of(format!("{labels:?}\n{annotations:?}")).prefix(16).to_owned();
        Self { origin: Some(origin), uid: uid.to_owned(), generation, words }
    }

    /// Whether the copy comes from this namespace. In a mark of an earlier version only the object's ID says so.
    pub(super) fn is_of(&self, namespace: &NamespaceUid, uid: &str) -> bool {
        match &self.origin {
            Some(origin) => origin.namespace == *namespace,
            None => self.uid == uid,
        }
    }

    /// Whether the copy is of this generation of the object, whatever else the marks say.
    pub(super) fn is_generation_of(&self, other: &Self) -> bool {
        (&self.uid, self.generation) == (&other.uid, other.generation)
    }

    /// The mark of a copy; nothing on an object that the operator did not copy. A mark that names another object was
    /// copied by a person, together with the rest of a document.
    pub fn of(object: &AnyObject) -> Option<Self> {
        let mark: Self = object.metadata.annotations.get(COPIED_FROM)?.parse().ok()?;
        let is_own = mark.origin.as_ref().is_none_or(|origin| {
            (origin.kind, &origin.name) == (object.kind, &object.metadata.name)
        });
        is_own.then_some(mark)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.uid, self.generation, self.words)?;
        match &self.origin {
            Some(Origin { namespace, kind, name }) => {
                write!(out, "/{}/{kind}/{name}", namespace.as_str())
            }
            None => Ok(()),
        }
    }
}

/// The text is not a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a mark is UID/GENERATION/DIGEST/NAMESPACE/KIND/NAME")]
pub struct MalformedMark;

impl FromStr for Mark {
    type Err = MalformedMark;

    /// Marks of earlier versions end with the digest or with the namespace. Neither of them says of which object the
    /// copy is.
    fn from_str(text: &str) -> Result<Self, MalformedMark> {
        let parts: Vec<&str> = text.split('/').collect();
        let (uid, generation, words, origin) = match parts.as_slice() {
            [uid, generation, words] => (uid, generation, words, None),
            [uid, generation, words, namespace] => {
                NamespaceUid::parse(namespace).ok_or(MalformedMark)?;
                (uid, generation, words, None)
            }
            [uid, generation, words, namespace, kind, name] => {
                let namespace = NamespaceUid::parse(namespace).ok_or(MalformedMark)?;
                let kind = Kind::ALL.iter().find(|known| known.as_str() == *kind);
                let kind = *kind.ok_or(MalformedMark)?;
                let name = Some(*name).filter(|name| !name.is_empty()).ok_or(MalformedMark)?;
                let origin = Origin { namespace, kind, name: name.to_owned() };
                (uid, generation, words, Some(origin))
            }
            _ => return Err(MalformedMark),
        };
        let generation = generation.parse().map_err(|_| MalformedMark)?;
        Ok(Self { origin, uid: (*uid).to_owned(), generation, words: (*words).to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Kind;

    use super::{MalformedMark, Mark, NamespaceUid, Origin};

    fn origin() -> Origin {
        let namespace = NamespaceUid::parse("n-1").unwrap();
        Origin { namespace, kind: Kind::RunnerPool, name: "fast".to_owned() }
    }

    #[test]
    fn mark_round_trips_through_text() {
        let mark = Mark::new(origin(), "u-1", 3, &[("a".into(), "b".into())].into(), &[].into());
        assert!(mark.to_string().ends_with("/n-1/RunnerPool/fast"), "{mark}");
        assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
        let earlier = Mark { origin: None, ..mark };
        assert_eq!(earlier.to_string().parse(), Ok(earlier.clone()));
        assert_eq!(format!("{earlier}/n-1").parse(), Ok(earlier));
        let malformed = ["", "u/1", "u/x/d", "u/1/d/", "u/1/d/n/e", "u/1/d/n/Nothing/e"];
        for malformed in
            malformed.into_iter().chain(["u/1/d/n/RunnerPool/", "u/1/d/n/RunnerPool/e/f"])
        {
            assert_eq!(malformed.parse::<Mark>(), Err(MalformedMark), "{malformed}");
        }
    }

    #[test]
    fn different_labels_or_annotations_give_a_different_mark() {
        let entries = |key: &str| [(key.to_owned(), "x".to_owned())].into();
        let one = Mark::new(origin(), "u", 1, &entries("a"), &[].into());
        assert_ne!(one, Mark::new(origin(), "u", 1, &entries("b"), &[].into()));
        assert_ne!(one, Mark::new(origin(), "u", 1, &[].into(), &entries("a")));
    }
}
