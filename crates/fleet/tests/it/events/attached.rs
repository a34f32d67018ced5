//! The attachments of a rule reach the agent.

use std::collections::VecDeque;

use bailiwick_fleet::ports::{ForgeError, PullRequestState};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{AgentDispatchRun, ContextSource, ForgeKind, Kind, RunPhase};
use serde_json::json;

use super::{
    all, declare, declare_rule, document, executions, receive_push, receive_webhook, reconcile,
    sha, start_plane,
};

fn failed_job(extra_fields: serde_json::Value) -> serde_json::Value {
    let mut event = json!({
        "source": "ci", "branch": "main", "sha": sha('a'), "job": "unit tests", "jobId": "4711",
        "check": "build", "conclusion": "failure", "headRepository": "acme/app", "trust": "trusted",
    });
    event.as_object_mut().unwrap().extend(extra_fields.as_object().unwrap().clone());
    json!({ "bailiwick": event, "note": "the moon is full", "password": "hunter2hunter2" })
}

#[tokio::test]
async fn log_of_the_job_id_is_fetched_once_and_reaches_the_agent() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |spec| {
        spec["sources"] = json!(["ci"]);
        spec["contextBundleTemplate"] = json!({ "include": ["failing-job-log"] });
    })
    .await;
    let unavailable = ForgeError::Unavailable("no route".to_owned());
    let log = "error: the parser is broken".to_owned();
    *plane.world.forge.logs.lock().unwrap() = VecDeque::from([Err(unavailable), Ok(log)]);
    receive_webhook(&plane, "a", ForgeKind::Generic, "job", &failed_job(json!({}))).await;
    assert_eq!(plane.advance().await.errors.len(), 1, "the unavailable forge is reported");
    super::advance_clock(&plane, 60_000);
    reconcile(&plane).await;
    // The event and its second source are one delivery; logs are requested by job id only.
    let requested = plane.world.forge.requested_logs.lock().unwrap().clone();
    assert!(requested.iter().all(|job| job == "4711"), "{requested:?}");
    let launch = plane.engine.launched.lock().unwrap().last().unwrap().clone();
    assert!(launch.context.contains("the parser is broken"), "{}", launch.context);
    assert_eq!(*plane.world.requested_sources.lock().unwrap(), [], "no other source is read");
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    assert_eq!(run.spec.source_refs.job_id.as_deref(), Some("4711"));
}

#[tokio::test]
async fn payload_has_no_secrets_and_missing_sources_are_named() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |spec| {
        spec["sources"] = json!(["ci"]);
        spec["contextBundleTemplate"] = json!({ "include": ["event-payload", "issue-summary"] });
    })
    .await;
    let payload = failed_job(json!({ "failureLog": "x" }));
    receive_webhook(&plane, "a", ForgeKind::Generic, "job", &payload).await;
    reconcile(&plane).await;
    let context = plane.engine.launched.lock().unwrap().last().unwrap().context.clone();
    assert!(context.contains("the moon is full"), "{context}");
    assert!(!context.contains("hunter2"), "{context}");
    assert!(context.contains("issue-summary"), "{context}");
    assert_eq!(*plane.world.requested_sources.lock().unwrap(), [ContextSource::IssueSummary]);
}

/// A run with a pinned label that is named twice is launched as admitted.
#[tokio::test]
async fn run_with_pinned_labels_is_launched() {
    let plane = start_plane().await;
    let text = "Be careful.";
    let label = json!({ "promptFragment": text, "allowedSources": ["push"] });
    let mut stack = super::fleet().remove(4);
    stack.spec["contextLabelRefs"] = json!([{ "name": "careful" }]);
    declare(&plane, &[document(Kind::AgentContextLabel, "careful", label), stack]).await;
    let digest = Sha256Hex::of(text).to_string();
    declare_rule(&plane, "mend", |spec| {
        spec["contextLabels"] = json!([{ "name": "careful", "digest": digest }]);
    })
    .await;
    receive_push(&plane, "a", "main", &sha('a')).await;
    reconcile(&plane).await;
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    let reasons = (run.status.terminal_reason, executions(&plane, "mend").await);
    assert_eq!(run.status.phase, RunPhase::Running, "{reasons:?}");
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn personal_secrets_are_removed_and_required_for_a_start() {
    let plane = start_plane().await;
    declare_rule(&plane, "mend", |spec| {
        spec["promptTemplate"] = json!("Mend Project X.");
    })
    .await;
    *plane.world.personal_secrets.lock().unwrap() = Ok(vec!["Project [XYZ]".to_owned()]);
    receive_push(&plane, "a", "main", &sha('a')).await;
    reconcile(&plane).await;
    let context = plane.engine.launched.lock().unwrap().last().unwrap().context.clone();
    assert!(context.contains("Mend [secret]"), "{context}");
    *plane.world.personal_secrets.lock().unwrap() = Err("no permission".to_owned());
    receive_push(&plane, "b", "main", &sha('b')).await;
    reconcile(&plane).await;
    let found = executions(&plane, "mend").await;
    assert!(found[1].reason.starts_with("RedactionFailed: no permission"), "{}", found[1].reason);
}

/// The event of a comment does not contain the target branch of the pull request.
#[tokio::test]
async fn pull_request_is_compared_with_its_target_branch() {
    let plane = start_plane().await;
    declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["pr-comment"])).await;
    let state = PullRequestState {
        number: 3,
        title: "Mend it".to_owned(),
        body: String::new(),
        open: true,
        head_branch: "mend".to_owned(),
        head_sha: sha('a'),
        head_repository: Some("acme/app".to_owned()),
        base_branch: "release".to_owned(),
        files: Vec::new(),
    };
    plane.world.forge.pulls.lock().unwrap().insert(3, state);
    plane.world.forge.branches.lock().unwrap().insert("release".to_owned(), sha('9'));
    let payload = json!({ "bailiwick": {
        "source": "pr-comment", "pullRequest": 3, "actor": "alice", "body": "look",
        "trust": "trusted",
    } });
    receive_webhook(&plane, "a", ForgeKind::Generic, "comment", &payload).await;
    reconcile(&plane).await;
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    assert_eq!(run.spec.sha, sha('a'));
    assert_eq!(run.spec.source_refs.base_sha, Some(sha('9')));
}
