//! The location of a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// The path of an SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location(PathBuf);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` cannot be used as a database: {why}")]
pub struct LocationError {
    text: String,
    why: &'static str,
}

impl Location {
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path as a URL with all special characters escaped; none if it is not UTF-8.
    pub(crate) fn url(&self) -> Option<String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
        let escape = |byte: u8| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        let path: String = self.0.to_str()?.bytes().map(escape).collect();
        Some(format!("sqlite://{path}?mode=rwc"))
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let refuse = |why| Err(LocationError { text: text.to_owned(), why });
        match text.split_once("://") {
            _ if text.is_empty() => refuse("it is empty"),
            None => Ok(Self::file(text)),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::file(path)),
            Some(_) => refuse("only a path or sqlite://<path> is supported"),
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
    fn special_characters_stay_part_of_the_path() {
        let url = Location::file("/a b/c?d#e%f/ü.db").url().unwrap();
        assert_eq!(url, "sqlite:///a%20b/c%3Fd%23e%25f/%C3%BC.db?mode=rwc");
    }

    #[test]
    fn other_databases_are_refused() {
        assert!("postgres://x/y".parse::<Location>().is_err());
        assert!("".parse::<Location>().is_err());
        assert_eq!("sqlite:///x.db".parse(), Ok(Location::file("/x.db")));
        assert_eq!("x.db".parse(), Ok(Location::file("x.db")));
    }
}
