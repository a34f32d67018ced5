//! A running server with a token for each scope.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bailiwick_fleet::ports::{FleetStore, TokenScope, Write};
use bailiwick_resources::{
    AgentDispatchRun, AnyObject, ConfigMap, EventSource, Metadata, Moment, Object, SourceEventRef,
    TrustTier,
};
use bailiwick_server::{Limits, Server, Settings, mint};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Events, HttpRequest, HttpResponse};
use crate::scripted_fleet::ScriptedFleet;
use crate::test_store::TestStore;

pub(crate) const SCOPES: [TokenScope; 4] =
    [TokenScope::Viewer, TokenScope::Operator, TokenScope::Approver, TokenScope::Admin];

pub(crate) fn moment() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap())
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<TestStore>,
    pub(crate) fleet: Arc<ScriptedFleet>,
    pub(crate) tokens: BTreeMap<TokenScope, String>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

pub(crate) async fn start_server() -> TestServer {
    start_server_with(|_| {}).await
}

pub(crate) async fn start_server_with(change: impl FnOnce(&mut Limits)) -> TestServer {
    let mut settings = Settings { address: "127.0.0.1:0".parse().unwrap(), ..Settings::default() };
    change(&mut settings.limits);
    start(settings).await
}

pub(crate) async fn start(settings: Settings) -> TestServer {
    let store = Arc::new(TestStore::default());
    let fleet = Arc::new(ScriptedFleet::default());
    let mut tokens = BTreeMap::new();
    for scope in SCOPES {
        let minted = mint(&format!("{scope:?}").to_lowercase(), scope, None, moment()).unwrap();
        store.put_token(minted.record).await.unwrap();
        tokens.insert(scope, minted.text);
    }
    let server = Server::bind(settings, store.clone(), fleet.clone()).await.unwrap();
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    TestServer { address, store, fleet, tokens, stop: Some(stop), running: Some(running) }
}

impl TestServer {
    pub(crate) fn admin(&self) -> &str {
        &self.tokens[&TokenScope::Admin]
    }

    pub(crate) async fn execute(&self, request: HttpRequest) -> HttpResponse {
        request.send(self.address).await
    }

    pub(crate) async fn get(&self, path: &str) -> HttpResponse {
        self.execute(HttpRequest::get(path).token(self.admin())).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) -> HttpResponse {
        self.execute(HttpRequest::new(method, path).token(self.admin()).json(body)).await
    }

    pub(crate) async fn watch(&self, path: &str, after: Option<u64>) -> Events {
        let request = HttpRequest::get(path).token(self.admin());
        let request = match after {
            Some(id) => request.header("last-event-id", id),
            None => request,
        };
        Events::open(self.address, request).await
    }

    pub(crate) fn begin_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(crate) async fn stopped(&mut self) {
        let running = self.running.take().unwrap();
        tokio::time::timeout(crate::client::TIMEOUT, running).await.unwrap().unwrap();
    }

    /// Writes a config map directly to the store.
    pub(crate) async fn put(&self, name: &str, value: &str) -> u64 {
        let data = BTreeMap::from([("k".to_owned(), value.to_owned())]);
        let object = Object::new(Metadata::named(name), ConfigMap { data });
        let mut object = AnyObject::of(&object).unwrap();
        object.status = Value::Null;
        let known = self.store.get(object.kind, "default", name).await.unwrap();
        let write = if known.is_some() { Write::Replace(object) } else { Write::Create(object) };
        self.store.commit(vec![write], moment()).await.unwrap().version
    }

    /// Creates a run as the control plane does.
    pub(crate) async fn run(&self, name: &str) -> AnyObject {
        self.run_at(name, moment()).await
    }

    pub(crate) async fn run_at(&self, name: &str, at: Moment) -> AnyObject {
        let run = AgentDispatchRun {
            repository: "app".to_owned(),
            reference: "refs/heads/main".to_owned(),
            branch: Some("main".to_owned()),
            sha: "0".repeat(40),
            source_event: SourceEventRef {
                source: EventSource::Manual,
                uid: name.to_owned(),
                actor: None,
                asked_by: None,
            },
            source_refs: Default::default(),
            agent_stack: "mender".to_owned(),
            task_kind: "mend".to_owned(),
            trigger_rule: None,
            task: "mend it".to_owned(),
            context_bundle_ref: None,
            workspace_ref: None,
            runner_pool: "local".to_owned(),
            trust_tier: TrustTier::Trusted,
            approval_policy: Default::default(),
            write_back_policy: Default::default(),
            parent_run: None,
            concurrency_group: None,
        };
        let object = AnyObject::of(&Object::new(Metadata::named(name), run)).unwrap();
        let applied = self.store.commit(vec![Write::Create(object)], at).await.unwrap();
        applied.objects.into_iter().next().unwrap()
    }

    pub(crate) async fn audit(&self) -> Vec<(String, String, String)> {
        let lines = self.store.audit(0, 10_000).await.unwrap();
        lines.into_iter().map(|(_, line)| (line.actor, line.event, line.subject)).collect()
    }
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "bailiwick.dev/v1alpha1",
        "kind": "ConfigMap",
        "metadata": { "name": name },
        "spec": { "data": { "k": value } },
    })
}
