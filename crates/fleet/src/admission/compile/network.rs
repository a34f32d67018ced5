//! Which hosts a run may reach.

use bailiwick_resources::{NetworkMode, Reason, Repository, ToolClass};
use thiserror::Error;

use super::{CompileFault, CompileInput, server_name, servers};

/// The hosts, as `host:port`: those that the profile names, and those of MCP servers on the network. A server
/// whose host the profile does not allow is a fault; it does not open the host.
pub(super) fn hosts(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Vec<String> {
    let mut hosts = of_profile(input, faults);
    for server in servers(input) {
        let Some(url) = server.spec.url.as_deref() else { continue };
        let name = server_name(server);
        let Some(host) = host_of(url) else {
            let message = format!("the address of the MCP server `{name}` has no host");
            faults.push(CompileFault::new(Reason::McpServerNotAllowed, message));
            continue;
        };
        if hosts.contains(&host) {
            continue;
        }
        let profile = input.frozen.tool_profile.as_ref();
        match profile.and_then(|profile| profile.spec.network_policy.as_ref()) {
            None => hosts.push(host),
            Some(_) => {
                let message =
                    format!("the tool profile does not allow {host}, the host of `{name}`");
                faults.push(CompileFault::new(Reason::McpServerNotAllowed, message));
            }
        }
    }
    hosts
}

fn of_profile(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Vec<String> {
    let Some(profile) = &input.frozen.tool_profile else { return Vec::new() };
    let on = |class| profile.spec.native_tools.get(&class).copied().unwrap_or(false);
    let Some(policy) = &profile.spec.network_policy else {
        if on(ToolClass::Network) || on(ToolClass::Browser) {
            let message = "the tool profile allows the network but has no networkPolicy";
            faults.push(CompileFault::new(Reason::NetworkPolicyMissing, message));
        }
        return Vec::new();
    };
    match policy.mode {
        NetworkMode::Deny => Vec::new(),
        NetworkMode::Allowlist => {
            let mut hosts = Vec::new();
            for host in &policy.allow_hosts {
                match host_and_port(host) {
                    Ok(host) => hosts.push(host),
                    Err(error) => faults
                        .push(CompileFault::new(Reason::NetworkPolicyMissing, error.to_string())),
                }
            }
            hosts
        }
        NetworkMode::RepositoryHostOnly => match repository_host(&input.repository.spec) {
            Some(host) => vec![host],
            None => {
                let message = "the repository has no host: set cloneUrl or apiUrl";
                faults.push(CompileFault::new(Reason::NetworkPolicyMissing, message));
                Vec::new()
            }
        },
        NetworkMode::UnrestrictedWithApproval => {
            let message = "`unrestricted-with-approval` is not supported: the sandbox allows named hosts only; \
                           list the hosts in an allowlist";
            faults.push(CompileFault::new(Reason::NetworkPolicyMissing, message));
            Vec::new()
        }
    }
}

/// A text that is not a host.
#[derive(Debug, Error)]
#[error("`{0}` is not a host; write it as example.org or example.org:8443")]
struct InvalidHost(String);

/// A host with its port; 443 if it names none.
fn host_and_port(host: &str) -> Result<String, InvalidHost> {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "443"));
    let part = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let plain = !name.is_empty() && name.chars().all(part) && !name.starts_with(['-', '.']);
    match plain && port.parse::<u16>().is_ok_and(|port| port > 0) {
        true => Ok(format!("{}:{port}", name.to_ascii_lowercase())),
        false => Err(InvalidHost(host.to_owned())),
    }
}

pub(super) fn repository_host(repository: &Repository) -> Option<String> {
    host_of(repository.clone_url.as_deref().or(repository.api_url.as_deref())?)
}

/// The host of an address.
fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let port = match scheme {
        "https" => "443",
        "http" => "80",
        "ssh" => "22",
        _ => return None,
    };
    match host.contains(':') {
        true => host_and_port(host).ok(),
        false => host_and_port(&format!("{host}:{port}")).ok(),
    }
}
