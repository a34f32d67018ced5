//! A permanent failure blocks only its own object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bailiwick_fleet::controllers::{ControlPlane, ReconcileSummary, RetryTable};
use bailiwick_fleet::ports::LifecycleVerb;
use bailiwick_fleet::ports::{
    ActionError, Applied, AuditEntry, Change, DecisionRequest, Fleet as _, FleetError, FleetStore,
    ForgeError, IncomingDelivery, Launched, LaunchedState, LifecycleRequest, MemoryFleet, Page,
    PersonRecord, Received, RunVerb, RunVerbRequest, SavedFilter, Selection, Target, TokenRecord,
    Verdict, WorkspaceRequest, World as _, Write,
};
use bailiwick_resources::{
    AgentApproval, AgentDispatchRun, AgentWorkspace, AnyObject, ApprovalPhase, Kind,
    LifecycleState, Moment, Repository, RunPhase,
};
use serde_json::json;

use crate::dispatch::{
    Plane, ScriptedEngine, ScriptedWorld, agent, all, caller, declare, document, in_state,
    only_run, reconcile, request, set_state, start_plane, work,
};

/// A workspace whose files cannot be read: its agent is unknown, but its state is active.
async fn lost_workspace(plane: &Plane) {
    let spec = json!({
        "repository": "acme/app", "workspacePath": "/nowhere/w", "ownership": "issue",
        "branch": "agent/w", "targetBranch": "main", "trustTier": "trusted", "run": "worker",
    });
    let mut lost = document(Kind::AgentWorkspace, "lost", spec);
    lost.status = json!({ "state": "active" });
    plane.store.commit(vec![Write::Create(lost)], plane.world.now()).await.unwrap();
}

/// A schedule of a missing repository.
async fn orphaned_schedule(plane: &Plane) {
    schedule(plane, "acme/gone").await;
}

async fn schedule(plane: &Plane, repository: &str) {
    let rule = document(
        Kind::AgentTriggerRule,
        "nightly",
        json!({
            "lifecycleState": "active", "sources": ["schedule"], "agentStack": "fixer",
            "taskKind": "tend", "promptTemplate": "Tend it.",
            "schedule": { "cron": "*/5 * * * *", "repository": repository },
        }),
    );
    declare(plane, &[rule]).await;
    plane.advance().await;
    plane.world.clock.fetch_add(5 * 60 * 1_000, Ordering::Relaxed);
}

fn failed_objects(summary: &ReconcileSummary) -> Vec<&str> {
    summary.errors.iter().map(|(object, _)| object.as_str()).collect()
}

#[tokio::test]
async fn failing_objects_back_off_and_all_others_continue_in_every_pass() {
    let plane = start_plane(|_| {}).await;
    lost_workspace(&plane).await;
    orphaned_schedule(&plane).await;
    let mut backoff = RetryTable::default();
    let first = plane.advance_with(&mut backoff).await;
    assert_eq!(failed_objects(&first), ["nightly", "lost"]);
    assert!(!first.store_unavailable, "no other object has to wait");
    // A run completes while the failing objects back off.
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    for _ in 0..3 {
        assert_eq!(failed_objects(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
    }
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    assert_eq!(failed_objects(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    // They are retried, with a longer wait each time.
    let mut waited = Vec::new();
    for _ in 0..8 {
        let mut seconds = 0;
        while failed_objects(&plane.advance_with(&mut backoff).await).is_empty() {
            plane.world.clock.fetch_add(1_000, Ordering::Relaxed);
            seconds += 1;
            assert!(seconds < 100);
        }
        waited.push(seconds);
    }
    assert!(waited.is_sorted(), "{waited:?}");
    assert!((1..=2).contains(&waited[0]) && (55..=61).contains(&waited[7]), "{waited:?}");
    // An object that works again is reconciled in the first pass after its backoff.
    let app = all::<Repository>(&plane).await.remove(0);
    let mut spec = serde_json::to_value(&app.spec).unwrap();
    spec["fullName"] = json!("acme/gone");
    declare(&plane, &[document(Kind::Repository, "gone", spec)]).await;
    plane.world.clock.fetch_add(120_000, Ordering::Relaxed);
    assert_eq!(failed_objects(&plane.advance_with(&mut backoff).await), ["lost"]);
}

#[tokio::test]
async fn repository_without_its_credential_has_a_fault_until_the_secret_exists() {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["pollEvery"] = json!("1m");
            object.spec["credentialRef"] = json!({ "name": "forge", "key": "token" });
        }
    })
    .await;
    reconcile(&plane).await;
    let fault = async || all::<Repository>(&plane).await.remove(0).status.fault;
    assert!(fault().await.unwrap_or_default().contains("forge/token"));
    let values = BTreeMap::from([("token".to_owned(), b"sesame sesame".to_vec())]);
    plane.store.set_secret("default", "forge", values, plane.world.now()).await.unwrap();
    plane.world.clock.fetch_add(61_000, Ordering::Relaxed);
    reconcile(&plane).await;
    assert_eq!(fault().await, None);
}

/// A repository whose forge returns this error when the work of a run is written.
async fn written_with(error: ForgeError) -> Plane {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = json!({
                "allowedTargets": ["create-branch"], "modes": { "create-branch": "auto" },
            });
        }
    })
    .await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    plane.world.forge.faults.lock().unwrap().push_back(error);
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    set_state(&plane, &agent(&plane), done);
    for _ in 0..3 {
        plane.advance().await;
    }
    plane
}

