//! Addresses on this machine.

/// Whether an address is on this machine.
pub(crate) fn is_local(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
