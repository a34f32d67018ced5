//! The needs of a stack and everything it names: keys of secrets and config maps, roles, rights of the identity.

use bailiwick_resources::{
    AgentCapabilityRequirement, ConfigPurpose, KeysRef, Kind, ObjectRef, SecretPurpose, ValueFrom,
};
use serde::{Deserialize, Serialize};

use super::snapshot::FrozenStack;

/// One key that something needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyNeed<P> {
    /// The object that needs it.
    pub owner: ObjectRef,
    /// The namespace of the secret or config map.
    pub namespace: String,
    pub name: String,
    pub key: String,
    /// For what.
    pub purpose: P,
    /// The variable, header or file that it becomes, if its owner says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub becomes: Option<String>,
}

/// A key of a secret.
pub type SecretNeed = KeyNeed<SecretPurpose>;
/// A key of a config map.
pub type ConfigNeed = KeyNeed<ConfigPurpose>;

/// Everything that is needed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requirements {
    /// One record for each object with needs, under its name.
    pub records: Vec<(String, AgentCapabilityRequirement)>,
    /// Keys of secrets.
    pub secrets: Vec<SecretNeed>,
    /// Keys of config maps.
    pub configs: Vec<ConfigNeed>,
    /// Roles, by the names of their bindings.
    pub role_bindings: Vec<String>,
}

/// Collects the needs of a frozen stack. They are the same however often the same key is named.
pub fn collect(frozen: &FrozenStack) -> Requirements {
    let namespace = frozen.namespace().to_owned();
    let mut found = Collector { namespace, requirements: Requirements::default() };
    let stack = &frozen.stack;
    let mut roles: Vec<String> =
        frozen.role_bindings.iter().map(|binding| binding.spec.role_ref.name.clone()).collect();
    roles.dedup();
    let mut capabilities = vec!["run-in-pool".to_owned(), "receive-token".to_owned()];
    if !frozen.mcp_servers.is_empty() {
        capabilities.push("start-mcp-servers".to_owned());
    }
    found.add(
        Owner(Kind::AgentStack, stack.name()),
        &stack.spec.required_secret_refs,
        SecretPurpose::ModelProviderToken,
        &stack.spec.required_config_refs,
        ConfigPurpose::RunnerConfig,
        &[],
        (roles, capabilities),
    );
    if let Some(profile) = &frozen.tool_profile {
        found.add(
            Owner(Kind::AgentToolProfile, profile.name()),
            &profile.spec.required_secret_refs,
            SecretPurpose::Tool,
            &profile.spec.required_config_refs,
            ConfigPurpose::ToolConfig,
            &[],
            Default::default(),
        );
    }
    for server in &frozen.mcp_servers {
        let values: Vec<ValueFrom> =
            server.spec.env_from.iter().chain(&server.spec.headers_from).cloned().collect();
        found.add(
            Owner(Kind::AgentMcpServer, server.name()),
            &server.spec.secret_refs,
            SecretPurpose::McpServer,
            &server.spec.config_map_refs,
            ConfigPurpose::McpConfig,
            &values,
            Default::default(),
        );
    }
    for skill in &frozen.skills {
        found.add(
            Owner(Kind::AgentSkill, skill.name()),
            &skill.spec.required_secret_refs,
            SecretPurpose::Skill,
            &skill.spec.required_config_refs,
            ConfigPurpose::SkillConfig,
            &[],
            Default::default(),
        );
    }
    for child in &frozen.subagents {
        // The needs of a child are those of its parent and were counted there, except for its identity.
        let own = child.spec.runtime_identity_override.iter();
        let capabilities = own.map(|identity| format!("act-as/{identity}")).collect();
        found.add(
            Owner(Kind::AgentSubagent, child.name()),
            &[],
            SecretPurpose::Tool,
            &[],
            ConfigPurpose::ToolConfig,
            &[],
            (Vec::new(), capabilities),
        );
    }
    found.requirements.role_bindings = stack.spec.permission_refs.role_bindings.clone();
    found.requirements
}

