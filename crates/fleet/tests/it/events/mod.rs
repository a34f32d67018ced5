//! Incoming events on a whole control plane: each is stored before it is evaluated, evaluated by every rule, never
//! lost, and never caused by itself.

mod attached;
mod lines;
mod meaning;
mod observed;
mod own;
mod unanswered;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bailiwick_fleet::admission::conditions::{
    AdapterFacts, AdapterProbe, KitRole, RoleFacts, StackFacts,
};
use bailiwick_fleet::admission::snapshot::FrozenStack;
use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_fleet::ports::{
    AccountProblem, AttemptLaunch, Caller, CheckRun, CommitPlace, Engine, EngineError, EngineEvent,
    FetchError, FinishedWork, FleetStore as _, Forge, ForgeError, IncomingDelivery, LabelEntry,
    Launched, LaunchedChild, LaunchedState, MemoryFleet, PolledEvent, PullRequestState, Selection,
    TokenScope, World, WorldError, WriteBack, Written,
};
use bailiwick_fleet::resources::apply;
use bailiwick_fleet::triggers::delivery_name;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    API_VERSION, AgentDispatchRun, AgentTriggerExecution, AnyObject, ContextSource, ForgeFacts,
    ForgeKind, Kind, Metadata, Moment, Object, Repository, Resource, RunCost, WebhookDelivery,
};
use serde_json::{Value, json};

const START: u64 = 1_794_000_000_000;

/// A commit id that repeats one character.
fn sha(character: char) -> String {
    character.to_string().repeat(40)
}

/// An engine whose agents run until a test sets another state.
#[derive(Default)]
struct ScriptedEngine {
    launched: Mutex<Vec<AttemptLaunch>>,
    states: Mutex<BTreeMap<String, Launched>>,
}

fn in_state(state: LaunchedState, work: Option<FinishedWork>) -> Launched {
    Launched {
        state,
        session: None,
        cost: RunCost::default(),
        attempts: 1,
        is_claimed: false,
        cursor: 0,
        detail: "as it says".to_owned(),
        questions: Vec::new(),
        work,
        pod_problem: None,
    }
}

impl Engine for ScriptedEngine {
    async fn launch(&self, launch: AttemptLaunch) -> Result<(), EngineError> {
        let agent = launch.agent.clone();
        self.launched.lock().unwrap().push(launch);
        let running = in_state(LaunchedState::Running, None);
        self.states.lock().unwrap().entry(agent).or_insert(running);
        Ok(())
    }

    async fn state(&self, agent: &str) -> Result<Option<Launched>, EngineError> {
        Ok(self.states.lock().unwrap().get(agent).cloned())
    }

    async fn children(&self, _: &str) -> Result<Vec<LaunchedChild>, EngineError> {
        Ok(Vec::new())
    }

    async fn answer(&self, _: &str, _: &str, _: bool) -> Result<bool, EngineError> {
        Ok(true)
    }

    async fn events(&self, _: &str, _: u64, _: usize) -> Result<Vec<EngineEvent>, EngineError> {
        Ok(Vec::new())
    }

    async fn cancel(&self, agent: &str) -> Result<(), EngineError> {
        let stopped = in_state(LaunchedState::Stopped, None);
        self.states.lock().unwrap().insert(agent.to_owned(), stopped);
        Ok(())
    }
}

/// A forge with scripted responses.
#[derive(Clone, Default)]
struct ScriptedForge {
    account: Arc<Mutex<Option<String>>>,
    labels: Arc<Mutex<Option<Vec<String>>>>,
    checks: Arc<Mutex<Vec<CheckRun>>>,
    logs: Arc<Mutex<VecDeque<Result<String, ForgeError>>>>,
    requested_logs: Arc<Mutex<Vec<String>>>,
    pulls: Arc<Mutex<BTreeMap<u64, PullRequestState>>>,
    branches: Arc<Mutex<BTreeMap<String, String>>>,
    is_unavailable: Arc<AtomicBool>,
    label_histories: Arc<Mutex<BTreeMap<u64, Vec<LabelEntry>>>>,
    places: Arc<Mutex<BTreeMap<String, CommitPlace>>>,
    /// The events that a poll returns.
    activity: Arc<Mutex<Vec<PolledEvent>>>,
    requested_cursors: Arc<Mutex<Vec<Option<String>>>>,
    facts: Arc<Mutex<Option<ForgeFacts>>>,
    /// A problem of the account that a person has to fix.
    problem: Arc<Mutex<Option<AccountProblem>>>,
    /// Why the list of checks cannot be read.
    checks_error: Arc<Mutex<Option<ForgeError>>>,
}

