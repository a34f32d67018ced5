//! Checks the host name of requests. A web page whose name resolves to 127.0.0.1 (DNS rebinding) sends its own
//! name and is refused.

use std::net::{IpAddr, SocketAddr};

use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri};

use crate::problem::Problem;
use crate::settings::Settings;

/// The accepted host names.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    address: SocketAddr,
    names: Vec<String>,
}

impl Hosts {
    pub(crate) fn new(settings: &Settings, address: SocketAddr) -> Self {
        let names = settings.hosts.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { address, names }
    }

    fn accepts(&self, host: &str) -> bool {
        // A name and a port, and nothing else.
        let Some(name) = host.parse::<Authority>().ok().and_then(|all| name_of(&all, host)) else {
            return false;
        };
        if self.names.contains(&name) {
            return true;
        }
        let unbracketed = name.trim_start_matches('[').trim_end_matches(']');
        match unbracketed.parse::<IpAddr>() {
            // An address cannot be rebound.
            Ok(address) => !self.address.ip().is_loopback() || address.is_loopback(),
            Err(_) if self.address.ip().is_loopback() => name == "localhost",
            // On the network every name is accepted, unless names are configured.
            Err(_) => self.names.is_empty(),
        }
    }

    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let mut values = headers.get_all(HOST).iter();
        let host = match (values.next(), values.next()) {
            (Some(host), None) => host.to_str().ok(),
            (None, _) | (_, Some(_)) => None,
        };
        let absolute = uri.authority().map(|authority| authority.as_str());
        let accepted = host.is_some_and(|host| self.accepts(host))
            && absolute.is_none_or(|authority| self.accepts(authority));
        if accepted {
            return Ok(());
        }
        let message = "this host name is not accepted; use localhost, or start the server with this name among its hosts";
        Err(Problem::forbidden("HOST_DENIED", message))
    }
}

/// The host without the port; none if there is more than these two.
fn name_of(authority: &Authority, text: &str) -> Option<String> {
    let name = authority.host();
    let is_plain = match text.strip_prefix(name)? {
        "" => true,
        port => port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()),
    };
    is_plain.then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::Hosts;
    use crate::settings::Settings;

    fn hosts(address: &str, names: &[&str]) -> Hosts {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Hosts { address: address.parse().unwrap_or(Settings::default().address), names }
    }

    #[test]
    fn on_loopback_only_loopback_and_configured_names_are_accepted() {
        let hosts = hosts("127.0.0.1:7840", &["hooks.example.org"]);
        for accepted in ["localhost", "LOCALHOST:7840", "127.0.0.1:7840", "[::1]:7840", "127.9.9.9"]
        {
            assert!(hosts.accepts(accepted), "{accepted}");
        }
        assert!(hosts.accepts("hooks.example.org:443"));
        for refused in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "10.0.0.1",
            "::1",
            "[::1]evil",
            "localhost:7840@evil",
            "localhost@evil",
            "localhost:evil",
            "127.0.0.1:7840, evil",
        ] {
            assert!(!hosts.accepts(refused), "{refused}");
        }
    }

    #[test]
    fn on_the_network_every_name_is_accepted_unless_names_are_configured() {
        assert!(hosts("0.0.0.0:1", &[]).accepts("any.example"));
        let named = hosts("0.0.0.0:1", &["ci.example"]);
        assert!(named.accepts("ci.example:8080") && named.accepts("10.0.0.7"));
        assert!(!named.accepts("any.example"));
    }
}
