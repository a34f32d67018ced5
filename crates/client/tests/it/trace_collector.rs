//! Trace collector: permanent errors, and errors after which a client can send again.

use bailiwick_client::{CollectorError, PlainHttp, ServerAddress, TraceCollector, TraceError};
use serde_json::json;

use crate::errors::{canned_server, response};

fn address(text: &str) -> ServerAddress {
    ServerAddress::parse(text, PlainHttp::Anywhere).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_permanent_errors_of_a_collector_are_refusals() {
    for (status, is_permanent) in [
        ("400 Bad Request", true),
        ("401 Unauthorized", false),
        ("403 Forbidden", false),
        ("404 Not Found", false),
        ("422 Unprocessable Content", true),
        ("413 Content Too Large", true),
        ("408 Request Timeout", false),
        ("429 Too Many Requests", false),
        ("503 Service Unavailable", false),
    ] {
        let (server, _received) = canned_server(response(status, "", ""));
        let collector = TraceCollector::new(address(&format!("http://{server}")), "key=1").unwrap();
        let error = collector.send(&json!({})).await.unwrap_err();
        assert_eq!(matches!(error, TraceError::Refused { .. }), is_permanent, "{status}: {error}");
        assert!(error.to_string().contains(status.split(' ').next().unwrap()), "{error}");
    }
    let (server, received) = canned_server(response("200 OK", "", "{}"));
    let collector = TraceCollector::new(address(&format!("http://{server}")), "key=1").unwrap();
    collector.send(&json!({})).await.unwrap();
    assert!(received.recv().unwrap().contains("key: 1"), "positive control");
}

#[test]
fn headers_are_not_sent_unencrypted_to_another_machine() {
    let collector =
        |text: &str, headers: &str| TraceCollector::new(address(text), headers).map(drop);
    let refused = collector("http://collector.example:4318", "key=1").unwrap_err();
    assert!(matches!(refused, CollectorError::Unencrypted { .. }), "{refused}");
    for (text, headers) in [
        ("http://collector.example:4318", ""),
        ("http://127.0.0.1:4318", "key=1"),
        ("https://collector.example", "key=1"),
    ] {
        collector(text, headers).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_headers_are_decoded_and_unreadable_ones_refused() {
    let (server, received) = canned_server(response("200 OK", "", "{}"));
    let address = address(&format!("http://{server}"));
    let headers = "authorization=Basic%20YTpi%3D, tenant = a%2Cb ,";
    let collector = TraceCollector::new(address.clone(), headers).unwrap();
    collector.send(&json!({})).await.unwrap();
    let request = received.recv().unwrap();
    assert!(request.contains("authorization: Basic YTpi="), "{request}");
    assert!(request.contains("tenant: a,b"), "{request}");
    for (headers, wrong) in [
        ("key", 1),
        ("one=1,secret", 2),
        ("one=1,a b=2", 2),
        ("key=%2", 1),
        ("key=%zz", 1),
        ("key=a%0Ab", 1),
    ] {
        let refused = TraceCollector::new(address.clone(), headers).map(drop).unwrap_err();
        assert_eq!(refused, CollectorError::UnreadableHeader { number: wrong }, "{headers}");
        assert!(!refused.to_string().contains("secret"));
    }
}
