//! Runs of one concurrency group: events while a run is active, and after its agent has ended.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{Launched, LaunchedState};
use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, ExecutionDecision, Kind, RunPhase,
};
use serde_json::json;

use crate::dispatch::{
    Plane, agent, all, declare, document, in_state, reconcile, set_state, start_plane, work,
};

/// A fleet with a rule that fires every five minutes and allows one active run.
async fn grouped(mode: &str) -> Plane {
    let plane = start_plane(|_| {}).await;
    let rule = document(
        Kind::AgentTriggerRule,
        "nightly",
        json!({
            "lifecycleState": "active", "sources": ["schedule"], "agentStack": "fixer",
            "taskKind": "tend", "promptTemplate": "Tend it.",
            "concurrencyPolicy": { "mode": mode, "maxActive": 1, "group": "nightly" },
            "schedule": { "cron": "*/5 * * * *", "repository": "acme/app" },
        }),
    );
    declare(&plane, &[rule]).await;
    reconcile(&plane).await;
    plane
}

async fn fire(plane: &Plane) -> ExecutionDecision {
    plane.world.clock.fetch_add(5 * 60_000, Ordering::Relaxed);
    reconcile(plane).await;
    all::<AgentTriggerExecution>(plane).await.last().unwrap().spec.decision
}

/// The agent that was started last ends, and its work waits for an approval.
async fn finish(plane: &Plane) {
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    set_state(plane, &agent(plane), done);
    reconcile(plane).await;
}

async fn phases(plane: &Plane) -> Vec<RunPhase> {
    let runs = all::<AgentDispatchRun>(plane).await;
    runs.iter().map(|run| run.status.phase).collect()
}

/// A later event cannot change work that waits for approval, so it needs its own run.
#[tokio::test]
async fn event_after_an_agent_has_ended_starts_its_own_run() {
    for (mode, while_active) in
        [("coalesce", ExecutionDecision::Coalesced), ("reject", ExecutionDecision::Rejected)]
    {
        let plane = grouped(mode).await;
        assert_eq!(fire(&plane).await, ExecutionDecision::Created, "{mode}");
        assert_eq!(fire(&plane).await, while_active, "{mode}: the run is active");
        finish(&plane).await;
        assert_eq!(phases(&plane).await, [RunPhase::WaitingForApproval], "{mode}");
        assert_eq!(fire(&plane).await, ExecutionDecision::Created, "{mode}: its agent has ended");
        assert_eq!(phases(&plane).await, [RunPhase::WaitingForApproval, RunPhase::Running]);
    }
}

#[tokio::test]
async fn queued_run_starts_when_the_agent_before_it_has_ended() {
    let plane = grouped("queue").await;
    assert_eq!(fire(&plane).await, ExecutionDecision::Created);
    assert_eq!(fire(&plane).await, ExecutionDecision::Created);
    assert_eq!(phases(&plane).await, [RunPhase::Running, RunPhase::Queued]);
    let behind = all::<AgentDispatchRun>(&plane).await.remove(1).status.queue_behind;
    assert_eq!(behind.len(), 1, "{behind:?}");
    finish(&plane).await;
    assert_eq!(phases(&plane).await, [RunPhase::WaitingForApproval, RunPhase::Running]);
}

/// A later run also replaces work that waits for approval.
#[tokio::test]
async fn run_that_replaces_another_cancels_its_pending_write() {
    let plane = grouped("cancel-previous").await;
    fire(&plane).await;
    finish(&plane).await;
    assert_eq!(fire(&plane).await, ExecutionDecision::Created);
    assert_eq!(phases(&plane).await, [RunPhase::Cancelled, RunPhase::Running]);
}
