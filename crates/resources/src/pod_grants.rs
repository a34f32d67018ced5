//! What the pod of an attempt is granted of its cluster. Values are never part of it.

use serde::{Deserialize, Serialize};

/// The variable and file of the token of an identity.
pub const IDENTITY_TOKEN: &str = "IDENTITY_TOKEN";

/// What the pod of an attempt is granted of its cluster. A pod can use only what is in the namespace of its Job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGrants {
    /// The identity that the attempt was admitted with. Without it, the pod runs as the pool says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<PodIdentity>,
}

/// The identity of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodIdentity {
    /// The name of its ServiceAccount.
    pub account: String,
    /// The namespace that the ServiceAccount must be in. If left out, that of the Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The names of the secrets for pulling its image, besides those of its pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// The token of the account that the attempt gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<PodToken>,
}

/// A token of a ServiceAccount. The kubelet requests it, and nothing else of us may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodToken {
    /// Who accepts it.
    pub audience: String,
    /// How long it is valid.
    pub seconds: u64,
}

impl PodGrants {
    /// The token of the identity, if the attempt gets one.
    pub fn token(&self) -> Option<&PodToken> {
        self.identity.as_ref()?.token.as_ref()
    }

    /// The names of the values that the pod has for its worker.
    pub fn value_names(&self) -> Vec<String> {
        self.token().map(|_| IDENTITY_TOKEN.to_owned()).into_iter().collect()
    }
}
