//! Values of secrets and config maps: which are mounted for the agent, which for its servers, and how.

use bailiwick_resources::{
    AgentMcpServer, ConfigMount, KeyRef, Kind, McpTransport, Object, SecretMount, ValueFrom,
};

use super::CompileInput;
use crate::admission::requirements::KeyNeed;

/// The names of variables, by how their values arrive in the agent's own run.
#[derive(Debug, Default)]
pub(super) struct MountedNames {
    pub(super) secrets: Vec<String>,
    pub(super) secret_files: Vec<String>,
    pub(super) configs: Vec<String>,
    pub(super) config_files: Vec<String>,
}

/// The values for the agent itself. Values for an MCP server stay with it.
pub(super) fn of_agent(input: &CompileInput<'_>) -> MountedNames {
    let mut found = MountedNames::default();
    let Some(review) = input.review else { return found };
    for (secret, how, name) in review.mounts() {
        if of_servers(&secret.need) {
            continue;
        }
        match how {
            SecretMount::Env => found.secrets.push(name),
            SecretMount::File | SecretMount::ProjectedVolume => found.secret_files.push(name),
            SecretMount::NeverMountPassByReference => {}
        }
    }
    for (config, how, name) in review.config_mounts() {
        if of_servers(&config.need) {
            continue;
        }
        match how {
            ConfigMount::Env => found.configs.push(name),
            ConfigMount::File | ConfigMount::ProjectedVolume => found.config_files.push(name),
            ConfigMount::ApiRead => {}
        }
    }
    let MountedNames { secrets, secret_files, configs, config_files } = &mut found;
    for names in [secrets, secret_files, configs, config_files] {
        names.sort();
        names.dedup();
    }
    found
}

fn of_servers<P>(need: &KeyNeed<P>) -> bool {
    need.owner.kind == Kind::AgentMcpServer
}

/// The environment of a server, with what it needs besides, each under the name of its key; and which of
/// that arrives in files.
pub(super) fn of_server(
    input: &CompileInput<'_>,
    server: &Object<AgentMcpServer>,
) -> (Vec<ValueFrom>, Vec<String>) {
    let mut env_from = server.spec.env_from.clone();
    let mut in_files = Vec::new();
    let Some(review) = input.review else { return (env_from, in_files) };
    // A server on the network has no environment; its values are headers.
    let started = server.spec.transport == McpTransport::Stdio;
    let mut add = |name: String, secret: Option<KeyRef>, config: Option<KeyRef>, file: bool| {
        let value = ValueFrom { name, secret_ref: secret, config_map_ref: config };
        let known = env_from.iter().any(|one| one.name == value.name);
        if file && started {
            in_files.push(value.name.clone());
        }
        if !known && started {
            env_from.push(value);
        }
    };
    let own = |owner: &bailiwick_resources::ObjectRef| {
        owner.kind == Kind::AgentMcpServer && owner.name == server.name()
    };
    for (secret, how, name) in review.mounts() {
        if own(&secret.need.owner) {
            add(name, Some(key(&secret.need)), None, how != SecretMount::Env);
        }
    }
    for (config, how, name) in review.config_mounts() {
        if own(&config.need.owner) {
            add(name, None, Some(key(&config.need)), how != ConfigMount::Env);
        }
    }
    (env_from, in_files)
}

fn key<P>(need: &KeyNeed<P>) -> KeyRef {
    KeyRef { name: need.name.clone(), key: need.key.clone() }
}
