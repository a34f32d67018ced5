//! The way out of a setup's sandbox: an HTTP proxy that connects to the hosts that are allowed.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The maximum length of a request's head.
const MAX_HEAD: usize = 64 * 1024;
/// How much of a response is read for its status.
const FIRST_PART: usize = 4096;
/// The timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The hosts that a setup can reach, and the proxy of this machine if it needs one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gateway {
    hosts: Arc<Vec<String>>,
    /// `host:port` of the machine's own proxy.
    parent: Option<String>,
    refusals: Arc<Mutex<Refusals>>,
}

/// The denied requests of a setup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// `host:port` that it may not reach.
    pub(crate) hosts: BTreeSet<String>,
    /// Hosts that wanted a login, as far as that can be seen: not through a tunnel.
    pub(crate) without_login: BTreeSet<String>,
}

/// A running gateway; it stops when this is dropped.
pub(crate) struct RunningGateway {
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The target of a proxy request.
#[derive(Debug, PartialEq, Eq)]
struct ProxyTarget {
    host: String,
    port: u16,
    /// The first bytes for the host; `None` for a tunnel.
    forward: Option<Vec<u8>>,
}

impl Gateway {
    /// Hosts as `host:port`, or without a port for 80 and 443.
    pub(crate) fn new(hosts: Vec<String>, proxies: &[(String, String)]) -> Self {
        let parent = proxies.iter().find(|(name, _)| name.eq_ignore_ascii_case("https_proxy"));
        let parent = parent.and_then(|(_, address)| {
            let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
            let authority = rest.split('/').next().unwrap_or_default();
            (scheme == "http" && authority.contains(':')).then(|| authority.to_owned())
        });
        Self { hosts: Arc::new(hosts), parent, refusals: Arc::default() }
    }

    /// The denied requests so far.
    pub(crate) fn refusals(&self) -> Refusals {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut Refusals)) {
        note(&mut self.refusals.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn allows(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().any(|entry| match entry.rsplit_once(':') {
            Some((name, number)) => name.eq_ignore_ascii_case(host) && number.parse() == Ok(port),
            None => entry.eq_ignore_ascii_case(host) && [80, 443].contains(&port),
        })
    }

    /// Answers all connections to `listener`.
    pub(crate) fn open(&self, listener: TcpListener) -> io::Result<RunningGateway> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let gateway = self.clone();
        runtime.spawn(async move {
            while let Ok((program, _)) = listener.accept().await {
                let gateway = gateway.clone();
                tokio::spawn(async move {
                    // The result matters only to the two ends.
                    let _ = gateway.serve(program).await;
                });
            }
        });
        Ok(RunningGateway { runtime: Some(runtime) })
    }

    async fn serve(&self, mut program: TcpStream) -> io::Result<()> {
        let (head, rest) = read_head(&mut program).await?;
        let Some(target) = parse(&head) else {
            return refuse(&mut program, "400 Bad Request", "this is not a proxy request").await;
        };
        let ProxyTarget { host, port, forward } = target;
        if !self.allows(&host, port) {
            self.note(|refusals| {
                refusals.hosts.insert(format!("{host}:{port}"));
            });
            let why = format!(
                "{host}:{port} is not among the hosts that a setup can reach; add it to `hosts` \
                 under [workspace] of the task"
            );
            return refuse(&mut program, "403 Forbidden", &why).await;
        }
        let mut remote = match self.connect(&host, port).await {
            Ok(remote) => remote,
            Err(error) => {
                let why = format!("{host}:{port} cannot be reached: {error}");
                return refuse(&mut program, "502 Bad Gateway", &why).await;
            }
        };
        let Some(head) = forward else {
            program.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            remote.write_all(&rest).await?;
            return tokio::io::copy_bidirectional(&mut program, &mut remote).await.map(drop);
        };
        remote.write_all(&head).await?;
        remote.write_all(&rest).await?;
        let (mut from_program, mut to_program) = program.split();
        let (mut from_remote, mut to_remote) = remote.split();
        let sent = async {
            tokio::io::copy(&mut from_program, &mut to_remote).await?;
            to_remote.shutdown().await
        };
        let answered = async {
            let mut first = Vec::with_capacity(FIRST_PART);
            from_remote.read_buf(&mut first).await?;
            if wants_login(&first) {
                self.note(|refusals| {
                    refusals.without_login.insert(host.clone());
                });
            }
            to_program.write_all(&first).await?;
            tokio::io::copy(&mut from_remote, &mut to_program).await?;
            to_program.shutdown().await
        };
        tokio::try_join!(sent, answered).map(drop)
    }

    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let connected = async {
            let Some(parent) = &self.parent else {
                let found = tokio::net::lookup_host((host, port)).await?;
                let found: Vec<SocketAddr> =
                    found.filter(|address| !is_link_local(address.ip())).collect();
                return TcpStream::connect(found.as_slice()).await;
            };
            let mut stream = TcpStream::connect(parent.as_str()).await?;
            let ask = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
            stream.write_all(ask.as_bytes()).await?;
            let (head, _) = read_head(&mut stream).await?;
            let accepted = head.split_whitespace().nth(1).is_some_and(|code| code == "200");
            accepted.then_some(stream).ok_or_else(|| io::Error::other("your proxy refused it"))
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connected)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Whether a response requires a login.
fn wants_login(answer: &[u8]) -> bool {
    let status = answer.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    answer.starts_with(b"HTTP/") && [b"401", b"403"].iter().any(|code| status == *code)
}

/// Clouds hand out credentials at such addresses; no registry is there.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => mapped.is_link_local(),
            None => address.is_unicast_link_local(),
        },
    }
}

