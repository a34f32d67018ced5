//! The names under which values arrive: each is a name that changes nothing else, and has one value.

use bailiwick_resources::{ConfigMount, Kind, Reason, SecretMount, header_fault, variable_fault};

use super::entries::{Entry, EntryDecision};
use super::{RequiredConfig, RequiredSecret, ReviewInput, file_variable};
use crate::admission::requirements::KeyNeed;

/// Denies what would arrive under a name that may not be, or under one that another value has.
pub(super) fn hold(
    input: &ReviewInput<'_>,
    secrets: &mut [RequiredSecret],
    configs: &mut [RequiredConfig],
) {
    let all: Vec<MountedValue> =
        secrets.iter().map(of_secret).chain(configs.iter().map(of_config)).collect();
    let mut faults = all.iter().map(|one| fault(input, one, &all)).collect::<Vec<_>>().into_iter();
    for secret in secrets.iter_mut() {
        if let Some(message) = faults.next().flatten() {
            let about = secret.entry.why.about.clone();
            let code = Reason::SecretNotAllowedHere;
            secret.entry = Entry::new(EntryDecision::Denied, code, about, message);
            secret.arrives = None;
        }
    }
    for config in configs.iter_mut() {
        if let Some(message) = faults.next().flatten() {
            let about = config.entry.why.about.clone();
            let code = Reason::ConfigDenied;
            config.entry = Entry::new(EntryDecision::Denied, code, about, message);
            config.arrives = None;
        }
    }
}

/// A value on its way.
struct MountedValue {
    /// The source of the value, as `Secret/name/key`.
    about: String,
    /// The namespace of that, and whether it is a secret.
    home: (String, bool),
    /// The server that it is for; nothing for the agent's own.
    server: Option<String>,
    /// The name that its owner gives it, or that of its key; nothing if it does not arrive.
    name: Option<String>,
    /// Whether it arrives in a file.
    in_file: bool,
    /// Whether it is only read on request, although its owner wants it as a variable.
    withheld: Option<String>,
}

fn of_secret(secret: &RequiredSecret) -> MountedValue {
    let in_file = match secret.arrives {
        Some(SecretMount::File | SecretMount::ProjectedVolume) => true,
        Some(SecretMount::Env | SecretMount::NeverMountPassByReference) | None => false,
    };
    MountedValue {
        about: secret.entry.why.about.clone(),
        home: (secret.need.namespace.clone(), true),
        server: reaches(&secret.need).map(str::to_owned),
        name: secret.arrives_as(),
        in_file,
        withheld: None,
    }
}

fn of_config(config: &RequiredConfig) -> MountedValue {
    let mount = config.mount();
    let asked_for = config.arrives == Some(ConfigMount::ApiRead);
    MountedValue {
        about: config.entry.why.about.clone(),
        home: (config.need.namespace.clone(), false),
        server: reaches(&config.need).map(str::to_owned),
        in_file: mount.as_ref().is_some_and(|(how, _)| *how != ConfigMount::Env),
        name: mount.map(|(_, name)| name),
        withheld: config.need.becomes.clone().filter(|_| asked_for),
    }
}

/// The server that a value is for.
fn reaches<P>(need: &KeyNeed<P>) -> Option<&str> {
    (need.owner.kind == Kind::AgentMcpServer).then_some(need.owner.name.as_str())
}

impl MountedValue {
    /// All names that it uses: the supervisor has the value under its own name, and its file has another.
    fn names(&self) -> Vec<String> {
        let own = self.name.iter().cloned();
        own.chain(self.name.iter().filter(|_| self.in_file).map(|name| file_variable(name)))
            .collect()
    }

    /// Whether this is the same value, for the same or for another.
    fn is(&self, other: &Self) -> bool {
        (&self.about, &self.home) == (&other.about, &other.home)
    }
}

fn fault(input: &ReviewInput<'_>, one: &MountedValue, all: &[MountedValue]) -> Option<String> {
    if let Some(name) = &one.withheld {
        return Some(format!("its grant lets it be read only, and `{name}` is to have it"));
    }
    let names = one.names();
    if let Some(message) = names.iter().find_map(|name| unfit(input, one, name)) {
        return Some(message);
    }
    let clash = |other: &&MountedValue| {
        let meets = one.server == other.server || one.server.is_none() || other.server.is_none();
        !one.is(other) && meets && other.names().iter().any(|name| names.contains(name))
    };
    let other = all.iter().find(clash)?;
    let name = other.names().into_iter().find(|name| names.contains(name))?;
    Some(format!("{} and {} would both arrive as `{name}`", one.about, other.about))
}

/// Why no value may arrive under a name.
fn unfit(input: &ReviewInput<'_>, one: &MountedValue, name: &str) -> Option<String> {
    let mut servers = input.frozen.mcp_servers.iter();
    let server = servers.find(|server| one.server.as_deref() == Some(server.name()));
    let header = server.is_some_and(|server| {
        let is = |list: &[bailiwick_resources::ValueFrom]| {
            list.iter().any(|value| Some(&value.name) == one.name.as_ref())
        };
        is(&server.spec.headers_from) && !is(&server.spec.env_from)
    });
    match (header, one.in_file) {
        (true, true) => Some(format!("`{name}` is a header, which cannot arrive in a file")),
        (true, false) => header_fault(name),
        (false, _) => variable_fault(name),
    }
}
