//! Objects that a platform such as Kubernetes brings; on the embedded default they are ours.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, NoStatus, Resource, ResourceRule, RoleRef, Subject};

/// An identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServiceAccount {
    /// Whether tokens may be made for it.
    pub forbid_token_projection: bool,
    /// Secrets for pulling images.
    pub image_pull_secrets: Vec<String>,
}

impl Resource for ServiceAccount {
    const KIND: Kind = Kind::ServiceAccount;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A set of rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Role {
    /// What it allows.
    pub rules: Vec<ResourceRule>,
    /// Whether it reaches beyond its namespace.
    pub cluster: bool,
}

impl Resource for Role {
    const KIND: Kind = Kind::Role;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// Who has a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleBinding {
    /// The role.
    pub role_ref: RoleRef,
    /// Who has it.
    pub subjects: Vec<Subject>,
}

impl Resource for RoleBinding {
    const KIND: Kind = Kind::RoleBinding;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// Values that nobody may see: they are kept encrypted, apart from the object, which has only the
/// names of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Secret {
    /// The keys, each with when its value was last set.
    pub keys: BTreeMap<String, SecretKey>,
}

/// What may be known of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKey {
    /// When it was last set.
    pub set_at: Moment,
    /// Counts its values.
    pub version: u64,
}

impl Resource for Secret {
    const KIND: Kind = Kind::Secret;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// Values that anybody may see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConfigMap {
    /// The values.
    pub data: BTreeMap<String, String>,
}

impl Resource for ConfigMap {
    const KIND: Kind = Kind::ConfigMap;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
