//! The name of an issue: `#3` in this repository, or `owner/name#42` on a forge.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The name of an issue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IssueName {
    /// `owner/name` on a forge; nothing for an issue in the repository itself.
    pub repository: Option<String>,
    /// Its number.
    pub number: u64,
}

/// Why a text is not the name of an issue.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not an issue: write `#3`, or `owner/name#42` for an issue on a forge")]
pub struct IssueNameError(String);

impl FromStr for IssueName {
    type Err = IssueNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || IssueNameError(text.chars().take(200).collect());
        let (repository, number) = match text.rsplit_once('#') {
            Some((repository, number)) => (repository, number),
            None => ("", text),
        };
        let digits = |byte: u8| byte.is_ascii_digit();
        if number.is_empty() || !number.bytes().all(digits) {
            return Err(refuse());
        }
        let number = number.parse().map_err(|_| refuse())?;
        if repository.is_empty() {
            return Ok(Self { repository: None, number });
        }
        let is_part = |part: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !matches!(part, "" | "." | "..") && part.bytes().all(is_plain)
        };
        match repository.split_once('/') {
            Some((owner, name)) if is_part(owner) && is_part(name) => {
                Ok(Self { repository: Some(repository.to_owned()), number })
            }
            Some(_) | None => Err(refuse()),
        }
    }
}

impl fmt::Display for IssueName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}#{}", self.repository.as_deref().unwrap_or_default(), self.number)
    }
}

impl<'de> Deserialize<'de> for IssueName {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for IssueName {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::IssueName;

    #[test]
    fn valid_names_round_trip_through_text() {
        for text in ["#3", "acme/app#42", "a.b/c-d_e#1"] {
            assert_eq!(text.parse::<IssueName>().unwrap().to_string(), text);
        }
        assert_eq!("7".parse::<IssueName>().unwrap().to_string(), "#7");
        for text in ["", "#", "#x", "app#3", "a/b/c#3", "../b#3", "a/#3", "a/b#-1", "a b/c#1"] {
            assert!(text.parse::<IssueName>().is_err(), "{text}");
        }
    }
}
