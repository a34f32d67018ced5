//! A network, as a NetworkPolicy names it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::NameError;

/// Networks of addresses at which clouds offer credentials.
const CREDENTIALS: [&str; 3] = ["169.254.0.0/16", "fe80::/10", "fd00:ec2::/32"];
const ADDRESS_BITS: u32 = 128;
const IPV4_BITS: u8 = 32;
const IPV6_BITS: u8 = 128;

/// A network such as `203.0.113.0/24`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cidr {
    text: String,
    is_ipv6: bool,
    /// The address, from the highest bit on.
    bits: u128,
    length: u8,
}

impl Cidr {
    /// The parts of it at which clouds offer credentials, as networks.
    pub(crate) fn credentials(&self) -> Vec<String> {
        let networks = CREDENTIALS.into_iter().filter_map(read);
        networks.filter(|network| self.contains(network)).map(|network| network.text).collect()
    }

    fn contains(&self, other: &Self) -> bool {
        self.is_ipv6 == other.is_ipv6
            && self.length <= other.length
            && other.bits & mask(self.length) == self.bits
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(ADDRESS_BITS.saturating_sub(u32::from(length))).unwrap_or_default()
}

fn read(text: &str) -> Option<Cidr> {
    let (address, digits) = text.split_once('/')?;
    let length: u8 = digits.parse().ok()?;
    let (bits, max_length) = match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, IPV4_BITS),
        // An API server does not accept the IPv6 form of an IPv4 address.
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => return None,
        IpAddr::V6(address) => (address.to_bits(), IPV6_BITS),
    };
    let is_exact = length.to_string() == digits && length <= max_length;
    (is_exact && bits & !mask(length) == 0).then(|| Cidr {
        text: text.to_owned(),
        is_ipv6: max_length == IPV6_BITS,
        bits,
        length,
    })
}

impl FromStr for Cidr {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let network = read(text).ok_or(NameError::Network)?;
        match CREDENTIALS.into_iter().filter_map(read).any(|inside| inside.contains(&network)) {
            true => Err(NameError::CredentialNetwork),
            false => Ok(network),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Cidr;
    use crate::manifests::NameError;

    #[test]
    fn only_canonical_networks_are_accepted() {
        for text in ["203.0.113.0/24", "10.0.0.1/32", "0.0.0.0/0", "::/0", "2001:db8::/32"] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "203.0.113.0",
            "203.0.113.0/33",
            "203.0.113.0/+24",
            "203.0.113.0/024",
            "203.0.113.7/24",
            "2001:db8::1/32",
            "::ffff:203.0.113.0/120",
            "agents.example/24",
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(NameError::Network), "{text}");
        }
    }

    #[test]
    fn networks_exclude_the_credential_services_of_clouds() {
        for text in ["169.254.169.254/32", "169.254.0.0/16", "fe80::/64", "fd00:ec2::254/128"] {
            assert_eq!(text.parse::<Cidr>(), Err(NameError::CredentialNetwork), "{text}");
        }
        let except = |text: &str| text.parse::<Cidr>().unwrap().credentials();
        assert_eq!(except("0.0.0.0/0"), ["169.254.0.0/16"]);
        assert_eq!(except("169.0.0.0/8"), ["169.254.0.0/16"]);
        assert_eq!(except("::/0"), ["fe80::/10", "fd00:ec2::/32"]);
        assert!(except("203.0.113.0/24").is_empty());
    }
}
