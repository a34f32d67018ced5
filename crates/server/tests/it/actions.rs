//! Verbs reach the control plane with the person of the token, and fail closed.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::TokenScope;
use serde_json::{Value, json};

use crate::client::Ask;
use crate::place::place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_arrives_as_the_token_s_person() {
    let place = place().await;
    let operator = &place.tokens[&TokenScope::Operator];
    for (verb, prefix) in ["cancel", "retry", "resume", "continue", "fork"]
        .into_iter()
        .flat_map(|verb| [(verb, "/api/v1alpha1"), (verb, "/api/agents")])
    {
        let path = format!("{prefix}/runs/run-a/{verb}?namespace=team");
        let body = json!({ "reason": "why", "message": "more", "expectedGeneration": 1 });
        let reply =
            place.ask(Ask::new("POST", &path).token(operator).json(&body)).await.expect(202);
        assert_eq!(reply.json()["accepted"], true);
        let (caller, what, more) = place.fleet.asked.lock().unwrap().last().cloned().unwrap();
        assert_eq!((caller.actor.as_str(), what), ("operator", format!("{verb} team/run-a")));
        assert_eq!(more, body);
        assert_eq!(reply.headers["x-correlation-id"], caller.correlation);
    }
    // What a client calls its trace never is what a request is known by.
    let asked = place.fleet.asked.lock().unwrap().clone();
    let mut ids: Vec<&str> = asked.iter().map(|(caller, _, _)| caller.request.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), asked.len());
    assert!(asked.iter().all(|(caller, _, _)| caller.request != caller.correlation));
    let stale = json!({ "expectedGeneration": 7 });
    let path = "/api/agents/runs/run-a/retry";
    let reply = place.send("POST", path, &stale).await.expect(409);
    assert_eq!(reply.json()["error"]["reasons"][0]["code"], "GenerationMoved");
    place.send("POST", path, &json!({ "actor": "somebody" })).await.expect(422);
    place.ask(Ask::new("POST", path).token(operator)).await.expect(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_decided_by_whoever_is_logged_in() {
    let place = place().await;
    let path = "/api/agents/approvals/ask-1/decision";
    let yes = json!({ "decision": "approve", "expectedArtifactDigest": "abc", "comment": "fine" });
    let mut liar = yes.clone();
    liar["decidedBy"] = json!("the-boss");
    let approver = &place.tokens[&TokenScope::Approver];
    let decide =
        async |body: &Value| place.ask(Ask::new("POST", path).token(approver).json(body)).await;
    assert!(decide(&liar).await.expect(422).text().contains("decidedBy"));
    decide(&json!({ "decision": "approve" })).await.expect(422);
    assert!(place.fleet.asked.lock().unwrap().is_empty(), "neither arrived");
    assert_eq!(decide(&yes).await.expect(200).json()["phase"], "approved");
    let (caller, _, _) = place.fleet.asked.lock().unwrap().last().cloned().unwrap();
    assert_eq!(caller.actor, "approver");
    let second = decide(&yes).await.expect(409);
    assert_eq!(second.json()["error"]["reasons"][0]["code"], "AlreadyDecided");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_dispatch_reviews_and_workspaces_have_their_shapes() {
    let place = place().await;
    let trial =
        place.send("POST", "/api/agents/rules/r/dry-run", &json!({ "delivery": "wd-1" })).await;
    let trial = trial.expect(200).json();
    for field in ["matched", "renderedPrompt", "contextBundlePlan", "dedupeKey", "expectedActions"]
    {
        assert!(!trial[field].is_null(), "{field}");
    }
    let paused = json!({ "action": "pause" });
    place.send("POST", "/api/v1alpha1/rules/r/lifecycle", &paused).await.expect(200);
    place
        .send("POST", "/api/v1alpha1/rules/r/lifecycle", &json!({ "action": "explode" }))
        .await
        .expect(422);
    place
        .send("POST", "/api/v1alpha1/rules/r/replay-delivery", &json!({ "delivery": "d" }))
        .await
        .expect(202);
    place
        .send("POST", "/api/v1alpha1/rules/r/fire", &json!({ "repository": "app" }))
        .await
        .expect(202);
    place
        .send("POST", "/api/v1alpha1/rules/r/materialize", &json!({ "delivery": "d" }))
        .await
        .expect(202);
    let wish =
        json!({ "repository": "app", "agentStack": "s", "taskKind": "mend", "task": "mend it" });
    let run = place.send("POST", "/api/v1alpha1/runs", &wish).await.expect(202).json();
    assert_eq!(run["run"], "run-1");
    let question = json!({ "agentStack": "s", "repository": "app" });
    let denied = place.send("POST", "/api/agents/permissions/review", &question).await.expect(403);
    assert_eq!(denied.code(), "POLICY_DENIED");
    assert_eq!(denied.json()["error"]["reasons"][0]["code"], "MissingSecretGrant");
    let provision = json!({ "action": "provision", "repository": "app" });
    place.send("POST", "/api/agents/workspaces", &provision).await.expect(202);
    place.send("POST", "/api/agents/workspaces/w/action", &provision).await.expect(422);
    place
        .send("POST", "/api/agents/workspaces/w/action", &json!({ "action": "pin" }))
        .await
        .expect(202);
    assert_eq!(
        place.get("/api/agents/capabilities").await.expect(200).json()["claude"]["canResume"],
        true
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_wired_is_503_and_never_a_success() {
    let place = place().await;
    place.fleet.broken.store(true, Ordering::Relaxed);
    let wish =
        json!({ "repository": "app", "agentStack": "s", "taskKind": "mend", "task": "mend it" });
    let yes = json!({ "decision": "approve", "expectedArtifactDigest": "abc" });
    let asks = [
        ("/api/agents/runs", wish),
        ("/api/agents/runs/r/cancel", json!({})),
        ("/api/agents/approvals/a/decision", yes),
        ("/api/agents/rules/r/dry-run", json!({})),
        ("/api/agents/rules/r/lifecycle", json!({ "action": "pause" })),
        ("/api/agents/rules/r/replay-delivery", json!({ "delivery": "d" })),
        ("/api/agents/rules/r/fire", json!({ "repository": "app" })),
        ("/api/agents/rules/r/materialize", json!({})),
        ("/api/agents/permissions/review", json!({ "agentStack": "s", "repository": "app" })),
        ("/api/agents/workspaces", json!({ "action": "provision" })),
    ];
    for (path, body) in asks {
        let reply = place.send("POST", path, &body).await.expect(503);
        assert!(reply.text().contains("no engine is wired"), "{path}");
    }
    place.get("/api/agents/capabilities").await.expect(503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_s_events_come_as_a_page_and_as_a_stream() {
    let place = place().await;
    place.run("run-a").await;
    for _ in 0..5 {
        place.fleet.say("run-a", "AgentToolCallStarted", false);
    }
    let path = "/api/v1alpha1/runs/run-a/events";
    place.get("/api/v1alpha1/runs/run-b/events").await.expect(404);
    let page = place.get(&format!("{path}?after=2&limit=2")).await.expect(200).json();
    assert_eq!(page["events"][0]["cursor"], 3);
    assert_eq!(page["events"].as_array().unwrap().len(), 2);
    let numbers = |page: &Value| -> Vec<u64> {
        let events = page["events"].as_array().unwrap().iter();
        events.map(|event| event["cursor"].as_u64().unwrap()).collect()
    };
    let one = place.get(&format!("{path}?attempt=1")).await.expect(200).json();
    assert_eq!((numbers(&one), &one["events"][0]["attempt"]), (vec![1, 2, 3], &json!(1)));
    let other = place.get(&format!("{path}?attempt=2")).await.expect(200).json();
    assert_eq!(numbers(&other), [4, 5]);
    for wrong in ["0", "-1", "x", "4294967296"] {
        place.get(&format!("{path}?attempt={wrong}")).await.expect(400);
    }
    let mut second = place.watch(&format!("{path}?watch=1&attempt=2"), Some(1)).await;
    assert_eq!(second.next().await.unwrap().name, "sync");
    assert_eq!(second.next().await.unwrap().id, Some(4));
    let mut stream = place.watch(&format!("{path}?watch=1"), Some(3)).await;
    assert_eq!(stream.next().await.unwrap().name, "sync");
    assert_eq!(stream.next().await.unwrap().id, Some(4));
    assert_eq!(stream.next().await.unwrap().id, Some(5));
    place.fleet.say("run-a", "AgentDispatchCompleted", true);
    let last = stream.next().await.unwrap();
    assert_eq!((last.id, last.data["type"].as_str()), (Some(6), Some("AgentDispatchCompleted")));
    assert_eq!(stream.next().await.unwrap().name, "end");
    assert_eq!(stream.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_is_not_there_is_not_found_as_a_stream_either() {
    let place = place().await;
    place.run("run-a").await;
    place.fleet.say("run-a", "AgentToolCallStarted", false);
    let path = "/api/v1alpha1/runs/run-a/events";
    place.get(&format!("{path}?attempt=9")).await.expect(404);
    place.get(&format!("{path}?watch=1&attempt=9")).await.expect(404);
    let mut first = place.watch(&format!("{path}?watch=1&attempt=1"), None).await;
    assert_eq!(first.next().await.unwrap().name, "sync");
    assert_eq!(first.next().await.unwrap().id, Some(1));
}
