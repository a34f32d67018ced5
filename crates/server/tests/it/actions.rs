//! Actions reach the control plane with the actor of the token, and fail closed.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::TokenScope;
use serde_json::{Value, json};

use crate::client::HttpRequest;
use crate::test_server::start_server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_has_the_actor_of_the_token() {
    let server = start_server().await;
    let operator = &server.tokens[&TokenScope::Operator];
    for (verb, prefix) in ["cancel", "retry", "resume", "continue", "fork", "refresh-context"]
        .into_iter()
        .flat_map(|verb| [(verb, "/api/v1alpha1"), (verb, "/api/agents")])
    {
        let path = format!("{prefix}/runs/run-a/{verb}?namespace=team");
        let body = json!({ "reason": "why", "message": "more", "expectedGeneration": 1 });
        let reply = server
            .execute(HttpRequest::new("POST", &path).token(operator).json(&body))
            .await
            .expect(202);
        assert_eq!(reply.json()["accepted"], true);
        let (caller, what, more) = server.fleet.calls.lock().unwrap().last().cloned().unwrap();
        assert_eq!((caller.actor.as_str(), what), ("operator", format!("{verb} team/run-a")));
        assert_eq!(more, body);
        assert_eq!(reply.headers["x-correlation-id"], caller.correlation);
    }
    // The correlation id of a client is never used as the id of the request.
    let calls = server.fleet.calls.lock().unwrap().clone();
    let mut ids: Vec<&str> = calls.iter().map(|(caller, _, _)| caller.request.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), calls.len());
    assert!(calls.iter().all(|(caller, _, _)| caller.request != caller.correlation));
    let stale = json!({ "expectedGeneration": 7 });
    let path = "/api/agents/runs/run-a/retry";
    let reply = server.send("POST", path, &stale).await.expect(409);
    assert_eq!(reply.json()["error"]["reasons"][0]["code"], "GenerationMoved");
    server.send("POST", path, &json!({ "actor": "somebody" })).await.expect(422);
    server.execute(HttpRequest::new("POST", path).token(operator)).await.expect(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_is_decided_by_the_actor_of_the_token() {
    let server = start_server().await;
    let path = "/api/agents/approvals/ask-1/decision";
    let approval =
        json!({ "decision": "approve", "expectedArtifactDigest": "abc", "comment": "fine" });
    let mut forged = approval.clone();
    forged["decidedBy"] = json!("the-boss");
    let approver = &server.tokens[&TokenScope::Approver];
    let decide = async |body: &Value| {
        server.execute(HttpRequest::new("POST", path).token(approver).json(body)).await
    };
    assert!(decide(&forged).await.expect(422).text().contains("decidedBy"));
    decide(&json!({ "decision": "approve" })).await.expect(422);
    assert!(
        server.fleet.calls.lock().unwrap().is_empty(),
        "no invalid decision reaches the control plane"
    );
    assert_eq!(decide(&approval).await.expect(200).json()["phase"], "approved");
    let (caller, _, _) = server.fleet.calls.lock().unwrap().last().cloned().unwrap();
    assert_eq!(caller.actor, "approver");
    let second = decide(&approval).await.expect(409);
    assert_eq!(second.json()["error"]["reasons"][0]["code"], "AlreadyDecided");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_dispatch_reviews_and_workspaces_accept_valid_bodies_only() {
    let server = start_server().await;
    let trial =
        server.send("POST", "/api/agents/rules/r/dry-run", &json!({ "delivery": "wd-1" })).await;
    let trial = trial.expect(200).json();
    for field in ["matched", "renderedPrompt", "contextBundlePlan", "dedupeKey", "expectedActions"]
    {
        assert!(!trial[field].is_null(), "{field}");
    }
    let paused = json!({ "action": "pause" });
    server.send("POST", "/api/v1alpha1/rules/r/lifecycle", &paused).await.expect(200);
    server
        .send("POST", "/api/v1alpha1/rules/r/lifecycle", &json!({ "action": "explode" }))
        .await
        .expect(422);
    server
        .send("POST", "/api/v1alpha1/rules/r/replay-delivery", &json!({ "delivery": "d" }))
        .await
        .expect(202);
    server
        .send("POST", "/api/v1alpha1/rules/r/fire", &json!({ "repository": "app" }))
        .await
        .expect(202);
    server
        .send("POST", "/api/v1alpha1/rules/r/materialize", &json!({ "delivery": "d" }))
        .await
        .expect(202);
    let dispatch =
        json!({ "repository": "app", "agentStack": "s", "taskKind": "mend", "task": "mend it" });
    let run = server.send("POST", "/api/v1alpha1/runs", &dispatch).await.expect(202).json();
    assert_eq!(run["run"], "run-1");
    let question = json!({ "agentStack": "s", "repository": "app" });
    let denied = server.send("POST", "/api/agents/permissions/review", &question).await.expect(403);
    assert_eq!(denied.code(), "POLICY_DENIED");
    assert_eq!(denied.json()["error"]["reasons"][0]["code"], "MissingSecretGrant");
    let provision = json!({ "action": "provision", "repository": "app" });
    server.send("POST", "/api/agents/workspaces", &provision).await.expect(202);
    server.send("POST", "/api/agents/workspaces/w/action", &provision).await.expect(422);
    server
        .send("POST", "/api/agents/workspaces/w/action", &json!({ "action": "pin" }))
        .await
        .expect(202);
    assert_eq!(
        server.get("/api/agents/capabilities").await.expect(200).json()["claude"]["canResume"],
        true
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_engine_actions_are_503() {
    let server = start_server().await;
    server.fleet.broken.store(true, Ordering::Relaxed);
    let dispatch =
        json!({ "repository": "app", "agentStack": "s", "taskKind": "mend", "task": "mend it" });
    let approval = json!({ "decision": "approve", "expectedArtifactDigest": "abc" });
    let requests = [
        ("/api/agents/runs", dispatch),
        ("/api/agents/runs/r/cancel", json!({})),
        ("/api/agents/approvals/a/decision", approval),
        ("/api/agents/rules/r/dry-run", json!({})),
        ("/api/agents/rules/r/lifecycle", json!({ "action": "pause" })),
        ("/api/agents/rules/r/replay-delivery", json!({ "delivery": "d" })),
        ("/api/agents/rules/r/fire", json!({ "repository": "app" })),
        ("/api/agents/rules/r/materialize", json!({})),
        ("/api/agents/permissions/review", json!({ "agentStack": "s", "repository": "app" })),
        ("/api/agents/workspaces", json!({ "action": "provision" })),
    ];
    for (path, body) in requests {
        let reply = server.send("POST", path, &body).await.expect(503);
        assert!(reply.text().contains("no engine is wired"), "{path}");
    }
    server.get("/api/agents/capabilities").await.expect(503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_run_are_a_page_or_a_stream() {
    let server = start_server().await;
    server.run("run-a").await;
    for _ in 0..5 {
        server.fleet.add_event("run-a", "AgentToolCallStarted", false);
    }
    let path = "/api/v1alpha1/runs/run-a/events";
    server.get("/api/v1alpha1/runs/run-b/events").await.expect(404);
    let page = server.get(&format!("{path}?after=2&limit=2")).await.expect(200).json();
    assert_eq!(page["events"][0]["cursor"], 3);
    assert_eq!(page["events"].as_array().unwrap().len(), 2);
    let numbers = |page: &Value| -> Vec<u64> {
        let events = page["events"].as_array().unwrap().iter();
        events.map(|event| event["cursor"].as_u64().unwrap()).collect()
    };
    let one = server.get(&format!("{path}?attempt=1")).await.expect(200).json();
    assert_eq!((numbers(&one), &one["events"][0]["attempt"]), (vec![1, 2, 3], &json!(1)));
    let other = server.get(&format!("{path}?attempt=2")).await.expect(200).json();
    assert_eq!(numbers(&other), [4, 5]);
    for wrong in ["0", "-1", "x", "4294967296"] {
        server.get(&format!("{path}?attempt={wrong}")).await.expect(400);
    }
    let mut second = server.watch(&format!("{path}?watch=1&attempt=2"), Some(1)).await;
    assert_eq!(second.next().await.unwrap().name, "sync");
    assert_eq!(second.next().await.unwrap().id, Some(4));
    let mut stream = server.watch(&format!("{path}?watch=1"), Some(3)).await;
    assert_eq!(stream.next().await.unwrap().name, "sync");
    assert_eq!(stream.next().await.unwrap().id, Some(4));
    assert_eq!(stream.next().await.unwrap().id, Some(5));
    server.fleet.add_event("run-a", "AgentDispatchCompleted", true);
    let last = stream.next().await.unwrap();
    assert_eq!((last.id, last.data["type"].as_str()), (Some(6), Some("AgentDispatchCompleted")));
    assert_eq!(stream.next().await.unwrap().name, "end");
    assert_eq!(stream.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_of_an_unknown_attempt_is_404() {
    let server = start_server().await;
    server.run("run-a").await;
    server.fleet.add_event("run-a", "AgentToolCallStarted", false);
    let path = "/api/v1alpha1/runs/run-a/events";
    server.get(&format!("{path}?attempt=9")).await.expect(404);
    server.get(&format!("{path}?watch=1&attempt=9")).await.expect(404);
    let mut first = server.watch(&format!("{path}?watch=1&attempt=1"), None).await;
    assert_eq!(first.next().await.unwrap().name, "sync");
    assert_eq!(first.next().await.unwrap().id, Some(1));
}
