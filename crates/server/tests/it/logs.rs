//! The log has one line for each request, without secrets.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::client::HttpRequest;
use crate::test_server::start_server;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_is_logged_without_secrets() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(subscriber)
        .expect("only this test sets the subscriber");
    let server = start_server().await;
    let body = json!({ "values": { "key": "value-kept-secret" } });
    let set = HttpRequest::new("PUT", "/api/v1alpha1/namespaces/default/secrets/hook")
        .token(server.admin())
        .header("x-correlation-id", "looked-for-1")
        .json(&body);
    server.execute(set).await.expect(200);
    let wrong = HttpRequest::get("/api/v1alpha1/runs?fieldSelector=branch=name-kept-secret")
        .token("bwk_token-kept-secret");
    server.execute(wrong).await.expect(401);
    let hook = HttpRequest::new("POST", "/webhooks/app")
        .header("x-hub-signature-256", "signature-kept-secret")
        .bytes("payload-kept-secret");
    server.execute(hook).await.expect(401);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let found = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = found.map(|line| line["fields"].clone());
    let line = found.rfind(|fields| fields["correlation"] == "looked-for-1").unwrap();
    assert_eq!((line["status"].as_u64(), line["actor"].as_str()), (Some(200), Some("admin")));
    assert_eq!(line["route"], "/api/v1alpha1/namespaces/{namespace}/secrets/{name}");
    assert!(!text.contains("kept-secret"), "{text}");
    assert!(!text.contains(server.admin().trim_start_matches("bwk_")), "{text}");
}
