//! The names under which values arrive: each is a name that changes nothing else, and has one value.

use bailiwick_model::fleet::{Kind, Reason, header_fault, variable_fault};

use super::entries::{Entry, EntryDecision};
use super::{RequiredConfig, RequiredSecret, ReviewInput};
use crate::admission::requirements::KeyNeed;

/// Denies what would arrive under a name that may not be, or under one that another value has.
pub(super) fn hold(
    input: &ReviewInput<'_>,
    secrets: &mut [RequiredSecret],
    configs: &mut [RequiredConfig],
) {
    let faults: Vec<Option<String>> =
        secrets.iter().map(|secret| fault(input, secret, secrets)).collect();
    for (secret, fault) in secrets.iter_mut().zip(faults) {
        if let Some(message) = fault {
            let about = secret.entry.why.about.clone();
            let code = Reason::SecretNotAllowedHere;
            secret.entry = Entry::new(EntryDecision::Denied, code, about, message);
            secret.arrives = None;
        }
    }
    for config in configs.iter_mut().filter(|config| !config.entry.is_denied()) {
        let Some(name) = &config.need.becomes else { continue };
        if let Some(message) = unfit(input, &config.need, name) {
            let about = config.entry.why.about.clone();
            let code = Reason::ConfigDenied;
            config.entry = Entry::new(EntryDecision::Denied, code, about, message);
            config.arrives = None;
        }
    }
}

fn fault(
    input: &ReviewInput<'_>,
    secret: &RequiredSecret,
    all: &[RequiredSecret],
) -> Option<String> {
    let name = secret.arrives_as()?;
    if let Some(message) = unfit(input, &secret.need, &name) {
        return Some(message);
    }
    let need = &secret.need;
    let other = all.iter().find(|other| {
        let same = (&other.need.namespace, &other.need.name, &other.need.key)
            == (&need.namespace, &need.name, &need.key);
        let meets = reaches(need) == reaches(&other.need) || agents(need) || agents(&other.need);
        !same && meets && other.arrives_as().as_ref() == Some(&name)
    })?;
    let (one, another) = (&secret.entry.why.about, &other.entry.why.about);
    Some(format!("{one} and {another} would both arrive as `{name}`"))
}

/// Whether a value is the agent's own, and not that of one of its servers.
fn agents<P>(need: &KeyNeed<P>) -> bool {
    need.owner.kind != Kind::AgentMcpServer
}

/// The server that a value is for.
fn reaches<P>(need: &KeyNeed<P>) -> Option<&str> {
    (!agents(need)).then_some(need.owner.name.as_str())
}

/// Why no value may arrive under a name.
fn unfit<P>(input: &ReviewInput<'_>, need: &KeyNeed<P>, name: &str) -> Option<String> {
    let mut servers = input.frozen.mcp_servers.iter();
    let server = servers.find(|server| reaches(need) == Some(server.name()));
    let header = server.is_some_and(|server| {
        let is = |list: &[bailiwick_model::fleet::ValueFrom]| list.iter().any(|v| v.name == name);
        is(&server.spec.headers_from) && !is(&server.spec.env_from)
    });
    if header { header_fault(name) } else { variable_fault(name) }
}
