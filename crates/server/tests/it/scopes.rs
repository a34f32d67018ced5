//! Who may use which route: every route, every scope, and nobody.

use bailiwick_fleet::ports::TokenScope;
use bailiwick_server::openapi;

use crate::client::Ask;
use crate::place::{SCOPES, place_with};

/// What a route needs, written down a second time, apart from the table.
fn needed(method: &str, path: &str) -> Option<TokenScope> {
    let below = path.trim_start_matches("/api/v1alpha1").trim_start_matches("/api/agents");
    let actions = ["/runs", "/rules/", "/workspaces"];
    match (method, below) {
        (_, "/" | "/healthz" | "/readyz" | "/openapi.json" | "/webhooks/{repository}") => None,
        (_, "/tokens" | "/tokens/{name}" | "/audit") => Some(TokenScope::Admin),
        (_, "/blobs/{digest}") => Some(TokenScope::Operator),
        ("get", _) | ("post", "/permissions/review") => Some(TokenScope::Viewer),
        ("post", "/approvals/{name}/decision") => Some(TokenScope::Approver),
        ("post", below) if actions.iter().any(|action| below.starts_with(action)) => {
            Some(TokenScope::Operator)
        }
        _ => Some(TokenScope::Admin),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_asks_for_its_scope() {
    let place = place_with(|limits| {
        limits.cost_of_a_wrong_token = 0.0;
        limits.per_address.burst = 100_000.0;
        limits.per_token.burst = 100_000.0;
    })
    .await;
    let description = openapi();
    let mut looked_at = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let concrete = path
                .replace("{plural}", "configmaps")
                .replace("{namespace}", "default")
                .replace("{digest}", "abc")
                .replace("{repository}", "app")
                .replace("{name}", "some-name");
            let needed = needed(method, path);
            looked_at += 1;
            for token in [None, Some("bwk_wrong"), Some("")] {
                let ask = Ask::new(method, &concrete);
                let ask = match token {
                    Some(token) => ask.token(token),
                    None => ask,
                };
                let reply = place.ask(ask).await;
                let webhook = path == "/webhooks/{repository}";
                let refused = needed.is_some() || webhook;
                assert_eq!(reply.status == 401, refused, "{method} {path} {token:?}: {reply:?}");
            }
            for scope in SCOPES {
                let Some(needed) = needed else { continue };
                if path == "/api/v1alpha1/events" {
                    continue;
                }
                let reply =
                    place.ask(Ask::new(method, &concrete).token(&place.tokens[&scope])).await;
                let denied = reply.status == 403 && reply.code() == "SCOPE_DENIED";
                assert_eq!(denied, scope < needed, "{method} {path} as {scope:?}: {reply:?}");
                assert_ne!(reply.status, 401, "{method} {path} as {scope:?}");
            }
        }
    }
    assert!(looked_at > 80, "only {looked_at} routes");
    let asked = place.fleet.asked.lock().unwrap();
    assert!(asked.iter().all(|(caller, _, _)| caller.scope >= TokenScope::Viewer));
}
