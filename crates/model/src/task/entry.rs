//! The checked texts and lists that fields of a task consist of.

use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_spanned::Spanned;
use thiserror::Error;

use crate::checked;

/// A list with its place in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct List<T>(Spanned<Vec<T>>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Spanned::new(0..0, Vec::new()))
    }
}

impl<T> List<T> {
    /// The entries.
    pub fn get(&self) -> &[T] {
        self.0.get_ref()
    }

    pub fn is_empty(&self) -> bool {
        self.get().is_empty()
    }

    /// Its place in the file.
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }

    /// Its place in the file, unless it is empty.
    pub(super) fn span_if_set(&self) -> Option<Range<usize>> {
        (!self.is_empty()).then(|| self.0.span())
    }
}

/// A text that a list or field of a task does not accept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` {reason}")]
pub struct InvalidEntry {
    text: String,
    reason: &'static str,
}

macro_rules! checked_entry {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                checked::text(input)
            }
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl From<$name> for String {
            fn from(checked: $name) -> String {
                checked.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidEntry;

            fn try_from(text: String) -> Result<Self, InvalidEntry> {
                let check: fn(&str) -> Result<(), &'static str> = $check;
                match check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(reason) => Err(InvalidEntry { text, reason }),
                }
            }
        }
    };
}

checked_entry!(
    /// A short text in one line.
    Line,
    |text| {
        if text.trim().is_empty() {
            Err("is empty")
        } else if text.chars().any(char::is_control) {
            Err("has a line break or another control character in it")
        } else if text.chars().count() > 128 {
            Err("is longer than 128 characters")
        } else {
            Ok(())
        }
    }
);

checked_entry!(
    /// The name of a Rust crate.
    CrateName,
    |text| {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(inside) {
            Ok(())
        } else {
            Err("is not the name of a crate")
        }
    }
);

checked_entry!(
    /// A glob with the meaning it has in .gitignore.
    PathPattern,
    |text| {
        if text.trim().is_empty() {
            Err("is an empty pattern, which would match nothing")
        } else if text.starts_with('!') {
            Err("begins with `!`: a pattern cannot be negated; use files-denylist")
        } else if text.contains(['\0', '\n', '\r']) {
            Err("has a character that no path has")
        } else if text.split('/').any(|part| part == "..") {
            Err("has `..` in it: a pattern cannot leave the repository")
        } else if text.matches("**").count() > 4 || text.matches('*').count() > 32 {
            // Each wildcard multiplies the ways to match a path.
            Err("has more than four `**`, or more than 32 `*`: say it more simply")
        } else {
            Ok(())
        }
    }
);

checked_entry!(
    /// A path inside the repository.
    RelativePath,
    |text| {
        if text.trim().is_empty() || text.starts_with('/') {
            Err("is not a path relative to the repository's root")
        } else if text.contains('\0') || text.split('/').any(|part| part == ".." || part == ".git") {
            Err("has `..` or `.git` in it: it cannot leave the repository")
        } else {
            Ok(())
        }
    }
);

checked_entry!(
    /// A command line for `/bin/sh -c`.
    ShellCommand,
    |text| {
        if text.trim().is_empty() {
            Err("is empty: it would check nothing")
        } else if text.contains('\0') {
            Err("has a NUL in it")
        } else {
            Ok(())
        }
    }
);
