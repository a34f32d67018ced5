//! A forge that accepts requests and never answers: its repository waits and has a condition, and all others
//! continue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick_fleet::admission::conditions::StackFacts;
use bailiwick_fleet::admission::snapshot::FrozenStack;
use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::controllers::{ControlPlane, RetryTable};
use bailiwick_fleet::ports::{
    BackgroundWork, CheckRun, FetchError, FleetStore as _, Forge, ForgeError, IncomingDelivery,
    MemoryFleet, PullRequestState, Selection, World, WorldError, WriteBack, Written,
};
use bailiwick_fleet::resources::apply;
use bailiwick_fleet::triggers::delivery_name;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchRun, AnyObject, ConditionType, ContextSource, ForgeKind, Kind, Moment, Object,
    Reason, Repository, Resource, Standing, WebhookDelivery,
};
use serde_json::{Value, json};

use crate::dispatch::{START, ScriptedEngine, document, fleet};
use crate::plane::{SetForge, SetWorld, TIP};

/// How far the clock advances after each pass, in milliseconds. Nothing depends on the load of this machine.
const STEP: u64 = 1_000;

type OpenRequests = BTreeMap<(String, &'static str), (usize, usize)>;

/// Forges that do not answer, and the requests that wait for them.
#[derive(Default)]
struct Silence {
    silent: Mutex<BTreeSet<String>>,
    /// Open requests and their maximum at the same time, by repository and operation.
    open: Mutex<OpenRequests>,
    changed: tokio::sync::Notify,
}

impl Silence {
    fn set_state(&self, repository: &str, silent: bool) {
        let mut all = self.silent.lock().unwrap();
        match silent {
            true => all.insert(repository.to_owned()),
            false => all.remove(repository),
        };
        drop(all);
        self.changed.notify_waiters();
    }

    fn is_silent(&self, repository: &str) -> bool {
        self.silent.lock().unwrap().contains(repository)
    }

    async fn answer(&self, repository: &str, what: &'static str) {
        let _open = OpenRequest::new(self, repository, what);
        loop {
            let changed = self.changed.notified();
            if !self.is_silent(repository) {
                return;
            }
            changed.await;
        }
    }

    fn open(&self, repository: &str) -> usize {
        let all = self.open.lock().unwrap();
        all.iter().filter(|((name, _), _)| name == repository).map(|(_, (now, _))| now).sum()
    }
}

struct OpenRequest<'a>(&'a Silence, (String, &'static str));

impl<'a> OpenRequest<'a> {
    fn new(silence: &'a Silence, repository: &str, what: &'static str) -> Self {
        let key = (repository.to_owned(), what);
        let mut all = silence.open.lock().unwrap();
        let (now, max) = all.entry(key.clone()).or_default();
        *now += 1;
        *max = (*max).max(*now);
        Self(silence, key)
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.open.lock().unwrap().get_mut(&self.1).unwrap().0 -= 1;
    }
}

#[derive(Clone)]
struct SilentForge {
    inner: SetForge,
    silence: Arc<Silence>,
    repository: String,
}

impl Forge for SilentForge {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        self.inner.write(key, what).await
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        self.inner.pull_request(number).await
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        self.inner.branch(name).await
    }

    async fn issue(&self, number: u64) -> Result<(String, String), ForgeError> {
        self.inner.issue(number).await
    }

    async fn job_log(&self, job: &str, max: usize) -> Result<String, ForgeError> {
        self.inner.job_log(job, max).await
    }

    async fn account(&self) -> Result<Option<String>, ForgeError> {
        self.silence.answer(&self.repository, "account").await;
        Ok(Some("mender".to_owned()))
    }

    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        self.silence.answer(&self.repository, "checks").await;
        self.inner.checks_since(cursor).await
    }
}

/// The world of the other tests, with silent forges, timers and background work.
struct SilentWorld {
    inner: SetWorld,
    silence: Arc<Silence>,
    clock: AtomicU64,
    panics: AtomicBool,
}

