//! Asks the API server what accounts may do.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_kubernetes::review::{
    Account, Answer, NotReviewed, Review, answer, permissions, question, review,
};
use bailiwick_resources::{AgentRoleBinding, Object};
use k8s_openapi::api::authorization::v1::LocalSubjectAccessReview;
use kube::api::{Api, PostParams};

use super::cluster::Cluster;

/// How long an answer counts.
const REVIEW_PERIOD: Duration = Duration::from_secs(60);

/// The newest answers, by binding.
#[derive(Default)]
pub(super) struct Reviews {
    known: Mutex<BTreeMap<String, Known>>,
}

struct Known {
    binding: AgentRoleBinding,
    account: Option<Account>,
    review: Review,
    at: Instant,
}

impl Reviews {
    /// The review of a binding.
    pub(super) async fn of(
        &self,
        cluster: &Cluster,
        binding: &Object<AgentRoleBinding>,
        account: Option<Account>,
    ) -> Review {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |known: &Known| {
            known.at.elapsed() < REVIEW_PERIOD
                && known.binding == binding.spec
                && known.account == account
        };
        if let Some(known) = known().get(binding.name()).filter(|known| is_fresh(known)) {
            return known.review.clone();
        }
        let review = ask(cluster, &binding.spec, account.as_ref()).await;
        let (binding, name) = (binding.spec.clone(), binding.name().to_owned());
        let entry = Known { binding, account, review: review.clone(), at: Instant::now() };
        known().insert(name, entry);
        review
    }
}

/// Asks the API server about everything that a binding gives.
pub async fn ask(
    cluster: &Cluster,
    binding: &AgentRoleBinding,
    account: Option<&Account>,
) -> Review {
    let Some(account) = account else { return Review::NotReviewed(NotReviewed::NoAccount) };
    let permissions = match permissions(binding, cluster.namespace()) {
        Ok(permissions) => permissions,
        Err(why) => return Review::NotReviewed(why),
    };
    let reviews: Api<LocalSubjectAccessReview> =
        Api::namespaced(cluster.client().clone(), cluster.namespace());
    let mut answers = BTreeMap::new();
    for permission in permissions {
        let asked = question(account, &permission, cluster.namespace());
        let found = match reviews.create(&PostParams::default(), &asked).await {
            Ok(review) => answer(review.status.as_ref()),
            Err(error) => {
                tracing::warn!(%error, "cannot ask the API server about a permission");
                Answer::Unknown
            }
        };
        answers.insert(permission, found);
    }
    review(answers)
}
