//! Retention: which objects are deleted, compared with a simple statement of the rules over random fleets.

use std::collections::BTreeSet;

use bailiwick_fleet::controllers::Retention;
use bailiwick_fleet::ports::{
    FleetStore as _, MemoryFleet, Selection, TokenRecord, TokenScope, Write, named_digests,
};
use bailiwick_resources::{
    AgentApproval, AgentDispatchRun, AgentSession, AgentTriggerExecution, AgentWorkspace,
    AnyObject, ApprovalPhase, Kind, Metadata, Moment, RunPhase, Span, WebhookDelivery,
    WorkItemSessionLink,
};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;
use serde_json::{Value, json};

const DAY: u64 = 86_400_000;
const NOW: u64 = 1_794_000_000_000;
const KEEP: u64 = 20 * DAY;
/// The number of different digests.
const DIGESTS: usize = 60;
/// Executions are kept this long to recognise duplicates.
const WINDOW: u64 = 30 * DAY;

fn ago(days: u64) -> Moment {
    Moment::from_millis(NOW - days * DAY)
}

fn object(kind: Kind, name: String, spec: Value, status: Value) -> AnyObject {
    let api_version = "bailiwick.dev/v1alpha1".to_owned();
    AnyObject { api_version, kind, metadata: Metadata::named(name), spec, status }
}

fn digest(random: &mut Random) -> String {
    format!("{:064x}", random.below(DIGESTS))
}

/// The age in days, and the object.
type AgedObject = (u64, AnyObject);

fn run(random: &mut Random, number: usize, all: &mut Vec<AgedObject>) {
    let (name, agent) = (format!("adr-{number}"), format!("ada-{number}-1"));
    let age = random.below(60) as u64;
    let ended = ago(random.below(age as usize + 1) as u64);
    let phase = RunPhase::ALL[random.below(RunPhase::ALL.len())];
    let phase = if random.once_in(2) { RunPhase::Succeeded } else { phase };
    let mut spec = json!({
        "repository": "acme/app", "ref": "refs/heads/main", "sha": "0".repeat(40),
        "sourceEvent": { "source": "manual", "uid": name }, "agentStack": "fixer",
        "taskKind": "repair", "runnerPool": "inside", "trustTier": "trusted",
    });
    if random.once_in(4) {
        spec["parentRun"] = json!(format!("adr-{}", random.below(number + 1)));
    }
    let mut status = json!({ "phase": phase, "attempts": [agent], "agentMuxRunId": agent });
    if phase.is_final() {
        status["completedAt"] = json!(ended);
    }
    let attempt = json!({ "agentDispatchRun": name, "launch": digest(random) });
    all.push((age, object(Kind::AgentDispatchAttempt, agent.clone(), attempt, json!({}))));
    let sources = json!([{ "digest": digest(random) }, { "digest": digest(random) }]);
    let bundle = json!({ "dispatchRun": name, "sources": sources });
    all.push((age, object(Kind::AgentContextBundle, format!("b-{number}"), bundle, json!({}))));
    if random.once_in(3) {
        let spec = json!({
            "dispatchRun": name, "requestedBy": { "kind": "agent-stack", "name": "fixer" },
            "action": { "type": { "class": "tool-call" }, "target": "x", "summary": "y" },
            "policyReasons": [], "artifactRefs": [], "artifactDigest": digest(random),
            "expiresAt": ago(0),
        });
        let phase = if random.once_in(3) { "pending" } else { "approved" };
        let status = json!({ "phase": phase });
        all.push((age, object(Kind::AgentApproval, format!("p-{number}"), spec, status)));
    }
    if random.once_in(2) {
        let session = format!("s-{number}");
        let spec = json!({ "agentMuxSessionId": session, "dispatchRun": name, "adapter": "x" });
        all.push((age, object(Kind::AgentSession, session.clone(), spec, json!({}))));
        for part in 0..random.below(3) {
            const LINK_SOURCES: [&str; 8] = [
                "automation-derived",
                "automation-derived",
                "automation-derived",
                "created-from-work-item",
                "created-from-work-item",
                "created-from-work-item",
                "linked-session",
                "linked-existing-workspace",
            ];
            let spec = json!({
                "workItemRef": { "kind": "issue", "repository": "acme/app", "id": "7" },
                "sessionRef": session, "linkSource": LINK_SOURCES[random.below(LINK_SOURCES.len())],
                "createdBy": "ada", "runRefs": [name],
            });
            let link = format!("l-{number}-{part}");
            all.push((age, object(Kind::WorkItemSessionLink, link, spec, json!({}))));
        }
    }
    if random.once_in(4) {
        let spec = json!({
            "repository": "acme/app", "workspacePath": "/w", "ownership": "host", "branch": "b",
            "targetBranch": "main", "trustTier": "trusted", "pinned": random.once_in(2), "run": agent,
        });
        let state = if random.once_in(3) { "active" } else { "archived" };
        let status = json!({ "state": state });
        all.push((age, object(Kind::AgentWorkspace, format!("w-{number}"), spec, status)));
    }
    all.push((age, object(Kind::AgentDispatchRun, name, spec, status)));
}

