//! The stored reason of an ended attempt has no secrets of the repository or the person; if the secrets are unknown,
//! no text is stored.

use bailiwick_fleet::ports::{FinishedWork, Launched, LaunchedState};
use bailiwick_resources::{
    AgentArtifact, AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, RunPhase,
};
use serde_json::{Value, json};

use super::{
    Plane, all, declare, declare_rule, fleet, in_state, receive_push, reconcile, sha, start_plane,
};

const REPOSITORY_SECRET: &str = "Project Y of the repository";
const PERSONAL_SECRET: &str = "Project X of a person";

/// An active run in a repository that defines a secret pattern.
async fn with_active_run() -> Plane {
    let plane = start_plane().await;
    let mut app = fleet();
    app.retain(|one: &AnyObject| one.kind == Kind::Repository);
    app[0].spec["policy"] = json!({ "redact": ["Project Y"] });
    declare(&plane, &app).await;
    *plane.world.personal_secrets.lock().unwrap() = Ok(vec!["Project X".to_owned()]);
    declare_rule(&plane, "mend", |_| {}).await;
    receive_push(&plane, "one", "main", &sha('a')).await;
    reconcile(&plane).await;
    plane
}

fn finished_work(report: Option<&str>) -> FinishedWork {
    FinishedWork {
        base: sha('a'),
        commit: sha('f'),
        tree: sha('e'),
        files: vec!["src/a.rs".to_owned()],
        patch: b"+a line\n".to_vec(),
        history: Some(Vec::new()),
        commits: Vec::new(),
        merges: true,
        verified: false,
        verdict: format!("2 of 3 hold, but {REPOSITORY_SECRET} and {PERSONAL_SECRET}"),
        report: report.map(str::to_owned),
    }
}

async fn end_and_collect(plane: &Plane, launched: Launched) -> String {
    let agent = plane.engine.launched.lock().unwrap().last().unwrap().agent.clone();
    plane.engine.states.lock().unwrap().insert(agent, launched);
    reconcile(plane).await;
    let run = all::<AgentDispatchRun>(plane).await.remove(0);
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    let attempt = all::<AgentDispatchAttempt>(plane).await.remove(0);
    let artifacts: Vec<Value> = all::<AgentArtifact>(plane)
        .await
        .iter()
        .map(|one| serde_json::to_value(&one.spec).unwrap())
        .collect();
    format!("{:?} {:?} {artifacts:?}", run.status, attempt.status)
}

#[tokio::test]
async fn stored_reason_of_a_run_contains_no_secrets() {
    let detail = format!("it gave up on {REPOSITORY_SECRET} and {PERSONAL_SECRET}");
    let failed = Launched { detail, ..in_state(LaunchedState::Failed, None) };
    let rejected = in_state(LaunchedState::Rejected, Some(finished_work(None)));
    for (launched, expected) in
        [(failed, "failed: it gave up on"), (rejected, "rejected: 2 of 3 hold")]
    {
        let plane = with_active_run().await;
        let stored = end_and_collect(&plane, launched).await;
        assert!(stored.contains(expected), "{stored}");
        assert!(!stored.contains("Project Y") && !stored.contains("Project X"), "{stored}");
    }
}

/// The run ends and names the problem; it is not retried forever.
#[tokio::test]
async fn run_ends_if_the_secrets_are_unknown() {
    let plane = with_active_run().await;
    *plane.world.personal_secrets.lock().unwrap() = Err("no permission".to_owned());
    let ended = Launched {
        detail: PERSONAL_SECRET.to_owned(),
        ..in_state(
            LaunchedState::Verified,
            Some(FinishedWork {
                verified: true,
                ..finished_work(Some(&format!("I mended {PERSONAL_SECRET}.")))
            }),
        )
    };
    let stored = end_and_collect(&plane, ended).await;
    assert!(stored.contains("RedactionFailed") && stored.contains("no permission"), "{stored}");
    assert!(!stored.contains("Project X"), "{stored}");
    let kinds: Vec<_> =
        all::<AgentArtifact>(&plane).await.iter().map(|one| one.spec.kind).collect();
    assert_eq!(kinds.len(), 1, "the patch is stored without texts: {kinds:?}");
    // The same for a run that has only texts.
    let plane = with_active_run().await;
    *plane.world.personal_secrets.lock().unwrap() = Err("no permission".to_owned());
    let failed =
        Launched { detail: PERSONAL_SECRET.to_owned(), ..in_state(LaunchedState::Failed, None) };
    let stored = end_and_collect(&plane, failed).await;
    assert!(stored.contains("no permission") && !stored.contains("Project X"), "{stored}");
}
