//! The OpenAPI description agrees with the routes.

use std::collections::BTreeSet;

use bailiwick_resources::Kind;
use bailiwick_server::{openapi, schemas};
use serde_json::Value;

use crate::client::HttpRequest;
use crate::test_server::start_server_with;

fn operations() -> Vec<(String, String, Value)> {
    let description = openapi();
    let paths = description["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        methods.iter().map(|(method, what)| (method.clone(), path.clone(), what.clone()))
    });
    all.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_described_paths_are_routed() {
    let server = start_server_with(|limits| {
        limits.failed_auth_cost = 0.0;
        limits.failed_signatures.burst = 100_000.0;
        limits.per_address.burst = 100_000.0;
    })
    .await;
    let served = server.execute(HttpRequest::get("/openapi.json")).await.expect(200).json();
    assert_eq!(served, openapi());
    let described: BTreeSet<(String, String)> =
        operations().into_iter().map(|(method, path, _)| (method, path)).collect();
    let paths: BTreeSet<&String> = described.iter().map(|(_, path)| path).collect();
    for path in paths {
        let concrete = path
            .replace("{plural}", "configmaps")
            .replace("{namespace}", "default")
            .replace("{digest}", "abc")
            .replace("{repository}", "app")
            .replace("{name}", "some-name");
        for method in ["get", "post", "put", "patch", "delete"] {
            let reply = server.execute(HttpRequest::new(method, &concrete)).await;
            let routed = reply.status != 405 && reply.status != 404;
            let known = described.contains(&(method.to_owned(), path.clone()));
            assert_eq!(routed, known, "{method} {path}: {reply:?}");
        }
    }
    for path in ["/api", "/api/v1alpha1", "/api/v2/runs", "/admin", "/api/agents/nothing", "/runs"]
    {
        let reply = server.execute(HttpRequest::get(path)).await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "NO_SUCH_PATH"), "{path}");
    }
}

#[test]
fn references_resolve_and_operation_ids_are_unique() {
    let description = openapi();
    let mut seen = BTreeSet::new();
    for (method, path, operation) in operations() {
        assert!(seen.insert(operation["operationId"].to_string()), "{method} {path}");
        assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 5), "{path}");
    }
    let mut references = 0;
    let mut todo = vec![&description];
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    references += 1;
                    let pointer = reference.strip_prefix('#').expect("a local reference");
                    assert!(description.pointer(pointer).is_some(), "{reference}");
                }
                todo.extend(fields.values());
            }
            Value::Array(items) => todo.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    assert!(references > 100, "only {references}");
}

#[test]
fn every_kind_has_a_self_contained_schema() {
    let schemas = schemas();
    assert_eq!(schemas.len(), Kind::ALL.len());
    for (kind, schema) in schemas {
        let reference = schema["$ref"].as_str().unwrap_or_else(|| panic!("{kind}: {schema}"));
        let found = schema.pointer(reference.strip_prefix('#').unwrap()).unwrap();
        assert!(found["properties"]["spec"].is_object(), "{kind}: {found}");
    }
}
