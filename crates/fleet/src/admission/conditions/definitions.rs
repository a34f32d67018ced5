//! The conditions of the parts of stacks, and of runner pools.

use bailiwick_resources::{
    AgentContextLabel, AgentMcpServer, AgentServiceAccount, AgentSkill, AgentSubagent,
    AgentToolProfile, AgentWorkspacePolicy, ConditionType, ConfigMap, Finding, KeysRef, McpHealth,
    Object, Reason, RunnerPool, Secret, ToolClass, Validation,
};

use super::facts::SkillProbe;
use super::{Judgement, service_account_conditions, with_ready};
use crate::admission::inventory::{Found, Inventory};
use crate::bundle::awaits_review;
use crate::subagents::is_checkable;

/// Whether what a sub-agent names is there, and what it must return can be checked.
pub fn subagent_conditions(
    subagent: &Object<AgentSubagent>,
    inventory: &Inventory,
) -> Vec<Finding> {
    let (home, spec) = (&subagent.metadata.namespace, &subagent.spec);
    let mut valid = Judgement::of(ConditionType::SubagentsValid);
    for name in &spec.mcp_server_refs {
        let found = inventory.get::<AgentMcpServer>(home, name).absence_reason();
        absent(&mut valid, found, Reason::McpServerMissing, "MCP server", name);
    }
    for name in &spec.skill_refs {
        let found = inventory.get::<AgentSkill>(home, name).absence_reason();
        absent(&mut valid, found, Reason::SkillMissing, "skill", name);
    }
    if let Some(name) = &spec.runtime_identity_override {
        let found = inventory.get::<AgentServiceAccount>(home, name).absence_reason();
        absent(&mut valid, found, Reason::ServiceAccountMissing, "identity", name);
    }
    if !is_checkable(&spec.output_contract) {
        let message = "what it must return cannot be checked";
        valid.fault(Reason::OutputContractUnsupported, message);
    }
    with_ready(vec![valid.end(Reason::SubagentsAdmitted, "everything that it names is there")])
}

/// Whether the keys that a tool profile needs are there, and its network is limited.
pub fn tool_profile_conditions(
    profile: &Object<AgentToolProfile>,
    inventory: &Inventory,
) -> Vec<Finding> {
    let (home, spec) = (&profile.metadata.namespace, &profile.spec);
    let mut admitted = Judgement::of(ConditionType::ToolsAdmitted);
    let is_on = |class: ToolClass| spec.native_tools.get(&class) == Some(&true);
    if (is_on(ToolClass::Network) || is_on(ToolClass::Browser)) && spec.network_policy.is_none() {
        let message = "it uses the network, and nothing says which hosts: set networkPolicy";
        admitted.fault(Reason::NetworkPolicyMissing, message);
    }
    for needed in &spec.required_secret_refs {
        let found = inventory.get::<Secret>(place(needed, home), &needed.name);
        let lacks = |secret: &Object<Secret>, key: &String| !secret.spec.keys.contains_key(key);
        let codes = (Reason::SecretMissing, Reason::SecretKeyMissing);
        keys(&mut admitted, needed, found, lacks, codes);
    }
    for needed in &spec.required_config_refs {
        let found = inventory.get::<ConfigMap>(place(needed, home), &needed.name);
        let lacks = |map: &Object<ConfigMap>, key: &String| !map.spec.data.contains_key(key);
        let codes = (Reason::ConfigMapMissing, Reason::ConfigKeyMissing);
        keys(&mut admitted, needed, found, lacks, codes);
    }
    with_ready(vec![admitted.end(Reason::ToolProfileAdmitted, "what it needs is there")])
}

/// Whether a server responds, from its health.
pub fn mcp_server_conditions(server: &Object<AgentMcpServer>) -> Vec<Finding> {
    let mut healthy = Judgement::of(ConditionType::McpHealthy);
    let why = server.status.message.as_str();
    let is_current = server.status.observed_generation == server.metadata.generation;
    if !is_current {
        healthy.doubt(Reason::NotYetObserved, "no stack that names it was looked at");
        return with_ready(vec![healthy.end(Reason::AllRequiredServersReady, "it answers")]);
    }
    match server.status.health {
        McpHealth::Unknown => healthy.doubt(Reason::NotYetObserved, "it was not asked yet"),
        McpHealth::Ready => {}
        McpHealth::Degraded => healthy.fault(Reason::McpToolMissing, why),
        McpHealth::Denied | McpHealth::Disabled => {
            healthy.fault(Reason::McpServerNotAllowed, why);
        }
        McpHealth::Failed if server.spec.lazy => {
            let ready = Finding::holds(
                ConditionType::McpHealthy,
                Reason::LazyServersAllowed,
                format!("it does not answer yet, which its stacks allow: {why}"),
            );
            return with_ready(vec![ready]);
        }
        McpHealth::Failed => healthy.fault(Reason::McpProbeFailed, why),
    }
    with_ready(vec![healthy.end(Reason::AllRequiredServersReady, "it answers")])
}

