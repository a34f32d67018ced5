//! SHA-256 digests as lower-case hex.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256 digest in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sha256Hex(String);

impl Sha256Hex {
    /// The digest of some bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        let digest = Sha256::digest(bytes.as_ref());
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// All 64 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first `length` characters.
    pub fn prefix(&self, length: usize) -> &str {
        self.0.get(..length).unwrap_or(&self.0)
    }
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Sha256Hex;

    #[test]
    fn empty_text_has_its_known_digest() {
        let digest = Sha256Hex::of("");
        assert_eq!(digest.prefix(16), "e3b0c44298fc1c14");
        assert_eq!(digest.as_str().len(), 64);
    }
}
