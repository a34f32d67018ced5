//! Saved filters: each person has their own, and invalid filters are not saved.

use bailiwick_fleet::ports::TokenScope;
use serde_json::{Value, json};

use crate::client::HttpRequest;
use crate::test_server::{TestServer, start_server};

const FILTERS: &str = "/api/v1alpha1/saved-filters";

async fn save(server: &TestServer, name: &str, query: &str) -> (u16, Value) {
    let request = HttpRequest::new("post", "/api/v1alpha1/saved-filters");
    let request = request.token(&server.tokens[&TokenScope::Viewer]);
    let reply = server.execute(request.json(&json!({ "name": name, "query": query }))).await;
    (reply.status, reply.json())
}

async fn names(server: &TestServer, scope: TokenScope) -> Vec<String> {
    let request = HttpRequest::new("get", FILTERS).token(&server.tokens[&scope]);
    let list = server.execute(request).await.expect(200).json();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saved_filters_are_visible_to_their_owner_only() {
    let server = start_server().await;
    assert_eq!(save(&server, " Mine ", "group=ended&stack=mender").await.0, 201);
    let (status, replaced) = save(&server, "Mine", "group=working").await;
    assert_eq!((status, &replaced["query"]), (201, &json!("group=working")));
    assert_eq!(names(&server, TokenScope::Viewer).await, ["Mine"]);
    assert_eq!(names(&server, TokenScope::Admin).await, [""; 0], "another person sees none");
    let delete = |scope| {
        let request = HttpRequest::new("delete", "/api/v1alpha1/saved-filters/Mine");
        request.token(&server.tokens[&scope])
    };
    server.execute(delete(TokenScope::Admin)).await.expect(404);
    server.execute(delete(TokenScope::Viewer)).await.expect(200);
    assert_eq!(names(&server, TokenScope::Viewer).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_valid_filters_are_saved_up_to_the_limit() {
    let server = start_server().await;
    for (name, query) in [
        ("", "group=ended"),
        ("two\nlines", "group=ended"),
        (&*"x".repeat(65), "group=ended"),
        ("a", ""),
        ("a", "group=nobody"),
        ("a", "limit=500"),
        ("a", "continue=x"),
        ("a", "status=x"),
        ("a", &*format!("text={}", "x".repeat(2_000))),
    ] {
        let (status, body) = save(&server, name, query).await;
        assert!(status == 400 || status == 422, "{name} {query}: {status} {body}");
    }
    for number in 0..50 {
        assert_eq!(save(&server, &format!("f{number}"), "text=a").await.0, 201, "{number}");
    }
    assert_eq!(save(&server, "one more", "text=a").await.0, 409);
    assert_eq!(save(&server, "f7", "text=b").await.0, 201, "a filter can be replaced at the limit");
}