struct Owner<'a>(Kind, &'a str);

struct Collector {
    namespace: String,
    requirements: Requirements,
}

impl Collector {
    #[expect(clippy::too_many_arguments, reason = "one for each part of a requirement")]
    fn add(
        &mut self,
        Owner(kind, name): Owner<'_>,
        secrets: &[KeysRef],
        secret_purpose: SecretPurpose,
        configs: &[KeysRef],
        config_purpose: ConfigPurpose,
        values: &[ValueFrom],
        (required_roles, capabilities): (Vec<String>, Vec<String>),
    ) {
        let owner =
            ObjectRef { kind, name: name.to_owned(), namespace: Some(self.namespace.clone()) };
        let mut secret_needs = expand(&owner, &self.namespace, secrets, secret_purpose);
        let mut config_needs = expand(&owner, &self.namespace, configs, config_purpose);
        for value in values {
            let becomes = Some(value.name.clone());
            let need = |name: &str, key: &str| (self.namespace.clone(), name.into(), key.into());
            if let Some(from) = &value.secret_ref {
                let (namespace, name, key) = need(&from.name, &from.key);
                let purpose = secret_purpose;
                let owner = owner.clone();
                secret_needs.retain(|known: &SecretNeed| {
                    known.becomes.is_some() || (&known.name, &known.key) != (&name, &key)
                });
                secret_needs.push(KeyNeed { owner, namespace, name, key, purpose, becomes });
            } else if let Some(from) = &value.config_map_ref {
                let (namespace, name, key) = need(&from.name, &from.key);
                let purpose = config_purpose;
                let owner = owner.clone();
                config_needs.retain(|known: &ConfigNeed| {
                    known.becomes.is_some() || (&known.name, &known.key) != (&name, &key)
                });
                config_needs.push(KeyNeed { owner, namespace, name, key, purpose, becomes });
            }
        }
        let nothing = secret_needs.is_empty()
            && config_needs.is_empty()
            && required_roles.is_empty()
            && capabilities.is_empty();
        if nothing {
            return;
        }
        let record = AgentCapabilityRequirement {
            owner_ref: owner,
            required_secret_refs: refs(&secret_needs),
            required_config_refs: refs(&config_needs),
            required_roles,
            required_service_account_capabilities: capabilities,
        };
        let kept = format!("{}.{name}", kind.short());
        self.requirements.records.push((kept, record));
        self.requirements.secrets.extend(secret_needs);
        self.requirements.configs.extend(config_needs);
    }
}

fn expand<P: Copy + Ord>(
    owner: &ObjectRef,
    namespace: &str,
    refs: &[KeysRef],
    purpose: P,
) -> Vec<KeyNeed<P>> {
    let mut needs: Vec<KeyNeed<P>> = refs
        .iter()
        .flat_map(|reference| {
            reference.keys.iter().map(|key| KeyNeed {
                owner: owner.clone(),
                namespace: reference.namespace.clone().unwrap_or_else(|| namespace.to_owned()),
                name: reference.name.clone(),
                key: key.clone(),
                purpose,
                becomes: None,
            })
        })
        .collect();
    needs.sort();
    needs.dedup();
    needs
}

/// Needs as references: one for each secret or config map.
fn refs<P>(needs: &[KeyNeed<P>]) -> Vec<KeysRef> {
    let mut refs: Vec<KeysRef> = Vec::new();
    for need in needs {
        let namespace = Some(need.namespace.clone());
        let known =
            refs.iter_mut().find(|known| known.name == need.name && known.namespace == namespace);
        match known {
            Some(known) if known.keys.contains(&need.key) => {}
            Some(known) => known.keys.push(need.key.clone()),
            None => {
                refs.push(KeysRef {
                    name: need.name.clone(),
                    namespace,
                    keys: vec![need.key.clone()],
                });
            }
        }
    }
    refs
}
