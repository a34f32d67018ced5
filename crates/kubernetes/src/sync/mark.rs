//! What a copy says of its origin: which object, at which generation, with which labels and annotations.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::AnyObject;

use super::COPIED_FROM;

/// The origin of a copy, as its annotation has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The unique ID of the object of the cluster.
    pub uid: String,
    /// The generation of its spec.
    pub generation: u64,
    /// The digest of the labels and annotations, which change without a new generation.
    pub words: String,
}

impl Mark {
    pub(super) fn new(
        uid: &str,
        generation: u64,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let words = Sha256Hex::of(format!("{labels:?}\n{annotations:?}")).prefix(16).to_owned();
        Self { uid: uid.to_owned(), generation, words }
    }

    /// The mark of a copy; nothing on an object that the operator did not copy.
    pub fn of(object: &AnyObject) -> Option<Self> {
        object.metadata.annotations.get(COPIED_FROM)?.parse().ok()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.uid, self.generation, self.words)
    }
}

/// The text is not a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a mark is UID/GENERATION/DIGEST")]
pub struct MalformedMark;

impl FromStr for Mark {
    type Err = MalformedMark;

    fn from_str(text: &str) -> Result<Self, MalformedMark> {
        let mut parts = text.split('/');
        let (Some(uid), Some(generation), Some(words), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(MalformedMark);
        };
        let generation = generation.parse().map_err(|_| MalformedMark)?;
        Ok(Self { uid: uid.to_owned(), generation, words: words.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::{MalformedMark, Mark};

    #[test]
    fn a_mark_is_read_as_it_is_written() {
        let mark = Mark::new("u-1", 3, &[("a".into(), "b".into())].into(), &[].into());
        assert_eq!(mark.to_string().parse(), Ok(mark));
        for wrong in ["", "u/1", "u/x/d", "u/1/d/e"] {
            assert_eq!(wrong.parse::<Mark>(), Err(MalformedMark), "{wrong}");
        }
    }

    #[test]
    fn other_labels_or_annotations_are_another_mark() {
        let words = |key: &str| [(key.to_owned(), "x".to_owned())].into();
        let one = Mark::new("u", 1, &words("a"), &[].into());
        assert_ne!(one, Mark::new("u", 1, &words("b"), &[].into()));
        assert_ne!(one, Mark::new("u", 1, &[].into(), &words("a")));
    }
}
