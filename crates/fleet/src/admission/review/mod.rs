//! The permission review: what a run would be permitted, by which grants, and which are missing.
//!
//! In this order: the stack is expanded, its needs are collected, its identities are resolved, then roles, secrets
//! and config maps, each for the situation of the work. An explicit denial takes precedence; missing or unknown
//! things are denials as well.

mod entries;
mod identities;
mod identity_tokens;
mod keys;
mod names;
mod previews;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::Object;
use bailiwick_resources::{
    ApprovalPolicy, ApprovalReason, ConfigMount, EventSource, Kind, MissingGrant, Moment,
    NetworkMode, Reason, RunnerPool, SecretMount, SecretPurpose, TrustTier,
};
use serde::{Deserialize, Serialize};

use super::inventory::Inventory;
use super::requirements::{ConfigNeed, Requirements, SecretNeed};
use super::snapshot::FrozenStack;

pub use keys::is_privileged;

pub use entries::{Entry, EntryDecision, GrantLevel, ReviewReason, Severity};

/// The situation of a piece of work: repository, ref, actor, event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Situation {
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The whole ref.
    #[serde(rename = "ref")]
    pub reference: String,
    /// How much its origin is trusted; a fork never is.
    pub trust_tier: TrustTier,
    /// The actor of the source event.
    pub actor: Option<String>,
    /// The groups and teams of the actor, if they are known.
    #[serde(default)]
    pub memberships: Vec<String>,
    /// The source of the event.
    pub source: EventSource,
    /// The workflow it is about.
    pub workflow: Option<String>,
    /// The job it is about.
    pub job: Option<String>,
    /// The kind of its task.
    pub task_kind: String,
}

/// Whether a review is about one piece of work or about the stack in general.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// Of the stack as such: that grants exist. Nothing is started by it.
    Stack,
    /// Of a run in this situation.
    Run(&'a Situation),
}

/// The inputs of a review besides the inventory.
#[derive(Debug, Clone, Copy)]
pub struct ReviewInput<'a> {
    /// The stack, frozen.
    pub frozen: &'a FrozenStack,
    /// The needs.
    pub requirements: &'a Requirements,
    /// Everything there is.
    pub inventory: &'a Inventory,
    /// The scope.
    pub scope: Scope<'a>,
    /// The pool that would execute it.
    pub pool: Option<&'a Object<RunnerPool>>,
    /// The approvals that the rule or the request requires.
    pub approval_policy: &'a ApprovalPolicy,
    /// The time, for the age of secrets.
    pub now: Moment,
}

/// The result of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Nothing is in the way.
    Allowed,
    /// It needs an approval.
    RequiresApproval,
    /// It may not be.
    Denied,
}

/// A binding that is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequiredRole {
    pub binding: String,
    pub role: String,
    pub entry: Entry,
}

/// A key of a secret that is needed, and how it arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequiredSecret {
    /// Which key, for what.
    pub need: SecretNeed,
    pub entry: Entry,
    /// How it arrives; nothing unless it is granted.
    pub arrives: Option<SecretMount>,
    /// The version of its value that was reviewed.
    pub version: Option<u64>,
}

impl RequiredSecret {
    /// The variable or file under which it is mounted; nothing for what is passed by reference.
    pub fn mount(&self) -> Option<(SecretMount, String)> {
        let granted = match self.entry.decision {
            EntryDecision::Allowed | EntryDecision::RequiresApproval => true,
            EntryDecision::Denied
            | EntryDecision::MissingGrant
            | EntryDecision::StaleGrant
            | EntryDecision::DriftedNativeObject => false,
        };
        let how = self.arrives.filter(|_| granted)?;
        match how {
            SecretMount::NeverMountPassByReference => None,
            SecretMount::Env | SecretMount::File | SecretMount::ProjectedVolume => {
                let name = self.need.becomes.clone();
                Some((how, name.unwrap_or_else(|| variable(&self.need.key))))
            }
        }
    }
}

impl RequiredSecret {
    /// The name under which its value reaches the one who holds the agent, mounted or not.
    pub fn arrives_as(&self) -> Option<String> {
        if let Some((_, name)) = self.mount() {
            return Some(name);
        }
        // The model key stays outside the sandbox, but has a name in any case.
        let granted = self.entry.decision.weight() != Decision::Denied && self.arrives.is_some();
        let held = granted && self.need.purpose == SecretPurpose::ModelProviderToken;
        held.then(|| self.need.becomes.clone().unwrap_or_else(|| variable(&self.need.key)))
    }
}

/// A key as the name of a variable.
fn variable(key: &str) -> String {
    let upper = key.chars().map(|c| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    });
    upper.collect()
}

