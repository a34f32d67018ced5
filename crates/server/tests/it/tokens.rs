//! Tokens: shown once, ended when they end.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore, TokenScope};
use bailiwick_resources::Moment;
use bailiwick_server::mint;
use serde_json::json;

use crate::client::Ask;
use crate::place::{moment, place};

const TOKENS: &str = "/api/v1alpha1/tokens";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_shown_once_works_and_is_revoked() {
    let place = place().await;
    let body = json!({ "actor": "grace", "scope": "operator" });
    let made = place.send("POST", TOKENS, &body).await.expect(201).json();
    let token = made["token"].as_str().unwrap().to_owned();
    place.ask(Ask::get("/api/v1alpha1/runs").token(&token)).await.expect(200);
    let listed = place.get(TOKENS).await.expect(200).text();
    assert!(listed.contains("grace") && !listed.contains(&token), "{listed}");
    assert!(!listed.contains("digest"), "{listed}");
    let id = made["record"]["id"].as_str().unwrap();
    let revoke = Ask::new("DELETE", &format!("{TOKENS}/{id}"));
    place.ask(revoke.clone().token(&token)).await.expect(403);
    place.ask(revoke.token(place.admin())).await.expect(200);
    place.ask(Ask::get("/api/v1alpha1/runs").token(&token)).await.expect(401);
    let events: Vec<String> = place.audit().await.into_iter().map(|(_, event, _)| event).collect();
    assert_eq!(events, ["TokenCreated", "TokenRevoked"]);
    let nobody = json!({ "actor": "", "scope": "viewer" });
    place.send("POST", TOKENS, &nobody).await.expect(422);
    let god = json!({ "actor": "x", "scope": "god" });
    place.send("POST", TOKENS, &god).await.expect(422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_token_is_no_token() {
    let place = place().await;
    let now = moment().millis();
    let old =
        mint("old", TokenScope::Admin, Some(Moment::from_millis(now - 1)), Moment::from_millis(1));
    let young =
        mint("young", TokenScope::Admin, Some(Moment::from_millis(now + 600_000)), moment());
    for (minted, status) in [(old.unwrap(), 401), (young.unwrap(), 200)] {
        place.store.put_token(minted.record).await.unwrap();
        place.ask(Ask::get("/api/v1alpha1/runs").token(&minted.text)).await.expect(status);
    }
    let two = Ask::get("/api/v1alpha1/runs").token(place.admin()).token(place.admin());
    place.ask(two).await.expect(401);
    let basic =
        Ask::get("/api/v1alpha1/runs").header("authorization", format!("Basic {}", place.admin()));
    place.ask(basic).await.expect(401);
    let digest = place.store.tokens().await.unwrap()[0].digest.clone();
    place.ask(Ask::get("/api/v1alpha1/runs").token(&digest)).await.expect(401);
}

/// A server that is killed between a deed and its line has neither of them, or both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_to_tokens_and_secrets_is_kept_with_its_line() {
    let secret = "/api/v1alpha1/namespaces/default/secrets/hook";
    let token = json!({ "actor": "grace", "scope": "viewer" });
    let value = json!({ "values": { "key": "hunter2" } });
    for (method, path, body, status) in
        [("POST", TOKENS, &token, 201), ("PUT", secret, &value, 200)]
    {
        let place = place().await;
        let before = place.store.tokens().await.unwrap().len();
        place.store.last.store(true, Ordering::Relaxed);
        place.send(method, path, body).await.expect(status);
        place.store.down.store(false, Ordering::Relaxed);
        assert_eq!(place.audit().await.len(), 1, "{path}");
        let tokens = place.store.tokens().await.unwrap().len() - before;
        let kept = place.store.secret_value("default", "hook", "key").await.unwrap();
        assert_eq!(tokens + usize::from(kept.is_some()), 1, "{path}");
    }
    let place = place().await;
    let made = place.send("POST", TOKENS, &token).await.expect(201).json();
    place.store.last.store(true, Ordering::Relaxed);
    let id = made["record"]["id"].as_str().unwrap();
    place.send("DELETE", &format!("{TOKENS}/{id}"), &json!({})).await.expect(200);
    place.store.down.store(false, Ordering::Relaxed);
    let revoked = place.store.tokens().await.unwrap().into_iter().find(|token| token.id == id);
    assert!(revoked.unwrap().revoked_at.is_some());
    assert_eq!(place.audit().await.len(), 2);
}
