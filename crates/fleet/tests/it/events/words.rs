//! What is kept of how an attempt ended: without what the repository and the person call secret, and without
//! any of it where nobody knows what that is.

use bailiwick_fleet::ports::{FinishedWork, Launched, LaunchedState};
use bailiwick_resources::{
    AgentArtifact, AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, RunPhase,
};
use serde_json::{Value, json};

use super::{Plane, all, declare, fleet, push, rule, sha, stand, standing, turns};

const OURS: &str = "Project Y of the repository";
const MINE: &str = "Project X of a person";

/// A run at work, in a repository that calls something secret.
async fn at_work() -> Plane {
    let plane = stand().await;
    let mut app = fleet();
    app.retain(|one: &AnyObject| one.kind == Kind::Repository);
    app[0].spec["policy"] = json!({ "redact": ["Project Y"] });
    declare(&plane, &app).await;
    *plane.world.personal.lock().unwrap() = Ok(vec!["Project X".to_owned()]);
    rule(&plane, "mend", |_| {}).await;
    push(&plane, "one", "main", &sha('a')).await;
    turns(&plane).await;
    plane
}

fn work(report: Option<&str>) -> FinishedWork {
    FinishedWork {
        base: sha('a'),
        commit: sha('f'),
        tree: sha('e'),
        files: vec!["src/a.rs".to_owned()],
        patch: b"+a line\n".to_vec(),
        history: Some(Vec::new()),
        merges: true,
        verified: false,
        verdict: format!("2 of 3 hold, but {OURS} and {MINE}"),
        report: report.map(str::to_owned),
    }
}

async fn ends(plane: &Plane, launched: Launched) -> String {
    let agent = plane.engine.launched.lock().unwrap().last().unwrap().agent.clone();
    plane.engine.states.lock().unwrap().insert(agent, launched);
    turns(plane).await;
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
async fn why_a_run_ended_has_nothing_in_it_that_anybody_calls_secret() {
    let detail = format!("it gave up on {OURS} and {MINE}");
    let failed = Launched { detail, ..standing(LaunchedState::Failed, None) };
    let rejected = standing(LaunchedState::Rejected, Some(work(None)));
    for (launched, told) in [(failed, "failed: it gave up on"), (rejected, "rejected: 2 of 3 hold")]
    {
        let plane = at_work().await;
        let kept = ends(&plane, launched).await;
        assert!(kept.contains(told), "{kept}");
        assert!(!kept.contains("Project Y") && !kept.contains("Project X"), "{kept}");
    }
}

/// It ends, and says that nobody knew; it is not tried for ever.
#[tokio::test]
async fn a_run_ends_though_nobody_knows_what_is_secret() {
    let plane = at_work().await;
    *plane.world.personal.lock().unwrap() = Err("no permission".to_owned());
    let done = Launched {
        detail: MINE.to_owned(),
        ..standing(
            LaunchedState::Verified,
            Some(FinishedWork { verified: true, ..work(Some(&format!("I mended {MINE}."))) }),
        )
    };
    let kept = ends(&plane, done).await;
    assert!(kept.contains("RedactionFailed") && kept.contains("no permission"), "{kept}");
    assert!(!kept.contains("Project X"), "{kept}");
    let kinds: Vec<_> =
        all::<AgentArtifact>(&plane).await.iter().map(|one| one.spec.kind).collect();
    assert_eq!(kinds.len(), 1, "the change, and none of its words: {kinds:?}");
    // Where its words are all there is, the same.
    let plane = at_work().await;
    *plane.world.personal.lock().unwrap() = Err("no permission".to_owned());
    let failed = Launched { detail: MINE.to_owned(), ..standing(LaunchedState::Failed, None) };
    let kept = ends(&plane, failed).await;
    assert!(kept.contains("no permission") && !kept.contains("Project X"), "{kept}");
}
