//! The IDs of commits and trees in git: one type each, so that they cannot be mixed up.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// An id that git printed.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                // With a precision it is cut, as `{id:.12}` in messages.
                out.pad(&self.0)
            }
        }

        // Git accepts either as text.
        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<OsStr> for $name {
            fn as_ref(&self) -> &OsStr {
                self.0.as_ref()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl PartialEq<String> for $name {
            fn eq(&self, other: &String) -> bool {
                self.0 == *other
            }
        }

        impl PartialEq<$name> for String {
            fn eq(&self, other: &$name) -> bool {
                *self == other.0
            }
        }

        impl PartialEq<$name> for str {
            fn eq(&self, other: &$name) -> bool {
                *self == other.0
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

object_id!(
    /// The id of a commit.
    CommitId
);
object_id!(
    /// The id of a tree.
    TreeId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_truncated_in_messages_and_complete_in_json() {
        let id = CommitId::new("0123456789abcdef");
        assert_eq!(format!("{id:.12} {id}"), "0123456789ab 0123456789abcdef");
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, "\"0123456789abcdef\"");
        assert_eq!(serde_json::from_str::<CommitId>(&json).unwrap(), id);
    }
}
