//! How much of an agent's activity is recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of each call is recorded.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AuditLevel {
    /// That there was one.
    Metadata,
    /// And the inputs.
    Inputs,
    /// And the outputs.
    Outputs,
    /// And the whole conversation, without secrets.
    #[default]
    FullRedactedTranscript,
}
