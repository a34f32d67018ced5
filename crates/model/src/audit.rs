//! How much of what an agent did is recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of each call is written down.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AuditLevel {
    /// That there was one.
    Metadata,
    /// And what went in.
    Inputs,
    /// And what came out.
    Outputs,
    /// And everything that was said, without secrets.
    #[default]
    FullRedactedTranscript,
}
