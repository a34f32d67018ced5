//! Steps 1 and 2 of admission: the repository and the rule of a request.

use bailiwick_resources::{
    AgentTriggerRule, ApprovalPolicy, LifecycleState, Object, Reason, Repository, TrustTier,
};

use super::super::inventory::Found;
use super::{Admission, Refused, Step, refuse};

/// 1: the repository exists and is the one of the situation.
pub(super) fn resolve_source(
    admission: &Admission<'_>,
) -> Result<Object<Repository>, Box<Refused>> {
    let (step, name) = (Step::ResolveSource, admission.repository);
    match admission.inventory.get::<Repository>(admission.namespace, name) {
        Found::Missing => {
            Err(refuse(step, Reason::RepositoryMissing, name, "there is no such repository"))
        }
        Found::Unknown(why) => Err(refuse(step, Reason::AccessReviewUnavailable, name, why)),
        Found::Here(repository) if repository.spec.full_name != admission.situation.repository => {
            let message = format!(
                "it is `{}`, not `{}`",
                repository.spec.full_name, admission.situation.repository
            );
            Err(refuse(step, Reason::RepositoryMissing, name, message))
        }
        // No event is trusted more than its repository.
        Found::Here(repository) if admission.situation.trust_tier > repository.spec.trust_tier => {
            let message = "the work claims more trust than its repository has";
            Err(refuse(step, Reason::UntrustedRepository, name, message))
        }
        // An untrusted commit must not define roles, checks or settings.
        Found::Here(_)
            if admission.situation.trust_tier == TrustTier::Untrusted
                && admission.request.kit_commit.is_none() =>
        {
            let message =
                "untrusted work is bound by the kit of the default branch, which is not known";
            Err(refuse(step, Reason::TrustedKitMissing, name, message))
        }
        Found::Here(repository) => Ok(*repository),
    }
}

/// 2: the rule is active and starts this stack.
pub(super) fn load_rule<'a>(
    admission: &Admission<'a>,
) -> Result<Option<&'a Object<AgentTriggerRule>>, Box<Refused>> {
    let Some(rule) = admission.request.rule else { return Ok(None) };
    let (step, name) = (Step::LoadRule, rule.name());
    let code = match rule.spec.lifecycle_state {
        LifecycleState::Active => None,
        LifecycleState::Draft => Some(Reason::RuleDraft),
        LifecycleState::Paused => Some(Reason::RulePaused),
        LifecycleState::Disabled => Some(Reason::RuleDisabled),
        LifecycleState::Archived => Some(Reason::RuleArchived),
    };
    if let Some(code) = code {
        return Err(refuse(step, code, name, "the rule is not active"));
    }
    if rule.spec.agent_stack != admission.request.stack {
        let message = format!(
            "the rule starts `{}`, not `{}`",
            rule.spec.agent_stack, admission.request.stack
        );
        return Err(refuse(step, Reason::StackMissing, name, message));
    }
    Ok(Some(rule))
}

/// The approvals that the rule or the request requires.
pub(super) fn approval_policy(
    admission: &Admission<'_>,
    rule: Option<&Object<AgentTriggerRule>>,
) -> ApprovalPolicy {
    let own = &admission.request.approval_policy;
    let mut policy = rule.map(|rule| rule.spec.approval_policy.clone()).unwrap_or_default();
    for reason in &own.require_for {
        if !policy.require_for.contains(reason) {
            policy.require_for.push(*reason);
        }
    }
    policy.expires_after = match (policy.expires_after, own.expires_after) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    policy
}