#[tokio::test]
async fn repository_has_a_fault_while_writes_to_it_fail() {
    let fault = async |plane: &Plane| all::<Repository>(plane).await.remove(0).status.fault;
    let plane = written_with(ForgeError::Unavailable("the line was cut".to_owned())).await;
    let stored_fault = fault(&plane).await;
    assert_eq!(
        stored_fault.as_deref(),
        Some("writing: the forge did not answer: the line was cut")
    );
    plane.world.clock.fetch_add(120_000, Ordering::Relaxed);
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(fault(&plane).await, None);
    let plane = written_with(ForgeError::Refused("the token may not".to_owned())).await;
    assert!(fault(&plane).await.unwrap_or_default().contains("the token may not"));
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    // An unsupported write is not a fault of the repository.
    let plane = written_with(ForgeError::Unsupported("make branches".to_owned())).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    assert_eq!(fault(&plane).await, None);
}

/// An unavailable adapter is not a changed permission: the check is repeated, and a cancel takes effect in the
/// meantime.
#[tokio::test]
async fn run_with_an_unavailable_adapter_waits_and_starts_or_is_cancelled() {
    for cancelled in [false, true] {
        let plane = start_plane(|_| {}).await;
        let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
        *plane.world.adapter_error.lock().unwrap() = Some("its program did not answer".to_owned());
        let mut backoff = RetryTable::default();
        let first = plane.advance_with(&mut backoff).await;
        assert_eq!(failed_objects(&first), [answer.run.as_str()]);
        assert!(first.errors[0].1.contains("did not answer"), "{:?}", first.errors);
        assert_eq!(failed_objects(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
        if cancelled {
            let target = Target { namespace: "default".to_owned(), name: answer.run };
            let cancel = RunVerbRequest::default();
            plane.api.act_on_run(&caller("ada"), &target, RunVerb::Cancel, cancel).await.unwrap();
            plane.advance_with(&mut backoff).await;
            assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
            continue;
        }
        *plane.world.adapter_error.lock().unwrap() = None;
        plane.world.clock.fetch_add(3_000, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(failed_objects(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
        }
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
        assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn workspace_use_is_checked_without_reading_the_attempt_state() {
    let plane = start_plane(|_| {}).await;
    lost_workspace(&plane).await;
    set_state(
        &plane,
        "worker",
        Launched { work: Some(work()), ..in_state(LaunchedState::Running) },
    );
    for _ in 0..5 {
        assert_eq!(plane.advance().await.errors, []);
    }
    assert_eq!(plane.engine.requests.load(Ordering::Relaxed), 0);
    // Positive control: when no agent uses it, the workspace is examined.
    set_state(
        &plane,
        "worker",
        Launched { work: Some(work()), ..in_state(LaunchedState::Verified) },
    );
    assert_eq!(failed_objects(&plane.advance().await), ["lost"]);
    assert_eq!(plane.engine.requests.load(Ordering::Relaxed), 0);
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 0);
}

/// A store with failures and concurrent writers.
struct FaultyStore {
    store: Arc<MemoryFleet>,
    /// Secret values cannot be decrypted.
    undecryptable: bool,
    /// How many more writes are preceded by a concurrent change of the same object.
    conflicts: AtomicUsize,
    /// The next write is preceded by the same write of another process.
    duplicate_next: AtomicBool,
    /// How many more blobs can be read.
    blob_reads_left: AtomicUsize,
    /// Whether secret grants cannot be listed.
    grants_fail: AtomicBool,
}

impl FaultyStore {
    /// The same control plane with this store.
    fn plane(
        plane: &Plane,
        undecryptable: bool,
    ) -> ControlPlane<Self, ScriptedEngine, ScriptedWorld> {
        let store = Self {
            store: Arc::clone(&plane.store),
            undecryptable,
            conflicts: AtomicUsize::new(0),
            duplicate_next: AtomicBool::new(false),
            blob_reads_left: AtomicUsize::new(usize::MAX),
            grants_fail: AtomicBool::new(false),
        };
        ControlPlane::new(Arc::new(store), Arc::clone(&plane.engine), Arc::clone(&plane.world))
    }

    async fn write_concurrently(&self, writes: &[Write], now: Moment) {
        if self.duplicate_next.swap(false, Ordering::Relaxed) {
            self.store.commit(writes.to_vec(), now).await.unwrap();
        }
        for write in writes {
            let (Write::Status(written) | Write::Replace(written)) = write else { continue };
            let decrement = |decrement: usize| decrement.checked_sub(1);
            if self.conflicts.try_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_err() {
                return;
            }
            let (namespace, name) = (&written.metadata.namespace, &written.metadata.name);
            let known = self.store.get(written.kind, namespace, name).await.unwrap().unwrap();
            self.store.commit(vec![Write::Status(known)], now).await.unwrap();
        }
    }
}

impl FleetStore for FaultyStore {
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        self.store.get(kind, namespace, name).await
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        let is_failing = self.grants_fail.load(Ordering::Relaxed);
        if is_failing && selection.kind == Kind::AgentSecretGrant {
            return Err(FleetError::Unavailable("the database is locked".to_owned()));
        }
        self.store.list(selection).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.write_concurrently(&writes, now).await;
        self.store.commit(writes, now).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.store.changes(after, limit).await
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        self.store.forget_changes(keep).await
    }

    async fn wait_for_change(&self, after: u64, millis: u64) {
        self.store.wait_for_change(after, millis).await;
    }

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        self.store.receive(delivery).await
    }

    async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let left = |left: usize| left.checked_sub(1);
        if self.blob_reads_left.try_update(Ordering::Relaxed, Ordering::Relaxed, left).is_err() {
            return Err(FleetError::Unavailable("the database is locked".to_owned()));
        }
        self.store.blob(digest).await
    }

    async fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        if !self.undecryptable {
            return self.store.secret_value(namespace, name, key).await;
        }
        let value = format!("the value `{key}` of secret `{namespace}/{name}`");
        Err(FleetError::Undecryptable { value, why: "/var/fleet.db: it is another key".to_owned() })
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        self.store.tokens().await
    }

    async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        self.store.token(digest).await
    }

    async fn people(&self) -> Result<Vec<PersonRecord>, FleetError> {
        self.store.people().await
    }

    async fn saved_filters(&self, owner: &str) -> Result<Vec<SavedFilter>, FleetError> {
        self.store.saved_filters(owner).await
    }

    async fn forget_sessions(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.store.forget_sessions(before, max).await
    }

    async fn forget_audit(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.store.forget_audit(before, max).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.store.audit(after, limit).await
    }
}

