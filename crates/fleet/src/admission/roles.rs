//! Roles: the templates that ship with us, what the platform's objects should be, and what escalates.

use bailiwick_resources::{
    AgentRoleBinding, AgentServiceAccount, EscalationPolicy, Metadata, Object, ResourceRule, Role,
    RoleBinding, RoleRefKind, ScopeKind, ServiceAccount,
};

use super::inventory::{Found, Inventory};

/// The templates: a name, the resources, and the verbs on them.
const TEMPLATES: [(&str, &[&str], &[&str]); 8] = [
    (
        "agent-readonly",
        &["repositories", "agentdispatchruns", "agentartifacts"],
        &["get", "list", "watch"],
    ),
    (
        "agent-repository-repair",
        &["repositories", "agentworkspaces", "agentartifacts"],
        &["get", "list", "watch", "update"],
    ),
    (
        "agent-ci-diagnoser",
        &["repositories", "agentdispatchruns", "webhookdeliveries"],
        &["get", "list", "watch"],
    ),
    ("agent-workspace-manager", &["agentworkspaces"], &["get", "list", "create", "update"]),
    ("runner-untrusted", &["agentdispatchattempts"], &["get", "list"]),
    ("runner-trusted", &["agentdispatchattempts", "agentworkspaces"], &["get", "list", "update"]),
    (
        "secret-grant-admin",
        &["agentsecretgrants", "agentconfiggrants"],
        &["get", "list", "create", "update", "delete"],
    ),
    ("agent-approver", &["agentapprovals"], &["get", "list", "update"]),
];

/// Resources whose writers can give themselves more.
const PRIVILEGED: [&str; 9] = [
    "secrets",
    "roles",
    "rolebindings",
    "serviceaccounts",
    "agentrolebindings",
    "agentsecretgrants",
    "agentconfiggrants",
    "agentserviceaccounts",
    "agentapprovals",
];

/// The rules of a template.
pub fn template(name: &str) -> Option<Vec<ResourceRule>> {
    let (_, resources, verbs) = TEMPLATES.iter().find(|(known, _, _)| *known == name)?;
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    Some(vec![ResourceRule {
        api_groups: vec!["bailiwick.dev".to_owned()],
        resources: texts(resources),
        verbs: texts(verbs),
    }])
}

/// The rules of a binding's role, if it exists.
pub fn rules_of(inventory: &Inventory, binding: &Object<AgentRoleBinding>) -> Found<Role> {
    let reference = &binding.spec.role_ref;
    match reference.kind {
        RoleRefKind::RoleTemplate => match template(&reference.name) {
            Some(rules) => {
                let role = Role { rules, cluster: false };
                Found::Here(Box::new(Object::new(Metadata::named(&reference.name), role)))
            }
            None => Found::Missing,
        },
        RoleRefKind::Role | RoleRefKind::ClusterRole => {
            inventory.get::<Role>(&binding.metadata.namespace, &reference.name)
        }
    }
}

/// The platform's binding as it should be.
pub fn native_binding(binding: &Object<AgentRoleBinding>) -> Object<RoleBinding> {
    let name = binding.spec.native_role_binding_name.as_ref();
    let mut metadata = Metadata::named(name.unwrap_or(&binding.metadata.name));
    metadata.namespace = binding.metadata.namespace.clone();
    let subjects = vec![binding.spec.subject.clone()];
    Object::new(metadata, RoleBinding { role_ref: binding.spec.role_ref.clone(), subjects })
}

/// The platform's identity as it should be.
pub fn native_account(account: &Object<AgentServiceAccount>) -> Object<ServiceAccount> {
    let mut metadata = Metadata::named(&account.spec.service_account_name);
    metadata.namespace = account.spec.namespace.clone();
    let image_pull_secrets = account.spec.image_pull_secret_refs.clone();
    Object::new(metadata, ServiceAccount { forbid_token_projection: false, image_pull_secrets })
}

/// Whether a binding grants more than it may without a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Escalation {
    /// It does not.
    No,
    /// It reaches beyond its namespace.
    Cluster(String),
    /// It gives rights by which more rights can be had.
    Privileged(String),
}

/// The escalation by a binding with this role.
pub fn escalation(binding: &AgentRoleBinding, role: &Role) -> Escalation {
    let cluster = role.cluster || binding.role_ref.kind == RoleRefKind::ClusterRole;
    if cluster || binding.scope.kind == ScopeKind::Cluster {
        let reason = format!("`{}` reaches beyond its namespace", binding.role_ref.name);
        return Escalation::Cluster(reason);
    }
    for rule in role.rules.iter().chain(&binding.resource_rules) {
        if let Some(all) = rule.verbs.iter().chain(&rule.resources).find(|word| *word == "*") {
            return Escalation::Privileged(format!("`{all}` allows everything"));
        }
        let writes = |verb: &&String| !matches!(verb.as_str(), "get" | "list" | "watch");
        for resource in &rule.resources {
            let reads_secrets = resource == "secrets";
            let writing = rule.verbs.iter().find(writes);
            if PRIVILEGED.contains(&resource.as_str()) && (writing.is_some() || reads_secrets) {
                let verbs = rule.verbs.join(", ");
                return Escalation::Privileged(format!("it may {verbs} {resource}"));
            }
        }
    }
    Escalation::No
}

/// Whether these rules allow no more than those.
pub fn within(rules: &[ResourceRule], limit: &[ResourceRule]) -> bool {
    let has = |list: &[String], word: &String| list.contains(word) || list.iter().any(|w| w == "*");
    rules.iter().all(|rule| {
        rule.resources.iter().all(|resource| {
            rule.verbs.iter().all(|verb| {
                limit.iter().any(|other| {
                    let groups = other.api_groups.is_empty()
                        || rule.api_groups.iter().all(|group| has(&other.api_groups, group));
                    groups && has(&other.resources, resource) && has(&other.verbs, verb)
                })
            })
        })
    })
}

/// The result of an escalation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscalationAnswer {
    /// It may be.
    Admitted,
    /// It needs an approval.
    Ask,
    /// It may be if its author owns the repository.
    IfOwner,
    /// It may not be.
    Denied,
}

/// The consequence of an escalation.
pub fn answer(policy: EscalationPolicy, escalation: &Escalation) -> EscalationAnswer {
    match (escalation, policy) {
        (Escalation::No, _) => EscalationAnswer::Admitted,
        (Escalation::Cluster(_) | Escalation::Privileged(_), EscalationPolicy::Deny) => {
            EscalationAnswer::Denied
        }
        (
            Escalation::Cluster(_) | Escalation::Privileged(_),
            EscalationPolicy::RequireAdminApproval,
        ) => EscalationAnswer::Ask,
        // The owner of a repository's files owns nothing beyond it.
        (Escalation::Cluster(_), EscalationPolicy::AllowIfOwner) => EscalationAnswer::Denied,
        (Escalation::Privileged(_), EscalationPolicy::AllowIfOwner) => EscalationAnswer::IfOwner,
    }
}
