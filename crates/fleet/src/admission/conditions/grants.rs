//! The conditions of grants.

use std::collections::BTreeSet;

use bailiwick_resources::{
    AgentConfigGrant, AgentSecretGrant, ConditionType, ConfigMap, Finding, Moment, Object, Reason,
    Secret, SecretKey,
};

use super::identities::subject_is_there;
use super::{Judgement, with_ready};
use crate::admission::inventory::{Found, Inventory};
use crate::admission::review::is_privileged;

const MILLIS_A_DAY: u64 = 86_400_000;

/// The five conditions of a grant of a secret.
pub fn secret_grant_conditions(
    grant: &Object<AgentSecretGrant>,
    inventory: &Inventory,
    people: Option<&BTreeSet<String>>,
    now: Moment,
) -> Vec<Finding> {
    let spec = &grant.spec;
    let namespace = spec.secret_ref.namespace.as_ref().unwrap_or(&grant.metadata.namespace);
    let name = &spec.secret_ref.name;
    let mut exists = Judgement::of(ConditionType::SecretExists);
    let mut keys = Judgement::of(ConditionType::KeysExist);
    let mut policy = Judgement::of(ConditionType::PolicyAdmitted);
    match inventory.get::<Secret>(namespace, name) {
        Found::Missing => {
            let message = format!("there is no secret `{name}`");
            exists.fault(Reason::SecretMissing, message.clone());
            keys.fault(Reason::SecretMissing, message);
        }
        Found::Unknown(why) => {
            exists.doubt(Reason::AccessReviewUnavailable, &why);
            keys.doubt(Reason::AccessReviewUnavailable, why);
        }
        Found::Here(secret) => {
            for key in &spec.secret_ref.keys {
                match secret.spec.keys.get(key) {
                    None => keys.fault(Reason::SecretKeyMissing, format!("it has no key `{key}`")),
                    Some(known) if overdue(spec, known, now) => {
                        let message = format!("the value of `{key}` is older than it may be");
                        policy.fault(Reason::RotationOverdue, message);
                    }
                    Some(_) => {}
                }
            }
        }
    }
    if spec.allow_untrusted && !spec.deny && is_privileged(spec.purpose) {
        let message = format!("a secret for {:?} never reaches an untrusted ref", spec.purpose);
        policy.fault(Reason::PrivilegedSecretsOnFork, message);
    }
    if spec.allowed_repositories.is_empty() && !spec.deny {
        let message = "it names no repository, so that it permits nothing";
        policy.fault(Reason::SecretNotAllowedHere, message);
    }
    let mut subject = Judgement::of(ConditionType::SubjectAuthorized);
    let home = &grant.metadata.namespace;
    subject_is_there(inventory, home, &spec.subject, people, &mut subject);
    with_ready(vec![
        exists.end(Reason::SecretFound, "the secret is there"),
        keys.end(Reason::KeysFound, "its keys are there"),
        subject.end(Reason::GrantMatchesServiceAccount, "its subject exists"),
        policy.end(Reason::PolicyAdmitted, "policy allows it"),
    ])
}

fn overdue(grant: &AgentSecretGrant, key: &SecretKey, now: Moment) -> bool {
    grant.rotation_policy.is_some_and(|policy| {
        let most = u64::from(policy.max_age_days).saturating_mul(MILLIS_A_DAY);
        now.millis().saturating_sub(key.set_at.millis()) > most
    })
}

/// The five conditions of a grant of a config map.
pub fn config_grant_conditions(
    grant: &Object<AgentConfigGrant>,
    inventory: &Inventory,
    people: Option<&BTreeSet<String>>,
) -> Vec<Finding> {
    let spec = &grant.spec;
    let namespace = spec.config_map_ref.namespace.as_ref().unwrap_or(&grant.metadata.namespace);
    let name = &spec.config_map_ref.name;
    let mut exists = Judgement::of(ConditionType::ConfigMapExists);
    let mut keys = Judgement::of(ConditionType::KeysExist);
    match inventory.get::<ConfigMap>(namespace, name) {
        Found::Missing => {
            let message = format!("there is no config map `{name}`");
            exists.fault(Reason::ConfigMapMissing, message.clone());
            keys.fault(Reason::ConfigMapMissing, message);
        }
        Found::Unknown(why) => {
            exists.doubt(Reason::AccessReviewUnavailable, &why);
            keys.doubt(Reason::AccessReviewUnavailable, why);
        }
        Found::Here(map) => {
            for key in
                spec.config_map_ref.keys.iter().filter(|key| !map.spec.data.contains_key(*key))
            {
                keys.fault(Reason::ConfigKeyMissing, format!("it has no key `{key}`"));
            }
        }
    }
    let mut policy = Judgement::of(ConditionType::PolicyAdmitted);
    if spec.allowed_repositories.is_empty() && !spec.deny {
        let message = "it names no repository, so that it permits nothing";
        policy.fault(Reason::ConfigDenied, message);
    }
    let mut subject = Judgement::of(ConditionType::SubjectAuthorized);
    let home = &grant.metadata.namespace;
    subject_is_there(inventory, home, &spec.subject, people, &mut subject);
    with_ready(vec![
        exists.end(Reason::ConfigMapFound, "the config map is there"),
        keys.end(Reason::KeysFound, "its keys are there"),
        subject.end(Reason::GrantMatchesServiceAccount, "its subject exists"),
        policy.end(Reason::PolicyAdmitted, "policy allows it"),
    ])
}