/// No run starts while secrets cannot be read; a running one ends, without its texts.
#[tokio::test]
async fn undecryptable_secret_blocks_new_runs_but_running_ones_end() {
    for cancelled in [false, true] {
        let plane = start_plane(|_| {}).await;
        let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
        reconcile(&plane).await;
        let values = BTreeMap::from([("key".to_owned(), b"the value".to_vec())]);
        plane.store.set_secret("default", "broken", values, plane.world.now()).await.unwrap();
        let undecryptable = FaultyStore::plane(&plane, true);
        let expected = if cancelled { RunPhase::Cancelled } else { RunPhase::Failed };
        if cancelled {
            let target = Target { namespace: "default".to_owned(), name: answer.run };
            let cancel = RunVerbRequest::default();
            undecryptable
                .api
                .act_on_run(&caller("ada"), &target, RunVerb::Cancel, cancel)
                .await
                .unwrap();
        } else {
            set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
        }
        for _ in 0..6 {
            assert_eq!(undecryptable.advance().await.errors, []);
        }
        let run = only_run(&plane).await;
        assert_eq!(run.status.phase, expected, "{:?}", run.status);
        let status_text = serde_json::to_string(&run.status).unwrap();
        assert!(
            !status_text.contains("as it says") && !status_text.contains("/var/fleet.db"),
            "{status_text}"
        );
        let refused = undecryptable.api.dispatch(&caller("ada"), "default", request("s")).await;
        assert!(
            matches!(refused, Err(ActionError::Store(FleetError::Undecryptable { .. }))),
            "{refused:?}"
        );
        schedule(&plane, "acme/app").await;
        let mut backoff = RetryTable::default();
        let first = undecryptable.advance_with(&mut backoff).await;
        assert_eq!(failed_objects(&first), ["nightly"], "{:?}", first.errors);
        assert!(!first.store_unavailable, "no other object has to wait");
        assert_eq!(
            failed_objects(&undecryptable.advance_with(&mut backoff).await),
            Vec::<&str>::new()
        );
        assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 1);
    }
}

