//! Objects that a platform such as Kubernetes brings; on the embedded default they are ours.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, NoStatus, Resource, ResourceRule, RoleRef, Subject};

/// An identity of the platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServiceAccount {
    /// If true, no tokens may be created for it. Runs that use it are then denied. The default is false.
    pub forbid_token_projection: bool,
    /// The names of secrets for pulling images.
    pub image_pull_secrets: Vec<String>,
}

impl Resource for ServiceAccount {
    const KIND: Kind = Kind::ServiceAccount;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A role of the platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Role {
    /// The rules: what the role allows.
    pub rules: Vec<ResourceRule>,
    /// If true, the role applies beyond its namespace. The default is false.
    pub cluster: bool,
}

impl Resource for Role {
    const KIND: Kind = Kind::Role;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A role binding of the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleBinding {
    /// The role.
    pub role_ref: RoleRef,
    /// The subjects that have the role.
    pub subjects: Vec<Subject>,
}

impl Resource for RoleBinding {
    const KIND: Kind = Kind::RoleBinding;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// Secret values. They are stored encrypted and apart from the object, which contains only the names of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Secret {
    /// The keys. Each says when its value was last set.
    pub keys: BTreeMap<String, SecretKey>,
}

/// Metadata of a secret value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKey {
    /// When the value was last set.
    pub set_at: Moment,
    /// The version. It increases every time the value is set.
    pub version: u64,
}

impl Resource for Secret {
    const KIND: Kind = Kind::Secret;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// Values that are not secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConfigMap {
    /// The values by key.
    pub data: BTreeMap<String, String>,
}

impl Resource for ConfigMap {
    const KIND: Kind = Kind::ConfigMap;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
