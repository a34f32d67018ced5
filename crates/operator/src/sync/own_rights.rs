//! Asks the API server what the operator itself may do, before it leads.

use bailiwick_kubernetes::manifests::OwnRights;
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kube::api::{Api, PostParams};
use thiserror::Error;

use super::cluster::Cluster;

/// The operator cannot work with the permissions that it has.
#[derive(Debug, Error)]
#[error(
    "the operator may not {missing} in the namespace `{namespace}`; apply the output of `bailiwick-kubernetes access \
     --namespace {namespace}` again"
)]
pub struct MissingRights {
    missing: String,
    namespace: String,
}

/// Refuses permissions that are too few, and warns of those that are too many.
pub async fn check_own_rights(cluster: &Cluster) -> Result<(), MissingRights> {
    let namespace = cluster.namespace();
    let all: Api<SelfSubjectRulesReview> = Api::all(cluster.client().clone());
    let asked = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let found = match all.create(&PostParams::default(), &asked).await {
        Ok(review) => review.status.map(|status| OwnRights::of(&status)),
        Err(error) => {
            tracing::warn!(%error, "cannot ask the API server what the operator may do");
            None
        }
    };
    let Some(rights) = found else { return Ok(()) };
    if !rights.excess.is_empty() {
        let excess = rights.excess.join("; ");
        tracing::warn!(namespace, excess, "the operator may do more than it needs");
    }
    if rights.missing.is_empty() {
        return Ok(());
    }
    let missing = rights.missing_text();
    if rights.is_complete {
        return Err(MissingRights { missing, namespace: namespace.to_owned() });
    }
    tracing::warn!(
        namespace,
        missing,
        "the API server does not say whether the operator may do this"
    );
    Ok(())
}
