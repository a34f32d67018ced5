//! A tool that an MCP server lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscoveredTool {
    /// Its name.
    pub name: String,
    /// Whether the server declares it read-only.
    #[serde(default)]
    pub read_only: bool,
}