async fn refuse(program: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{why}\n"
    );
    program.write_all(answer.as_bytes()).await?;
    program.shutdown().await
}

/// The head of a message, and the bytes that followed it.
async fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if bytes.len() > MAX_HEAD || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    };
    let rest = bytes.split_off(end);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), rest))
}

/// The target of a request: `CONNECT host:port`, or a request with an absolute URL.
fn parse(head: &str) -> Option<ProxyTarget> {
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target, version) = (first.next()?, first.next()?, first.next()?);
    if method == "CONNECT" {
        let (host, port) = target.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']).to_owned();
        return Some(ProxyTarget { host, port: port.parse().ok()?, forward: None });
    }
    let rest = target.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = authority.rsplit('@').next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, 80),
    };
    let path = if path.is_empty() { "/" } else { path };
    let mut forward = format!("{method} {path} {version}\r\n");
    // One request for each connection: the next one may be for another host.
    let dropped = ["connection:", "proxy-connection:", "proxy-authorization:"];
    for line in lines.filter(|line| !line.is_empty()) {
        let lower = line.to_ascii_lowercase();
        if !dropped.iter().any(|name| lower.starts_with(name)) {
            forward.push_str(line);
            forward.push_str("\r\n");
        }
    }
    forward.push_str("Connection: close\r\n\r\n");
    Some(ProxyTarget { host: host.to_owned(), port, forward: Some(forward.into_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_hosts_and_ports_are_allowed() {
        let hosts = ["registry.example.org", "127.0.0.1:4873"].map(str::to_owned).to_vec();
        let gateway = Gateway::new(hosts, &[]);
        for (host, port, allowed) in [
            ("registry.example.org", 443, true),
            ("Registry.Example.org", 80, true),
            ("registry.example.org", 22, false),
            ("127.0.0.1", 4873, true),
            ("127.0.0.1", 443, false),
            ("evil.registry.example.org", 443, false),
            ("example.org", 443, false),
        ] {
            assert_eq!(gateway.allows(host, port), allowed, "{host}:{port}");
        }
    }

    #[test]
    fn answers_that_require_a_login_are_recognised() {
        for (answer, login_required) in [
            ("HTTP/1.1 401 Unauthorized\r\n", true),
            ("HTTP/1.0 403 Forbidden\r\n", true),
            ("HTTP/1.1 404 Not Found\r\n", false),
            ("HTTP/1.1 200 401\r\n", false),
            ("", false),
        ] {
            assert_eq!(wants_login(answer.as_bytes()), login_required, "{answer}");
        }
    }

    #[test]
    fn cloud_credential_addresses_are_not_reached() {
        for (address, refused) in [
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::1", true),
            ("10.0.0.1", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(is_link_local(address.parse().unwrap()), refused, "{address}");
        }
    }

    #[test]
    fn only_tunnels_and_absolute_urls_are_understood() {
        let tunnel = parse("CONNECT a.org:443 HTTP/1.1\r\nHost: a.org:443\r\n\r\n").unwrap();
        assert_eq!(tunnel, ProxyTarget { host: "a.org".into(), port: 443, forward: None });
        let head = "GET http://a.org:81/x?y HTTP/1.1\r\nHost: a.org:81\r\nProxy-Connection: \
                    keep-alive\r\n\r\n";
        let plain = parse(head).unwrap();
        assert_eq!((plain.host.as_str(), plain.port), ("a.org", 81));
        let sent = String::from_utf8(plain.forward.unwrap()).unwrap();
        assert_eq!(sent, "GET /x?y HTTP/1.1\r\nHost: a.org:81\r\nConnection: close\r\n\r\n");
        for bad in
            ["GET / HTTP/1.1\r\n\r\n", "CONNECT a.org HTTP/1.1\r\n\r\n", "x", "GET ftp://a/ x"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
