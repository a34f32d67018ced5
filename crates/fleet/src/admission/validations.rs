//! The ten validations before a dispatch. A run without objections may start.

use bailiwick_resources::{
    ApprovalMode, EventSource, Finding, Object, Reason, Repository, SecretMount, Standing,
    TrustTier,
};
use serde::{Deserialize, Serialize};

use super::compile::tool_faults;
use super::conditions::{
    AdapterProbe, StackFacts, StackInput, capabilities_resolved, context_labels_valid, mcp_healthy,
    policy_admitted, skills_validated, subagents_valid, tools_admitted,
};
use super::inventory::Inventory;
use super::review::{Entry, Review, ReviewReason, Severity, Situation, opened_hosts};
use super::snapshot::FrozenStack;
use crate::bundle::label_faults;
use bailiwick_resources::LabelSource;

/// The run to validate.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The stack, frozen.
    pub frozen: &'a FrozenStack,
    /// Everything there is.
    pub inventory: &'a Inventory,
    /// The observations.
    pub facts: &'a StackFacts,
    /// The repository it works on.
    pub repository: &'a Object<Repository>,
    /// The situation.
    pub situation: &'a Situation,
    /// The review.
    pub review: &'a Review,
    /// What the work is about, for its labels.
    pub about: Option<LabelSource>,
}

/// One of the ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validation {
    /// 1: the stack is valid for what its adapter can do.
    AdapterCapabilities,
    /// 2: MCP servers are available and allowed here.
    McpServers,
    /// 3: skills fit the base agent and the kind of task.
    Skills,
    /// 4: sub-agents stay within limits.
    Subagents,
    /// 5: the tool profile fits the trust.
    ToolProfile,
    /// 6: the identities are admitted.
    Identities,
    /// 7: secrets are granted here.
    SecretGrants,
    /// 8: config maps are granted here.
    ConfigGrants,
    /// 9: policy allows secrets and variables.
    SecretPolicy,
    /// 10: the approval mode is allowed here.
    ApprovalMode,
}

impl Validation {
    /// All ten, in their order.
    pub const ALL: [Self; 10] = [
        Self::AdapterCapabilities,
        Self::McpServers,
        Self::Skills,
        Self::Subagents,
        Self::ToolProfile,
        Self::Identities,
        Self::SecretGrants,
        Self::ConfigGrants,
        Self::SecretPolicy,
        Self::ApprovalMode,
    ];

    /// The objections of this validation.
    pub fn objections(self, candidate: &Candidate<'_>) -> Vec<ReviewReason> {
        match self {
            Self::AdapterCapabilities => adapter_capabilities(candidate),
            Self::McpServers => mcp_servers(candidate),
            Self::Skills => skills(candidate),
            Self::Subagents => subagents(candidate),
            Self::ToolProfile => tool_profile(candidate),
            Self::Identities => identities(candidate),
            Self::SecretGrants => secret_grants(candidate),
            Self::ConfigGrants => config_grants(candidate),
            Self::SecretPolicy => secret_policy(candidate),
            Self::ApprovalMode => approval_mode(candidate),
        }
    }
}

/// The objections of all ten.
pub fn objections(candidate: &Candidate<'_>) -> Vec<(Validation, Vec<ReviewReason>)> {
    let found = Validation::ALL.into_iter().map(|one| (one, one.objections(candidate)));
    found.filter(|(_, objections)| !objections.is_empty()).collect()
}

fn error(code: Reason, about: &str, message: impl Into<String>) -> ReviewReason {
    ReviewReason {
        severity: Severity::Error,
        code,
        about: about.to_owned(),
        message: message.into(),
    }
}

/// A condition that is false or unknown.
fn unmet(finding: &Finding) -> Option<ReviewReason> {
    match finding.status {
        Standing::True => None,
        Standing::False | Standing::Unknown => {
            Some(error(finding.reason, finding.kind.as_str(), finding.message.clone()))
        }
    }
}

/// The stack as its conditions see it, in this repository alone.
fn input<'a>(candidate: &Candidate<'a>) -> StackInput<'a> {
    StackInput {
        frozen: candidate.frozen,
        inventory: candidate.inventory,
        facts: candidate.facts,
        repositories: std::slice::from_ref(candidate.repository),
        reviews: std::slice::from_ref(candidate.review),
    }
}

/// 1: the adapter was probed and can do what the stack needs.
pub fn adapter_capabilities(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    unmet(&capabilities_resolved(&input(candidate))).into_iter().collect()
}

/// 2: every MCP server is there, answers or may be lazy, and is allowed for repository, ref and trust.
pub fn mcp_servers(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let mut found: Vec<ReviewReason> = unmet(&mcp_healthy(&input(candidate))).into_iter().collect();
    let servers = candidate.frozen.mcp_servers.iter().filter(|server| !server.spec.allow_untrusted);
    for server in servers.filter(|_| candidate.situation.trust_tier == TrustTier::Untrusted) {
        let message = format!("`{}` is not for untrusted work", server.name());
        found.push(error(Reason::McpServerNotAllowed, server.name(), message));
    }
    found
}

