//! What an object needs to run, and whether it is granted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, KeysRef, Kind, ObjectRef, Resource};

/// The requirements of a stack or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentCapabilityRequirement {
    /// The object that has the requirements.
    pub owner_ref: ObjectRef,
    /// Keys of secrets that it needs.
    #[serde(default)]
    pub required_secret_refs: Vec<KeysRef>,
    /// Keys of config maps that it needs.
    #[serde(default)]
    pub required_config_refs: Vec<KeysRef>,
    /// Roles that it needs.
    #[serde(default)]
    pub required_roles: Vec<String>,
    /// Capabilities that its service account needs.
    #[serde(default)]
    pub required_service_account_capabilities: Vec<String>,
}

/// A missing grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MissingGrant {
    /// The kind of grant: AgentSecretGrant, AgentConfigGrant or AgentRoleBinding.
    pub kind: Kind,
    /// A suggested name that is not in use.
    pub suggested_name: String,
    /// The reason why it is needed.
    pub reason: String,
    /// If true, nothing can be started without it.
    pub blocking: bool,
}

/// The status of the requirements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentCapabilityRequirementStatus {
    /// Missing grants.
    pub missing_grants: Vec<MissingGrant>,
    /// Grants that exist but are not valid.
    pub invalid_grants: Vec<ObjectRef>,
    /// The conditions of the requirements.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

impl Resource for AgentCapabilityRequirement {
    const KIND: Kind = Kind::AgentCapabilityRequirement;
    type Status = AgentCapabilityRequirementStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
