//! Plans what happens with a proposed write.

use bailiwick_resources::{
    ActionType, AgentApproval, ApprovalAction, Moment, Requester, Span, TrustTier,
};

use super::policy::{Denial, DenialRule, Permission, Policies, permit};
use super::target::{digest, key, target};
use super::{Authorised, secrets};
use crate::bundle::Redactor;
use crate::ports::WriteBack;

/// The default expiry of an approval.
const A_DAY: u64 = 24 * 60 * 60 * 1_000;

/// A write that a run proposes.
#[derive(Debug, Clone)]
pub struct Proposal<'a> {
    /// The repository, as `owner/name`.
    pub repository: &'a str,
    /// The run.
    pub dispatch_run: &'a str,
    pub attempt: &'a str,
    /// Who proposes it.
    pub requested_by: Requester,
    pub write: &'a WriteBack,
    /// The observed state of the target, if the write does not contain it: the commit of a pull request for a
    /// comment.
    pub target_state: Option<String>,
    /// The artifacts that it contains.
    pub artifact_refs: Vec<String>,
    /// Its content besides its own text, such as the lines that a push adds.
    pub content: &'a [&'a str],
    /// Knows the values that must not be written; none if all of it was checked before, or none of it comes from an
    /// agent.
    pub redactor: Option<&'a Redactor>,
    /// The same for people.
    pub summary: String,
    pub now: Moment,
}

/// The plan for a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It is not written.
    Denied(Denial),
    /// An approval is requested.
    Ask(Box<AgentApproval>),
    /// It is written.
    Write(Authorised),
}

/// Plans a write that a run proposes.
pub fn plan(policies: &Policies<'_>, proposal: &Proposal<'_>) -> Plan {
    let Proposal { repository, write, .. } = *proposal;
    let reasons = match permit(policies, write.target()) {
        Permission::Denied(denial) => return Plan::Denied(denial),
        Permission::Ask(reasons) => Some(reasons),
        Permission::Auto => None,
    };
    if let Some(reason) = secrets::suspect(write, proposal.content, proposal.redactor) {
        return Plan::Denied(Denial {
            rule: DenialRule::Secret,
            reason,
            instead:
                "take it out, and propose it again; keep values that are not secret in a ConfigMap"
                    .to_owned(),
        });
    }
    let Some(reasons) = reasons else {
        let key = key(proposal.attempt, repository, write);
        return Plan::Write(Authorised { key, write: write.clone() });
    };
    let about = target(repository, write);
    let longest = policies.approvals.iter().filter_map(|policy| policy.expires_after);
    let wait = longest.map(Span::millis).min().unwrap_or(A_DAY);
    let mut summary = proposal.summary.clone();
    if policies.trust == TrustTier::Untrusted {
        summary = format!("{summary} (the origin is not trusted)").trim_start().to_owned();
    }
    Plan::Ask(Box::new(AgentApproval {
        dispatch_run: proposal.dispatch_run.to_owned(),
        attempt: Some(proposal.attempt.to_owned()),
        requested_by: proposal.requested_by.clone(),
        dispatched_by: None,
        attempt_asked_by: None,
        action: ApprovalAction {
            kind: ActionType::WriteBack(write.target()),
            target: about.name,
            summary,
        },
        policy_reasons: reasons,
        artifact_refs: proposal.artifact_refs.clone(),
        artifact_digest: digest(repository, write).as_str().to_owned(),
        target_state: about.state.or_else(|| proposal.target_state.clone()),
        expires_at: proposal.now.plus_millis(wait),
    }))
}
