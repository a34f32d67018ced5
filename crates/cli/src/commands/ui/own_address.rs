//! A loopback address for one page alone. Browsers send a cookie to every port of a host, so on an address that other
//! programs use the session would reach them as well.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use thiserror::Error;

/// Why the page shares 127.0.0.1 with other programs.
#[derive(Debug, Error)]
pub(super) enum SharedBecause {
    #[error("browsers of Windows reach only 127.0.0.1")]
    Windows,
    #[error("{address} does not work here ({error})")]
    Unusable { address: Ipv4Addr, error: io::Error },
    #[error("there are no random numbers: {0}")]
    NoRandom(getrandom::Error),
}

/// A random loopback address that works on this machine.
pub(super) fn own_address() -> Result<Ipv4Addr, SharedBecause> {
    if is_windows_subsystem() {
        return Err(SharedBecause::Windows);
    }
    let mut random = [0_u8; 3];
    getrandom::fill(&mut random).map_err(SharedBecause::NoRandom)?;
    let address = from_random(random);
    connects(address).map_err(|error| SharedBecause::Unusable { address, error })?;
    Ok(address)
}

/// Outside of 127.0.0.0/16, where programs listen by convention.
fn from_random([one, two, three]: [u8; 3]) -> Ipv4Addr {
    Ipv4Addr::new(127, one.clamp(1, 254), two, three.clamp(1, 254))
}

fn connects(address: Ipv4Addr) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    TcpStream::connect(listener.local_addr()?).map(drop)
}

fn is_windows_subsystem() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.to_ascii_lowercase().contains("microsoft")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_loopback_outside_of_127_0() {
        for random in [[0, 0, 0], [255, 255, 255], [0, 0, 1], [1, 2, 3]] {
            let address = from_random(random);
            assert!(address.is_loopback() && address.octets()[1] != 0, "{address}");
            assert!(!address.is_broadcast() && address.octets()[3] != 0, "{address}");
        }
    }
}
