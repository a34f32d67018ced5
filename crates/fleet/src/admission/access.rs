//! What a cluster says of a binding. An answer only narrows: the rules of the control plane are asked first.

use bailiwick_resources::{
    AccessAnswer, AccessReport, AgentRoleBinding, AgentServiceAccount, ConfigMap,
    DEFAULT_NAMESPACE, Moment, OPERATOR_FENCE, Object,
};

use super::inventory::{Found, Inventory};

/// How long an answer counts. The operator asks three times as often.
const MAX_AGE_MILLIS: u64 = 15 * 60_000;

/// Who decides about the rights of accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Platform {
    /// The server: its own objects are all that there is.
    Server,
    /// The API server of a cluster, whose operator leads here.
    Cluster,
    /// Nobody can say, for this reason.
    Unknown(String),
}

/// The platform of a control plane.
pub fn platform(inventory: &Inventory) -> Platform {
    match inventory.get::<ConfigMap>(DEFAULT_NAMESPACE, OPERATOR_FENCE) {
        Found::Here(_) => Platform::Cluster,
        Found::Missing => Platform::Server,
        Found::Unknown(why) => Platform::Unknown(why),
    }
}

/// What is known of the rights that a binding gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The account has all of them.
    Allowed,
    /// It lacks some.
    Missing(AccessReport),
    /// There is no answer that counts, for this reason.
    Unknown(String),
}

/// The answer of the cluster about this version of a binding, for this identity.
pub fn access(
    binding: &Object<AgentRoleBinding>,
    identity: Option<&Object<AgentServiceAccount>>,
    now: Moment,
) -> Access {
    let unknown = |why: &str| Access::Unknown(why.to_owned());
    let Some(identity) = identity else {
        return unknown(
            "its subject has no AgentServiceAccount: name one in `subject.serviceAccountRef`",
        );
    };
    let Some(recorded) = &binding.status.access else {
        return unknown("the operator has not asked the API server about it yet");
    };
    if recorded.at.plus_millis(MAX_AGE_MILLIS) < now {
        return unknown("the operator has not asked the API server about it for 15 minutes");
    }
    let report = &recorded.report;
    if report.spec_digest != binding.spec_digest().to_string() {
        return unknown("it has changed since the operator asked the API server about it");
    }
    if report.account.as_ref() != Some(&account(&identity.spec)) {
        return unknown("its account has changed since the operator asked the API server about it");
    }
    match report.answer {
        AccessAnswer::Allowed => Access::Allowed,
        AccessAnswer::Missing => Access::Missing(report.clone()),
        AccessAnswer::Unknown if report.detail.is_empty() => unknown("the API server cannot say"),
        AccessAnswer::Unknown => unknown(&report.detail),
    }
}

/// The account of an identity, as reports name it.
pub fn account(identity: &AgentServiceAccount) -> String {
    format!("{}/{}", identity.namespace, identity.service_account_name)
}
