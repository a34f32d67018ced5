//! The HTTP client against a real server in this process, beside the local client over the same store.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test helpers panic on failure"
)]

mod both_ways;
mod errors;
mod streams;
mod trace_collector;
mod workers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_client::{Http, Local, PlainHttp, ServerAddress, Token};
use bailiwick_fleet::ports::{Caller, FleetStore, MemoryFleet, Target, TokenScope};
use bailiwick_resources::{AnyObject, ConfigMap, Metadata, Moment, Object};
use bailiwick_server::{Limits, NoControlPlane, Server, Settings, mint};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Only a request that hangs takes this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct TestServer {
    pub(crate) store: Arc<MemoryFleet>,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap())
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        let mut server = Self {
            store: Arc::new(MemoryFleet::default()),
            address: "127.0.0.1:0".parse().unwrap(),
            stop: None,
            running: None,
        };
        server.serve().await;
        server
    }

    /// Serves the store; a restarted server uses the same port.
    pub(crate) async fn serve(&mut self) {
        let limits = Limits { heartbeat: Duration::from_millis(100), ..Limits::default() };
        let settings = Settings { address: self.address, limits, ..Settings::default() };
        let server =
            Server::bind(settings, self.store.clone(), Arc::new(NoControlPlane)).await.unwrap();
        self.address = server.address();
        let (stop, stopped) = oneshot::channel::<()>();
        self.running = Some(tokio::spawn(server.run(async {
            let _ = stopped.await;
        })));
        self.stop = Some(stop);
    }

    pub(crate) async fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        tokio::time::timeout(TIMEOUT, self.running.take().unwrap()).await.unwrap().unwrap();
    }

    pub(crate) async fn token(&self, scope: TokenScope) -> Token {
        let minted = mint("ada", scope, None, now()).unwrap();
        self.store.put_token(minted.record).await.unwrap();
        Token::parse(&minted.text).unwrap()
    }

    pub(crate) async fn client(&self, scope: TokenScope) -> Http {
        http(self.address, &self.token(scope).await)
    }

    pub(crate) fn local(&self) -> Local<MemoryFleet, NoControlPlane> {
        let caller = Caller {
            actor: "ada".to_owned(),
            scope: TokenScope::Admin,
            token: "local".to_owned(),
            correlation: "here".to_owned(),
            request: "here".to_owned(),
            at: now(),
        };
        Local::new(self.store.clone(), Arc::new(NoControlPlane), caller)
    }
}

pub(crate) fn http(address: SocketAddr, token: &Token) -> Http {
    let text = format!("http://{address}");
    Http::new(ServerAddress::parse(&text, PlainHttp::LoopbackOnly).unwrap(), token).unwrap()
}

pub(crate) fn target(name: &str) -> Target {
    Target { namespace: "default".to_owned(), name: name.to_owned() }
}

pub(crate) fn config_map(name: &str, value: &str) -> AnyObject {
    let data = BTreeMap::from([("k".to_owned(), value.to_owned())]);
    let mut object =
        AnyObject::of(&Object::new(Metadata::named(name), ConfigMap { data })).unwrap();
    object.status = serde_json::Value::Null;
    object
}
