//! Which database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// A database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location(PathBuf);

/// A database that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` cannot be used as a database: {why}")]
pub struct BadLocation {
    text: String,
    why: &'static str,
}

impl Location {
    /// A SQLite file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file as a URL; whatever could mean something in a URL is escaped.
    pub(crate) fn url(&self) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
        let escape = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        let path: String = self.0.to_str()?.bytes().map(escape).collect();
        Some(format!("sqlite://{path}?mode=rwc"))
    }
}

impl FromStr for Location {
    type Err = BadLocation;

    fn from_str(text: &str) -> Result<Self, BadLocation> {
        let refuse = |why| Err(BadLocation { text: text.to_owned(), why });
        match text.split_once("://") {
            _ if text.is_empty() => refuse("it is empty"),
            None => Ok(Self::file(text)),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::file(path)),
            Some(_) => refuse("only a path or sqlite://<path> is known in this version"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::Location;

    #[test]
    fn odd_characters_in_a_path_stay_part_of_the_path() {
        let url = Location::file("/a b/c?d#e%f/ü.db").url().unwrap();
        assert_eq!(url, "sqlite:///a%20b/c%3Fd%23e%25f/%C3%BC.db?mode=rwc");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!("postgres://x/y".parse::<Location>().is_err());
        assert!("".parse::<Location>().is_err());
        assert_eq!("sqlite:///x.db".parse(), Ok(Location::file("/x.db")));
        assert_eq!("x.db".parse(), Ok(Location::file("x.db")));
    }
}
