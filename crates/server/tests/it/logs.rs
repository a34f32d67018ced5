//! Logs: one line a request, and never a secret in it.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::client::Ask;
use crate::place::place;

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
async fn a_request_leaves_a_line_and_no_secret() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test does this");
    let place = place().await;
    let body = json!({ "values": { "key": "value-kept-secret" } });
    let set = Ask::new("PUT", "/api/v1alpha1/namespaces/default/secrets/hook")
        .token(place.admin())
        .header("x-correlation-id", "looked-for-1")
        .json(&body);
    place.ask(set).await.expect(200);
    let wrong = Ask::get("/api/v1alpha1/runs?fieldSelector=branch=name-kept-secret")
        .token("bwk_token-kept-secret");
    place.ask(wrong).await.expect(401);
    let hook = Ask::new("POST", "/webhooks/app")
        .header("x-hub-signature-256", "signature-kept-secret")
        .bytes("payload-kept-secret");
    place.ask(hook).await.expect(401);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let found = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = found.map(|line| line["fields"].clone());
    let line = found.rfind(|fields| fields["correlation"] == "looked-for-1").unwrap();
    assert_eq!((line["status"].as_u64(), line["actor"].as_str()), (Some(200), Some("admin")));
    assert_eq!(line["route"], "/api/v1alpha1/namespaces/{namespace}/secrets/{name}");
    assert!(!text.contains("kept-secret"), "{text}");
    assert!(!text.contains(place.admin().trim_start_matches("bwk_")), "{text}");
}
