//! The conditions of what an object needs.

use bailiwick_resources::{
    AgentCapabilityRequirement, AgentCapabilityRequirementStatus, AgentServiceAccount, AgentStack,
    ConditionType, Finding, Kind, MissingGrant, Moment, Object, ObjectRef, Reason, Standing,
    settle,
};

use super::{Judgement, service_account_conditions, with_ready};
use crate::admission::inventory::{Found, Inventory};
use crate::admission::review::{Entry, EntryDecision, Review};

/// The entries of a review for one owner, with the kind that would grant each.
fn entries<'a>(review: &'a Review, owner: &ObjectRef) -> Vec<(Kind, &'a Entry)> {
    let mine = |other: &ObjectRef| other.kind == owner.kind && other.name == owner.name;
    let secrets = review.required_secrets.iter().filter(|secret| mine(&secret.need.owner));
    let configs = review.required_configs.iter().filter(|config| mine(&config.need.owner));
    let roles = review.required_roles.iter().filter(|_| owner.kind == Kind::AgentStack);
    secrets
        .map(|secret| (Kind::AgentSecretGrant, &secret.entry))
        .chain(configs.map(|config| (Kind::AgentConfigGrant, &config.entry)))
        .chain(roles.map(|role| (Kind::AgentRoleBinding, &role.entry)))
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
            let entries = entries(review, owner).into_iter().map(|(_, entry)| entry);
            for entry in entries.filter(|entry| entry.is_denied()) {
                let message = format!("{}: {}", entry.why.about, entry.why.message);
                match entry.why.code == Reason::AccessReviewUnavailable {
                    true => resolved.doubt(entry.why.code, message),
                    false => resolved.fault(Reason::PermissionRequirementsBlocked, message),
                }
            }
        }
    }
    for word in &requirement.required_service_account_capabilities {
        match lacking(word, owner, inventory, home) {
            Ok(None) => {}
            Ok(Some(why)) => {
                resolved.fault(Reason::PermissionRequirementsBlocked, format!("{word}: {why}"));
            }
            Err(why) => resolved.doubt(Reason::AccessReviewUnavailable, why),
        }
    }
    with_ready(vec![
        discovered.end(Reason::RequirementsCollected, "the needs are known"),
        resolved.end(Reason::EveryGrantResolved, "each need has its grant"),
    ])
}

/// Why an identity lacks a capability, if it does; an error if that is unknown.
fn lacking(
    word: &str,
    owner: &ObjectRef,
    inventory: &Inventory,
    home: &str,
) -> Result<Option<String>, String> {
    let named = word.strip_prefix("act-as/");
    let (name, pool) = match (named, owner.kind == Kind::AgentStack) {
        (Some(name), _) => (name.to_owned(), None),
        (None, true) => match inventory.get::<AgentStack>(home, &owner.name) {
            Found::Here(stack) => {
                let spec = stack.spec;
                (spec.runtime_identity.service_account_ref, spec.runner_pool)
            }
            // Another condition reports a missing owner.
            Found::Missing => return Ok(None),
            Found::Unknown(why) => return Err(why),
        },
        (None, false) => {
            return Ok(Some("only a stack has an identity that could be capable of it".to_owned()));
        }
    };
    let account = match inventory.get::<AgentServiceAccount>(home, &name) {
        Found::Here(account) => account,
        Found::Unknown(why) => return Err(why),
        Found::Missing => return Ok(Some(format!("there is no identity `{name}`"))),
    };
    let pools = &account.spec.allowed_runner_pools;
    Ok(match word {
        "run-in-pool" => match pool {
            Some(pool) if !pools.contains(&pool) => {
                Some(format!("`{name}` may not be used in the pool `{pool}`"))
            }
            None if pools.is_empty() => Some(format!("`{name}` may be used in no pool")),
            Some(_) | None => None,
        },
        "receive-token" => {
            let findings = service_account_conditions(&account, inventory);
            let refused = findings.into_iter().find(|one| {
                one.kind == ConditionType::TokenProjectionAllowed && one.status == Standing::False
            });
            refused.map(|one| one.message)
        }
        // Its identity is there, and starts them; whether each may be used is its own condition.
        "start-mcp-servers" => None,
        unknown => match named {
            Some(_) => None,
            None => Some(format!("nobody knows what `{unknown}` means")),
        },
    })
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
    let lacking = mine.iter().filter(|(_, entry)| entry.decision == EntryDecision::MissingGrant);
    let messages: Vec<&str> = lacking.map(|(_, entry)| entry.why.message.as_str()).collect();
    let missing = review.map(|review| review.missing_grants.as_slice()).unwrap_or_default();
    let missing_grants: Vec<MissingGrant> =
        missing.iter().filter(|grant| messages.contains(&grant.reason.as_str())).cloned().collect();
    let invalid = mine.iter().flat_map(|&(kind, entry)| {
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