/// A request is not lost because the control plane wrote to the same object at the same time.
#[tokio::test]
async fn conflicting_request_succeeds_unless_the_object_keeps_changing() {
    let plane = start_plane(|_| {}).await;
    let faulty = FaultyStore::plane(&plane, false);
    let set_conflicts = |times: usize| faulty.store.conflicts.store(times, Ordering::Relaxed);
    let answer = faulty.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let target = |name: &str| Target { namespace: "default".to_owned(), name: name.to_owned() };
    let run = target(&answer.run);
    let act = async |verb: RunVerb| {
        faulty.api.act_on_run(&caller("ada"), &run, verb, RunVerbRequest::default()).await
    };
    set_conflicts(1_000);
    let conflict = act(RunVerb::Cancel).await;
    assert!(
        matches!(conflict, Err(ActionError::Store(FleetError::Conflict { .. }))),
        "{conflict:?}"
    );
    assert!(faulty.store.conflicts.load(Ordering::Relaxed) > 900, "it is not retried forever");
    assert_eq!(only_run(&plane).await.status.cancel_requested, None);
    set_conflicts(3);
    act(RunVerb::Cancel).await.unwrap();
    assert!(only_run(&plane).await.status.cancel_requested.is_some());
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
    set_conflicts(3);
    act(RunVerb::Retry).await.unwrap();
    assert_eq!(only_run(&plane).await.status.attempts.len(), 2);
    reconcile(&plane).await;
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    set_state(&plane, &agent(&plane), done);
    reconcile(&plane).await;
    let pending = all::<AgentApproval>(&plane).await.remove(0);
    let approve = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: pending.spec.artifact_digest.clone(),
    };
    set_conflicts(3);
    let approval = target(pending.name());
    let decided = faulty.api.decide(&caller("bob"), &approval, approve.clone()).await.unwrap();
    assert_eq!(decided.phase, ApprovalPhase::Approved);
    // Each action is recorded once, however often it was retried.
    let lines = plane.store.audit(0, 1_000).await.unwrap();
    let count = |event: &str| lines.iter().filter(|(_, line)| line.event == event).count();
    for (event, times) in [
        ("AgentDispatchCancelRequested", 1),
        ("AgentDispatchQueued", 2),
        ("AgentApprovalDecision", 1),
    ] {
        assert_eq!(count(event), times, "{event}");
    }
    let second = faulty.api.decide(&caller("bob"), &approval, approve).await;
    assert!(matches!(second, Err(ActionError::Conflict { .. })), "{second:?}");
    schedule(&plane, "acme/app").await;
    let pause = LifecycleRequest {
        action: LifecycleVerb::Pause,
        reason: String::new(),
        expected_generation: None,
    };
    set_conflicts(3);
    let paused = faulty.api.set_lifecycle(&caller("ada"), &target("nightly"), pause).await.unwrap();
    assert_eq!(paused.lifecycle_state, LifecycleState::Paused);
    lost_workspace(&plane).await;
    let pin: WorkspaceRequest = serde_json::from_value(json!({ "action": "pin" })).unwrap();
    set_conflicts(3);
    faulty.api.act_on_workspace(&caller("ada"), "default", Some("lost"), pin).await.unwrap();
    let pinned = all::<AgentWorkspace>(&plane).await.into_iter().find(|one| one.name() == "lost");
    assert!(pinned.unwrap().spec.pinned);
}