/// Whether a skill was found and is valid, from its validation and the probe that led to it.
pub fn skill_conditions(skill: &Object<AgentSkill>, probe: Option<&SkillProbe>) -> Vec<Finding> {
    let mut validated = Judgement::of(ConditionType::SkillsValidated);
    let why = skill.status.message.as_str();
    match skill.status.validation {
        Validation::Valid => {}
        Validation::Warning => validated.doubt(Reason::NotYetObserved, why),
        Validation::Invalid => {
            let reason = match probe {
                Some(SkillProbe::Missing) => Reason::SkillMissing,
                Some(SkillProbe::Invalid(_) | SkillProbe::Found { .. } | SkillProbe::NotYet)
                | None => Reason::InvalidSkillPackage,
            };
            validated.fault(reason, why);
        }
    }
    with_ready(vec![validated.end(Reason::SkillsFound, "it was found")])
}

/// Whether the text of a label is safe and reviewed.
pub fn context_label_conditions(label: &Object<AgentContextLabel>) -> Vec<Finding> {
    let mut valid = Judgement::of(ConditionType::ContextLabelsValid);
    if let Some(first) = label.status.unsafe_patterns.first() {
        let message = format!("its text contains `{first}`, which is not allowed");
        valid.fault(Reason::UnsafeInjectionToken, message);
    }
    if awaits_review(&label.spec) {
        let message = match (&label.spec.reviewed_by, &label.spec.reviewed_digest) {
            (Some(_), Some(_)) => "its text has changed since it was reviewed",
            (None, _) | (_, None) => "its text must be reviewed before it is used",
        };
        valid.fault(Reason::ContextLabelNotReviewed, message);
    }
    with_ready(vec![valid.end(Reason::ContextLabelsApproved, "its text is safe")])
}

/// Whether a workspace policy can be followed.
pub fn workspace_policy_conditions(policy: &Object<AgentWorkspacePolicy>) -> Vec<Finding> {
    let mut admitted = Judgement::of(ConditionType::PolicyAdmitted);
    let is_outside =
        |path: &&String| path.starts_with('/') || path.split('/').any(|part| part == "..");
    if let Some(path) = policy.spec.copy.iter().find(is_outside) {
        let message = format!("`{path}` of copy is outside of the checkout");
        admitted.fault(Reason::FilesystemScopeTooBroad, message);
    }
    with_ready(vec![admitted.end(Reason::PolicyAdmitted, "workspaces can be made as it says")])
}

/// Whether the identity of a pool's runners is there and ready.
pub fn runner_pool_conditions(pool: &Object<RunnerPool>, inventory: &Inventory) -> Vec<Finding> {
    let name = &pool.spec.service_account_ref;
    let mut identity = Judgement::of(ConditionType::RuntimeIdentityReady);
    match inventory.get::<AgentServiceAccount>(&pool.metadata.namespace, name) {
        Found::Missing => {
            let message = format!("it runs as `{name}`, which is not there");
            identity.fault(Reason::ServiceAccountMissing, message);
        }
        Found::Unknown(why) => identity.doubt(Reason::AccessReviewUnavailable, why),
        Found::Here(account) => {
            let findings = service_account_conditions(&account, inventory);
            for one in findings.into_iter().filter(|one| one.kind != ConditionType::Ready) {
                let message = format!("`{name}`: {}", one.message);
                match one.status {
                    bailiwick_resources::Standing::True => {}
                    bailiwick_resources::Standing::False => identity.fault(one.reason, message),
                    bailiwick_resources::Standing::Unknown => identity.doubt(one.reason, message),
                }
            }
        }
    }
    let good = format!("its runners are `{name}`");
    with_ready(vec![identity.end(Reason::ServiceAccountReady, good)])
}

/// The namespace of a reference.
fn place<'a>(reference: &'a KeysRef, home: &'a str) -> &'a str {
    reference.namespace.as_deref().unwrap_or(home)
}

/// Judges whether the keys of a reference are there.
fn keys<R: bailiwick_resources::Resource>(
    judgement: &mut Judgement,
    needed: &KeysRef,
    found: Found<R>,
    lacks: impl Fn(&Object<R>, &String) -> bool,
    (missing, key_missing): (Reason, Reason),
) {
    match found {
        Found::Missing => judgement.fault(missing, format!("there is no `{}`", needed.name)),
        Found::Unknown(why) => judgement.doubt(Reason::AccessReviewUnavailable, why),
        Found::Here(object) => {
            if let Some(key) = needed.keys.iter().find(|key| lacks(&object, key)) {
                judgement.fault(key_missing, format!("`{}` has no key `{key}`", needed.name));
            }
        }
    }
}

/// Why something is not at hand.
enum Absence {
    Missing,
    Unknown(String),
}

trait AbsenceReason {
    fn absence_reason(self) -> Option<Absence>;
}

impl<R: bailiwick_resources::Resource> AbsenceReason for Found<R> {
    fn absence_reason(self) -> Option<Absence> {
        match self {
            Found::Here(_) => None,
            Found::Missing => Some(Absence::Missing),
            Found::Unknown(why) => Some(Absence::Unknown(why)),
        }
    }
}

fn absent(
    judgement: &mut Judgement,
    absence: Option<Absence>,
    reason: Reason,
    what: &str,
    name: &str,
) {
    match absence {
        None => {}
        Some(Absence::Missing) => judgement.fault(reason, format!("there is no {what} `{name}`")),
        Some(Absence::Unknown(why)) => judgement.doubt(Reason::AccessReviewUnavailable, why),
    }
}
