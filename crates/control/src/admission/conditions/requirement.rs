//! The conditions of what an object needs.

use bailiwick_model::fleet::{
    AgentCapabilityRequirement, AgentCapabilityRequirementStatus, ConditionType, Finding, Kind,
    MissingGrant, Moment, Object, ObjectRef, Reason, settle,
};

use super::{Judgement, with_ready};
use crate::admission::inventory::Inventory;
use crate::admission::review::{Entry, EntryDecision, Review};

/// What a review says of the needs of one owner.
fn entries<'a>(review: &'a Review, owner: &ObjectRef) -> Vec<&'a Entry> {
    let mine = |other: &ObjectRef| other.kind == owner.kind && other.name == owner.name;
    let secrets = review.required_secrets.iter().filter(|secret| mine(&secret.need.owner));
    let configs = review.required_configs.iter().filter(|config| mine(&config.need.owner));
    let roles = review.required_roles.iter().filter(|_| owner.kind == Kind::AgentStack);
    secrets
        .map(|secret| &secret.entry)
        .chain(configs.map(|config| &config.entry))
        .chain(roles.map(|role| &role.entry))
        .collect()
}

/// The three conditions of a requirement.
pub fn requirement_conditions(
    requirement: &AgentCapabilityRequirement,
    inventory: &Inventory,
    namespace: &str,
    review: Option<&Review>,
) -> Vec<Finding> {
    let owner = &requirement.owner_ref;
    let home = owner.namespace.as_deref().unwrap_or(namespace);
    let mut discovered = Judgement::of(ConditionType::RequirementsDiscovered);
    if let Some(why) = inventory.why_unlistable(owner.kind) {
        discovered.doubt(Reason::AccessReviewUnavailable, why);
    } else if !inventory.has(owner.kind, home, &owner.name) {
        discovered
            .fault(Reason::OwnerMissing, format!("there is no {} `{}`", owner.kind, owner.name));
    }
    let mut resolved = Judgement::of(ConditionType::GrantsResolved);
    match review {
        None => resolved.doubt(Reason::NotYetObserved, "nobody has reviewed it"),
        Some(review) => {
            for entry in entries(review, owner).into_iter().filter(|entry| entry.is_denied()) {
                let message = format!("{}: {}", entry.why.about, entry.why.message);
                match entry.why.code == Reason::AccessReviewUnavailable {
                    true => resolved.doubt(entry.why.code, message),
                    false => resolved.fault(Reason::PermissionRequirementsBlocked, message),
                }
            }
        }
    }
    with_ready(vec![
        discovered.end(Reason::RequirementsCollected, "the needs are known"),
        resolved.end(Reason::EveryGrantResolved, "each need has its grant"),
    ])
}

/// The whole status of a requirement.
pub fn requirement_status(
    requirement: &Object<AgentCapabilityRequirement>,
    inventory: &Inventory,
    review: Option<&Review>,
    now: Moment,
) -> AgentCapabilityRequirementStatus {
    let namespace = &requirement.metadata.namespace;
    let generation = requirement.metadata.generation;
    let findings = requirement_conditions(&requirement.spec, inventory, namespace, review);
    let mine =
        review.map(|review| entries(review, &requirement.spec.owner_ref)).unwrap_or_default();
    let lacking = mine.iter().filter(|entry| entry.decision == EntryDecision::MissingGrant);
    let messages: Vec<&str> = lacking.map(|entry| entry.why.message.as_str()).collect();
    let missing = review.map(|review| review.missing_grants.as_slice()).unwrap_or_default();
    let missing_grants: Vec<MissingGrant> =
        missing.iter().filter(|grant| messages.contains(&grant.reason.as_str())).cloned().collect();
    let invalid = mine.iter().flat_map(|entry| {
        let kind = if entry.why.about.starts_with("ConfigMap/") {
            Kind::AgentConfigGrant
        } else {
            Kind::AgentSecretGrant
        };
        let namespace = Some(namespace.clone());
        entry.invalid.iter().map(move |name| ObjectRef {
            kind,
            name: name.clone(),
            namespace: namespace.clone(),
        })
    });
    let mut invalid_grants: Vec<ObjectRef> = invalid.collect();
    invalid_grants.sort();
    invalid_grants.dedup();
    AgentCapabilityRequirementStatus {
        missing_grants,
        invalid_grants,
        conditions: settle(&requirement.status.conditions, findings, generation, now),
        observed_generation: generation,
    }
}