/// A key of a config map that is needed, and how it arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequiredConfig {
    /// Which key, for what.
    pub need: ConfigNeed,
    pub entry: Entry,
    /// How it arrives; nothing unless it is granted.
    pub arrives: Option<ConfigMount>,
}

impl RequiredConfig {
    /// The variable or file as which it arrives; none for values that are only read on request.
    pub fn mount(&self) -> Option<(ConfigMount, String)> {
        let granted = self.entry.decision.weight() != Decision::Denied;
        let how = self.arrives.filter(|_| granted)?;
        match how {
            ConfigMount::ApiRead => None,
            ConfigMount::Env | ConfigMount::File | ConfigMount::ProjectedVolume => {
                let name = self.need.becomes.clone();
                Some((how, name.unwrap_or_else(|| variable(&self.need.key))))
            }
        }
    }
}

/// The variable that names the file in which a value arrives.
pub fn file_variable(name: &str) -> String {
    format!("{name}_FILE")
}

/// An approval that is required before anything starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalRequirement {
    pub reason: ApprovalReason,
    /// About what, as `AgentSecretGrant/x`.
    pub about: String,
    /// Why.
    pub message: String,
}

/// A review. Its digest is the permission snapshot of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Review {
    /// The result.
    pub decision: Decision,
    /// The digest of the stack that was reviewed.
    pub stack_digest: String,
    /// The situation of the review; none for the stack as such.
    pub situation: Option<Situation>,
    /// The identity the agent runs as, as `namespace/name` of the platform.
    pub runtime_identity: Option<String>,
    pub runner_identity: Option<String>,
    /// The identities.
    pub identities: Vec<Entry>,
    /// Roles.
    pub required_roles: Vec<RequiredRole>,
    /// Secrets.
    pub required_secrets: Vec<RequiredSecret>,
    /// Config maps.
    pub required_configs: Vec<RequiredConfig>,
    pub missing_grants: Vec<MissingGrant>,
    /// Each of them as an object that could be applied.
    pub yaml_preview: Vec<String>,
    /// Grants that are there and do not hold here.
    pub invalid_grants: Vec<String>,
    /// The required approvals.
    pub approval_requirements: Vec<ApprovalRequirement>,
    /// Why, the gravest first.
    pub reasons: Vec<ReviewReason>,
}

impl Review {
    /// The permission snapshot digest.
    pub fn digest(&self) -> Sha256Hex {
        let value = serde_json::to_value(self).unwrap_or(serde_json::Value::Null);
        Sha256Hex::of(value.to_string())
    }

    /// Secrets that are mounted: how, and under which name. Never those passed by reference.
    pub fn mounts(&self) -> Vec<(&RequiredSecret, SecretMount, String)> {
        if self.decision == Decision::Denied {
            return Vec::new();
        }
        let mounted = self.required_secrets.iter().filter_map(|secret| {
            let (how, name) = secret.mount()?;
            Some((secret, how, name))
        });
        mounted.collect()
    }

    /// Config maps that arrive: how, and under which name.
    pub fn config_mounts(&self) -> Vec<(&RequiredConfig, ConfigMount, String)> {
        if self.decision == Decision::Denied {
            return Vec::new();
        }
        let mounted = self.required_configs.iter().filter_map(|config| {
            let (how, name) = config.mount()?;
            Some((config, how, name))
        });
        mounted.collect()
    }

    /// Whether any reason has this code.
    pub fn says(&self, code: Reason) -> bool {
        self.reasons.iter().any(|why| why.code == code)
    }
}

/// Reviews what a stack would be permitted.
pub fn review(input: &ReviewInput<'_>) -> Review {
    let identities = identities::resolve(input);
    let required_roles = identities::roles(input);
    let mut required_secrets = keys::secrets(input);
    let mut required_configs = keys::configs(input);
    names::hold(input, &mut required_secrets, &mut required_configs);
    let mut entries: Vec<&Entry> = identities.entries.iter().collect();
    entries.extend(required_roles.iter().map(|role| &role.entry));
    entries.extend(required_secrets.iter().map(|secret| &secret.entry));
    entries.extend(required_configs.iter().map(|config| &config.entry));
    let mut reasons: Vec<ReviewReason> = entries.iter().map(|entry| entry.why.clone()).collect();
    let mut decision =
        entries.iter().map(|entry| entry.decision.weight()).max().unwrap_or(Decision::Allowed);
    let named = named_but_missing(input);
    if !named.is_empty() {
        decision = Decision::Denied;
    }
    reasons.extend(named);
    let approvals = approvals(input, &required_roles, &required_secrets);
    if !approvals.is_empty() && decision == Decision::Allowed {
        decision = Decision::RequiresApproval;
    }
    reasons.sort_by(|one, other| other.severity.cmp(&one.severity).then(one.cmp(other)));
    reasons.dedup();
    let previews = previews::of(input, &required_secrets, &required_configs, &required_roles);
    let invalid = invalid_grants(&required_secrets, &required_configs);
    let (missing_grants, yaml_preview) = previews.into_iter().unzip();
    Review {
        decision,
        stack_digest: input.frozen.snapshot.digest.clone(),
        situation: match input.scope {
            Scope::Stack => None,
            Scope::Run(situation) => Some(situation.clone()),
        },
        runtime_identity: identities.runtime,
        runner_identity: identities.runner,
        identities: identities.entries,
        required_roles,
        required_secrets,
        required_configs,
        missing_grants,
        yaml_preview,
        invalid_grants: invalid,
        approval_requirements: approvals,
        reasons,
    }
}

