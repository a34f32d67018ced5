//! The address of a server. A token is sent unencrypted only to this machine, unless the person insists.

use std::fmt;

use reqwest::Url;
use thiserror::Error;

/// Whether a token may be sent without encryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to this machine.
    #[default]
    LoopbackOnly,
    /// Also over the network.
    Anywhere,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    #[error("`{text}` is not an address of a server: write https://HOST")]
    Malformed { text: String },
    #[error("{server} would receive the token unencrypted: use https")]
    Unencrypted { server: String },
}

/// `https://host[:port][/path]`, or http on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress(Url);

impl ServerAddress {
    pub fn parse(text: &str, plain: PlainHttp) -> Result<Self, AddressError> {
        let malformed = || AddressError::Malformed { text: text.to_owned() };
        let mut url = Url::parse(text).map_err(|_| malformed())?;
        let has_more = !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some();
        if has_more || url.host_str().is_none_or(str::is_empty) {
            return Err(malformed());
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        let address = Self(url);
        match address.0.scheme() {
            "https" => Ok(address),
            "http" if plain == PlainHttp::Anywhere || address.is_loopback() => Ok(address),
            "http" => Err(AddressError::Unencrypted { server: address.to_string() }),
            _ => Err(malformed()),
        }
    }

    /// Whether it is reached by https.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The host, with the port if it is not the usual one: a name for people.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default().trim_matches(['[', ']']);
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// The address of a path below; nothing if a segment would change the path.
    pub(crate) fn below(&self, segments: &[&str], query: &[(&str, String)]) -> Option<Url> {
        if segments.iter().any(|part| matches!(*part, "" | "." | "..")) {
            return None;
        }
        let mut url = self.0.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Some(url)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressError, PlainHttp, ServerAddress};

    fn parse(text: &str) -> Result<ServerAddress, AddressError> {
        ServerAddress::parse(text, PlainHttp::LoopbackOnly)
    }

    #[test]
    fn plain_http_is_accepted_for_loopback_addresses_only() {
        for valid in [
            "https://fleet.example",
            "http://localhost:7840",
            "http://127.0.0.1:1",
            "http://[::1]:1",
        ] {
            parse(valid).unwrap();
        }
        for remote in ["http://fleet.example", "http://10.0.0.1:7840", "http://127.0.0.1.example"] {
            assert!(matches!(parse(remote), Err(AddressError::Unencrypted { .. })), "{remote}");
            ServerAddress::parse(remote, PlainHttp::Anywhere).unwrap();
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for malformed in [
            "fleet.example",
            "ftp://x",
            "https://",
            "https://a:b@x",
            "https://x/?a=1",
            "https://x/#a",
        ] {
            let result = ServerAddress::parse(malformed, PlainHttp::Anywhere);
            assert!(
                matches!(result, Err(AddressError::Malformed { .. })),
                "{malformed}: {result:?}"
            );
        }
    }

    #[test]
    fn path_segments_are_escaped_and_cannot_be_parents() {
        let server = parse("https://fleet.example/base/").unwrap();
        assert_eq!(server.to_string(), "https://fleet.example/base");
        assert_eq!(server.host(), "fleet.example");
        let url = server.below(&["api", "a/b?c"], &[("q", "x&y".to_owned())]).unwrap();
        assert_eq!(url.as_str(), "https://fleet.example/base/api/a%2Fb%3Fc?q=x%26y");
        assert!(server.below(&["api", ".."], &[]).is_none());
    }
}
