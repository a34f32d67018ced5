//! As much of an HTTP/1.1 server as a scripted model needs: one request a connection.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A received request.
pub(crate) struct Incoming {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Its response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Its content type.
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
    /// Whether the connection closes before the announced length.
    pub(crate) breaks: bool,
}

/// Listens on loopback until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    stopped: AtomicBool,
    /// All connections, so that a drop does not wait for open ones.
    connections: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(Incoming) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(move |stream| converse(stream, &answer))
    }

    /// Handles each connection in its own thread.
    pub(crate) fn serve(
        deal: impl Fn(&TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let address = listener.local_addr().expect("an address");
        let connections = Mutex::new(Vec::new());
        let shared = Arc::new(Shared { stopped: AtomicBool::new(false), connections });
        let (state, deal) = (Arc::clone(&shared), Arc::new(deal));
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if state.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let Ok(kept) = stream.try_clone() else { continue };
                let deal = Arc::clone(&deal);
                // A connection that breaks off is the client's affair; it has its own errors.
                let thread = std::thread::spawn(move || {
                    let _ = deal(&stream);
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                });
                let mut connections =
                    state.connections.lock().unwrap_or_else(PoisonError::into_inner);
                connections.retain(|(_, thread)| !thread.is_finished());
                connections.push((kept, thread));
            }
        });
        Self { address, shared, accepting: Some(accepting) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        let mut connections =
            self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for (stream, thread) in connections.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            let _ = thread.join();
        }
    }
}

fn converse(stream: &TcpStream, answer: &dyn Fn(Incoming) -> Answer) -> std::io::Result<()> {
    let Some(incoming) = receive(&mut BufReader::new(stream))? else { return Ok(()) };
    let head = incoming.method == "HEAD";
    let Answer { status, kind, body, breaks } = answer(incoming);
    let length = body.len() + usize::from(breaks);
    let reason = if status == 200 { "OK" } else { "Not Found" };
    let text = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
    );
    let mut writer = stream;
    writer.write_all(text.as_bytes())?;
    if !head {
        writer.write_all(&body)?;
    }
    writer.flush()
}

/// The request, if there is one before the connection ends.
pub(crate) fn receive(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Incoming>> {
    let first = line(reader)?;
    let mut words = first.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let (method, path) = (method.to_owned(), path.to_owned());
    let mut headers = Vec::new();
    loop {
        let header = line(reader)?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let header =
        |name: &str| headers.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str());
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        while let length @ 1.. = chunk_length(&line(reader)?)? {
            reader.take(length).read_to_end(&mut body)?;
            line(reader)?;
        }
        line(reader)?;
    } else {
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        reader.take(length).read_to_end(&mut body)?;
    }
    Ok(Some(Incoming { method, path, headers, body }))
}

fn chunk_length(text: &str) -> std::io::Result<u64> {
    let digits = text.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).map_err(std::io::Error::other)
}

fn line(reader: &mut BufReader<&TcpStream>) -> std::io::Result<String> {
    let mut text = String::new();
    reader.read_line(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok(text)
}
