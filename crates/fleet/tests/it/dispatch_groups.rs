//! Runs of one group: what comes while one of them is at work, and what comes when its agent has ended.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{Launched, LaunchedState};
use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, ExecutionDecision, Kind, RunPhase,
};
use serde_json::json;

use crate::dispatch::{Plane, agent, all, declare, document, set, stand, standing, turn, work};

/// A fleet with a rule that fires every five minutes, one of its group at a time.
async fn grouped(mode: &str) -> Plane {
    let plane = stand(|_| {}).await;
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
    turn(&plane).await;
    plane
}

async fn fire(plane: &Plane) -> ExecutionDecision {
    plane.world.clock.fetch_add(5 * 60_000, Ordering::Relaxed);
    turn(plane).await;
    all::<AgentTriggerExecution>(plane).await.last().unwrap().spec.decision
}

/// The agent that was started last ends, and its work waits for a person.
async fn finish(plane: &Plane) {
    let done = Launched { work: Some(work()), ..standing(LaunchedState::Verified) };
    set(plane, &agent(plane), done);
    turn(plane).await;
}

async fn phases(plane: &Plane) -> Vec<RunPhase> {
    let runs = all::<AgentDispatchRun>(plane).await;
    runs.iter().map(|run| run.status.phase).collect()
}

/// Nothing that comes now gets into work that waits to be written, so that it must not be lost to it.
#[tokio::test]
async fn what_comes_after_an_agent_has_ended_starts_a_run_of_its_own() {
    for (mode, meanwhile) in
        [("coalesce", ExecutionDecision::Coalesced), ("reject", ExecutionDecision::Rejected)]
    {
        let plane = grouped(mode).await;
        assert_eq!(fire(&plane).await, ExecutionDecision::Created, "{mode}");
        assert_eq!(fire(&plane).await, meanwhile, "{mode}: it is at work");
        finish(&plane).await;
        assert_eq!(phases(&plane).await, [RunPhase::WaitingForApproval], "{mode}");
        assert_eq!(fire(&plane).await, ExecutionDecision::Created, "{mode}: its agent has ended");
        assert_eq!(phases(&plane).await, [RunPhase::WaitingForApproval, RunPhase::Running]);
    }
}

#[tokio::test]
async fn who_waits_for_a_run_begins_when_its_agent_has_ended() {
    let plane = grouped("queue").await;
    assert_eq!(fire(&plane).await, ExecutionDecision::Created);
    assert_eq!(fire(&plane).await, ExecutionDecision::Created);
    assert_eq!(phases(&plane).await, [RunPhase::Running, RunPhase::Queued]);
    let behind = all::<AgentDispatchRun>(&plane).await.remove(1).status.queue_behind;
    assert_eq!(behind.len(), 1, "{behind:?}");
    finish(&plane).await;
    assert_eq!(phases(&plane).await, [RunPhase::WaitingForApproval, RunPhase::Running]);
}

/// A later run takes the place also of work that waits to be written.
#[tokio::test]
async fn a_run_that_takes_the_place_of_another_cancels_what_it_would_write() {
    let plane = grouped("cancel-previous").await;
    fire(&plane).await;
    finish(&plane).await;
    assert_eq!(fire(&plane).await, ExecutionDecision::Created);
    assert_eq!(phases(&plane).await, [RunPhase::Cancelled, RunPhase::Running]);
}