/// The second of two simultaneous requests finds the run of the first and returns it.
#[tokio::test]
async fn simultaneous_equal_requests_get_the_same_run() {
    let plane = start_plane(|_| {}).await;
    let faulty = FaultyStore::plane(&plane, false);
    let write_duplicate_first = || faulty.store.duplicate_next.store(true, Ordering::Relaxed);
    write_duplicate_first();
    let answer = faulty.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    assert!(!faulty.store.duplicate_next.load(Ordering::Relaxed), "another write came first");
    assert_eq!(only_run(&plane).await.name(), answer.run);
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let run = Target { namespace: "default".to_owned(), name: answer.run };
    write_duplicate_first();
    let second = faulty
        .api
        .act_on_run(&caller("ada"), &run, RunVerb::Retry, RunVerbRequest::default())
        .await;
    let active = matches!(&second, Err(ActionError::Conflict { code, .. }) if code == "RunActive");
    assert!(active, "{second:?}");
    assert_eq!(only_run(&plane).await.status.attempts.len(), 2);
}

#[tokio::test]
async fn run_waits_while_one_of_its_approvals_cannot_be_read() {
    for (second, is_started) in [("approved", true), ("written by a newer version", false)] {
        let plane = start_plane(|_| {}).await;
        let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
        let mut run = only_run(&plane).await;
        run.status.phase = RunPhase::WaitingForApproval;
        let mut writes = vec![Write::Status(AnyObject::of(&run).unwrap())];
        for (name, phase) in [("aap-1", "approved"), ("aap-2", second)] {
            let spec = json!({
                "dispatchRun": answer.run, "requestedBy": { "kind": "agent-stack", "name": "x" },
                "action": { "type": { "class": "secret-access" }, "target": name },
                "artifactDigest": "d", "expiresAt": "2027-01-01T00:00:00Z",
            });
            let mut approval = document(Kind::AgentApproval, name, spec);
            approval.status = json!({ "phase": phase });
            writes.push(Write::Create(approval));
        }
        plane.store.commit(writes, plane.world.now()).await.unwrap();
        let mut reports_run = false;
        for _ in 0..6 {
            let summary = plane.advance().await;
            reports_run |= failed_objects(&summary).contains(&answer.run.as_str());
        }
        let launches = plane.engine.launched.lock().unwrap().len();
        assert_eq!((launches == 1, reports_run), (is_started, !is_started), "{second}");
    }
}

#[tokio::test]
async fn run_starts_after_the_store_has_failed_at_any_read_before_its_launch() {
    let mut failed_launches = 0;
    for reads in 0..12 {
        let plane = start_plane(|_| {}).await;
        let faulty = FaultyStore::plane(&plane, false);
        faulty.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
        faulty.store.blob_reads_left.store(reads, Ordering::Relaxed);
        for _ in 0..3 {
            faulty.advance().await;
        }
        let is_launched = || !plane.engine.launched.lock().unwrap().is_empty();
        let phase = async || only_run(&plane).await.status.phase;
        if phase().await == RunPhase::Running && !is_launched() {
            failed_launches += 1;
            faulty.store.grants_fail.store(true, Ordering::Relaxed);
            faulty.store.blob_reads_left.store(usize::MAX, Ordering::Relaxed);
            faulty.advance().await;
            assert!(!is_launched(), "unknown grants permit nothing");
        }
        assert!(!phase().await.is_final(), "{reads} reads");
        reconcile(&plane).await;
        assert_eq!(plane.engine.launched.lock().unwrap().len(), 1, "{reads} reads");
    }
    assert!(failed_launches > 0, "some reads belong to the launch");
}