impl ScriptedForge {
    fn require_account(&self) -> Result<(), ForgeError> {
        self.problem.lock().unwrap().clone().map_or(Ok(()), |problem| Err(problem.into()))
    }
}

impl Forge for ScriptedForge {
    async fn label_history(&self, number: u64) -> Result<Option<Vec<LabelEntry>>, ForgeError> {
        self.require_account()?;
        Ok(self.label_histories.lock().unwrap().get(&number).cloned())
    }

    async fn facts(&self) -> Result<Option<ForgeFacts>, ForgeError> {
        self.require_account()?;
        Ok(self.facts.lock().unwrap().clone())
    }

    async fn activity_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<PolledEvent>, Option<String>), ForgeError> {
        self.require_account()?;
        self.requested_cursors.lock().unwrap().push(cursor.map(str::to_owned));
        let found = cursor.map(|_| self.activity.lock().unwrap().clone());
        Ok((found.unwrap_or_default(), Some("the next cursor".to_owned())))
    }

    async fn place_of(&self, sha: &str, _: &str) -> Result<CommitPlace, ForgeError> {
        let found = self.places.lock().unwrap().get(sha).cloned();
        Ok(found.unwrap_or(CommitPlace::Unknown))
    }

    async fn write(&self, _: &str, _: &WriteBack) -> Result<Written, ForgeError> {
        Ok(Written { id: "1".to_owned(), url: None, was_there: false })
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        let found = self.pulls.lock().unwrap().get(&number).cloned();
        found.ok_or_else(|| ForgeError::Refused(format!("no pull request {number}")))
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        self.require_account()?;
        match self.is_unavailable.load(Ordering::Relaxed) {
            true => Err(ForgeError::Unavailable("no route".to_owned())),
            false => Ok(self.branches.lock().unwrap().get(name).cloned()),
        }
    }

    async fn issue(&self, _: u64) -> Result<(String, String), ForgeError> {
        Err(ForgeError::Refused("no issue".to_owned()))
    }

    async fn job_log(&self, job: &str, _: usize) -> Result<String, ForgeError> {
        self.requested_logs.lock().unwrap().push(job.to_owned());
        let next = self.logs.lock().unwrap().pop_front();
        next.unwrap_or_else(|| Err(ForgeError::Refused("no log".to_owned())))
    }

    async fn account(&self) -> Result<Option<String>, ForgeError> {
        Ok(self.account.lock().unwrap().clone())
    }

    async fn labels(&self) -> Result<Option<Vec<String>>, ForgeError> {
        Ok(self.labels.lock().unwrap().clone())
    }

    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        self.checks_error.lock().unwrap().clone().map_or(Ok(()), Err)?;
        // A cursor can also be a time: then everything is listed.
        let cursor_position = cursor.and_then(|cursor| cursor.parse::<usize>().ok()).unwrap_or(0);
        let checks = self.checks.lock().unwrap().clone();
        Ok((checks[cursor_position..].to_vec(), Some(checks.len().to_string())))
    }
}

/// Scripted results, in order.
type Results = VecDeque<Result<Option<String>, FetchError>>;

/// A world that has every commit and source unless a test sets a result.
struct ScriptedWorld {
    forge: ScriptedForge,
    clock: AtomicU64,
    /// The results of the next fetches of a commit.
    commits: Mutex<BTreeMap<String, Results>>,
    /// The results of each source, in order; the last one is repeated.
    sources: Mutex<BTreeMap<ContextSource, Results>>,
    requested_sources: Mutex<Vec<ContextSource>>,
    /// The secrets of a person.
    personal_secrets: Mutex<Result<Vec<String>, String>>,
    /// Why the checkout cannot be used.
    checkout_problem: Mutex<Option<WorldError>>,
}

