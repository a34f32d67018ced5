//! What it takes until a change has reached 200 watchers, beside bare writes of the same bytes to 200
//! loopback sockets: ratios from one interleaved run.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot do its work must stop"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bailiwick_control::ports::fleet::{FleetStore, TokenScope, Write};
use bailiwick_model::fleet::{AnyObject, ConfigMap, Metadata, Moment, Object};
use bailiwick_server::{Server, Settings, Unwired, mint};
use bailiwick_testkit::figure;
use bailiwick_testkit::stopwatch::{median, ratio};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use telling::Telling;

#[path = "../tests/it/telling.rs"]
mod telling;

const WATCHERS: usize = 200;
const ROUNDS: usize = 300;

/// Reads whatever comes; says so when the end of a change was in it. Each change is waited for before
/// the next is made, so that what ends as a change ends is one.
async fn read(mut stream: TcpStream, came: mpsc::UnboundedSender<()>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length) = stream.read(&mut bytes).await {
        let seen = bytes.get(..length).unwrap_or_default();
        let whole = seen.ends_with(b"\n\n") || seen.ends_with(b"\n\n\r\n");
        if length == 0 || (whole && came.send(()).is_err()) {
            return;
        }
    }
}

async fn all(came: &mut mpsc::UnboundedReceiver<()>) {
    for _ in 0..WATCHERS {
        came.recv().await.expect("a watcher");
    }
}

fn change(number: usize) -> AnyObject {
    let data = BTreeMap::from([
        ("text".to_owned(), "x".repeat(600)),
        ("n".to_owned(), number.to_string()),
    ]);
    let object = Object::new(Metadata::named(format!("m{}", number % 8)), ConfigMap { data });
    AnyObject::of(&object).expect("an object")
}

async fn watchers(address: SocketAddr, token: &str) -> mpsc::UnboundedReceiver<()> {
    let (sender, mut came) = mpsc::unbounded_channel();
    for _ in 0..WATCHERS {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let ask = format!(
            "GET /api/v1alpha1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(ask.as_bytes()).await.expect("a request");
        tokio::spawn(read(stream, sender.clone()));
    }
    all(&mut came).await;
    came
}

async fn sockets() -> (Vec<TcpStream>, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (sender, came) = mpsc::unbounded_channel();
    let mut writers = Vec::new();
    for _ in 0..WATCHERS {
        let reader = TcpStream::connect(address).await.expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        writers.push(stream);
        tokio::spawn(read(reader, sender.clone()));
    }
    (writers, came)
}

async fn measure() {
    let store = Arc::new(Telling::default());
    let now = Moment::from_millis(1);
    let minted = mint("bench", TokenScope::Viewer, None, now).expect("a token");
    store.put_token(minted.record).await.expect("a token");
    for number in 0..8 {
        store.commit(vec![Write::Create(change(number))], now).await.expect("an object");
    }
    let settings =
        Settings { address: "127.0.0.1:0".parse().expect("an address"), ..Settings::default() };
    let server = Server::bind(settings, store.clone(), Arc::new(Unwired)).await.expect("a server");
    let address = server.address();
    tokio::spawn(server.run(std::future::pending()));
    let mut watching = watchers(address, &minted.text).await;
    let (mut writers, mut bare) = sockets().await;
    let (mut ours, mut theirs, mut committing) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        let begun = Instant::now();
        let applied = store.commit(vec![Write::Replace(change(number))], now).await;
        committing.push(begun.elapsed());
        let applied = applied.expect("a change");
        all(&mut watching).await;
        ours.push(begun.elapsed());
        // The same bytes, written by hand.
        let changes = store.changes(applied.version - 1, 1).await.expect("the change");
        let [one] = changes.as_slice() else { panic!("one change") };
        let data = serde_json::to_string(one).expect("text");
        let text = format!("id: {}\nevent: change\ndata: {data}\n\n", applied.version);
        let begun = Instant::now();
        for writer in &mut writers {
            writer.write_all(text.as_bytes()).await.expect("a write");
        }
        all(&mut bare).await;
        theirs.push(begun.elapsed());
    }
    let [ours, theirs, committing] = [ours, theirs, committing].map(|mut times| median(&mut times));
    figure(&format!(
        "watchers: a change is with {WATCHERS} watchers in {ours:.0?} ({committing:.0?} of it the \
         store's commit), {:.2} times the {theirs:.0?} of bare writes to {WATCHERS} sockets",
        ratio(ours, theirs),
    ));
    assert!(ratio(ours, theirs) <= 8.0, "the bound is 8");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}