/// 3: skills fit the base agent and the kind of task; labels are approved for this work.
pub fn skills(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let input = input(candidate);
    let mut found: Vec<ReviewReason> = unmet(&skills_validated(&input)).into_iter().collect();
    found.extend(unmet(&context_labels_valid(&input)));
    let kind = &candidate.situation.task_kind;
    for skill in &candidate.frozen.skills {
        if !skill.spec.task_kinds.is_empty() && !skill.spec.task_kinds.contains(kind) {
            let message = format!("`{}` is not for tasks of kind `{kind}`", skill.name());
            found.push(error(Reason::SkillNotAllowed, skill.name(), message));
        }
    }
    let stack = candidate.frozen.stack.name();
    let repository = Some(candidate.situation.repository.as_str());
    for asked in &candidate.frozen.label_refs {
        let label = candidate.frozen.labels.iter().find(|label| label.name() == asked.name);
        // A label that is not for what the work is about is left out of the bundle, not refused.
        let meant = label.filter(|label| {
            candidate.about.is_none_or(|about| label.spec.allowed_sources.contains(&about))
        });
        for fault in meant.into_iter().flat_map(|l| label_faults(l, asked, stack, repository, None))
        {
            found.push(error(fault.reason, &fault.label, fault.message));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// 4: no sub-agent needs more parallel runs, or more rights, than permitted.
pub fn subagents(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    unmet(&subagents_valid(&input(candidate))).into_iter().collect()
}

/// 5: the tool profile fits the repository's policy and the trust of the work.
pub fn tool_profile(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let mut found: Vec<ReviewReason> =
        unmet(&tools_admitted(&input(candidate))).into_iter().collect();
    let trust = candidate.situation.trust_tier;
    for fault in tool_faults(candidate.frozen, candidate.repository, trust) {
        found.push(error(fault.reason, "ToolsAdmitted", fault.message));
    }
    let closed =
        trust == TrustTier::Untrusted && !candidate.repository.spec.policy.untrusted_network;
    for host in opened_hosts(candidate.frozen).into_iter().filter(|_| closed) {
        let message = format!(
            "untrusted work would reach the host `{host}`; `policy.untrustedNetwork` of the \
             repository has to allow it"
        );
        found.push(error(Reason::NetworkPolicyMissing, "ToolsAdmitted", message));
    }
    found.sort();
    found.dedup();
    found
}

fn denied<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<ReviewReason> {
    entries.filter(|entry| entry.is_denied()).map(|entry| entry.why.clone()).collect()
}

/// 6: the identity of the agent and that of its runner are there and may be used, with their roles.
pub fn identities(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let review = candidate.review;
    let mut found = denied(review.identities.iter());
    found.extend(denied(review.required_roles.iter().map(|role| &role.entry)));
    let resolved = review.runtime_identity.is_some() && review.runner_identity.is_some();
    if !resolved && found.is_empty() {
        let message = "an identity was not resolved";
        found.push(error(Reason::ServiceAccountMissing, "runtimeIdentity", message));
    }
    found
}

/// 7: every key of a secret has a grant that holds for subject, repository, ref and source.
pub fn secret_grants(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let review = candidate.review;
    let mut found = denied(review.required_secrets.iter().map(|secret| &secret.entry));
    let named = |why: &&ReviewReason| why.code == Reason::MissingSecretGrant;
    found.extend(review.reasons.iter().filter(named).cloned());
    found.sort();
    found.dedup();
    found
}

/// 8: every key of a config map has one, too.
pub fn config_grants(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let review = candidate.review;
    let mut found = denied(review.required_configs.iter().map(|config| &config.entry));
    let named = |why: &&ReviewReason| why.code == Reason::MissingConfigGrant;
    found.extend(review.reasons.iter().filter(named).cloned());
    found.sort();
    found.dedup();
    found
}

/// 9: policy allows the stack here, and nothing that is passed by reference is mounted.
pub fn secret_policy(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let mut found: Vec<ReviewReason> = unmet(&policy_admitted(&input(candidate)))
        .into_iter()
        // The approval mode has its own validation.
        .filter(|why| why.code != Reason::ForbiddenApprovalMode)
        .collect();
    let untrusted = candidate.situation.trust_tier == TrustTier::Untrusted;
    for (secret, how, name) in candidate.review.mounts() {
        if how == SecretMount::NeverMountPassByReference {
            let message = format!("`{name}` must never be mounted");
            found.push(error(Reason::SecretNotAllowedHere, &secret.need.name, message));
        }
        if untrusted && !candidate.frozen.stack.spec.secret_policy.allow_on_forks {
            let message = format!("`{name}` would reach untrusted work");
            found.push(error(Reason::PrivilegedSecretsOnFork, &secret.need.name, message));
        }
    }
    found
}

/// 10: the approval mode is allowed in the repository, for this source and by the adapter.
pub fn approval_mode(candidate: &Candidate<'_>) -> Vec<ReviewReason> {
    let mode = candidate.frozen.stack.spec.approval_mode;
    let mut found = Vec::new();
    let mut forbid = |message: String| {
        found.push(error(Reason::ForbiddenApprovalMode, "approvalMode", message));
    };
    if !super::conditions::mode_allowed(&candidate.repository.spec, mode) {
        forbid(format!("`{}` does not allow {mode:?}", candidate.situation.repository));
    }
    if mode == ApprovalMode::Yolo {
        if candidate.situation.trust_tier == TrustTier::Untrusted {
            forbid("untrusted work is never started without approvals".to_owned());
        }
        // Anyone who may comment, add a label or send a webhook could start it.
        let open = match candidate.situation.source {
            EventSource::IssueComment
            | EventSource::PrComment
            | EventSource::Label
            | EventSource::Webhook => true,
            EventSource::Ci
            | EventSource::Push
            | EventSource::Tag
            | EventSource::Schedule
            | EventSource::Manual
            | EventSource::RepositoryDispatch => false,
        };
        if open {
            let source = candidate.situation.source.as_str();
            forbid(format!("work from `{source}` is never started without approvals"));
        }
        if candidate.situation.actor.is_none() && !open {
            forbid("it is not known who started it".to_owned());
        }
    }
    if let AdapterProbe::Seen(adapter) = &candidate.facts.adapter
        && !adapter.approval_modes.is_empty()
        && !adapter.approval_modes.contains(&mode)
    {
        forbid(format!("the agent program cannot be held to {mode:?}"));
    }
    found
}
