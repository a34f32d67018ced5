//! Both clients give the same answers and the same typed errors.

use std::collections::BTreeMap;

use bailiwick_client::{ApplyMode, ClientError, FleetClient};
use bailiwick_fleet::ports::{
    ActionError, Requirement, RunVerb, RunVerbRequest, Selection, TokenScope,
};
use bailiwick_fleet::resources::{DeclareError, Outcome};
use bailiwick_resources::{AnyObject, Kind};
use bailiwick_server::TokenRequest;
use serde_json::json;

use crate::{TestServer, config_map, target};

fn outcomes(applied: &[bailiwick_fleet::resources::Applied]) -> Vec<Outcome> {
    applied.iter().map(|one| one.outcome).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_clients_apply_get_diff_and_delete_objects_alike() {
    let server = TestServer::start().await;
    let (local, remote) = (server.local(), server.client(TokenScope::Admin).await);
    let clients: [(&str, &dyn FleetClient); 2] = [("a", &local), ("b", &remote)];
    for (name, client) in clients {
        let first = [config_map(name, "1")];
        let dry = client.apply(&first, ApplyMode::DryRun).await.unwrap();
        assert_eq!(outcomes(&dry), [Outcome::Created]);
        assert_eq!(client.get(Kind::ConfigMap, &target(name)).await.unwrap(), None);
        client.apply(&first, ApplyMode::Write).await.unwrap();
        let done = client.apply(&[config_map(name, "2")], ApplyMode::Write).await.unwrap();
        assert_eq!(outcomes(&done), [Outcome::Configured]);
        assert_eq!(done[0].object.metadata.generation, 2);
        let diff = client.diff(&[config_map(name, "3")]).await.unwrap();
        assert!(diff[0].diff.contains("-    k: \"2\"\n+    k: \"3\"\n"), "{diff:?}");
    }
    for name in ["a", "b"] {
        let read = local.get(Kind::ConfigMap, &target(name)).await.unwrap();
        assert!(read.is_some());
        assert_eq!(read, remote.get(Kind::ConfigMap, &target(name)).await.unwrap());
    }
    for selection in [
        Selection::of(Kind::ConfigMap),
        Selection { limit: 1, ..Selection::of(Kind::ConfigMap) },
        Selection { newest_first: true, ..Selection::of(Kind::ConfigMap) },
        Selection { namespace: Some("default".to_owned()), ..Selection::of(Kind::ConfigMap) },
        Selection { namespace: Some("other".to_owned()), ..Selection::of(Kind::ConfigMap) },
    ] {
        let page = local.list(&selection).await.unwrap();
        assert_eq!(page, remote.list(&selection).await.unwrap(), "{selection:?}");
    }
    for (name, client) in clients {
        let stale = client.delete(Kind::ConfigMap, &target(name), 1).await.unwrap_err();
        assert!(stale.to_string().contains("was changed meanwhile"), "{stale}");
        client.delete(Kind::ConfigMap, &target(name), 0).await.unwrap();
        let missing = client.delete(Kind::ConfigMap, &target(name), 0).await.unwrap_err();
        assert!(missing.to_string().contains("there is no ConfigMap"), "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_unless_the_requirements_are_met() {
    let server = TestServer::start().await;
    let (local, remote) = (server.local(), server.client(TokenScope::Admin).await);
    let clients: [(&str, &dyn FleetClient); 2] = [("a", &local), ("b", &remote)];
    let fence = local.apply(&[config_map("fence", "1")], ApplyMode::Write).await.unwrap();
    let version = fence[0].object.metadata.resource_version;
    let required = |name: &str, resource_version| {
        let (kind, namespace) = (Kind::ConfigMap, "default".to_owned());
        Requirement { kind, namespace, name: name.to_owned(), resource_version }
    };
    let (met, unmet) = (required("fence", version), required("fence", version + 1));
    for (name, client) in clients {
        let new = [config_map(name, "1")];
        let requirements = [met.clone(), required(name, 0)];
        let refused = client.apply_requiring(&new, std::slice::from_ref(&unmet)).await.unwrap_err();
        assert!(refused.to_string().contains("was changed meanwhile"), "{refused}");
        assert_eq!(client.get(Kind::ConfigMap, &target(name)).await.unwrap(), None);
        client.apply_requiring(&new, &requirements).await.unwrap();
        let exists = client.apply_requiring(&new, &requirements).await.unwrap_err();
        assert!(exists.to_string().contains("already"), "{exists}");
        let (kind, object) = (Kind::ConfigMap, target(name));
        let refused = client.delete_requiring(kind, &object, 0, &unmet).await.unwrap_err();
        assert!(refused.to_string().contains("was changed meanwhile"), "{refused}");
        assert!(client.get(kind, &object).await.unwrap().is_some());
        client.delete_requiring(kind, &object, 0, &met).await.unwrap();
        assert_eq!(client.get(kind, &object).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_documents_have_the_same_errors() {
    let server = TestServer::start().await;
    let (local, remote) = (server.local(), server.client(TokenScope::Admin).await);
    local.apply(&[config_map("a", "1")], ApplyMode::Write).await.unwrap();
    let mut stale = config_map("a", "2");
    stale.metadata.resource_version = 99;
    let mut unknown = config_map("b", "1");
    unknown.spec["x"] = json!(1);
    let run = AnyObject { kind: Kind::AgentDispatchRun, ..config_map("r", "1") };
    let secret = AnyObject { kind: Kind::Secret, spec: json!({}), ..config_map("s", "1") };
    let duplicates = [config_map("d", "1"), config_map("d", "2")];
    let mut invalid: Vec<Vec<AnyObject>> =
        [stale, unknown, run, secret].map(|one| vec![one]).to_vec();
    invalid.push(duplicates.to_vec());
    for documents in invalid {
        let one = local.apply(&documents, ApplyMode::Write).await.unwrap_err();
        let other = remote.apply(&documents, ApplyMode::Write).await.unwrap_err();
        assert_eq!(one.to_string(), other.to_string(), "{documents:?}");
    }
    // The status of a document that was read is ignored, as in a local apply.
    let spec = json!({ "capacity": 1, "trustTier": "trusted", "serviceAccountRef": "r" });
    let pool = AnyObject { kind: Kind::RunnerPool, spec, ..config_map("p", "1") };
    remote.apply(std::slice::from_ref(&pool), ApplyMode::Write).await.unwrap();
    let read = AnyObject { status: json!({ "conditions": [] }), ..pool };
    let applied = remote.apply(&[read], ApplyMode::Write).await.unwrap();
    assert_eq!(outcomes(&applied), [Outcome::Unchanged]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_clients_handle_secrets_tokens_and_the_audit_log_alike() {
    let server = TestServer::start().await;
    let (local, remote) = (server.local(), server.client(TokenScope::Admin).await);
    let clients: [(&str, &dyn FleetClient); 2] = [("a", &local), ("b", &remote)];
    for (name, client) in clients {
        let values = BTreeMap::from([("key".to_owned(), vec![0, 159, 146, 150])]);
        client.set_secret(&target(name), values).await.unwrap();
        let request =
            TokenRequest { actor: "bob".to_owned(), scope: TokenScope::Viewer, expires_at: None };
        let minted = client.mint_token(request).await.unwrap();
        assert!(minted.token.starts_with("bwk_") && minted.record.id.starts_with("tok-"));
        assert!(client.revoke_token(&minted.record.id).await.unwrap().revoked_at.is_some());
        let missing = client.revoke_token("tok-none").await.unwrap_err();
        assert_eq!(
            missing,
            ActionError::NotFound("there is no token `tok-none`".to_owned()).into()
        );
        let without_actor =
            TokenRequest { actor: String::new(), scope: TokenScope::Viewer, expires_at: None };
        let refused = client.mint_token(without_actor).await.unwrap_err();
        assert!(matches!(refused, ClientError::Action(ActionError::Invalid(_))), "{refused}");
    }
    use bailiwick_fleet::ports::FleetStore as _;
    for name in ["a", "b"] {
        let value = server.store.secret_value("default", name, "key").await.unwrap();
        assert_eq!(value, Some(vec![0, 159, 146, 150]));
    }
    let (one, other) = (local.tokens().await.unwrap(), remote.tokens().await.unwrap());
    assert_eq!(serde_json::to_value(one).unwrap(), serde_json::to_value(other).unwrap());
    let lines = local.audit(0, 100).await.unwrap();
    let events: Vec<&str> = lines.iter().map(|line| line.entry.event.as_str()).collect();
    let each = ["AgentSecretRotated", "TokenCreated", "TokenRevoked"];
    assert_eq!(events, [each, each].concat());
    for (one, other) in lines[..3].iter().zip(&lines[3..]) {
        assert_eq!(
            (&one.entry.actor, &one.entry.detail),
            (&other.entry.actor, &other.entry.detail)
        );
    }
    let same = remote.audit(0, 100).await.unwrap();
    assert_eq!(serde_json::to_value(lines).unwrap(), serde_json::to_value(same).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_actions_and_secrets_keep_their_error_types() {
    let server = TestServer::start().await;
    let (local, remote) = (server.local(), server.client(TokenScope::Admin).await);
    let request = RunVerbRequest::default();
    let one = local.act_on_run(&target("x"), RunVerb::Cancel, request.clone()).await.unwrap_err();
    let other = remote.act_on_run(&target("x"), RunVerb::Cancel, request).await.unwrap_err();
    assert_eq!(one, other);
    let secret = AnyObject { kind: Kind::Secret, spec: json!({}), ..config_map("s", "1") };
    let refused = remote.diff(&[secret]).await.unwrap_err();
    assert!(matches!(refused, ClientError::Declare(DeclareError::Secret { .. })), "{refused}");
}
