//! What a person gives, checked as an API server would check it.

use std::fmt;
use std::str::FromStr;

/// A name of a namespace: lower case, digits and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label(String);

/// A key of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretKey {
    /// The name of the secret.
    pub name: String,
    /// The key.
    pub key: String,
}

/// A size such as `20Gi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage(String);

/// The address of a server, with https.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    url: String,
    port: u16,
}

impl ServerAddress {
    /// The port.
    pub fn port(&self) -> i32 {
        i32::from(self.port)
    }
}

/// Why a text is not what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not a name of a namespace.
    #[error("use a-z, 0-9 and `-`, at most 63, beginning and ending with a letter or a digit")]
    Label,
    /// Not a key of a secret.
    #[error("write SECRET/KEY, the name of a secret and one of its keys")]
    SecretKey,
    /// Not a size.
    #[error("write a size such as 20Gi, in Mi, Gi or Ti")]
    Storage,
    /// Not an address of a server.
    #[error("write an address such as https://agents.example, without a path")]
    ServerAddress,
    /// Not a network.
    #[error("write a network such as 203.0.113.0/24, whose address is the first one in it")]
    Network,
    /// A network of addresses at which clouds offer credentials.
    #[error("clouds offer credentials at these addresses: name the network of the service")]
    CredentialNetwork,
}

impl FromStr for Label {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let fits = bailiwick_resources::is_namespace_name(text);
        if fits { Ok(Self(text.to_owned())) } else { Err(NameError::Label) }
    }
}

impl FromStr for SecretKey {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (name, key) = text.split_once('/').ok_or(NameError::SecretKey)?;
        let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let fits = bailiwick_resources::is_object_name(name)
            && !matches!(key, "" | "." | "..")
            && key.len() <= 253
            && key.bytes().all(is_key);
        if !fits {
            return Err(NameError::SecretKey);
        }
        Ok(Self { name: name.to_owned(), key: key.to_owned() })
    }
}

impl FromStr for Storage {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let unit = ["Mi", "Gi", "Ti"].into_iter().find_map(|unit| text.strip_suffix(unit));
        let number = unit.and_then(|number| number.parse::<u32>().ok());
        match number {
            Some(number) if number > 0 && text.as_bytes().first() != Some(&b'+') => {
                Ok(Self(text.to_owned()))
            }
            Some(_) | None => Err(NameError::Storage),
        }
    }
}

impl FromStr for ServerAddress {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let url = text.trim_end_matches('/');
        let authority = url.strip_prefix("https://").ok_or(NameError::ServerAddress)?;
        let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        let port = port.parse().ok().filter(|port| *port > 0);
        match port {
            Some(port) if !host.is_empty() && host.bytes().all(is_host) => {
                Ok(Self { url: url.to_owned(), port })
            }
            Some(_) | None => Err(NameError::ServerAddress),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.url)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Label, SecretKey, ServerAddress, Storage};

    #[test]
    fn names_that_an_api_server_refuses_are_refused() {
        for (text, is_valid) in
            [("bailiwick", true), ("a-1", true), ("", false), ("a.b", false), ("A", false)]
        {
            assert_eq!(text.parse::<Label>().is_ok(), is_valid, "{text}");
        }
        assert!(
            "a".repeat(63).parse::<Label>().is_ok() && "a".repeat(64).parse::<Label>().is_err()
        );
        for (text, is_valid) in [
            ("db/url", true),
            ("db/DB_URL.x", true),
            ("db", false),
            ("db/", false),
            ("D/x", false),
            ("db/a b", false),
            ("db/..", false),
        ] {
            assert_eq!(text.parse::<SecretKey>().is_ok(), is_valid, "{text}");
        }
        for (text, is_valid) in [
            ("20Gi", true),
            ("512Mi", true),
            ("0Gi", false),
            ("+1Gi", false),
            ("20", false),
            ("20GB", false),
            ("-1Gi", false),
        ] {
            assert_eq!(text.parse::<Storage>().is_ok(), is_valid, "{text}");
        }
        for (text, port) in [
            ("https://a.example", Some(443)),
            ("https://a.example:8443/", Some(8443)),
            ("http://a.example", None),
            ("https://", None),
            ("https://a.example/agents", None),
            ("https://a.example:0", None),
            ("https://user@a.example", None),
        ] {
            let parsed = text.parse::<ServerAddress>().ok();
            assert_eq!(parsed.map(|address| address.port()), port, "{text}");
        }
    }
}
