//! A proxy before the real server that answers some API requests with 500, with or without forwarding them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const FAILURE: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n\
                         Content-Length: 20\r\nConnection: close\r\n\r\n{\"message\":\"a fault\"}";

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    /// The server never sees it.
    Refused,
    /// The server processes it, but its response is lost.
    ResponseLost,
}

/// The proxy, which runs until the test ends.
pub(super) struct Faults {
    pub(super) url: String,
    failing: Arc<AtomicBool>,
    away: Arc<AtomicBool>,
    failed: Arc<AtomicUsize>,
    /// The start of the request whose response is lost once.
    to_lose: Arc<Mutex<Option<String>>>,
}

impl Faults {
    /// Before the server at `url`; nothing fails yet.
    pub(super) fn before(url: &str) -> Self {
        let upstream = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (failing, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (fails, count) = (Arc::clone(&failing), Arc::clone(&failed));
        let requests = Arc::new(AtomicUsize::new(0));
        let away = Arc::new(AtomicBool::new(false));
        let is_away = Arc::clone(&away);
        let to_lose = Arc::new(Mutex::new(None::<String>));
        let losing = Arc::clone(&to_lose);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (upstream, fails) = (upstream.clone(), Arc::clone(&fails));
                let (count, requests) = (Arc::clone(&count), Arc::clone(&requests));
                let losing = Arc::clone(&losing);
                let is_away = Arc::clone(&is_away);
                let fate = move |head: &str| {
                    if is_away.load(Ordering::SeqCst) {
                        return Fate::Refused;
                    }
                    let lost = losing.lock().unwrap().take_if(|start| head.starts_with(&**start));
                    if lost.is_some() {
                        return Fate::ResponseLost;
                    }
                    if !fails.load(Ordering::SeqCst) {
                        return Fate::Answered;
                    }
                    match requests.fetch_add(1, Ordering::SeqCst) % 5 {
                        1 => Fate::Refused,
                        3 => Fate::ResponseLost,
                        _ => Fate::Answered,
                    }
                };
                thread::spawn(move || forward(client, &upstream, fate, &count));
            }
        });
        Self { url, failing, away, failed, to_lose }
    }

    /// Whether no API request reaches the server.
    pub(super) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    pub(super) fn set(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// The response to the next request that begins like this is lost after the server processed it.
    pub(super) fn lose_response_to(&self, start: String) {
        *self.to_lose.lock().unwrap() = Some(start);
    }

    /// How many requests have failed so far.
    pub(super) fn count(&self) -> usize {
        self.failed.load(Ordering::SeqCst)
    }
}

/// Forwards one request, and closes the connection, so that each request has its own connection. A failed
/// request is counted once the server has processed it.
fn forward(
    mut client: TcpStream,
    upstream: &str,
    fate: impl Fn(&str) -> Fate,
    failed: &AtomicUsize,
) -> Option<()> {
    let mut from_client = BufReader::new(client.try_clone().ok()?);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from_client.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (name, value) = line.split_once(':').unwrap_or((line.as_str(), ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "connection" => continue,
            _ => {}
        }
        if line == "\r\n" {
            head.push_str("Connection: close\r\n\r\n");
            break;
        }
        head.push_str(&line);
    }
    let is_api = head.split(' ').nth(1)?.starts_with("/api/");
    let fate = if is_api { fate(&head) } else { Fate::Answered };
    if fate == Fate::Refused {
        let mut body = vec![0; length];
        from_client.read_exact(&mut body).ok()?;
        failed.fetch_add(1, Ordering::SeqCst);
        return client.write_all(FAILURE).ok();
    }
    let mut server = TcpStream::connect(upstream).ok()?;
    server.write_all(head.as_bytes()).ok()?;
    let mut to_server = server.try_clone().ok()?;
    // Git sends chunked bodies without a length, so everything is forwarded until one end closes.
    thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
    if fate == Fate::ResponseLost {
        std::io::copy(&mut server, &mut std::io::sink()).ok()?;
        failed.fetch_add(1, Ordering::SeqCst);
        return client.write_all(FAILURE).ok();
    }
    std::io::copy(&mut server, &mut client).ok()?;
    client.shutdown(std::net::Shutdown::Both).ok()
}
