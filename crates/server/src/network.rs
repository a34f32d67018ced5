//! Networks of addresses, written as CIDR.

use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

/// A network of proxies, as `10.0.0.0/8`. An address without a prefix is that address only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a network: write an address with a prefix, as 10.0.0.0/8 or fd00::/8")]
pub struct InvalidNetwork(String);

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(prefix) => prefix.parse().map_err(|_| invalid())?,
        };
        if prefix > bits {
            return Err(invalid());
        }
        Ok(Self { address, prefix })
    }
}

impl Network {
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or_default();
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or_default();
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn invalid_networks_are_refused() {
        for text in ["10.0.0.0/33", "10.0.0.0/", "x", "::/129", "10.0.0/8", ""] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("1.2.3.4".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }
}