impl World for ScriptedWorld {
    type Forge = ScriptedForge;

    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.fetch_add(1, Ordering::Relaxed))
    }

    fn forge(&self, _: &Repository, _: Option<&[u8]>) -> Result<ScriptedForge, ForgeError> {
        Ok(self.forge.clone())
    }

    async fn fetch_commit(
        &self,
        _: &Repository,
        _: &str,
        commit: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        let commit = commit.filter(|sha| sha.len() == 40).map_or(sha('d'), str::to_owned);
        let mut scripted = self.commits.lock().unwrap();
        match scripted.get_mut(&commit).and_then(VecDeque::pop_front) {
            Some(scripted_result) => scripted_result,
            None => Ok(Some(commit)),
        }
    }

    async fn checkout_problem(&self, _: &Repository) -> Option<WorldError> {
        self.checkout_problem.lock().unwrap().clone()
    }

    async fn changed_paths(
        &self,
        _: &Repository,
        _: &str,
        _: &str,
    ) -> Result<Vec<String>, WorldError> {
        Ok(Vec::new())
    }

    async fn stack_facts(&self, _: &FrozenStack, _: Option<(&Repository, &str)>) -> StackFacts {
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
        source: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        self.requested_sources.lock().unwrap().push(source);
        let mut scripted = self.sources.lock().unwrap();
        let result = match scripted.get_mut(&source) {
            Some(result) if result.len() > 1 => result.pop_front(),
            Some(result) => result.front().cloned(),
            None => None,
        };
        let text = result.unwrap_or(Ok(None))?;
        let (name, provenance) = ("a source".to_owned(), "here".to_owned());
        Ok(text.map(|text| SourcePart { source, name, provenance, text }))
    }

    async fn redactions(&self) -> Result<Vec<String>, WorldError> {
        self.personal_secrets.lock().unwrap().clone().map_err(WorldError::Records)
    }

    async fn capabilities(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }

    async fn sleep(&self, _: u64) {}

    async fn ignored(&self, _: &Repository, _: &str) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

type Plane = ControlPlane<MemoryFleet, ScriptedEngine, ScriptedWorld>;

fn document(kind: Kind, name: &str, spec: Value) -> AnyObject {
    let (api_version, metadata) = (API_VERSION.to_owned(), Metadata::named(name));
    AnyObject { api_version, kind, metadata, spec, status: Value::Null }
}

fn fleet() -> Vec<AnyObject> {
    let account = |name: &str| {
        json!({
            "serviceAccountName": name, "owner": { "kind": "agent-stack", "name": name },
            "allowedRepositories": ["acme/*"], "allowedRunnerPools": ["inside"],
        })
    };
    let pool =
        |tier: &str| json!({ "capacity": 100, "trustTier": tier, "serviceAccountRef": "runner" });
    let owned = |mut spec: Value, kind: &str, name: &str| {
        spec["owner"] = json!({ "kind": kind, "name": name });
        spec
    };
    vec![
        document(Kind::AgentServiceAccount, "fixer", account("fixer")),
        document(
            Kind::AgentServiceAccount,
            "runner",
            owned(account("runner"), "runner-pool", "inside"),
        ),
        document(Kind::RunnerPool, "inside", pool("trusted")),
        document(
            Kind::AgentToolProfile,
            "tools",
            json!({
                "nativeTools": { "shell": true, "filesystem": true },
                "filesystemPolicy": "workspace-write", "networkPolicy": { "mode": "deny" },
            }),
        ),
        document(
            Kind::AgentStack,
            "fixer",
            json!({
                "baseAgent": "claude-code", "role": "developer", "toolPolicy": "tools",
                "runnerPool": "inside", "runtimeIdentity": { "serviceAccountRef": "fixer" },
                "scope": { "filesWhitelist": ["src/**"], "filesDenylist": [] },
            }),
        ),
        document(
            Kind::Repository,
            "app",
            json!({ "fullName": "acme/app", "forge": "generic", "checkout": "/nowhere" }),
        ),
    ]
}

