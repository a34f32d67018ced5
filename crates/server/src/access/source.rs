//! The address of a client: its peer address, or the address that trusted proxies report.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HeaderName};

use crate::network::Network;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The proxies whose reports are believed.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    pub(crate) fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }

    /// The address that is limited. A client has a whole /64 of IPv6, so that is one address.
    pub(crate) fn source(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        limited(self.client(peer.to_canonical(), headers))
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.contains(peer) {
            return peer;
        }
        let forwarded = values(headers, &FORWARDED);
        let listed = values(headers, &X_FORWARDED_FOR);
        match (forwarded.is_empty(), listed.is_empty()) {
            (true, true) => peer,
            (false, true) => self.nearest_untrusted(peer, &forwarded, forwarded_for),
            (true, false) => self.nearest_untrusted(peer, &listed, address),
            // A proxy sets one of them and passes the other on as the client sent it.
            (false, false) => {
                let one = self.nearest_untrusted(peer, &forwarded, forwarded_for);
                let other = self.nearest_untrusted(peer, &listed, address);
                if one == other { one } else { peer }
            }
        }
    }

    /// Reads from the right: each entry was added by the hop to its right, which must be trusted.
    fn nearest_untrusted(
        &self,
        peer: IpAddr,
        entries: &[&str],
        parse: impl Fn(&str) -> Option<IpAddr>,
    ) -> IpAddr {
        let mut nearest = peer;
        for entry in entries.iter().rev() {
            let Some(address) = parse(entry) else { break };
            nearest = address;
            if !self.contains(address) {
                break;
            }
        }
        nearest
    }
}

/// The entries of a list header, over all its lines.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let lines = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    lines.flat_map(|line| line.split(',')).map(str::trim).collect()
}

/// The `for` of an entry of `Forwarded`, as `for="[2001:db8::1]:4711";proto=https`.
fn forwarded_for(entry: &str) -> Option<IpAddr> {
    let pairs = entry.split(';').filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    let (Some((_, value)), None) = (found.next(), found.next()) else { return None };
    address(value.trim().trim_matches('"'))
}

/// An address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let parsed = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok());
    parsed.map(|address| address.to_canonical())
}

fn limited(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) if address.is_loopback() => IpAddr::V6(address),
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn source(peer: &str, lines: &[(&'static str, &'static str)]) -> String {
        let trusted = ["10.0.0.0/8", "fd00::/8", "192.0.2.7"];
        let trusted = TrustedProxies(trusted.iter().map(|text| text.parse().unwrap()).collect());
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        trusted.source(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_entries_of_trusted_proxies_are_used() {
        let header = "x-forwarded-for";
        for (peer, line, expected) in [
            ("203.0.113.9", "1.2.3.4", "203.0.113.9"),
            ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
            ("::ffff:10.0.0.1", "1.2.3.4", "1.2.3.4"),
            ("192.0.2.7", "1.2.3.4", "1.2.3.4"),
            ("192.0.2.8", "1.2.3.4", "192.0.2.8"),
            // The entries of the client are to the left of those that the proxy added.
            ("10.0.0.1", "9.9.9.9, 1.2.3.4", "1.2.3.4"),
            ("10.0.0.1", "9.9.9.9, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
            ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
            ("10.0.0.1", "1.2.3.4, unknown", "10.0.0.1"),
            ("10.0.0.1", "1.2.3.4, unknown, 10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "1.2.3.4:5678", "1.2.3.4"),
            ("10.0.0.1", "[2001:db8:1:2:3::4]:80", "2001:db8:1:2::"),
            ("fd00::1", "2001:db8:1:2:3::4", "2001:db8:1:2::"),
            ("10.0.0.1", "", "10.0.0.1"),
        ] {
            assert_eq!(source(peer, &[(header, line)]), expected, "{peer} {line}");
        }
        let two = [(header, "9.9.9.9"), (header, "1.2.3.4")];
        assert_eq!(source("10.0.0.1", &two), "1.2.3.4", "the last line is from the nearest proxy");
        assert_eq!(source("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn forwarded_header_is_parsed_as_in_its_standard() {
        for (line, expected) in [
            ("for=1.2.3.4", "1.2.3.4"),
            ("For=\"[2001:db8:1:2:3::4]:4711\";proto=https", "2001:db8:1:2::"),
            ("proto=https;by=10.0.0.1;FOR=\"1.2.3.4:80\"", "1.2.3.4"),
            ("for=9.9.9.9, for=1.2.3.4;host=a", "1.2.3.4"),
            ("for=_hidden", "10.0.0.1"),
            ("for=1.2.3.4;for=5.6.7.8", "10.0.0.1"),
        ] {
            assert_eq!(source("10.0.0.1", &[("forwarded", line)]), expected, "{line}");
        }
        let both = |address| [("forwarded", "for=1.2.3.4"), ("x-forwarded-for", address)];
        assert_eq!(source("10.0.0.1", &both("1.2.3.4")), "1.2.3.4");
        assert_eq!(
            source("10.0.0.1", &both("5.6.7.8")),
            "10.0.0.1",
            "the proxy sent only one of the headers"
        );
    }
}