/// Bindings and grants that the stack relies on by name and that are not at hand.
fn named_but_missing(input: &ReviewInput<'_>) -> Vec<ReviewReason> {
    let codes = [
        (Kind::AgentSecretGrant, Reason::MissingSecretGrant),
        (Kind::AgentConfigGrant, Reason::MissingConfigGrant),
    ];
    let missing = input.frozen.missing.iter().filter_map(|missing| {
        let (_, code) = codes.into_iter().find(|(kind, _)| *kind == missing.object.kind)?;
        let code = if missing.unknown { Reason::AccessReviewUnavailable } else { code };
        let object = &missing.object;
        let message = format!(
            "{} relies on {} `{}`: {}",
            missing.named_by, object.kind, object.name, missing.why
        );
        Some(ReviewReason { severity: Severity::Error, code, about: object.name.clone(), message })
    });
    missing.collect()
}

fn approvals(
    input: &ReviewInput<'_>,
    roles: &[RequiredRole],
    secrets: &[RequiredSecret],
) -> Vec<ApprovalRequirement> {
    let mut found = Vec::new();
    let always = |reason| input.approval_policy.require_for.contains(&reason);
    found.extend(network(input).filter(|_| always(ApprovalReason::NetworkExpanded)));
    for secret in secrets {
        let asked = secret.entry.decision == EntryDecision::RequiresApproval;
        let usable = asked || secret.entry.decision == EntryDecision::Allowed;
        if asked || (usable && always(ApprovalReason::SecretAccess)) {
            found.push(ApprovalRequirement {
                reason: ApprovalReason::SecretAccess,
                about: secret.entry.why.about.clone(),
                message: match asked {
                    true => secret.entry.why.message.clone(),
                    false => "the rule asks for a person before a secret is used".to_owned(),
                },
            });
        }
    }
    for role in roles {
        let asked = role.entry.decision == EntryDecision::RequiresApproval;
        let usable = asked || role.entry.decision == EntryDecision::Allowed;
        if asked || (usable && always(ApprovalReason::Escalation)) {
            found.push(ApprovalRequirement {
                reason: ApprovalReason::Escalation,
                about: format!("AgentRoleBinding/{}", role.binding),
                message: match asked {
                    true => role.entry.why.message.clone(),
                    false => format!("the rule asks for a person before `{}` is used", role.role),
                },
            });
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The hosts that a stack's tool profile and its servers open, as they are written there. Without them,
/// nothing but the model is reached.
pub(crate) fn opened_hosts(frozen: &FrozenStack) -> Vec<String> {
    let profile = frozen.tool_profile.as_ref();
    let mut hosts = match profile.and_then(|profile| profile.spec.network_policy.as_ref()) {
        None => Vec::new(),
        Some(policy) => match policy.mode {
            NetworkMode::Deny => Vec::new(),
            NetworkMode::Allowlist => policy.allow_hosts.clone(),
            NetworkMode::RepositoryHostOnly => vec!["that of the repository".to_owned()],
            NetworkMode::UnrestrictedWithApproval => vec!["any".to_owned()],
        },
    };
    hosts.extend(frozen.mcp_servers.iter().filter_map(|server| server.spec.url.clone()));
    hosts
}

fn network(input: &ReviewInput<'_>) -> impl Iterator<Item = ApprovalRequirement> {
    opened_hosts(input.frozen).into_iter().map(|host| ApprovalRequirement {
        reason: ApprovalReason::NetworkExpanded,
        about: format!("Host/{host}"),
        message: "the rule asks for a person before the network is used".to_owned(),
    })
}

fn invalid_grants(secrets: &[RequiredSecret], configs: &[RequiredConfig]) -> Vec<String> {
    let entries = secrets.iter().map(|secret| &secret.entry);
    let entries = entries.chain(configs.iter().map(|config| &config.entry));
    let mut invalid: Vec<String> = entries.flat_map(|entry| entry.invalid.clone()).collect();
    invalid.sort();
    invalid.dedup();
    invalid
}
