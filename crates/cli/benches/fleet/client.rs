//! A client that does as little as can be done: one connection, one request at a time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// A connection to the server.
pub(crate) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    read: Vec<u8>,
}

/// An answer.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// A connection from an address of its own on this machine: the server lets each address ask only so
    /// often.
    pub(crate) async fn from(number: usize, address: SocketAddr) -> Self {
        let place = u8::try_from(1 + number).expect("few callers");
        let socket = TcpSocket::new_v4().expect("a socket");
        let own = IpAddr::V4(Ipv4Addr::new(127, 0, 7, place));
        socket.bind(SocketAddr::new(own, 0)).expect("an address");
        let stream = socket.connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, address, read: Vec::new() }
    }

    /// Asks, and reads the whole answer.
    pub(crate) async fn ask(&mut self, what: &str, headers: &str, body: &[u8]) -> Answered {
        self.send(&request(self.address, what, headers, body)).await
    }

    /// Sends a request that was made beforehand, and reads the whole answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Answered {
        self.stream.write_all(request).await.expect("a request");
        self.read.clear();
        loop {
            if let Some(answered) = whole(&self.read) {
                return answered;
            }
            let length = self.stream.read_buf(&mut self.read).await.expect("an answer");
            assert_ne!(length, 0, "the connection was closed");
        }
    }

    /// Asks for a stream, and gives what comes of it.
    pub(crate) async fn stream(mut self, path: &str, token: &str) -> TcpStream {
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\r\n",
            self.address
        );
        self.stream.write_all(head.as_bytes()).await.expect("a request");
        self.stream
    }
}

/// A request as it is sent.
pub(crate) fn request(address: SocketAddr, what: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("{what} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// The answer, once all of it is there.
fn whole(read: &[u8]) -> Option<Answered> {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&read[..end]).expect("a head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .and_then(|length| length.parse().ok())
        .expect("a length");
    let body = read[end..].to_vec();
    (body.len() >= length).then_some(Answered { status, body })
}
