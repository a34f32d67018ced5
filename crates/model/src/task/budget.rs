//! `[budget]` of a task.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// `[budget]`: what the agent and all that it starts may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Budget {
    /// Tokens, in and out.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub tokens: Option<u64>,
    /// Money, in United States dollars.
    #[schemars(with = "Option<f64>", range(min = 0.000_001))]
    #[serde(deserialize_with = "some_amount")]
    pub usd: Option<f64>,
    /// Answers of the model.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub turns: Option<u64>,
    /// Minutes on the clock.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub minutes: Option<u64>,
    /// Tool calls.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub tool_calls: Option<u64>,
    /// Whether a run without `tokens`, `usd` and `turns` has none of these limits, in the place of the default.
    pub unlimited: bool,
}

fn some_positive<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    match u64::deserialize(input)? {
        0 => Err(serde::de::Error::custom("a budget of 0 lets nothing start; leave the key out")),
        limit => Ok(Some(limit)),
    }
}

fn some_amount<'de, D: Deserializer<'de>>(input: D) -> Result<Option<f64>, D::Error> {
    let amount = f64::deserialize(input)?;
    if amount.is_finite() && amount > 0.0 {
        Ok(Some(amount))
    } else {
        Err(serde::de::Error::custom("a budget must be more than 0; leave the key out"))
    }
}
