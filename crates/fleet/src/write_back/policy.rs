//! Whether a write-back is permitted, and whether it needs an approval: the stack and the rule can each only narrow.

use bailiwick_resources::{
    ApprovalPolicy, ApprovalReason, TrustTier, WriteBackMode, WriteBackPolicy, WriteBackRecord,
    WriteBackTarget,
};
use thiserror::Error;

/// The policies that apply.
#[derive(Debug, Clone, Copy)]
pub struct Policies<'a> {
    /// The stack's.
    pub stack: &'a WriteBackPolicy,
    /// The trigger rule's, if a rule started the run.
    pub rule: Option<&'a WriteBackPolicy>,
    /// The approvals that the rule or the run requires.
    pub approvals: &'a [&'a ApprovalPolicy],
    /// How much the run's origin is trusted.
    pub trust: TrustTier,
}

/// The rule that denies a write-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialRule {
    /// Neither stack nor trigger rule allows it.
    Policy,
    /// It contains a secret, or cannot be searched for secrets.
    Secret,
    /// The forge would refuse it.
    Forge,
}

impl DenialRule {
    const ALL: [Self; 3] = [Self::Policy, Self::Secret, Self::Forge];

    /// Its name in capabilities and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "write-back::policy",
            Self::Secret => "write-back::secret",
            Self::Forge => "write-back::forge",
        }
    }

    /// The rule that a stored record was denied by, read from the text that [`Denial`] displays; nothing where a
    /// person or a later check denied it.
    pub fn of_record(record: &WriteBackRecord) -> Option<Self> {
        let (name, _) = record.detail.split_once(": ")?;
        Self::ALL.into_iter().find(|rule| rule.as_str() == name)
    }
}

/// Why something is not written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {reason}", .rule.as_str())]
pub struct Denial {
    pub rule: DenialRule,
    /// Why.
    pub reason: String,
    /// What to do instead.
    pub instead: String,
}

/// The decision of the policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Never.
    Denied(Denial),
    /// An approval is required, for these reasons.
    Ask(Vec<ApprovalReason>),
    /// Permitted without an approval.
    Auto,
}

/// The decision for a target: the strictest policy wins; without a mode an approval is required.
pub fn permit(policies: &Policies<'_>, target: WriteBackTarget) -> Permission {
    let mut ask = false;
    let named = [("the stack", Some(policies.stack)), ("the rule", policies.rule)];
    for (who, policy) in named {
        let Some(policy) = policy else { continue };
        let mode = policy.mode(target);
        if !policy.allowed_targets.contains(&target) || mode == WriteBackMode::Denied {
            return Permission::Denied(denial(who, target));
        }
        ask |= policy.require_approval == Some(true)
            || match mode {
                WriteBackMode::Denied | WriteBackMode::AlwaysApprove => true,
                WriteBackMode::ApproveOnUntrusted => policies.trust == TrustTier::Untrusted,
                WriteBackMode::Auto => false,
            };
    }
    let reasons = reasons(target);
    let wanted = policies.approvals.iter().flat_map(|policy| &policy.require_for);
    ask |= wanted.into_iter().any(|reason| reasons.contains(reason));
    if ask { Permission::Ask(reasons) } else { Permission::Auto }
}

/// Whether a run may leave its files on a reference for the next agent of its issue. It does not wait for a person.
pub fn may_keep_work(policies: &Policies<'_>) -> bool {
    match permit(policies, WriteBackTarget::WorkReference) {
        Permission::Auto => true,
        Permission::Ask(_) | Permission::Denied(_) => false,
    }
}

/// The reasons for an approval.
fn reasons(target: WriteBackTarget) -> Vec<ApprovalReason> {
    let more = match target {
        WriteBackTarget::BranchPush
        | WriteBackTarget::CreateBranch
        | WriteBackTarget::WorkReference => Some(ApprovalReason::BranchPush),
        WriteBackTarget::ReleaseNote | WriteBackTarget::DeploymentApproval => {
            Some(ApprovalReason::Release)
        }
        WriteBackTarget::OpenIssue
        | WriteBackTarget::IssueComment
        | WriteBackTarget::PullRequestComment
        | WriteBackTarget::PullRequestReview
        | WriteBackTarget::OpenPullRequest
        | WriteBackTarget::CheckStatus
        | WriteBackTarget::CheckRerun
        | WriteBackTarget::WorkflowRerun => None,
    };
    std::iter::once(ApprovalReason::WriteBack).chain(more).collect()
}

fn denial(who: &str, target: WriteBackTarget) -> Denial {
    let name = super::target::name_of(target);
    Denial {
        rule: DenialRule::Policy,
        reason: format!("{who} does not allow {name}"),
        instead: format!(
            "keep it as an artifact, or have {name} added to writeBackPolicy.allowedTargets of {who}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::WriteBackState;

    use super::*;

    fn denied(detail: String) -> WriteBackRecord {
        WriteBackRecord {
            action: WriteBackTarget::BranchPush,
            target: "acme/app".to_owned(),
            digest: String::new(),
            stands_on: None,
            approval: None,
            state: WriteBackState::Denied,
            detail,
            url: None,
            id: None,
            tries: 0,
            tried_since: None,
            next_try_at: None,
            moved_to: None,
            rebases: 0,
            credential_rejected_at: None,
        }
    }

    #[test]
    fn rule_of_a_stored_record_is_the_rule_that_denied_it() {
        for rule in DenialRule::ALL {
            let denial = Denial { rule, reason: "a: b".to_owned(), instead: String::new() };
            assert_eq!(DenialRule::of_record(&denied(denial.to_string())), Some(rule));
        }
        for other in ["", "a person said no", "write-back::policy"] {
            assert_eq!(DenialRule::of_record(&denied(other.to_owned())), None, "{other}");
        }
    }
}
