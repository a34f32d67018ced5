//! Grants that are wanting, written out so that they can be applied.

use std::collections::BTreeSet;

use bailiwick_resources::{
    API_VERSION, AgentConfigGrant, AgentRoleBinding, AgentSecretGrant, BindingScope, ConfigMount,
    EscalationPolicy, Globs, KeysRef, Kind, MissingGrant, Object, RequiredApproval, Resource,
    RoleRef, RoleRefKind, ScopeKind, SecretMount, Subject, SubjectKind,
};
use serde_json::json;

use super::entries::EntryDecision;
use super::{RequiredConfig, RequiredRole, RequiredSecret, ReviewInput, Scope};
use crate::admission::requirements::KeyNeed;
use crate::admission::yaml::to_yaml;

/// A missing grant for each entry that lacks one, in the order of the entries, with the narrowest object that would be
/// enough.
pub(super) fn of(
    input: &ReviewInput<'_>,
    secrets: &[RequiredSecret],
    configs: &[RequiredConfig],
    roles: &[RequiredRole],
) -> Vec<(MissingGrant, String)> {
    let mut out = Previews { input, taken: BTreeSet::new(), found: Vec::new() };
    for secret in secrets.iter().filter(|s| s.entry.decision == EntryDecision::MissingGrant) {
        let need = &secret.need;
        let grant = AgentSecretGrant {
            subject: out.subject(),
            secret_ref: keys(need),
            purpose: need.purpose,
            allowed_repositories: out.repositories(),
            allowed_refs: Globs::default(),
            allowed_trigger_sources: out.sources(),
            allow_untrusted: false,
            // A variable of a program must be mounted; anything else need not be.
            mount_policy: match need.becomes {
                Some(_) => SecretMount::Env,
                None => SecretMount::default(),
            },
            required_approval: RequiredApproval::Never,
            rotation_policy: None,
            deny: false,
        };
        out.push(&format!("{}-{}", need.name, need.key), &secret.entry.why.message, &grant);
    }
    for config in configs.iter().filter(|c| c.entry.decision == EntryDecision::MissingGrant) {
        let need = &config.need;
        let grant = AgentConfigGrant {
            subject: out.subject(),
            config_map_ref: keys(need),
            purpose: need.purpose,
            allowed_repositories: out.repositories(),
            allowed_refs: Globs::default(),
            allowed_trigger_sources: out.sources(),
            mount_policy: ConfigMount::default(),
            deny: false,
        };
        out.push(&format!("{}-{}", need.name, need.key), &config.entry.why.message, &grant);
    }
    for role in roles.iter().filter(|r| r.entry.decision == EntryDecision::MissingGrant) {
        let message = &role.entry.why.message;
        let mut bound = input.frozen.role_bindings.iter();
        if let Some(binding) = bound.find(|binding| binding.name() == role.binding) {
            out.push_remedy(binding, message);
            continue;
        }
        let binding = AgentRoleBinding {
            subject: out.subject(),
            scope: BindingScope {
                kind: ScopeKind::Namespace,
                name: Some(input.frozen.namespace().to_owned()),
            },
            role_ref: RoleRef {
                kind: RoleRefKind::RoleTemplate,
                name: "agent-readonly".to_owned(),
            },
            resource_rules: Vec::new(),
            native_role_binding_name: None,
            escalation_policy: EscalationPolicy::Deny,
        };
        out.push_named(&role.binding, &role.entry.why.message, &binding);
    }
    out.found
}

fn keys<P>(need: &KeyNeed<P>) -> KeysRef {
    KeysRef {
        name: need.name.clone(),
        namespace: Some(need.namespace.clone()),
        keys: vec![need.key.clone()],
    }
}

struct Previews<'a> {
    input: &'a ReviewInput<'a>,
    taken: BTreeSet<(Kind, String)>,
    found: Vec<(MissingGrant, String)>,
}

impl Previews<'_> {
    /// The identity, and only as part of this stack.
    fn subject(&self) -> Subject {
        let stack = &self.input.frozen.stack;
        Subject {
            kind: SubjectKind::ServiceAccount,
            name: stack.spec.runtime_identity.service_account_ref.clone(),
            stack_ref: Some(stack.name().to_owned()),
            service_account_ref: None,
        }
    }

    fn repositories(&self) -> Vec<String> {
        match self.input.scope {
            Scope::Run(situation) => vec![situation.repository.clone()],
            Scope::Stack => {
                let account = self.input.frozen.service_account.as_ref();
                account.map(|account| account.spec.allowed_repositories.clone()).unwrap_or_default()
            }
        }
    }

    fn sources(&self) -> Vec<bailiwick_resources::EventSource> {
        match self.input.scope {
            Scope::Run(situation) => vec![situation.source],
            Scope::Stack => Vec::new(),
        }
    }

    fn push<R: Resource>(&mut self, words: &str, reason: &str, spec: &R) {
        let name = self.free(R::KIND, &format!("{}-{words}", self.input.frozen.stack.name()));
        self.push_named(&name, reason, spec);
    }

    /// The objects of the cluster that add what a binding gives, as its operator has written them.
    fn push_remedy(&mut self, binding: &Object<AgentRoleBinding>, reason: &str) {
        let namespace = &binding.metadata.namespace;
        let current = self.input.inventory.get::<AgentRoleBinding>(namespace, binding.name()).ok();
        let access = current.and_then(|current| current.status.access);
        let remedy = access.map(|access| access.report.remedy).unwrap_or_default();
        let remedy = format!("# For the cluster, with `kubectl apply -f -`.\n{remedy}");
        let missing = MissingGrant {
            kind: AgentRoleBinding::KIND,
            suggested_name: binding.name().to_owned(),
            reason: reason.to_owned(),
            blocking: true,
        };
        self.found.push((missing, remedy));
    }

    fn push_named<R: Resource>(&mut self, name: &str, reason: &str, spec: &R) {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": R::KIND.as_str(),
            "metadata": { "name": name, "namespace": self.input.frozen.namespace() },
            "spec": serde_json::to_value(spec).unwrap_or_default(),
        });
        self.taken.insert((R::KIND, name.to_owned()));
        let missing = MissingGrant {
            kind: R::KIND,
            suggested_name: name.to_owned(),
            reason: reason.to_owned(),
            blocking: true,
        };
        self.found.push((missing, to_yaml(&object)));
    }

    /// A valid name that is not in use.
    fn free(&self, kind: Kind, words: &str) -> String {
        let lower = words.to_ascii_lowercase();
        let plain = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        let mut base: String = plain.take(100).collect();
        base = base.trim_matches('-').to_owned();
        let taken = |name: &String| {
            self.input.inventory.has(kind, self.input.frozen.namespace(), name)
                || self.taken.contains(&(kind, name.clone()))
        };
        let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
        std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base)
    }
}
