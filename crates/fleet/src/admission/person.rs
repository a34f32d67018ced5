//! A person who has signed in, as the identity provider described them.

use bailiwick_resources::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A person who has signed in, as the identity provider described them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonRecord {
    /// The name, as in tokens.
    pub name: String,
    /// The groups, sorted.
    pub groups: Vec<String>,
    /// When the person signed in last.
    pub signed_in_at: Moment,
    /// Until when the groups count.
    pub valid_until: Moment,
}
