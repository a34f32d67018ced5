//! A tool that an MCP server says it has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an MCP server offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscoveredTool {
    /// Its name.
    pub name: String,
    /// Whether it says that it only reads.
    #[serde(default)]
    pub read_only: bool,
}