fn delivery(random: &mut Random, number: usize, runs: usize, all: &mut Vec<AgedObject>) {
    let age = random.below(60) as u64;
    let mut executions = Vec::new();
    for part in 0..random.below(3) {
        let name = format!("e-{number}-{part}");
        let mut spec = json!({
            "triggerRule": "r", "ruleGeneration": 1, "source": "ci", "eventUid": name,
            "sourceRefs": {}, "trustTier": "trusted", "decision": "created", "reason": "",
            "at": ago(age),
        });
        if random.once_in(2) {
            spec["dispatchRun"] = json!(format!("adr-{}", random.below(runs + 3)));
        }
        all.push((age, object(Kind::AgentTriggerExecution, name.clone(), spec, json!({}))));
        executions.push(name);
    }
    let spec = json!({
        "forge": "gitea", "deliveryId": format!("{number}"), "event": "push", "repository": "app",
        "payloadDigest": digest(random), "bytes": 1, "receivedAt": ago(age), "headers": {},
    });
    let status = json!({ "evaluated": !random.once_in(4), "executions": executions });
    all.push((age, object(Kind::WebhookDelivery, format!("d-{number}"), spec, status)));
}

/// The rules for what is kept, over all objects at once.
struct Rules<'a>(&'a [AnyObject]);

impl Rules<'_> {
    fn of(&self, kind: Kind) -> impl Iterator<Item = &AnyObject> {
        self.0.iter().filter(move |object| object.kind == kind)
    }

    fn is_active(&self, run: &str) -> bool {
        let found = self.of(Kind::AgentDispatchRun).find(|object| object.metadata.name == run);
        found.is_some_and(|run| !run.typed::<AgentDispatchRun>().unwrap().status.phase.is_final())
    }

    /// The run of the session of a link.
    fn run_of(&self, link: &AnyObject) -> Option<String> {
        let session = link.typed::<WorkItemSessionLink>().unwrap().spec.session_ref;
        let session = self.of(Kind::AgentSession).find(|one| one.metadata.name == session)?;
        Some(session.typed::<AgentSession>().unwrap().spec.dispatch_run)
    }

    fn keeps_run(&self, name: &str) -> bool {
        let runs = self.of(Kind::AgentDispatchRun);
        let runs: Vec<_> = runs.map(|run| run.typed::<AgentDispatchRun>().unwrap()).collect();
        let Some(run) = runs.iter().find(|run| run.name() == name) else { return false };
        let ended = run.status.completed_at.map_or(NOW, Moment::millis);
        let has_pending_approval = self.of(Kind::AgentApproval).any(|one| {
            let one = one.typed::<AgentApproval>().unwrap();
            one.spec.dispatch_run == name && one.status.phase == ApprovalPhase::Pending
        });
        let has_active_relative =
            run.spec.parent_run.as_deref().is_some_and(|parent| self.is_active(parent))
                || runs.iter().any(|child| {
                    child.spec.parent_run.as_deref() == Some(name) && self.is_active(child.name())
                });
        let has_used_workspace = self.of(Kind::AgentWorkspace).any(|one| {
            let active = one.status["state"] == "active";
            let one = one.typed::<AgentWorkspace>().unwrap();
            one.spec.run == run.status.ledger_run_id && (one.spec.pinned || active)
        });
        // An automatic link does not keep a run.
        let is_linked_by_hand = self.of(Kind::WorkItemSessionLink).any(|link| {
            let by_hand = link.spec["linkSource"].as_str().unwrap().starts_with("linked-");
            by_hand && self.run_of(link).as_deref() == Some(name)
        });
        let is_expired = run.status.phase.is_final() && NOW - ended >= KEEP;
        !is_expired
            || has_pending_approval
            || has_active_relative
            || has_used_workspace
            || is_linked_by_hand
    }

    fn keeps_execution(&self, object: &AnyObject) -> bool {
        let execution = object.typed::<AgentTriggerExecution>().unwrap().spec;
        let is_recent = NOW - execution.at.millis() < KEEP.max(WINDOW);
        is_recent || execution.dispatch_run.is_some_and(|run| self.keeps_run(&run))
    }

    fn keeps(&self, object: &AnyObject) -> bool {
        let text = |name: &str| object.spec[name].as_str().unwrap_or_default();
        if object.kind == Kind::AgentDispatchRun {
            self.keeps_run(&object.metadata.name)
        } else if object.kind == Kind::AgentDispatchAttempt {
            self.keeps_run(text("agentDispatchRun"))
        } else if object.kind == Kind::AgentTriggerExecution {
            self.keeps_execution(object)
        } else if object.kind == Kind::WebhookDelivery {
            let delivery = object.typed::<WebhookDelivery>().unwrap();
            let is_recent = NOW - delivery.spec.received_at.millis() < KEEP;
            let needed = self.of(Kind::AgentTriggerExecution).any(|one| {
                delivery.status.executions.contains(&one.metadata.name) && self.keeps_execution(one)
            });
            !delivery.status.evaluated || is_recent || needed
        } else if object.kind == Kind::WorkItemSessionLink {
            self.run_of(object).is_none_or(|run| self.keeps_run(&run))
        } else if object.spec["dispatchRun"].is_string() {
            self.keeps_run(text("dispatchRun"))
        } else {
            true
        }
    }
}