impl World for SilentWorld {
    type Forge = SilentForge;

    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.load(Ordering::Relaxed))
    }

    fn forge(&self, one: &Repository, _: Option<&[u8]>) -> Result<SilentForge, ForgeError> {
        let (inner, silence) = (self.inner.forge.clone(), Arc::clone(&self.silence));
        Ok(SilentForge { inner, silence, repository: one.full_name.clone() })
    }

    async fn fetch_commit(
        &self,
        repository: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        assert!(!self.panics.load(Ordering::Relaxed), "a test panic");
        self.silence.answer(&repository.full_name, "commit").await;
        self.inner.fetch_commit(repository, reference, sha).await
    }

    async fn changed_paths(
        &self,
        one: &Repository,
        base: &str,
        head: &str,
    ) -> Result<Vec<String>, WorldError> {
        self.inner.changed_paths(one, base, head).await
    }

    async fn stack_facts(
        &self,
        frozen: &FrozenStack,
        at: Option<(&Repository, &str)>,
    ) -> StackFacts {
        self.inner.stack_facts(frozen, at).await
    }

    async fn source(
        &self,
        repository: &Object<Repository>,
        run: &AgentDispatchRun,
        source: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        self.inner.source(repository, run, source).await
    }

    async fn capabilities(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }

    async fn sleep(&self, _: u64) {}

    /// Follows the clock of this world, except for short waits within a pass.
    async fn timer(&self, millis: u64) {
        let due = self.clock.load(Ordering::Relaxed) + if millis < STEP { 0 } else { millis };
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if self.clock.load(Ordering::Relaxed) >= due {
                return;
            }
        }
    }

    fn spawn(&self, _: Option<&str>, work: BackgroundWork) -> Option<BackgroundWork> {
        tokio::spawn(work);
        None
    }

    async fn ignored(&self, _: &Repository, _: &str) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

type SilentPlane = ControlPlane<MemoryFleet, ScriptedEngine, SilentWorld>;

/// A fleet with ten repositories on forges, and a rule for their pushes.
async fn start_plane() -> SilentPlane {
    let inner = SetWorld {
        forge: SetForge::default(),
        clock: AtomicU64::new(START),
        default_tip: Mutex::new(Some(TIP.to_owned())),
        facts_requested_at: Mutex::default(),
    };
    let panics = AtomicBool::new(false);
    let world =
        SilentWorld { inner, silence: Arc::default(), clock: AtomicU64::new(START), panics };
    let store = Arc::new(MemoryFleet::default());
    let plane = ControlPlane::new(store, Arc::new(ScriptedEngine::default()), Arc::new(world));
    let mut documents = fleet(|object| {
        if object.kind == Kind::RunnerPool {
            object.spec["capacity"] = json!(100);
        }
    });
    documents.retain(|object| object.kind != Kind::Repository);
    for number in 0..10 {
        let spec = json!({
            "fullName": format!("acme/r{number}"), "forge": "gitea", "checkout": "/nowhere",
            "apiUrl": "https://forge.example/api/v1", "pollEvery": "1m",
            "credentialRef": { "name": "forge", "key": "token" },
        });
        documents.push(document(Kind::Repository, &format!("r{number}"), spec));
    }
    let spec = json!({
        "lifecycleState": "active", "sources": ["push"], "agentStack": "fixer",
        "taskKind": "mend", "promptTemplate": "Mend it.",
    });
    documents.push(document(Kind::AgentTriggerRule, "mend", spec));
    let values = BTreeMap::from([("token".to_owned(), b"sesame sesame".to_vec())]);
    plane.store.set_secret("default", "forge", values, plane.world.now()).await.unwrap();
    apply(plane.store.as_ref(), &documents, "ada", plane.world.now(), false).await.unwrap();
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    plane
}

async fn push(plane: &SilentPlane, repository: &str, id: &str) {
    let payload = json!({ "bailiwick": {
        "source": "push", "ref": "refs/heads/main", "sha": Sha256Hex::of(id).prefix(40), "actor": "alice",
        "headRepository": format!("acme/{repository}"), "trust": "trusted",
    } });
    let payload = payload.to_string().into_bytes();
    let spec = WebhookDelivery {
        repository: repository.to_owned(),
        forge: ForgeKind::Generic,
        delivery_id: id.to_owned(),
        event: "push".to_owned(),
        payload_digest: Sha256Hex::of(&payload).to_string(),
        bytes: u64::try_from(payload.len()).unwrap(),
        received_at: plane.world.now(),
        happened_at: None,
        headers: BTreeMap::new(),
    };
    let name = delivery_name(&format!("acme/{repository}"), id);
    plane.store.receive(IncomingDelivery { name, spec, payload }).await.unwrap();
}

async fn all<R: Resource>(plane: &SilentPlane) -> Vec<Object<R>> {
    let page = plane.store.list(&Selection::of(R::KIND)).await.unwrap();
    page.objects.iter().map(|object: &AnyObject| object.typed::<R>().unwrap()).collect()
}

async fn repositories_with_runs(plane: &SilentPlane) -> BTreeSet<String> {
    all::<AgentDispatchRun>(plane).await.into_iter().map(|run| run.spec.repository).collect()
}

