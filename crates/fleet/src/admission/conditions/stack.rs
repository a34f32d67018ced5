//! The twelve conditions of a stack.

use bailiwick_resources::{
    ConditionType, Finding, Object, Reason, Repository, Standing, Validation,
};

use super::facts::StackFacts;
use super::stack_parts::{
    capabilities_resolved, context_labels_valid, mcp_healthy, policy_admitted, skills_validated,
    subagents_valid, tools_admitted,
};
use super::{Judgement, stack_pool, with_ready};
use crate::admission::inventory::Inventory;
use crate::admission::review::{Decision, Entry, Review};
use crate::admission::snapshot::FrozenStack;

/// The inputs for the conditions of a stack.
#[derive(Debug, Clone, Copy)]
pub struct StackInput<'a> {
    /// The stack, frozen.
    pub frozen: &'a FrozenStack,
    /// Everything there is.
    pub inventory: &'a Inventory,
    /// The observations.
    pub facts: &'a StackFacts,
    /// The repositories that its identity may work on.
    pub repositories: &'a [Object<Repository>],
    /// Reviews of it: as such, or one for each place where rules would start it.
    pub reviews: &'a [Review],
}

/// The twelve conditions, in their order.
pub fn stack_conditions(input: &StackInput<'_>) -> Vec<Finding> {
    with_ready(vec![
        capabilities_resolved(input),
        tools_admitted(input),
        mcp_healthy(input),
        skills_validated(input),
        subagents_valid(input),
        context_labels_valid(input),
        policy_admitted(input),
        reviewed(
            input,
            ConditionType::RuntimeIdentityReady,
            Reason::ServiceAccountReady,
            |review| review.identities.iter().collect(),
        ),
        reviewed(input, ConditionType::RolesAdmitted, Reason::RequiredRolesAllowed, |review| {
            review.required_roles.iter().map(|role| &role.entry).collect()
        }),
        reviewed(input, ConditionType::SecretsAdmitted, Reason::SecretsGranted, |review| {
            review.required_secrets.iter().map(|secret| &secret.entry).collect()
        }),
        reviewed(input, ConditionType::ConfigAdmitted, Reason::ConfigGranted, |review| {
            review.required_configs.iter().map(|config| &config.entry).collect()
        }),
    ])
}

/// The result of the reviews for a part. A required approval does not make a stack unready: its runs wait.
fn reviewed(
    input: &StackInput<'_>,
    kind: ConditionType,
    good: Reason,
    part: impl Fn(&Review) -> Vec<&Entry>,
) -> Finding {
    let mut judgement = Judgement::of(kind);
    if input.reviews.is_empty() {
        judgement.doubt(Reason::NotYetObserved, "it has not been reviewed yet");
    }
    if kind == ConditionType::RuntimeIdentityReady
        && let Err((reason, message)) = stack_pool(input.frozen, input.inventory)
    {
        judgement.fault_or_doubt(reason, message);
    }
    let mut seen = 0_usize;
    for review in input.reviews {
        for entry in part(review) {
            seen += 1;
            if entry.decision.weight() == Decision::Denied {
                let message = format!("{}: {}", entry.why.about, entry.why.message);
                judgement.fault_or_doubt(entry.why.code, message);
            }
        }
        named_grants(kind, review, &mut judgement);
    }
    let message = match seen {
        0 => "nothing is required".to_owned(),
        count => format!("{count} checked, nothing is missing"),
    };
    judgement.end(good, message)
}

/// Grants that the stack names and that are not there.
fn named_grants(kind: ConditionType, review: &Review, judgement: &mut Judgement) {
    let codes = [
        (ConditionType::SecretsAdmitted, Reason::MissingSecretGrant),
        (ConditionType::ConfigAdmitted, Reason::MissingConfigGrant),
    ];
    for (_, code) in codes.into_iter().filter(|(one, _)| *one == kind) {
        for why in review.reasons.iter().filter(|why| why.code == code) {
            judgement.fault(code, why.message.clone());
        }
    }
}

/// The `status.validation` of a stack.
pub fn validation_of(findings: &[Finding]) -> Validation {
    let has = |standing| findings.iter().any(|finding| finding.status == standing);
    match (has(Standing::False), has(Standing::Unknown)) {
        (true, _) => Validation::Invalid,
        (false, true) => Validation::Warning,
        (false, false) => Validation::Valid,
    }
}
