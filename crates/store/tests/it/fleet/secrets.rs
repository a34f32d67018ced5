//! Secrets: readable only with their key and identity.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use bailiwick_fleet::ports::{
    AuditEntry, FleetError, FleetStore as _, TokenRecord, TokenScope, Values, Write,
};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use serde_json::json;

use super::worker::Worker;
use crate::test_database::{TestDatabase, block_on};

pub(crate) const VALUE: &[u8] = b"correct-horse-battery-staple-39";

pub(crate) async fn set(store: &Store, name: &str, value: &[u8]) -> Result<(), FleetError> {
    let values = BTreeMap::from([("key".to_owned(), value.to_vec())]);
    store.set_secret("default", name, values, Moment::from_millis(1)).await.map(drop)
}

pub(crate) async fn value(store: &Store, name: &str) -> Result<Option<Vec<u8>>, FleetError> {
    store.secret_value("default", name, "key").await
}

#[tokio::test]
async fn value_decrypts_only_under_its_own_identity() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for name in ["mine", "yours"] {
        set(&store, name, name.as_bytes()).await.unwrap();
    }
    let mut connection = database.connect().await;
    let moved = "UPDATE secret_values SET nonce = (SELECT nonce FROM secret_values WHERE name = $1), \
                 sealed = (SELECT sealed FROM secret_values WHERE name = $1) WHERE name = $2";
    sqlx::query("CREATE TABLE before AS SELECT * FROM secret_values")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::query(moved).bind("mine").bind("yours").execute(&mut connection).await.unwrap();
    let error = value(&store, "yours").await.unwrap_err();
    assert!(
        matches!(error, FleetError::Undecryptable { .. }),
        "the error must be about the value: {error:?}"
    );
    let error = error.to_string();
    assert!(error.contains("`default/yours` was changed in the database"), "{error}");
    assert_eq!(value(&store, "mine").await.unwrap().as_deref(), Some(b"mine".as_slice()));
    // Positive control: the original value decrypts.
    let restore = "UPDATE secret_values SET nonce = (SELECT nonce FROM before WHERE name = $1), \
                sealed = (SELECT sealed FROM before WHERE name = $1) WHERE name = $1";
    sqlx::query(restore).bind("yours").execute(&mut connection).await.unwrap();
    assert_eq!(value(&store, "yours").await.unwrap().as_deref(), Some(b"yours".as_slice()));
    // An older value does not decrypt as the newer one.
    set(&store, "yours", b"newer").await.unwrap();
    assert_eq!(value(&store, "yours").await.unwrap().as_deref(), Some(b"newer".as_slice()));
    sqlx::query(restore).bind("yours").execute(&mut connection).await.unwrap();
    value(&store, "yours").await.unwrap_err();
}

#[tokio::test]
async fn missing_wrong_or_accessible_key_is_an_error_and_never_replaced() {
    let database = TestDatabase::new();
    let store = database.open().await;
    set(&store, "kept", VALUE).await.unwrap();
    let (file, moved) = (database.key_file(), database.path("aside"));
    let key = std::fs::read(&file).unwrap();
    let refused = async |why: &str| {
        let unopened = value(&store, "kept").await;
        assert!(matches!(unopened, Err(FleetError::Undecryptable { .. })), "{unopened:?}");
        for error in [
            value(&store, "kept").await.unwrap_err().to_string(),
            set(&store, "another", b"x").await.unwrap_err().to_string(),
        ] {
            assert!(error.contains(why), "{error}");
            assert!(error.contains(&file.display().to_string()), "{error}");
        }
        assert_eq!(value(&store, "another").await.unwrap(), None);
    };
    std::fs::rename(&file, &moved).unwrap();
    refused("is missing").await;
    assert!(!file.exists(), "a new key was created");
    let put = |bytes: &[u8], mode: u32| {
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut wrong_key = key.clone();
    wrong_key[0] ^= 1;
    put(&wrong_key, 0o600);
    refused("is not the key").await;
    put(&key[1..], 0o600);
    refused("has 31 bytes").await;
    put(&key, 0o640);
    refused("is accessible to others (mode 640)").await;
    put(&key, 0o600);
    assert_eq!(value(&store, "kept").await.unwrap().as_deref(), Some(VALUE));
    set(&store, "another", b"x").await.unwrap();
}

#[test]
fn concurrent_first_secrets_of_processes_create_one_key() {
    for _ in 0..3 {
        let database = TestDatabase::new();
        block_on(database.open());
        let mut workers: Vec<Worker> = (0..6).map(|_| Worker::start(&database.address())).collect();
        for (number, worker) in workers.iter_mut().enumerate() {
            worker.order(&format!("secret s{number}"));
        }
        for worker in &mut workers {
            assert_eq!(worker.answer().as_deref(), Some("set"));
        }
        workers.into_iter().for_each(Worker::finish);
        block_on(async {
            let store = database.open().await;
            for number in 0..6 {
                let expected = format!("value of s{number}").into_bytes();
                assert_eq!(value(&store, &format!("s{number}")).await.unwrap(), Some(expected));
            }
        });
    }
}

#[tokio::test]
async fn values_tokens_and_audit_entries_are_written_together_or_not_at_all() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let now = Moment::from_millis(1);
    let token = TokenRecord {
        id: "t".to_owned(),
        actor: "grace".to_owned(),
        scope: TokenScope::Viewer,
        digest: "d".to_owned(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
    };
    let line = AuditEntry {
        at: now,
        actor: "ada".to_owned(),
        event: "AgentSecretRotated".to_owned(),
        subject: "Secret/default/first".to_owned(),
        correlation: BTreeMap::new(),
        detail: json!({}),
    };
    let values = Values(BTreeMap::from([("key".to_owned(), VALUE.to_vec())]));
    let (namespace, name) = ("default".to_owned(), "first".to_owned());
    let writes =
        vec![Write::Secret { namespace, name, values }, Write::Token(token), Write::Audit(line)];
    assert!(
        !format!("{writes:?}").contains("correct-horse"),
        "a write must be shown without its values"
    );
    let mut broken = writes.clone();
    let kind = Kind::ConfigMap;
    let (namespace, name) = ("default".to_owned(), "not-there".to_owned());
    broken.push(Write::Delete { kind, namespace, name, version: 0 });
    store.commit(broken, now).await.unwrap_err();
    assert_eq!(value(&store, "first").await.unwrap(), None);
    assert_eq!((store.tokens().await.unwrap(), store.audit(0, 9).await.unwrap()), (vec![], vec![]));
    let applied = store.commit(writes, now).await.unwrap();
    assert_eq!(applied.objects.len(), 1, "the secret's object");
    assert_eq!(value(&store, "first").await.unwrap().as_deref(), Some(VALUE));
    assert_eq!(store.tokens().await.unwrap().len(), 1);
    assert_eq!(store.audit(0, 9).await.unwrap().len(), 1);
}
