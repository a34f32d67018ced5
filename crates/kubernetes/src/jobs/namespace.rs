//! The namespace of the Jobs of a pool, and why a pool gets none.

use std::collections::BTreeSet;

use bailiwick_resources::{JobSettings, PodGrants, PodProblem, TrustTier};

use super::job::Cluster;
use super::outcome::Problem;
use crate::manifests::Label;

/// The pool of an attempt, as far as its Jobs depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPool {
    /// What its Jobs get.
    pub settings: JobSettings,
    /// The trust tier of the runs that it accepts.
    pub trust_tier: TrustTier,
}

/// Why the Jobs of a pool have no namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// It is not a name of a namespace.
    #[error("`{0}` is not a name of a namespace; correct `job.namespace` of the pool")]
    NotAName(String),
    /// The operator was not told to use it.
    #[error(
        "the operator does not use the namespace `{0}`; add `--attempts {0}` to `bailiwick-kubernetes job-manifests`"
    )]
    NotServed(Label),
    /// Trusted pools use it, and the pool is untrusted.
    #[error(
        "the namespace `{0}` is for trusted pools; name another one in `job.namespace` of this untrusted pool"
    )]
    Trusted(Label),
    /// A pod can only run as an account of its own namespace.
    #[error(
        "the identity of the run is in the namespace `{identity}`, and its Job in `{job}`: name the same one in \
         `job.namespace` of the pool and in `namespace` of the AgentServiceAccount, or leave out the latter"
    )]
    OtherIdentity {
        /// That of the identity.
        identity: String,
        /// That of the Job.
        job: Label,
    },
}

impl From<NamespaceError> for Problem {
    fn from(error: NamespaceError) -> Self {
        Self { kind: PodProblem::PodNotAdmitted, detail: error.to_string() }
    }
}

/// Refuses a Job in another namespace than that of the identity that it has.
pub fn require_identity(grants: &PodGrants, job: &Label) -> Result<(), NamespaceError> {
    let identity = grants.identity.as_ref().and_then(|identity| identity.namespace.clone());
    match identity {
        Some(identity) if identity != job.to_string() => {
            Err(NamespaceError::OtherIdentity { identity, job: job.clone() })
        }
        Some(_) | None => Ok(()),
    }
}

/// The namespace of the Jobs of a pool. `trusted` are those that trusted pools name.
pub fn namespace(
    pool: &JobPool,
    trusted: &BTreeSet<String>,
    cluster: &Cluster,
) -> Result<Label, NamespaceError> {
    let namespace: Label = match &pool.settings.namespace {
        None => cluster.namespace.clone(),
        Some(name) => name.parse::<Label>().map_err(|_| NamespaceError::NotAName(name.clone()))?,
    };
    let is_of_trusted = namespace == cluster.namespace || trusted.contains(&namespace.to_string());
    match pool.trust_tier {
        TrustTier::Untrusted if is_of_trusted => Err(NamespaceError::Trusted(namespace)),
        TrustTier::Untrusted | TrustTier::Trusted => {
            match cluster.namespaces().any(|served| *served == namespace) {
                true => Ok(namespace),
                false => Err(NamespaceError::NotServed(namespace)),
            }
        }
    }
}
