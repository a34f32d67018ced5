//! The name under which the server is asked for. A web page whose name leads to 127.0.0.1 asks under
//! its own name, and is refused.

use std::net::{IpAddr, SocketAddr};

use hyper::header::HOST;
use hyper::{HeaderMap, Uri};

use crate::problem::Problem;
use crate::settings::Settings;

/// The names that are answered to.
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

    fn is_ours(&self, host: &str) -> bool {
        let name = name_of(host).to_ascii_lowercase();
        if self.names.contains(&name) {
            return true;
        }
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            // An address cannot be rebound, it is what it is.
            Ok(address) => !self.address.ip().is_loopback() || address.is_loopback(),
            Err(_) if self.address.ip().is_loopback() => name == "localhost",
            // On the network, names are free unless some were given.
            Err(_) => self.names.is_empty(),
        }
    }

    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let mut given = headers.get_all(HOST).iter();
        let host = match (given.next(), given.next()) {
            (Some(host), None) => host.to_str().ok(),
            (None, _) | (_, Some(_)) => None,
        };
        let absolute = uri.authority().map(|authority| authority.as_str());
        let ours = host.is_some_and(|host| self.is_ours(host))
            && absolute.is_none_or(|authority| self.is_ours(authority));
        if ours {
            return Ok(());
        }
        let message = "this server is not asked for by this name; use localhost, or start it with the \
                       name among its hosts";
        Err(Problem::forbidden("HOST_DENIED", message))
    }
}

/// Without the port.
fn name_of(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
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
    fn on_loopback_only_loopback_names_are_ours() {
        let hosts = hosts("127.0.0.1:7840", &["hooks.example.org"]);
        for good in ["localhost", "LOCALHOST:7840", "127.0.0.1:7840", "[::1]:7840", "127.9.9.9"] {
            assert!(hosts.is_ours(good), "{good}");
        }
        assert!(hosts.is_ours("hooks.example.org:443"));
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "10.0.0.1",
            "::1",
        ] {
            assert!(!hosts.is_ours(bad), "{bad}");
        }
    }

    #[test]
    fn on_the_network_names_are_free_unless_some_were_given() {
        assert!(hosts("0.0.0.0:1", &[]).is_ours("any.example"));
        let named = hosts("0.0.0.0:1", &["ci.example"]);
        assert!(named.is_ours("ci.example:8080") && named.is_ours("10.0.0.7"));
        assert!(!named.is_ours("any.example"));
    }
}