async fn start_plane() -> Plane {
    let store = Arc::new(MemoryFleet::default());
    let world = ScriptedWorld {
        forge: ScriptedForge::default(),
        clock: AtomicU64::new(START),
        commits: Mutex::default(),
        sources: Mutex::default(),
        requested_sources: Mutex::default(),
        personal_secrets: Mutex::new(Ok(Vec::new())),
        checkout_problem: Mutex::default(),
    };
    let plane = ControlPlane::new(store, Arc::new(ScriptedEngine::default()), Arc::new(world));
    declare(&plane, &fleet()).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    plane
}

async fn declare(plane: &Plane, documents: &[AnyObject]) {
    apply(plane.store.as_ref(), documents, "ada", plane.world.now(), false).await.unwrap();
}

/// Declares an active rule for pushes, with the given change.
async fn declare_rule(plane: &Plane, name: &str, change: impl FnOnce(&mut Value)) {
    let mut spec = json!({
        "lifecycleState": "active", "sources": ["push"], "agentStack": "fixer",
        "taskKind": "mend", "promptTemplate": "Mend it.",
    });
    change(&mut spec);
    declare(plane, &[document(Kind::AgentTriggerRule, name, spec)]).await;
}

/// Stores a webhook as the server does.
async fn receive_webhook(
    plane: &Plane,
    id: &str,
    forge: ForgeKind,
    event: &str,
    payload: &Value,
) -> String {
    let bytes = payload.to_string().into_bytes();
    let name = delivery_name("acme/app", id);
    let spec = WebhookDelivery {
        forge,
        delivery_id: id.to_owned(),
        event: event.to_owned(),
        repository: "app".to_owned(),
        payload_digest: Sha256Hex::of(&bytes).to_string(),
        bytes: bytes.len() as u64,
        received_at: plane.world.now(),
        happened_at: None,
        headers: BTreeMap::new(),
    };
    let incoming = IncomingDelivery { name: name.clone(), spec, payload: bytes };
    plane.store.receive(incoming).await.unwrap();
    name
}

/// Stores the webhook of a push to a branch of the repository itself.
async fn receive_push(plane: &Plane, id: &str, branch: &str, sha: &str) -> String {
    let payload = json!({ "bailiwick": {
        "source": "push", "ref": format!("refs/heads/{branch}"), "sha": sha, "actor": "alice",
        "headRepository": "acme/app", "trust": "trusted",
    } });
    receive_webhook(plane, id, ForgeKind::Generic, "push", &payload).await
}

async fn all<R: Resource>(plane: &Plane) -> Vec<Object<R>> {
    let page = plane.store.list(&Selection::of(R::KIND)).await.unwrap();
    page.objects.iter().map(|object| object.typed::<R>().unwrap()).collect()
}

async fn get_object<R: Resource>(plane: &Plane, name: &str) -> Object<R> {
    let found = plane.store.get(R::KIND, "default", name).await.unwrap();
    found.unwrap().typed::<R>().unwrap()
}

/// The executions of a rule, the oldest first.
async fn executions(plane: &Plane, rule: &str) -> Vec<AgentTriggerExecution> {
    let found = all::<AgentTriggerExecution>(plane).await.into_iter().map(|one| one.spec);
    found.filter(|execution| execution.trigger_rule == rule).collect()
}

async fn reconcile(plane: &Plane) {
    for _ in 0..6 {
        assert_eq!(plane.advance().await.errors, []);
    }
}

fn advance_clock(plane: &Plane, millis: u64) {
    plane.world.clock.fetch_add(millis, Ordering::Relaxed);
}

fn caller(actor: &str) -> Caller {
    Caller {
        actor: actor.to_owned(),
        scope: TokenScope::Operator,
        token: "t".to_owned(),
        correlation: "one trace".to_owned(),
        request: format!("request of {actor}"),
        at: Moment::from_millis(START + 1_000),
    }
}