async fn all_objects(store: &MemoryFleet) -> Vec<AnyObject> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let selection = Selection { limit: usize::MAX, ..Selection::of(*kind) };
        all.extend(store.list(&selection).await.unwrap().objects);
    }
    all
}

fn names<'a>(objects: impl IntoIterator<Item = &'a AnyObject>) -> BTreeSet<String> {
    let name = |object: &AnyObject| format!("{}/{}", object.kind, object.metadata.name);
    objects.into_iter().map(name).collect()
}

/// Prunes until several rounds delete nothing; returns the forgotten runs of the ledger.
async fn prune(store: &MemoryFleet) -> BTreeSet<String> {
    let span = Span::from_millis;
    let mut retention = Retention::new(span(KEEP), span(KEEP));
    let (mut agents, mut rounds_without_deletion) = (BTreeSet::new(), 0);
    while rounds_without_deletion < 6 {
        let pruned = retention.portion(store, Moment::from_millis(NOW)).await.unwrap();
        rounds_without_deletion = if pruned.count == 0 { rounds_without_deletion + 1 } else { 0 };
        agents.extend(pruned.agents);
    }
    agents
}

async fn fleet(mut aged_objects: Vec<AgedObject>, digests: usize) -> MemoryFleet {
    let store = MemoryFleet::default();
    for number in 0..digests {
        let blob = Write::Blob { digest: format!("{number:064x}"), bytes: b"bytes".to_vec() };
        store.commit(vec![blob], ago(60)).await.unwrap();
    }
    // In the order of their creation: older objects are listed first.
    aged_objects.sort_by_key(|(age, _)| std::cmp::Reverse(*age));
    for day in aged_objects.chunk_by(|one, next| one.0 == next.0) {
        let writes = day.iter().map(|(_, object)| Write::Create(object.clone())).collect();
        store.commit(writes, ago(day[0].0)).await.unwrap();
    }
    store
}

