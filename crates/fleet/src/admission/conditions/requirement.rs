//! The conditions of what an object needs.

use std::collections::BTreeMap;

use bailiwick_resources::{
    AgentCapabilityRequirement, AgentCapabilityRequirementStatus, AgentServiceAccount, AgentStack,
    ConditionType, Finding, Kind, MissingGrant, Moment, Object, ObjectRef, Reason, Standing,
    settle,
};

use super::{Judgement, service_account_conditions, with_ready};
use crate::admission::inventory::{Found, Inventory};
use crate::admission::review::{Entry, EntryDecision, Review};

/// An entry of a review.
struct KindEntry<'a> {
    /// The kind that would grant it.
    kind: Kind,
    /// What needs it; none for the roles of the stack.
    owner: Option<&'a ObjectRef>,
    entry: &'a Entry,
}

impl KindEntry<'_> {
    fn is_of(&self, owner: &ObjectRef) -> bool {
        match self.owner {
            Some(other) => other.kind == owner.kind && other.name == owner.name,
            None => owner.kind == Kind::AgentStack,
        }
    }
}

/// The entries of a review, in the order of its missing grants.
fn entries(review: &Review) -> impl Iterator<Item = KindEntry<'_>> {
    let secrets = review.required_secrets.iter().map(|secret| KindEntry {
        kind: Kind::AgentSecretGrant,
        owner: Some(&secret.need.owner),
        entry: &secret.entry,
    });
    let configs = review.required_configs.iter().map(|config| KindEntry {
        kind: Kind::AgentConfigGrant,
        owner: Some(&config.need.owner),
        entry: &config.entry,
    });
    let roles = review.required_roles.iter().map(|role| KindEntry {
        kind: Kind::AgentRoleBinding,
        owner: None,
        entry: &role.entry,
    });
    secrets.chain(configs).chain(roles)
}

/// The missing grants of an owner. A review has one for each entry that lacks its grant, in the same order: the n-th
/// of a kind belongs to the n-th such entry of that kind.
fn missing_grants(review: &Review, owner: &ObjectRef) -> Vec<MissingGrant> {
    let mut of_kind: BTreeMap<Kind, Vec<&MissingGrant>> = BTreeMap::new();
    for grant in review.missing_grants.iter().rev() {
        of_kind.entry(grant.kind).or_default().push(grant);
    }
    let lacking = entries(review).filter(|one| one.entry.decision == EntryDecision::MissingGrant);
    let grants = lacking.filter_map(|one| {
        let grant = of_kind.get_mut(&one.kind)?.pop()?;
        one.is_of(owner).then(|| grant.clone())
    });
    grants.collect()
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
        None => resolved.doubt(Reason::NotYetObserved, "it has not been reviewed yet"),
        Some(review) => {
            let mine = entries(review).filter(|one| one.is_of(owner)).map(|one| one.entry);
            for entry in mine.filter(|entry| entry.is_denied()) {
                let message = format!("{}: {}", entry.why.about, entry.why.message);
                match entry.why.code == Reason::AccessReviewUnavailable {
                    true => resolved.doubt(entry.why.code, message),
                    false => resolved.fault(Reason::PermissionRequirementsBlocked, message),
                }
            }
        }
    }
    for word in &requirement.required_service_account_capabilities {
        match capability_state(word, owner, inventory, home) {
            CapabilityState::Present => {}
            CapabilityState::Missing(why) => {
                resolved.fault(Reason::PermissionRequirementsBlocked, format!("{word}: {why}"));
            }
            CapabilityState::Unknown(why) => resolved.doubt(Reason::AccessReviewUnavailable, why),
        }
    }
    with_ready(vec![
        discovered.end(Reason::RequirementsCollected, "the needs are known"),
        resolved.end(Reason::EveryGrantResolved, "each need has its grant"),
    ])
}

/// Whether an identity has a capability.
enum CapabilityState {
    Present,
    /// It does not: why.
    Missing(String),
    /// Something that decides it could not be read: why.
    Unknown(String),
}

/// Whether the identity of an owner has a capability.
fn capability_state(
    word: &str,
    owner: &ObjectRef,
    inventory: &Inventory,
    home: &str,
) -> CapabilityState {
    let named = word.strip_prefix("act-as/");
    let (name, pool) = match (named, owner.kind == Kind::AgentStack) {
        (Some(name), _) => (name.to_owned(), None),
        (None, true) => match inventory.get::<AgentStack>(home, &owner.name) {
            Found::Here(stack) => {
                let spec = stack.spec;
                (spec.runtime_identity.service_account_ref, spec.runner_pool)
            }
            // Another condition reports a missing owner.
            Found::Missing => return CapabilityState::Present,
            Found::Unknown(why) => return CapabilityState::Unknown(why),
        },
        (None, false) => {
            let why = "only a stack has an identity that could be capable of it";
            return CapabilityState::Missing(why.to_owned());
        }
    };
    let account = match inventory.get::<AgentServiceAccount>(home, &name) {
        Found::Here(account) => account,
        Found::Unknown(why) => return CapabilityState::Unknown(why),
        Found::Missing => {
            return CapabilityState::Missing(format!("there is no identity `{name}`"));
        }
    };
    let pools = &account.spec.allowed_runner_pools;
    let missing = match word {
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
            None => Some(format!("`{unknown}` is not a known capability")),
        },
    };
    missing.map_or(CapabilityState::Present, CapabilityState::Missing)
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
    let owner = &requirement.spec.owner_ref;
    let missing_grants = review.map(|review| missing_grants(review, owner)).unwrap_or_default();
    let mine = review.into_iter().flat_map(entries).filter(|one| one.is_of(owner));
    let invalid = mine.flat_map(|one| {
        let namespace = Some(namespace.clone());
        one.entry.invalid.iter().map(move |name| ObjectRef {
            kind: one.kind,
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
