//! Runs do not start other runs in an endless loop.

use bailiwick_fleet::ports::{FinishedWork, LaunchedState};
use bailiwick_resources::{AgentDispatchRun, ExecutionDecision};
use serde_json::json;

use super::{
    Plane, all, declare_rule, executions, in_state, receive_push, reconcile, sha, start_plane,
};

/// Ends the agent of the latest run with its own commit; returns the run and its attempt.
async fn finish_agent(plane: &Plane, commit: char) -> (String, String) {
    reconcile(plane).await;
    let launch = plane.engine.launched.lock().unwrap().last().unwrap().clone();
    let finished = FinishedWork {
        base: launch.base.clone(),
        commit: sha(commit),
        tree: sha('e'),
        files: vec!["src/a.rs".to_owned()],
        patch: format!("+{commit}\n").into_bytes(),
        history: Some(Vec::new()),
        commits: Vec::new(),
        merges: true,
        verified: true,
        verdict: "all passed".to_owned(),
        report: None,
    };
    let ended = in_state(LaunchedState::Verified, Some(finished));
    plane.engine.states.lock().unwrap().insert(launch.agent.clone(), ended);
    reconcile(plane).await;
    let runs = all::<AgentDispatchRun>(plane).await;
    let run = runs.iter().find(|run| run.status.attempts.contains(&launch.attempt)).unwrap();
    (run.name().to_owned(), launch.attempt)
}

#[tokio::test]
async fn own_work_starts_nothing_but_a_persons_work_on_it_does() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |_| {}).await;
    receive_push(&plane, "a", "main", &sha('a')).await;
    let (_, attempt) = finish_agent(&plane, 'b').await;
    let branch = format!("agent/{attempt}");
    receive_push(&plane, "b", &branch, &sha('b')).await;
    reconcile(&plane).await;
    let found = executions(&plane, "mend").await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].decision, ExecutionDecision::Rejected);
    assert!(found[1].reason.starts_with("OwnWork: "), "{}", found[1].reason);
    // The commit decides, not the branch.
    receive_push(&plane, "c", "elsewhere", &sha('b')).await;
    reconcile(&plane).await;
    assert!(executions(&plane, "mend").await[2].reason.starts_with("OwnWork: "));
    // Alice continues where the agent ended.
    receive_push(&plane, "d", &branch, &sha('c')).await;
    reconcile(&plane).await;
    let found = executions(&plane, "mend").await;
    assert_eq!(found[3].decision, ExecutionDecision::Created, "{}", found[3].reason);
}

#[tokio::test]
async fn own_work_starts_runs_up_to_the_depth_of_the_rule() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |spec| spec["ownWorkDepth"] = json!(2)).await;
    receive_push(&plane, "a", "main", &sha('a')).await;
    let mut caused_by = None;
    for (id, commit) in [("b", 'b'), ("c", 'c'), ("d", 'd')] {
        let (run, attempt) = finish_agent(&plane, commit).await;
        let stored = all::<AgentDispatchRun>(&plane).await;
        let stored = stored.iter().find(|one| one.name() == run).unwrap();
        assert_eq!(stored.spec.source_refs.caused_by, caused_by);
        receive_push(&plane, id, &format!("agent/{attempt}"), &sha(commit)).await;
        reconcile(&plane).await;
        caused_by = Some(run);
    }
    let decisions: Vec<ExecutionDecision> =
        executions(&plane, "mend").await.iter().map(|one| one.decision).collect();
    use ExecutionDecision::{Created, Rejected};
    assert_eq!(decisions, [Created, Created, Created, Rejected]);
}
