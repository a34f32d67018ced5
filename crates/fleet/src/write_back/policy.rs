//! Whether a write-back is permitted, and whether it needs an approval: the stack and the rule can each only narrow.

pub use bailiwick_resources::DenialRule;
use bailiwick_resources::{
    ApprovalPolicy, ApprovalReason, TrustTier, WriteBackMode, WriteBackPolicy, WriteBackTarget,
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
