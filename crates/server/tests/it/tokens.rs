//! Tokens: shown once, expired, revoked.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore, TokenScope};
use bailiwick_resources::Moment;
use bailiwick_server::mint;
use serde_json::json;

use crate::client::HttpRequest;
use crate::test_server::{moment, start_server};

const TOKENS: &str = "/api/v1alpha1/tokens";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_is_shown_once_and_can_be_revoked() {
    let server = start_server().await;
    let body = json!({ "actor": "grace", "scope": "operator" });
    let created = server.send("POST", TOKENS, &body).await.expect(201).json();
    let token = created["token"].as_str().unwrap().to_owned();
    server.execute(HttpRequest::get("/api/v1alpha1/runs").token(&token)).await.expect(200);
    let listed = server.get(TOKENS).await.expect(200).text();
    assert!(listed.contains("grace") && !listed.contains(&token), "{listed}");
    assert!(!listed.contains("digest"), "{listed}");
    let id = created["record"]["id"].as_str().unwrap();
    let revoke = HttpRequest::new("DELETE", &format!("{TOKENS}/{id}"));
    server.execute(revoke.clone().token(&token)).await.expect(403);
    server.execute(revoke.token(server.admin())).await.expect(200);
    server.execute(HttpRequest::get("/api/v1alpha1/runs").token(&token)).await.expect(401);
    let events: Vec<String> = server.audit().await.into_iter().map(|(_, event, _)| event).collect();
    assert_eq!(events, ["TokenCreated", "TokenRevoked"]);
    let nobody = json!({ "actor": "", "scope": "viewer" });
    server.send("POST", TOKENS, &nobody).await.expect(422);
    let god = json!({ "actor": "x", "scope": "god" });
    server.send("POST", TOKENS, &god).await.expect(422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_token_is_refused() {
    let server = start_server().await;
    let now = moment().millis();
    let old =
        mint("old", TokenScope::Admin, Some(Moment::from_millis(now - 1)), Moment::from_millis(1));
    let young =
        mint("young", TokenScope::Admin, Some(Moment::from_millis(now + 600_000)), moment());
    for (minted, status) in [(old.unwrap(), 401), (young.unwrap(), 200)] {
        server.store.put_token(minted.record).await.unwrap();
        server
            .execute(HttpRequest::get("/api/v1alpha1/runs").token(&minted.text))
            .await
            .expect(status);
    }
    let two = HttpRequest::get("/api/v1alpha1/runs").token(server.admin()).token(server.admin());
    server.execute(two).await.expect(401);
    let basic = HttpRequest::get("/api/v1alpha1/runs")
        .header("authorization", format!("Basic {}", server.admin()));
    server.execute(basic).await.expect(401);
    let digest = server.store.tokens().await.unwrap()[0].digest.clone();
    server.execute(HttpRequest::get("/api/v1alpha1/runs").token(&digest)).await.expect(401);
}

/// A change and its audit entry are one commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_tokens_and_secrets_are_committed_with_their_audit_entries() {
    let secret = "/api/v1alpha1/namespaces/default/secrets/hook";
    let token = json!({ "actor": "grace", "scope": "viewer" });
    let value = json!({ "values": { "key": "hunter2" } });
    for (method, path, body, status) in
        [("POST", TOKENS, &token, 201), ("PUT", secret, &value, 200)]
    {
        let server = start_server().await;
        let before = server.store.tokens().await.unwrap().len();
        server.store.fail_after_commit.store(true, Ordering::Relaxed);
        server.send(method, path, body).await.expect(status);
        server.store.down.store(false, Ordering::Relaxed);
        assert_eq!(server.audit().await.len(), 1, "{path}");
        let tokens = server.store.tokens().await.unwrap().len() - before;
        let stored = server.store.secret_value("default", "hook", "key").await.unwrap();
        assert_eq!(tokens + usize::from(stored.is_some()), 1, "{path}");
    }
    let server = start_server().await;
    let created = server.send("POST", TOKENS, &token).await.expect(201).json();
    server.store.fail_after_commit.store(true, Ordering::Relaxed);
    let id = created["record"]["id"].as_str().unwrap();
    server.send("DELETE", &format!("{TOKENS}/{id}"), &json!({})).await.expect(200);
    server.store.down.store(false, Ordering::Relaxed);
    let revoked = server.store.tokens().await.unwrap().into_iter().find(|token| token.id == id);
    assert!(revoked.unwrap().revoked_at.is_some());
    assert_eq!(server.audit().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoami_returns_the_actor_and_scope_of_the_token() {
    let server = start_server().await;
    for scope in [TokenScope::Viewer, TokenScope::Admin] {
        let request = HttpRequest::get("/api/v1alpha1/whoami").token(&server.tokens[&scope]);
        let me = server.execute(request).await.expect(200).json();
        let name = format!("{scope:?}").to_lowercase();
        assert_eq!((&me["actor"], &me["scope"]), (&json!(name), &json!(name)), "{me}");
        assert_eq!(me["apiVersion"], "bailiwick.dev/v1alpha1");
        assert!(me["serverVersion"].is_string() && me.get("digest").is_none(), "{me}");
    }
    server.execute(HttpRequest::get("/api/v1alpha1/whoami")).await.expect(401);
}
