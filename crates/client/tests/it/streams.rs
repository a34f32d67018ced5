//! Watches over HTTP: no change is lost, even if the server restarts.

use bailiwick_client::{ApplyMode, ChangeStream, ClientError, FleetClient as _};
use bailiwick_fleet::ports::{ActionError, ChangeKind, FleetError, Selection, TokenScope};
use bailiwick_resources::Kind;

use crate::{TIMEOUT, TestServer, config_map, target};

async fn next(changes: &mut Box<dyn ChangeStream>) -> Vec<(ChangeKind, String)> {
    let next = tokio::time::timeout(TIMEOUT, changes.next()).await.expect("a change in time");
    let all = next.unwrap().into_iter();
    all.map(|change| (change.kind, change.object.metadata.name)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_continues_after_a_restart_of_the_server() {
    let mut server = TestServer::start().await;
    let (local, remote) = (server.local(), server.client(TokenScope::Admin).await);
    let version = remote.list(&Selection::of(Kind::ConfigMap)).await.unwrap().version;
    let mut changes = remote.watch(Kind::ConfigMap, version).await.unwrap();
    local.apply(&[config_map("a", "1")], ApplyMode::Write).await.unwrap();
    assert_eq!(next(&mut changes).await, [(ChangeKind::Added, "a".to_owned())]);
    server.stop().await;
    local.apply(&[config_map("a", "2")], ApplyMode::Write).await.unwrap();
    let (received, ()) = tokio::join!(next(&mut changes), server.serve());
    assert_eq!(received, [(ChangeKind::Modified, "a".to_owned())]);
    local.delete(Kind::ConfigMap, &target("a"), 0).await.unwrap();
    assert_eq!(next(&mut changes).await, [(ChangeKind::Deleted, "a".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_token_ends_a_watch_with_a_typed_error() {
    let server = TestServer::start().await;
    let (local, remote) = (server.local(), server.client(TokenScope::Viewer).await);
    let mut changes = remote.watch(Kind::ConfigMap, 0).await.unwrap();
    let me = remote.who_am_i().await.unwrap();
    local.revoke_token(&me.token).await.unwrap();
    let error = tokio::time::timeout(TIMEOUT, changes.next()).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::TokenRejected { .. }), "{error}");
    let error = remote.watch(Kind::ConfigMap, 0).await.err().unwrap();
    assert!(matches!(error, ClientError::TokenRejected { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_from_a_version_that_does_not_exist_is_an_error() {
    let server = TestServer::start().await;
    let remote = server.client(TokenScope::Viewer).await;
    let mut changes = remote.watch(Kind::ConfigMap, 4_000).await.unwrap();
    let error = tokio::time::timeout(TIMEOUT, changes.next()).await.unwrap().unwrap_err();
    let is_gone = matches!(error, ClientError::Action(ActionError::Store(FleetError::Gone { .. })));
    assert!(is_gone, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_a_run_that_does_not_exist_is_an_error() {
    let server = TestServer::start().await;
    let remote = server.client(TokenScope::Viewer).await;
    let error = remote.follow_run(&target("none"), None, 0).await.err().unwrap();
    assert!(matches!(error, ClientError::Action(ActionError::NotFound(_))), "{error}");
}
