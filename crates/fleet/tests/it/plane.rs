//! A control plane with a world that tests can change: the default branch and the responses of the forge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bailiwick_fleet::admission::conditions::{
    AdapterFacts, AdapterProbe, KitRole, RoleFacts, StackFacts,
};
use bailiwick_fleet::admission::snapshot::FrozenStack;
use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_fleet::ports::{
    CheckRun, FetchError, FleetStore as _, Forge, ForgeError, IncomingDelivery, MemoryFleet,
    PullRequestState, Rights, Selection, World, WorldError, WriteBack, Written,
};
use bailiwick_fleet::resources::apply;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchRun, AnyObject, ContextSource, ForgeKind, Moment, Object, Repository, Resource,
    WebhookDelivery,
};
use serde_json::Value;

use crate::dispatch::{SHA, START, ScriptedEngine, fleet};

/// The tip of the default branch.
pub(crate) const TIP: &str = "1111111111111111111111111111111111111111";

/// A forge with branches and responses set by tests.
#[derive(Clone, Default)]
pub(crate) struct SetForge {
    pub(crate) branches: Arc<Mutex<BTreeMap<String, String>>>,
    pub(crate) answers: Arc<Mutex<VecDeque<ForgeError>>>,
    pub(crate) written: Arc<Mutex<BTreeMap<String, WriteBack>>>,
    pub(crate) requests: Arc<AtomicU64>,
    /// The rights of people, or the error of the request.
    pub(crate) rights: Arc<Mutex<BTreeMap<String, Result<Rights, ForgeError>>>>,
}

impl Forge for SetForge {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some(fault) = self.answers.lock().unwrap().pop_front() {
            return Err(fault);
        }
        let known = self.written.lock().unwrap().insert(key.to_owned(), what.clone());
        Ok(Written { id: "1".to_owned(), url: None, was_there: known.is_some() })
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        Err(ForgeError::Refused(format!("no pull request {number}")))
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        Ok(self.branches.lock().unwrap().get(name).cloned())
    }

    async fn permission(&self, actor: &str) -> Result<Rights, ForgeError> {
        self.rights.lock().unwrap().get(actor).cloned().unwrap_or(Ok(Rights::Read))
    }

    async fn issue(&self, _: u64) -> Result<(String, String), ForgeError> {
        Err(ForgeError::Refused("no issue".to_owned()))
    }

    async fn job_log(&self, _: &str, _: usize) -> Result<String, ForgeError> {
        Ok(String::new())
    }

    async fn checks_since(
        &self,
        _: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        Ok((Vec::new(), None))
    }
}

/// A world whose default branch can move and disappear.
pub(crate) struct SetWorld {
    pub(crate) forge: SetForge,
    pub(crate) clock: AtomicU64,
    pub(crate) default_tip: Mutex<Option<String>>,
    /// The commits for which stack facts were requested.
    pub(crate) facts_requested_at: Mutex<Vec<String>>,
}

impl World for SetWorld {
    type Forge = SetForge;

    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.fetch_add(1, Ordering::Relaxed))
    }

    fn forge(&self, _: &Repository, _: Option<&[u8]>) -> Result<SetForge, ForgeError> {
        Ok(self.forge.clone())
    }

    async fn fetch_commit(
        &self,
        _: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        let known = sha.filter(|sha| sha.len() == 40).map(str::to_owned);
        let default = || self.default_tip.lock().unwrap().clone();
        Ok(match (known, reference) {
            (Some(sha), _) => Some(sha),
            (None, "refs/heads/main") => default(),
            (None, _) => Some(SHA.to_owned()),
        })
    }

    async fn changed_paths(
        &self,
        _: &Repository,
        _: &str,
        _: &str,
    ) -> Result<Vec<String>, WorldError> {
        Ok(Vec::new())
    }

    async fn stack_facts(&self, _: &FrozenStack, at: Option<(&Repository, &str)>) -> StackFacts {
        self.facts_requested_at.lock().unwrap().extend(at.map(|(_, sha)| sha.to_owned()));
        StackFacts {
            adapter: AdapterProbe::Seen(AdapterFacts {
                is_current: true,
                gates_tools: true,
                mcp: true,
                subagents: true,
                max_parallel: None,
                approval_modes: Vec::new(),
            }),
            role: KitRole::Found(RoleFacts {
                tools: vec!["*".to_owned()],
                accepted: vec!["files-whitelist".to_owned()],
            }),
            ..StackFacts::default()
        }
    }

    async fn source(
        &self,
        _: &Object<Repository>,
        _: &AgentDispatchRun,
        _: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        Ok(None)
    }

    async fn capabilities(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }

    async fn sleep(&self, _: u64) {}

    async fn ignored(&self, _: &Repository, _: &str) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

pub(crate) type SetPlane = ControlPlane<MemoryFleet, ScriptedEngine, SetWorld>;

/// The fleet of the other tests with a change, reconciled once.
pub(crate) async fn start_plane(change: impl Fn(&mut AnyObject)) -> SetPlane {
    let world = SetWorld {
        forge: SetForge::default(),
        clock: AtomicU64::new(START),
        default_tip: Mutex::new(Some(TIP.to_owned())),
        facts_requested_at: Mutex::default(),
    };
    let plane = ControlPlane::new(
        Arc::new(MemoryFleet::default()),
        Arc::new(ScriptedEngine::default()),
        Arc::new(world),
    );
    declare(&plane, &fleet(change)).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    plane.world.facts_requested_at.lock().unwrap().clear();
    plane
}

pub(crate) async fn declare(plane: &SetPlane, documents: &[AnyObject]) {
    apply(plane.store.as_ref(), documents, "ada", plane.world.now(), false).await.unwrap();
}

pub(crate) async fn all<R: Resource>(plane: &SetPlane) -> Vec<Object<R>> {
    let page = plane.store.list(&Selection::of(R::KIND)).await.unwrap();
    page.objects.iter().map(|object| object.typed::<R>().unwrap()).collect()
}

pub(crate) async fn only<R: Resource>(plane: &SetPlane) -> Object<R> {
    let mut found = all::<R>(plane).await;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Passes without errors.
pub(crate) async fn reconcile(plane: &SetPlane) {
    for _ in 0..6 {
        assert_eq!(plane.advance().await.errors, []);
    }
}

/// Stores a webhook like the server.
pub(crate) async fn deliver(plane: &SetPlane, forge: ForgeKind, event: &str, payload: &Value) {
    let payload = payload.to_string().into_bytes();
    let digest = Sha256Hex::of(&payload).to_string();
    let spec = WebhookDelivery {
        repository: "app".to_owned(),
        forge,
        delivery_id: digest.clone(),
        event: event.to_owned(),
        payload_digest: digest.clone(),
        bytes: u64::try_from(payload.len()).unwrap(),
        received_at: plane.world.now(),
        happened_at: None,
        headers: BTreeMap::new(),
    };
    let name = format!("awd-{}", digest.get(..24).unwrap());
    let delivery = IncomingDelivery { name, spec, payload };
    plane.store.receive(delivery).await.unwrap();
}
