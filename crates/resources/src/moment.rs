//! A moment as resources write it: RFC 3339, in milliseconds.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A point in time, as RFC 3339 text. Internally milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The time this many milliseconds after the start of 1970.
    pub fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> u64 {
        self.0
    }

    /// The time this much later, or the latest possible time.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
        write!(out, "{time:.3}")
    }
}

/// Why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMoment {
    #[error("`{0}` is not a time; write it as 2026-11-15T18:00:00Z")]
    NotATime(String),
    #[error("`{0}` is before 1970")]
    BeforeEpoch(String),
}

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        let time: Timestamp = text.parse().map_err(|_| InvalidMoment::NotATime(text.to_owned()))?;
        u64::try_from(time.as_millisecond())
            .map(Self)
            .map_err(|_| InvalidMoment::BeforeEpoch(text.to_owned()))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Moment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Moment".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn moment_survives_a_round_trip() {
        for millis in [0, 1, 999, 1_794_000_000_123, 253_402_207_200_999] {
            let moment = Moment::from_millis(millis);
            assert_eq!(moment.to_string().parse(), Ok(moment), "{moment}");
        }
        assert_eq!(Moment::from_millis(1_500).to_string(), "1970-01-01T00:00:01.500Z");
        assert!("yesterday".parse::<Moment>().is_err());
    }
}
