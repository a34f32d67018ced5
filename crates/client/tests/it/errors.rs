//! Each failure between a client and a server has a typed error and a message.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

use bailiwick_client::{ApplyMode, ClientError, FleetClient as _, Token};
use bailiwick_fleet::ports::{Selection, TokenScope};
use bailiwick_resources::Kind;
use serde_json::json;

use crate::{TestServer, config_map, http};

/// A server that sends the same response to every request, and a channel with the requests.
pub(crate) fn canned_server(response: String) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            let _ = sender.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    (address, received)
}

pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn token() -> Token {
    Token::parse("bwk_canned").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_for_an_unreachable_server_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = http(address, &token()).who_am_i().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot reach http://{address}: Connection refused")),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valid_token_names_its_actor_and_other_tokens_are_rejected() {
    let server = TestServer::start().await;
    let error = http(server.address, &token()).who_am_i().await.unwrap_err();
    assert!(matches!(error, ClientError::TokenRejected { .. }), "{error}");
    let client = server.client(TokenScope::Viewer).await;
    let me = client.who_am_i().await.unwrap();
    assert_eq!((me.actor.as_str(), me.scope), ("ada", TokenScope::Viewer));
    let admin = server.client(TokenScope::Admin).await;
    admin.revoke_token(&me.token).await.unwrap();
    let error = client.who_am_i().await.unwrap_err();
    assert!(matches!(error, ClientError::TokenRejected { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_for_a_missing_scope_names_it() {
    let server = TestServer::start().await;
    let viewer = server.client(TokenScope::Viewer).await;
    viewer.list(&Selection::of(Kind::ConfigMap)).await.unwrap();
    let error = viewer.apply(&[config_map("a", "1")], ApplyMode::Write).await.unwrap_err();
    assert!(matches!(error, ClientError::ScopeDenied { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("scope admin") && text.contains("scope viewer"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_of_another_version_is_incompatible() {
    let error_body = |code: &str| {
        let detail = json!({
            "code": code, "message": "m", "correlationId": "c", "resource": "", "reasons": [],
        });
        json!({ "error": detail }).to_string()
    };
    let other = json!({
        "actor": "ada", "scope": "viewer", "token": "tok-1", "serverVersion": "9.0.0",
        "apiVersion": "bailiwick.dev/v9",
    });
    for (status, body) in [
        ("404 Not Found", error_body("NO_SUCH_PATH")),
        ("404 Not Found", error_body("NOT_FOUND")),
        ("405 Method Not Allowed", error_body("METHOD_NOT_ALLOWED")),
        ("404 Not Found", "<html>nginx</html>".to_owned()),
        ("200 OK", "<html>a login page</html>".to_owned()),
        ("200 OK", json!({ "other": 1 }).to_string()),
        ("200 OK", other.to_string()),
    ] {
        let (address, _received) = canned_server(response(status, "", &body));
        let error = http(address, &token()).who_am_i().await.unwrap_err();
        assert!(matches!(error, ClientError::Incompatible { .. }), "{status} {body}: {error}");
    }
    let (address, _received) = canned_server(response("502 Bad Gateway", "", "<html>"));
    let error = http(address, &token()).who_am_i().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirect_does_not_send_the_token_to_another_server() {
    let (elsewhere, stolen) = canned_server(response("200 OK", "", "{}"));
    let location = format!("location: http://{elsewhere}/\r\n");
    let (address, received) = canned_server(response("307 Temporary Redirect", &location, ""));
    let error = http(address, &token()).who_am_i().await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { .. }), "{error}");
    assert!(received.try_recv().unwrap().contains("bwk_canned"), "positive control");
    assert!(stolen.try_recv().is_err());
}
