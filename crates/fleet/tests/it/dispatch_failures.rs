//! A trouble that stands holds up itself, and nobody else.

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
    Plane, Scripted, Stood, agent, all, caller, declare, document, only_run, request, set, stand,
    standing, turn, work,
};

/// Whose files nobody can look at: an agent that is not ours any more, in a workspace that is called active.
async fn lost_workspace(plane: &Plane) {
    let spec = json!({
        "repository": "acme/app", "workspacePath": "/nowhere/w", "ownership": "issue",
        "branch": "agent/w", "targetBranch": "main", "trustTier": "trusted", "run": "worker",
    });
    let mut lost = document(Kind::AgentWorkspace, "lost", spec);
    lost.status = json!({ "state": "active" });
    plane.store.commit(vec![Write::Create(lost)], plane.world.now()).await.unwrap();
}

/// A schedule of a repository that is not there.
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

fn about(turn: &ReconcileSummary) -> Vec<&str> {
    turn.errors.iter().map(|(about, _)| about.as_str()).collect()
}

#[tokio::test]
async fn what_has_trouble_rests_longer_each_time_and_others_go_on_in_every_turn() {
    let plane = stand(|_| {}).await;
    lost_workspace(&plane).await;
    orphaned_schedule(&plane).await;
    let mut backoff = RetryTable::default();
    let first = plane.advance_with(&mut backoff).await;
    assert_eq!(about(&first), ["nightly", "lost"]);
    assert!(!first.store_unavailable, "nobody has to wait for them");
    // A run goes through all of its turns while they rest.
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    for _ in 0..3 {
        assert_eq!(about(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
    }
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    assert_eq!(about(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    // They are tried again, later each time.
    let mut waited = Vec::new();
    for _ in 0..8 {
        let mut seconds = 0;
        while about(&plane.advance_with(&mut backoff).await).is_empty() {
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
    assert_eq!(about(&plane.advance_with(&mut backoff).await), ["lost"]);
}

#[tokio::test]
async fn a_repository_without_its_credential_is_polled_when_it_has_one_and_says_so_meanwhile() {
    let plane = stand(|object| {
        if object.kind == Kind::Repository {
            object.spec["pollEvery"] = json!("1m");
            object.spec["credentialRef"] = json!({ "name": "forge", "key": "token" });
        }
    })
    .await;
    turn(&plane).await;
    let fault = async || all::<Repository>(&plane).await.remove(0).status.fault;
    assert!(fault().await.unwrap_or_default().contains("forge/token"));
    let values = BTreeMap::from([("token".to_owned(), b"sesame sesame".to_vec())]);
    plane.store.set_secret("default", "forge", values, plane.world.now()).await.unwrap();
    plane.world.clock.fetch_add(61_000, Ordering::Relaxed);
    turn(&plane).await;
    assert_eq!(fault().await, None);
}

/// A repository whose forge answers this when the work of a run is written to it.
async fn written_with(answers: ForgeError) -> Plane {
    let plane = stand(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = json!({
                "allowedTargets": ["create-branch"], "modes": { "create-branch": "auto" },
            });
        }
    })
    .await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    plane.world.forge.faults.lock().unwrap().push_back(answers);
    let done = Launched { work: Some(work()), ..standing(LaunchedState::Verified) };
    set(&plane, &agent(&plane), done);
    for _ in 0..3 {
        plane.advance().await;
    }
    plane
}

#[tokio::test]
async fn a_repository_says_that_it_cannot_be_written_to_until_it_can() {
    let fault = async |plane: &Plane| all::<Repository>(plane).await.remove(0).status.fault;
    let plane = written_with(ForgeError::Unavailable("the line was cut".to_owned())).await;
    let told = fault(&plane).await;
    assert_eq!(told.as_deref(), Some("writing: the forge did not answer: the line was cut"));
    plane.world.clock.fetch_add(120_000, Ordering::Relaxed);
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(fault(&plane).await, None);
    let plane = written_with(ForgeError::Refused("the token may not".to_owned())).await;
    assert!(fault(&plane).await.unwrap_or_default().contains("the token may not"));
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    // What it cannot do at all is no fault of its.
    let plane = written_with(ForgeError::Unsupported("make branches".to_owned())).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    assert_eq!(fault(&plane).await, None);
}

/// What nobody can tell just now is no change of what was permitted: it is asked again, and a cancel is not slept
/// through meanwhile.
#[tokio::test]
async fn a_run_of_which_nobody_can_tell_waits_and_starts_or_is_cancelled() {
    for cancelled in [false, true] {
        let plane = stand(|_| {}).await;
        let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
        *plane.world.silent.lock().unwrap() = Some("its program did not answer".to_owned());
        let mut backoff = RetryTable::default();
        let first = plane.advance_with(&mut backoff).await;
        assert_eq!(about(&first), [answer.run.as_str()]);
        assert!(first.errors[0].1.contains("did not answer"), "{:?}", first.errors);
        assert_eq!(about(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Queued);
        if cancelled {
            let target = Target { namespace: "default".to_owned(), name: answer.run };
            let cancel = RunVerbRequest::default();
            plane.api.act_on_run(&caller("ada"), &target, RunVerb::Cancel, cancel).await.unwrap();
            plane.advance_with(&mut backoff).await;
            assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
            continue;
        }
        *plane.world.silent.lock().unwrap() = None;
        plane.world.clock.fetch_add(3_000, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(about(&plane.advance_with(&mut backoff).await), Vec::<&str>::new());
        }
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
        assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn whether_anybody_is_in_a_workspace_is_asked_without_asking_what_came_of_it() {
    let plane = stand(|_| {}).await;
    lost_workspace(&plane).await;
    set(&plane, "worker", Launched { work: Some(work()), ..standing(LaunchedState::Running) });
    for _ in 0..5 {
        assert_eq!(plane.advance().await.errors, []);
    }
    assert_eq!(plane.engine.asked.load(Ordering::Relaxed), 0);
    // The control: once nobody holds it, it is looked at.
    set(&plane, "worker", Launched { work: Some(work()), ..standing(LaunchedState::Verified) });
    assert_eq!(about(&plane.advance().await), ["lost"]);
    assert_eq!(plane.engine.asked.load(Ordering::Relaxed), 0);
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 0);
}

/// Another's store, in which things are not as one would like.
struct Odd {
    store: Arc<MemoryFleet>,
    /// No value of a secret can be opened.
    sealed: bool,
    /// How many more times somebody else changes what is written, just before it is.
    meddled: AtomicUsize,
    /// Somebody else writes the same first, the next time.
    doubled: AtomicBool,
    /// Whether no blob can be read now.
    blobs_fail: AtomicBool,
}

impl Odd {
    /// The same control plane, over this store.
    fn plane(plane: &Plane, sealed: bool) -> ControlPlane<Self, Scripted, Stood> {
        let store = Self {
            store: Arc::clone(&plane.store),
            sealed,
            meddled: AtomicUsize::new(0),
            doubled: AtomicBool::new(false),
            blobs_fail: AtomicBool::new(false),
        };
        ControlPlane::new(Arc::new(store), Arc::clone(&plane.engine), Arc::clone(&plane.world))
    }

    async fn meddle(&self, writes: &[Write], now: Moment) {
        if self.doubled.swap(false, Ordering::Relaxed) {
            self.store.commit(writes.to_vec(), now).await.unwrap();
        }
        for write in writes {
            let (Write::Status(given) | Write::Replace(given)) = write else { continue };
            let left = |left: usize| left.checked_sub(1);
            if self.meddled.try_update(Ordering::Relaxed, Ordering::Relaxed, left).is_err() {
                return;
            }
            let (namespace, name) = (&given.metadata.namespace, &given.metadata.name);
            let known = self.store.get(given.kind, namespace, name).await.unwrap().unwrap();
            self.store.commit(vec![Write::Status(known)], now).await.unwrap();
        }
    }
}

impl FleetStore for Odd {
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        self.store.get(kind, namespace, name).await
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        self.store.list(selection).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.meddle(&writes, now).await;
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
        if self.blobs_fail.load(Ordering::Relaxed) {
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
        if !self.sealed {
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

    async fn forget_sessions(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        self.store.forget_sessions(before, most).await
    }

    async fn forget_audit(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        self.store.forget_audit(before, most).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.store.audit(after, limit).await
    }
}

/// Nothing is begun while nobody knows what is secret; what was begun ends, without its words.
#[tokio::test]
async fn a_value_that_cannot_be_opened_stops_no_ending_and_is_no_store_that_is_away() {
    for cancelled in [false, true] {
        let plane = stand(|_| {}).await;
        let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
        turn(&plane).await;
        let values = BTreeMap::from([("key".to_owned(), b"the value".to_vec())]);
        plane.store.set_secret("default", "broken", values, plane.world.now()).await.unwrap();
        let sealed = Odd::plane(&plane, true);
        let expected = if cancelled { RunPhase::Cancelled } else { RunPhase::Failed };
        if cancelled {
            let target = Target { namespace: "default".to_owned(), name: answer.run };
            let cancel = RunVerbRequest::default();
            sealed.api.act_on_run(&caller("ada"), &target, RunVerb::Cancel, cancel).await.unwrap();
        } else {
            set(&plane, &agent(&plane), standing(LaunchedState::Failed));
        }
        for _ in 0..6 {
            assert_eq!(sealed.advance().await.errors, []);
        }
        let run = only_run(&plane).await;
        assert_eq!(run.status.phase, expected, "{:?}", run.status);
        let told = serde_json::to_string(&run.status).unwrap();
        assert!(!told.contains("as it says") && !told.contains("/var/fleet.db"), "{told}");
        let refused = sealed.api.dispatch(&caller("ada"), "default", request("s")).await;
        assert!(
            matches!(refused, Err(ActionError::Store(FleetError::Undecryptable { .. }))),
            "{refused:?}"
        );
        schedule(&plane, "acme/app").await;
        let mut backoff = RetryTable::default();
        let first = sealed.advance_with(&mut backoff).await;
        assert_eq!(about(&first), ["nightly"], "{:?}", first.errors);
        assert!(!first.store_unavailable, "nobody else has to wait");
        assert_eq!(about(&sealed.advance_with(&mut backoff).await), Vec::<&str>::new());
        assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 1);
    }
}

/// What somebody asks for is not lost because the control plane wrote to the same object at that moment.
#[tokio::test]
async fn conflicting_request_succeeds_unless_the_object_keeps_changing() {
    let plane = stand(|_| {}).await;
    let odd = Odd::plane(&plane, false);
    let meddle = |times: usize| odd.store.meddled.store(times, Ordering::Relaxed);
    let answer = odd.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    let target = |name: &str| Target { namespace: "default".to_owned(), name: name.to_owned() };
    let run = target(&answer.run);
    let act = async |verb: RunVerb| {
        odd.api.act_on_run(&caller("ada"), &run, verb, RunVerbRequest::default()).await
    };
    meddle(1_000);
    let never = act(RunVerb::Cancel).await;
    assert!(matches!(never, Err(ActionError::Store(FleetError::Conflict { .. }))), "{never:?}");
    assert!(odd.store.meddled.load(Ordering::Relaxed) > 900, "it is not tried for ever");
    assert_eq!(only_run(&plane).await.status.cancel_requested, None);
    meddle(3);
    act(RunVerb::Cancel).await.unwrap();
    assert!(only_run(&plane).await.status.cancel_requested.is_some());
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
    meddle(3);
    act(RunVerb::Retry).await.unwrap();
    assert_eq!(only_run(&plane).await.status.attempts.len(), 2);
    turn(&plane).await;
    let done = Launched { work: Some(work()), ..standing(LaunchedState::Verified) };
    set(&plane, &agent(&plane), done);
    turn(&plane).await;
    let asked = all::<AgentApproval>(&plane).await.remove(0);
    let yes = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: asked.spec.artifact_digest.clone(),
    };
    meddle(3);
    let approval = target(asked.name());
    let decided = odd.api.decide(&caller("bob"), &approval, yes.clone()).await.unwrap();
    assert_eq!(decided.phase, ApprovalPhase::Approved);
    // Each was done once, however often it was tried.
    let lines = plane.store.audit(0, 1_000).await.unwrap();
    let count = |event: &str| lines.iter().filter(|(_, line)| line.event == event).count();
    for (event, times) in [
        ("AgentDispatchCancelRequested", 1),
        ("AgentDispatchQueued", 2),
        ("AgentApprovalDecision", 1),
    ] {
        assert_eq!(count(event), times, "{event}");
    }
    let twice = odd.api.decide(&caller("bob"), &approval, yes).await;
    assert!(matches!(twice, Err(ActionError::Conflict { .. })), "{twice:?}");
    schedule(&plane, "acme/app").await;
    let pause = LifecycleRequest {
        action: LifecycleVerb::Pause,
        reason: String::new(),
        expected_generation: None,
    };
    meddle(3);
    let paused = odd.api.set_lifecycle(&caller("ada"), &target("nightly"), pause).await.unwrap();
    assert_eq!(paused.lifecycle_state, LifecycleState::Paused);
    lost_workspace(&plane).await;
    let pin: WorkspaceRequest = serde_json::from_value(json!({ "action": "pin" })).unwrap();
    meddle(3);
    odd.api.act_on_workspace(&caller("ada"), "default", Some("lost"), pin).await.unwrap();
    let pinned = all::<AgentWorkspace>(&plane).await.into_iter().find(|one| one.name() == "lost");
    assert!(pinned.unwrap().spec.pinned);
}

/// The second of two simultaneous requests finds the run of the first one, and returns it.
#[tokio::test]
async fn simultaneous_equal_requests_get_the_same_run() {
    let plane = stand(|_| {}).await;
    let odd = Odd::plane(&plane, false);
    let double = || odd.store.doubled.store(true, Ordering::Relaxed);
    double();
    let answer = odd.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    assert!(!odd.store.doubled.load(Ordering::Relaxed), "somebody was first");
    assert_eq!(only_run(&plane).await.name(), answer.run);
    turn(&plane).await;
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    let run = Target { namespace: "default".to_owned(), name: answer.run };
    double();
    let second =
        odd.api.act_on_run(&caller("ada"), &run, RunVerb::Retry, RunVerbRequest::default()).await;
    let active = matches!(&second, Err(ActionError::Conflict { code, .. }) if code == "RunActive");
    assert!(active, "{second:?}");
    assert_eq!(only_run(&plane).await.status.attempts.len(), 2);
}

#[tokio::test]
async fn run_waits_while_one_of_its_approvals_cannot_be_read() {
    for (second, is_started) in [("approved", true), ("written by a newer version", false)] {
        let plane = stand(|_| {}).await;
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
            reports_run |= about(&summary).contains(&answer.run.as_str());
        }
        let launches = plane.engine.launched.lock().unwrap().len();
        assert_eq!((launches == 1, reports_run), (is_started, !is_started), "{second}");
    }
}

#[tokio::test]
async fn run_starts_after_the_store_has_failed_while_it_was_launched() {
    let plane = stand(|_| {}).await;
    let odd = Odd::plane(&plane, false);
    odd.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    odd.store.blobs_fail.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        odd.advance().await;
    }
    let run = only_run(&plane).await;
    assert_eq!((run.status.phase, run.status.attempts.len()), (RunPhase::Running, 1));
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 0);
    odd.store.blobs_fail.store(false, Ordering::Relaxed);
    turn(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
}
