//! Secrets are never in plain text in a file.

use std::os::unix::fs::PermissionsExt as _;

use bailiwick_fleet::ports::{FleetStore as _, Write};
use bailiwick_resources::{Kind, Moment};
use serde_json::json;

use super::secrets::{VALUE, set, value};
use super::worker::plain;
use crate::test_database::TestDatabase;

const PLAIN_TEXT: &str = "anybody-may-read-this-in-the-file";

/// The files of the database's directory that contain these bytes.
fn files_with(database: &TestDatabase, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(database.path("")).unwrap() {
        let entry = entry.unwrap();
        let content = std::fs::read(entry.path()).unwrap();
        if content.windows(bytes.len()).any(|part| part == bytes) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

#[tokio::test]
async fn value_of_a_secret_is_never_in_plain_text_in_a_file() {
    let database = TestDatabase::new();
    let store = database.open().await;
    assert!(!database.key_file().exists(), "a key was created without need");
    let map = plain(Kind::ConfigMap, "open", json!({ "data": { "a": PLAIN_TEXT } }));
    store.commit(vec![Write::Create(map)], Moment::default()).await.unwrap();
    set(&store, "first", VALUE).await.unwrap();
    set(&store, "first", VALUE).await.unwrap();
    let look = |moment: &str| {
        assert_ne!(
            files_with(&database, PLAIN_TEXT.as_bytes()),
            [""; 0],
            "{moment}: the search finds nothing"
        );
        assert_eq!(files_with(&database, VALUE), [""; 0], "{moment}");
        let files = std::fs::read_dir(database.path("")).unwrap().count();
        assert!(files >= 3, "{moment}: {files} files");
    };
    look("while the log is there");
    let mut connection = database.connect().await;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
    look("when the log is in the database");
    let mode = std::fs::metadata(database.key_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(value(&store, "first").await.unwrap().as_deref(), Some(VALUE));
    assert_eq!(value(&database.open().await, "first").await.unwrap().as_deref(), Some(VALUE));
}