async fn reachable(plane: &SilentPlane, name: &str) -> (Standing, Reason) {
    let all = all::<Repository>(plane).await;
    let one = all.into_iter().find(|one| one.name() == name).unwrap();
    let kind = ConditionType::ForgeReachable;
    let found = one.status.conditions.into_iter().find(|one| one.kind == kind).unwrap();
    (found.status, found.reason)
}

/// Runs passes until the condition is met.
async fn until(
    plane: &SilentPlane,
    retries: &mut RetryTable,
    what: &str,
    met: impl AsyncFn() -> bool,
) {
    for _ in 0..2_000 {
        plane.advance_with(retries).await;
        plane.world.clock.fetch_add(STEP, Ordering::Relaxed);
        if met().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the condition was not met: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_forge_blocks_no_other_repository_and_has_its_own_condition() {
    let plane = start_plane().await;
    let mut retries = RetryTable::default();
    let silence = Arc::clone(&plane.world.silence);
    silence.set_state("acme/r0", true);
    for number in 0..10 {
        push(&plane, &format!("r{number}"), "first").await;
    }
    let others: BTreeSet<String> = (1..10).map(|number| format!("acme/r{number}")).collect();
    until(&plane, &mut retries, "nine runs", async || {
        repositories_with_runs(&plane).await == others
    })
    .await;
    assert!(silence.open("acme/r0") > 0, "its requests are still open");
    // The condition is set while the request is open.
    let slow = (Standing::False, Reason::ForgeSlow);
    until(&plane, &mut retries, "the condition", async || {
        let open = silence.open("acme/r0") > 0;
        reachable(&plane, "r0").await == slow && open
    })
    .await;
    // More events of the others become runs, and no request is sent twice at the same time.
    for round in 0..2 {
        for number in 0..10 {
            push(&plane, &format!("r{number}"), &format!("again-{round}")).await;
        }
        let expected = 9 * (round + 2);
        until(&plane, &mut retries, "more runs", async || {
            all::<AgentDispatchRun>(&plane).await.len() == expected
        })
        .await;
    }
    assert_eq!(repositories_with_runs(&plane).await, others);
    let max: Vec<usize> = silence.open.lock().unwrap().values().map(|(_, max)| *max).collect();
    assert!(max.iter().all(|max| *max == 1), "{:?}", silence.open.lock().unwrap());
    let good = (Standing::True, Reason::ForgeAnswers);
    for number in 1..10 {
        assert_eq!(reachable(&plane, &format!("r{number}")).await, good);
    }
    silence.set_state("acme/r0", false);
    until(&plane, &mut retries, "all runs and a good condition", async || {
        all::<AgentDispatchRun>(&plane).await.len() == 30 && reachable(&plane, "r0").await == good
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_panics_is_reported_and_retried() {
    let plane = start_plane().await;
    let mut retries = RetryTable::default();
    plane.world.panics.store(true, Ordering::Relaxed);
    push(&plane, "r3", "first").await;
    let mut reported = false;
    for _ in 0..2_000 {
        let errors = plane.advance_with(&mut retries).await.errors;
        reported |= errors.iter().any(|(_, why)| why.contains("ended unexpectedly"));
        if reported {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(reported);
    plane.world.panics.store(false, Ordering::Relaxed);
    until(&plane, &mut retries, "its run", async || {
        repositories_with_runs(&plane).await.len() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stack_keeps_the_last_known_tip_of_a_silent_forge_and_no_fetch_is_sent_twice() {
    let plane = start_plane().await;
    let requested = || plane.world.inner.facts_requested_at.lock().unwrap().clone();
    assert_eq!(requested(), [TIP]);
    plane.world.silence.set_state("acme/r0", true);
    *plane.world.inner.default_tip.lock().unwrap() = Some("3".repeat(40));
    for _ in 0..2 {
        // The pass waits for the forge until its deadline, by the clock of this world.
        let pass = plane.reconcile_statuses();
        let clock = async {
            for _ in 0..2_000 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                plane.world.clock.fetch_add(STEP, Ordering::Relaxed);
            }
        };
        tokio::select! {
            summary = pass => assert_eq!(summary.errors, []),
            () = clock => panic!("the pass waits for a silent forge"),
        }
    }
    assert_eq!(requested(), [TIP, TIP, TIP]);
    let open = plane.world.silence.open.lock().unwrap()[&("acme/r0".to_owned(), "commit")];
    assert_eq!(open, (1, 1));
    plane.world.silence.set_state("acme/r0", false);
    for _ in 0..2_000 {
        assert_eq!(plane.reconcile_statuses().await.errors, []);
        if requested().last().unwrap() == &"3".repeat(40) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the new tip was not used");
}