#[tokio::test]
async fn retention_deletes_and_keeps_what_the_rules_say() {
    let mut random = Random::rotating("retention");
    let (mut deleted, mut retained, mut deleted_blobs) = (0, 0, 0);
    for case in 0..Depth::from_env().cases(40) {
        let mut aged_objects = Vec::new();
        // The first case has many runs in any case.
        let runs = if case == 0 { 40 } else { 1 + random.below(40) };
        for number in 0..runs {
            run(&mut random, number, &mut aged_objects);
        }
        for number in 0..random.below(30) {
            delivery(&mut random, number, runs, &mut aged_objects);
        }
        // A blob that was never named is kept, because nothing says that it is obsolete.
        let store = fleet(aged_objects, DIGESTS + 1).await;
        let before = all_objects(&store).await;
        let agents = prune(&store).await;
        let rules = Rules(&before);
        let expected = names(before.iter().filter(|object| rules.keeps(object)));
        let after = all_objects(&store).await;
        assert_eq!(names(&after), expected);
        let named: BTreeSet<String> = after.iter().flat_map(named_digests).collect();
        let named_before: BTreeSet<String> = before.iter().flat_map(named_digests).collect();
        for number in 0..=DIGESTS {
            let digest = format!("{number:064x}");
            let is_expected = named.contains(&digest) || !named_before.contains(&digest);
            assert_eq!(store.blob(&digest).await.unwrap().is_some(), is_expected, "{digest}");
            deleted_blobs += usize::from(!is_expected);
        }
        let deleted_attempts = before
            .iter()
            .filter(|object| object.kind == Kind::AgentDispatchAttempt && !rules.keeps(object));
        let expected: BTreeSet<String> =
            deleted_attempts.map(|attempt| attempt.metadata.name.clone()).collect();
        assert_eq!(agents, expected);
        retained += after.len();
        deleted += before.len() - after.len();
    }
    assert!(
        deleted > 20 && retained > 20 && deleted_blobs > 0,
        "{deleted} {retained} {deleted_blobs}"
    );
}

/// More kept objects than one batch reads.
#[tokio::test]
async fn kept_objects_do_not_block_the_deletion_of_others() {
    let mut aged_objects = Vec::new();
    for number in 0..120 {
        let (name, agent) = (format!("adr-{number}"), format!("ada-{number}-1"));
        let spec = json!({
            "repository": "acme/app", "ref": "refs/heads/main", "sha": "0".repeat(40),
            "sourceEvent": { "source": "manual", "uid": name }, "agentStack": "fixer",
            "taskKind": "repair", "runnerPool": "inside", "trustTier": "trusted",
        });
        let status = json!({ "phase": "failed", "attempts": [agent], "completedAt": ago(50) });
        aged_objects.push((50, object(Kind::AgentDispatchRun, name, spec, status)));
        if number < 110 {
            let spec = json!({
                "repository": "acme/app", "workspacePath": "/w", "ownership": "host",
                "branch": "b", "targetBranch": "main", "trustTier": "trusted", "pinned": true,
                "run": agent,
            });
            let name = format!("w-{number}");
            aged_objects.push((50, object(Kind::AgentWorkspace, name, spec, json!({}))));
        }
    }
    let store = fleet(aged_objects, 0).await;
    assert_eq!(prune(&store).await.len(), 10);
    let selection = Selection::of(Kind::AgentDispatchRun);
    assert_eq!(store.list(&selection).await.unwrap().objects.len(), 110);
}

#[tokio::test]
async fn sign_in_is_deleted_a_day_after_it_expired_and_a_token_is_kept() {
    let store = MemoryFleet::default();
    let hours = |count: u64| Some(Moment::from_millis(NOW - count * 3_600_000));
    let tokens = [
        ("session-old", hours(25)),
        ("session-young", hours(23)),
        ("session-valid", Some(Moment::from_millis(NOW + 1))),
        ("tok-old", hours(1_000)),
        ("tok-unlimited", None),
    ];
    for (id, expires_at) in tokens {
        let token = TokenRecord {
            id: id.to_owned(),
            actor: "ada".to_owned(),
            scope: TokenScope::Viewer,
            digest: id.to_owned(),
            created_at: ago(100),
            expires_at,
            revoked_at: None,
        };
        store.put_token(token).await.unwrap();
    }
    prune(&store).await;
    let remaining: Vec<String> =
        store.tokens().await.unwrap().into_iter().map(|token| token.id).collect();
    assert_eq!(remaining, ["session-valid", "session-young", "tok-old", "tok-unlimited"]);
}
