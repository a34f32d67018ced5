//! From a change that is durable to the last of 200 watchers, beside bare writes of the same bytes to 200
//! loopback sockets. Server and readers are in this process in both, so that neither has more of the
//! machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_control::ports::fleet::{FleetStore, TokenScope, Write};
use bailiwick_model::fleet::{AnyObject, ConfigMap, Metadata, Moment, Object};
use bailiwick_server::{NoControlPlane, Server, Settings, mint};
use bailiwick_store::{Location, Store};
use bailiwick_testkit::stopwatch::median;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::client::Client;
use crate::place::Place;
use crate::table::{times, turns};

const WATCHERS: usize = 200;
const ROUNDS: usize = 300;

/// Reads whatever comes; says so when the end of a change was in it. Each change is waited for before
/// the next is made, so that what ends as a change ends is one.
async fn read(mut stream: TcpStream, came: mpsc::UnboundedSender<()>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length) = stream.read(&mut bytes).await {
        let seen = &bytes[..length];
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
    for number in 0..WATCHERS {
        let client = Client::from(number, address).await;
        tokio::spawn(read(client.stream("/api/v1alpha1/events", token).await, sender.clone()));
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

/// From the moment at which the commit is durable.
async fn told(
    store: &Store,
    number: usize,
    watching: &mut mpsc::UnboundedReceiver<()>,
) -> Duration {
    let write = vec![Write::Replace(change(number))];
    let now = Moment::from_millis(1);
    FleetStore::commit(store, write, now).await.expect("a change");
    let begun = Instant::now();
    all(watching).await;
    begun.elapsed()
}

/// The bytes of the last change, written by hand.
async fn written(
    text: &str,
    writers: &mut [TcpStream],
    bare: &mut mpsc::UnboundedReceiver<()>,
) -> Duration {
    let begun = Instant::now();
    for writer in writers {
        writer.write_all(text.as_bytes()).await.expect("a write");
    }
    all(bare).await;
    begun.elapsed()
}

async fn last(store: &Store, version: u64) -> String {
    let changes = store.changes(version - 1, 1).await.expect("the change");
    let data = serde_json::to_string(&changes[0]).expect("text");
    format!("id: {version}\nevent: change\ndata: {data}\n\n")
}

pub(crate) async fn measure(place: &Place) {
    let store = Store::open(Location::file(place.beside("watched.db"))).await.expect("a store");
    let store = Arc::new(store);
    let now = Moment::from_millis(1);
    let minted = mint("bench", TokenScope::Viewer, None, now).expect("a token");
    store.put_token(minted.record).await.expect("a token");
    let mut version = 0;
    for number in 0..8 {
        let made = store.commit(vec![Write::Create(change(number))], now).await;
        version = made.expect("an object").version;
    }
    let address = "127.0.0.1:0".parse().expect("an address");
    let settings = Settings { address, ..Settings::default() };
    let server =
        Server::bind(settings, store.clone(), Arc::new(NoControlPlane)).await.expect("a server");
    let mut watching = {
        let address = server.address();
        tokio::spawn(server.run(std::future::pending()));
        watchers(address, &minted.text).await
    };
    let text = last(&store, version).await;
    let (mut writers, mut bare) = sockets().await;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for contender in turns(round, 2) {
            match contender {
                0 => ours.push(told(&store, round, &mut watching).await),
                _ => theirs.push(written(&text, &mut writers, &mut bare).await),
            }
        }
    }
    times("event to 200 watchers, beside writes", median(&mut ours), median(&mut theirs));
}
