//! Retried, continued and abandoned attempts: each counts once.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    ChildState, FinishedWork, Fleet as _, Launched, LaunchedChild, LaunchedState, RunVerb,
    RunVerbRequest, Target, WriteBack,
};
use bailiwick_resources::{
    AgentArtifact, AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Object, RunCost,
    RunPhase,
};
use serde_json::json;

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, fleet, in_state, reconcile, request, set_state,
    start_plane, work,
};

async fn act(plane: &Plane, run: &str, verb: RunVerb) {
    let target = Target { namespace: "default".to_owned(), name: run.to_owned() };
    let request = RunVerbRequest { message: "Go on.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
    reconcile(plane).await;
}

async fn parent(plane: &Plane) -> Object<AgentDispatchRun> {
    let all = all::<AgentDispatchRun>(plane).await;
    all.into_iter().find(|run| run.spec.parent_run.is_none()).unwrap()
}

fn with_reviewer(object: &mut AnyObject) {
    if object.kind == Kind::AgentStack {
        object.spec["subagentRefs"] = json!(["reviewer"]);
    }
    if object.kind == Kind::AgentToolProfile {
        object.spec["nativeTools"]["subagents"] = json!(true);
    }
}

fn child(state: ChildState) -> LaunchedChild {
    let completed = state == ChildState::Completed;
    LaunchedChild {
        agent: "worker-1".to_owned(),
        subagent: "reviewer".to_owned(),
        received: "Look.".to_owned(),
        at: 1_794_000_000_500,
        state,
        returned: completed.then(|| "I looked.".to_owned()),
        detail: String::new(),
        session: None,
        cost: RunCost::default(),
        cursor: if completed { 9 } else { 4 },
        attempts: 1,
        questions: Vec::new(),
    }
}

/// Two attempts of one conversation share its children: each child is recorded once.
#[tokio::test]
async fn child_of_a_continued_conversation_ends_once() {
    let plane = start_plane(|_| {}).await;
    let reviewer = json!({ "rolePrompt": "You look.", "taskKinds": ["review"] });
    declare(&plane, &[document(Kind::AgentSubagent, "reviewer", reviewer)]).await;
    let mut changed = fleet(with_reviewer);
    changed.retain(|one| matches!(one.kind, Kind::AgentStack | Kind::AgentToolProfile));
    declare(&plane, &changed).await;
    let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    reconcile(&plane).await;
    let set_child = |state| {
        let parent = agent(&plane);
        plane.engine.children.lock().unwrap().insert(parent, vec![child(state)]);
    };
    set_child(ChildState::Running);
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    act(&plane, &run, RunVerb::Continue).await;
    set_state(&plane, &agent(&plane), Launched { attempts: 2, ..in_state(LaunchedState::Failed) });
    reconcile(&plane).await;
    assert_eq!(parent(&plane).await.status.attempts.len(), 2);
    assert!(parent(&plane).await.status.phase.is_final());
    set_child(ChildState::Completed);
    reconcile(&plane).await;
    let all_runs = all::<AgentDispatchRun>(&plane).await;
    let children: Vec<_> = all_runs.iter().filter(|run| run.spec.parent_run.is_some()).collect();
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].status.phase, RunPhase::Succeeded, "{:?}", children[0].status);
    assert_eq!(all::<AgentArtifact>(&plane).await.len(), 1);
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    let ends = attempts.iter().flat_map(|one| &one.status.subagent_events);
    assert_eq!(ends.filter(|one| one.what.starts_with("succeeded")).count(), 1);
    // A pass without changes does nothing.
    assert_eq!(plane.advance().await.done, 0);
}

/// An attempt that does not start is cancelled: otherwise nobody would follow it if it started later.
#[tokio::test]
async fn attempt_that_does_not_start_is_cancelled_before_its_run_ends() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let first = agent(&plane);
    set_state(&plane, &first, in_state(LaunchedState::Starting));
    reconcile(&plane).await;
    assert_eq!(parent(&plane).await.status.phase, RunPhase::Running);
    assert!(plane.engine.cancelled.lock().unwrap().is_empty());
    plane.world.clock.fetch_add(6 * 60 * 1_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let run = parent(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed);
    let why = run.status.terminal_reason.unwrap_or_default();
    assert!(why.starts_with("LaunchFailed: it does not begin"), "{why}");
    assert_eq!(*plane.engine.cancelled.lock().unwrap(), [first]);
}

/// The branch of an earlier attempt stays as it was approved.
#[tokio::test]
async fn every_attempt_writes_to_its_own_branch() {
    for verb in [RunVerb::Retry, RunVerb::Continue] {
        let plane = start_plane(|object| {
            if object.kind == Kind::AgentStack {
                object.spec["writeBackPolicy"] = json!({
                    "allowedTargets": ["create-branch"], "modes": { "create-branch": "auto" },
                });
            }
        })
        .await;
        let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
        reconcile(&plane).await;
        for (attempts, commit) in [(1, 'a'), (2, 'b')] {
            let finished = FinishedWork { commit: commit.to_string().repeat(40), ..work() };
            let done = in_state(LaunchedState::Verified);
            set_state(&plane, &agent(&plane), Launched { attempts, work: Some(finished), ..done });
            reconcile(&plane).await;
            let ended = parent(&plane).await;
            assert_eq!(ended.status.phase, RunPhase::Succeeded, "{:?}", ended.status);
            if attempts == 1 {
                act(&plane, &run, verb).await;
            }
        }
        let sent = plane.world.forge.sent.lock().unwrap().clone();
        let mut branches = Vec::new();
        for one in &sent {
            if let WriteBack::Push { branch, from: None, .. } = one {
                branches.push(branch.as_str());
            }
        }
        let attempts = parent(&plane).await.status.attempts;
        let expected: Vec<String> = attempts.iter().map(|name| format!("agent/{name}")).collect();
        assert_eq!(branches, expected, "{verb:?}");
    }
}
