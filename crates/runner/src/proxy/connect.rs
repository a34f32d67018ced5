//! Tunnels to allowed hosts; private and special addresses are refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::ProxyError;
use super::bodies::{Body, empty};
use super::exchange::Shared;

/// The time limit for looking up a name and connecting.
const CONNECT_TIME: Duration = Duration::from_secs(30);
/// The default port.
const PORT: u16 = 443;

/// The allowed hosts.
#[derive(Debug, Clone)]
pub(super) struct Hosts(Vec<Host>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Host {
    name: Name,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Address(IpAddr),
    Exact(String),
    /// All names below this one: `.example.com`.
    Below(String),
}

impl Hosts {
    /// Each is `host:port`, `*.domain:port`, or the same without a port, which is then 443.
    pub(super) fn parse(entries: &[String]) -> Result<Self, ProxyError> {
        let parse =
            |entry: &String| Host::parse(entry).ok_or_else(|| ProxyError::Host(entry.clone()));
        entries.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether this `host:port` may be reached.
    pub(super) fn names(&self, host: &str) -> bool {
        Host::parse(host).is_some_and(|host| self.allows(&host).is_some())
    }

    /// The entry that allows this host; an address is allowed only by itself.
    fn allows(&self, host: &Host) -> Option<&Host> {
        self.0.iter().find(|entry| entry.port == host.port && entry.name.covers(&host.name))
    }
}

impl Name {
    fn covers(&self, host: &Self) -> bool {
        match (self, host) {
            (Self::Below(domain), Self::Exact(name)) => {
                name.len() > domain.len() && name.ends_with(domain.as_str())
            }
            (entry, host) => entry == host,
        }
    }
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self { name: Name::Address(address.ip()), port: address.port() });
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') => (name, port.parse().ok()?),
            Some(_) | None => (text, PORT),
        };
        if let Ok(address) = name.trim_matches(['[', ']']).parse() {
            return Some(Self { name: Name::Address(address), port });
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let fits =
            |name: &str| name.chars().all(plain) && name.split('.').all(|label| !label.is_empty());
        let name = match name.strip_prefix('*') {
            Some(domain) => {
                fits(domain.strip_prefix('.')?).then(|| Name::Below(domain.to_owned()))?
            }
            None => fits(&name).then_some(Name::Exact(name))?,
        };
        Some(Self { name, port })
    }
}

/// The program's connection and the one to the other host.
pub(super) struct Tunnel {
    program: OnUpgrade,
    host: TcpStream,
}

impl Tunnel {
    /// Carries bytes until one side ends.
    pub(super) async fn carry(mut self) {
        let Ok(program) = self.program.await else { return };
        let mut program = TokioIo::new(program);
        // The result matters only to the two ends.
        let _ = tokio::io::copy_bidirectional(&mut program, &mut self.host).await;
    }
}

/// Answers `CONNECT host:port`.
pub(super) async fn open(
    shared: &Shared,
    request: Request<Incoming>,
    tunnel: &mut Option<Tunnel>,
) -> Response<Body> {
    let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let refuse = |why: &str| {
        shared.observer.on_connect(&authority, false);
        shared.error(StatusCode::FORBIDDEN, &format!("{authority} cannot be reached: {why}"))
    };
    // The port is required.
    let requested = authority.rsplit_once(':').and_then(|_| Host::parse(&authority));
    let Some(requested) = requested else { return refuse("it is no host and port") };
    if shared.limits.hosts.allows(&requested).is_none() {
        return refuse("it is not among the hosts that are allowed");
    }
    let addresses = match addresses(&requested).await {
        Ok(addresses) if addresses.is_empty() => {
            return refuse("its name leads to an address that is not out in the world");
        }
        Ok(addresses) => addresses,
        Err(why) => return failed(shared, &authority, &why.to_string()),
    };
    shared.observer.on_connect(&authority, true);
    match tokio::time::timeout(CONNECT_TIME, TcpStream::connect(addresses.as_slice())).await {
        Ok(Ok(host)) => {
            *tunnel = Some(Tunnel { program: hyper::upgrade::on(request), host });
            Response::new(empty())
        }
        Ok(Err(error)) => failed(shared, &authority, &error.to_string()),
        Err(_) => failed(shared, &authority, "it does not answer"),
    }
}

fn failed(shared: &Shared, host: &str, why: &str) -> Response<Body> {
    shared.error(StatusCode::BAD_GATEWAY, &format!("{host} cannot be reached: {why}"))
}

/// Why a name could not be resolved.
#[derive(Debug, thiserror::Error)]
enum LookupError {
    #[error(transparent)]
    Resolver(#[from] std::io::Error),
    #[error("its name is not found in time")]
    TimedOut,
}

/// The addresses of a host to which connections are allowed. They are looked up once, and the connection uses the
/// checked result: a name that changes a moment later has no effect.
async fn addresses(host: &Host) -> Result<Vec<SocketAddr>, LookupError> {
    let name = match &host.name {
        // An address that is listed itself is allowed.
        Name::Address(address) => return Ok(vec![SocketAddr::new(*address, host.port)]),
        Name::Exact(name) | Name::Below(name) => name.as_str(),
    };
    let lookup = tokio::net::lookup_host((name, host.port));
    match tokio::time::timeout(CONNECT_TIME, lookup).await {
        Ok(Ok(found)) => Ok(found.filter(|address| is_public(address.ip())).collect()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(LookupError::TimedOut),
    }
}

/// Whether an address is public: not this machine, its network or a special range.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation();
    let reserved = a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99);
    !special && !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let four = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match [a, b, c, d, e, f] {
        // An IPv4 address that is mapped into IPv6.
        [0, 0, 0, 0, 0, 0 | 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => four(g, h),
        [0x2002, high, low, ..] => four(high, low),
        [0x2001, 0..0x200 | 0xdb8, ..] => false,
        // All allocated global addresses are in this range.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(entries: &[&str]) -> Hosts {
        Hosts::parse(&entries.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn hosts_are_allowed_by_name_and_port() {
        let hosts = hosts(&[
            "Example.com:443",
            "*.example.org:8443",
            "plain.net",
            "127.0.0.1:80",
            "[::1]:81",
        ]);
        let allows = |host: &str| hosts.allows(&Host::parse(host).unwrap()).is_some();
        for host in [
            "example.com:443",
            "EXAMPLE.COM.:443",
            "a.example.org:8443",
            "a.b.example.org:8443",
            "plain.net:443",
            "127.0.0.1:80",
            "[::1]:81",
        ] {
            assert!(allows(host), "{host}");
        }
        for host in [
            "example.com:80",
            "sub.example.com:443",
            "example.org:8443",
            "badexample.org:8443",
            "plain.net:80",
            "127.0.0.1:443",
            "127.0.0.2:80",
            "[::ffff:127.0.0.1]:80",
            "example.com.evil.net:443",
        ] {
            assert!(!allows(host), "{host}");
        }
    }

    #[test]
    fn invalid_host_is_an_error() {
        for bad in ["", "*", "*.", "a b:443", "a:b", "x:99999", "a..b:1", "*a.com:1", "a.*.com"] {
            assert!(Hosts::parse(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn internal_addresses_are_recognised() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::127.0.0.1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::127.0.0.1",
            "fec0::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["1.1.1.1", "140.82.121.4", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }
}
