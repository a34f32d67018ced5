//! The required scope of every route, with every token and without one.

use bailiwick_fleet::ports::TokenScope;
use bailiwick_server::openapi;

use crate::client::HttpRequest;
use crate::test_server::{SCOPES, start_server_with};

/// The required scope of a route, repeated here on purpose.
fn needed(method: &str, path: &str) -> Option<TokenScope> {
    let below = path.trim_start_matches("/api/v1alpha1").trim_start_matches("/api/agents");
    let actions = ["/runs", "/rules/", "/workspaces"];
    match (method, below) {
        (_, "/" | "/healthz" | "/readyz" | "/openapi.json" | "/webhooks/{repository}") => None,
        (_, "/tokens" | "/tokens/{name}" | "/audit") => Some(TokenScope::Admin),
        (_, "/auth/logout") => Some(TokenScope::Viewer),
        (_, below) if below.starts_with("/auth/") => None,
        (_, "/blobs/{digest}" | "/approvals/{name}/preview") => Some(TokenScope::Operator),
        ("post", "/local/runs/{name}/questions/{question}/answer") => Some(TokenScope::Approver),
        ("post", below) if below.starts_with("/local/runs/") => Some(TokenScope::Operator),
        (_, "/saved-filters" | "/saved-filters/{name}") => Some(TokenScope::Viewer),
        ("get", _) | ("post", "/permissions/review") => Some(TokenScope::Viewer),
        ("post", "/approvals/{name}/decision") => Some(TokenScope::Approver),
        ("post", below) if actions.iter().any(|action| below.starts_with(action)) => {
            Some(TokenScope::Operator)
        }
        _ => Some(TokenScope::Admin),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_requires_its_scope() {
    let server = start_server_with(|limits| {
        limits.failed_auth_cost = 0.0;
        limits.failed_signatures.burst = 100_000.0;
        limits.per_address.burst = 100_000.0;
        limits.per_token.burst = 100_000.0;
    })
    .await;
    let description = openapi();
    let mut checked = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let concrete = path
                .replace("{plural}", "configmaps")
                .replace("{namespace}", "default")
                .replace("{digest}", "abc")
                .replace("{repository}", "app")
                .replace("{question}", "1")
                .replace("{artifact}", "task.toml")
                .replace("{name}", "some-name");
            let needed = needed(method, path);
            let is_worker = path.starts_with("/workers/");
            checked += 1;
            for token in [None, Some("bwk_wrong"), Some("")] {
                let request = HttpRequest::new(method, &concrete);
                let request = match token {
                    Some(token) => request.token(token),
                    None => request,
                };
                let reply = server.execute(request).await;
                let webhook = path == "/webhooks/{repository}";
                let refused = needed.is_some() || webhook || is_worker;
                assert_eq!(reply.status == 401, refused, "{method} {path} {token:?}: {reply:?}");
            }
            for scope in SCOPES {
                let Some(needed) = needed else { continue };
                if is_worker {
                    // A person's token is not a worker credential.
                    let request = HttpRequest::new(method, &concrete).token(&server.tokens[&scope]);
                    assert_eq!(server.execute(request).await.status, 401, "{method} {path}");
                    continue;
                }
                // A stream does not end, and a logout would revoke the token.
                if ["/api/v1alpha1/events", "/auth/logout"].contains(&path.as_str()) {
                    continue;
                }
                let reply = server
                    .execute(HttpRequest::new(method, &concrete).token(&server.tokens[&scope]))
                    .await;
                let denied = reply.status == 403 && reply.code() == "SCOPE_DENIED";
                assert_eq!(denied, scope < needed, "{method} {path} as {scope:?}: {reply:?}");
                assert_ne!(reply.status, 401, "{method} {path} as {scope:?}");
            }
        }
    }
    assert!(checked > 80, "only {checked} routes");
    let calls = server.fleet.calls.lock().unwrap();
    assert!(calls.iter().all(|(caller, _, _)| caller.scope >= TokenScope::Viewer));
}
