//! What an object needs to be run, and whether it is granted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, KeysRef, Kind, ObjectRef, Resource};

/// The needs of a tool profile, MCP server, skill, sub-agent, model or stack, as they were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentCapabilityRequirement {
    /// What has the needs.
    pub owner_ref: ObjectRef,
    /// Keys of secrets.
    #[serde(default)]
    pub required_secret_refs: Vec<KeysRef>,
    /// Keys of config maps.
    #[serde(default)]
    pub required_config_refs: Vec<KeysRef>,
    /// Roles.
    #[serde(default)]
    pub required_roles: Vec<String>,
    /// What its identity must be able to do.
    #[serde(default)]
    pub required_service_account_capabilities: Vec<String>,
}

/// A grant that is wanting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MissingGrant {
    /// AgentSecretGrant, AgentConfigGrant or AgentRoleBinding.
    pub kind: Kind,
    /// A name that would be free.
    pub suggested_name: String,
    /// Why it is needed.
    pub reason: String,
    /// Whether nothing can be started without it.
    pub blocking: bool,
}

/// What the control plane knows of the needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentCapabilityRequirementStatus {
    /// Grants that are wanting.
    pub missing_grants: Vec<MissingGrant>,
    /// Grants that are there and do not hold.
    pub invalid_grants: Vec<ObjectRef>,
    /// Why.
    pub conditions: Vec<Condition>,
    /// The generation that this speaks of.
    pub observed_generation: u64,
}

impl Resource for AgentCapabilityRequirement {
    const KIND: Kind = Kind::AgentCapabilityRequirement;
    type Status = AgentCapabilityRequirementStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
