//! Readers that continue after the last number miss nothing that several servers write concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_fleet::ports::{AuditEntry, FleetStore as _, Write};
use bailiwick_resources::{Kind, Moment};
use serde_json::json;

use crate::fleet::worker::plain;
use crate::test_database::TestDatabase;

const SERVERS: usize = 4;
const WRITES: usize = 40;

fn audit_entry(name: &str) -> AuditEntry {
    AuditEntry {
        at: Moment::default(),
        actor: "ada".to_owned(),
        event: "Written".to_owned(),
        subject: name.to_owned(),
        correlation: Default::default(),
        detail: json!({}),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reader_sees_every_change_and_audit_entry_of_all_servers() {
    let database = TestDatabase::new();
    let reader = database.open().await;
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    let reading = tokio::spawn(async move {
        let (mut names, mut subjects) = (Vec::new(), Vec::new());
        let (mut version, mut number) = (0, 0);
        loop {
            // Read first: everything written before the end is read after it.
            let last = stop.load(Ordering::SeqCst);
            let changes = reader.changes(version, 3).await.unwrap();
            let entries = reader.audit(number, 3).await.unwrap();
            let is_empty = changes.is_empty() && entries.is_empty();
            for change in changes {
                assert_eq!(change.version, version + 1);
                version = change.version;
                names.push(change.object.metadata.name);
            }
            for (next, entry) in entries {
                assert_eq!(next, number + 1);
                number = next;
                subjects.push(entry.subject);
            }
            if last && is_empty {
                return (names, subjects);
            }
        }
    });
    let mut servers = tokio::task::JoinSet::new();
    for server in 0..SERVERS {
        let store = database.open().await;
        servers.spawn(async move {
            for write in 0..WRITES {
                let name = format!("of-{server}-{write}");
                let entry = Write::Audit(audit_entry(&name));
                let object = Write::Create(plain(Kind::ConfigMap, &name, json!({})));
                store.commit(vec![object, entry], Moment::default()).await.unwrap();
            }
        });
    }
    servers.join_all().await;
    stopped.store(true, Ordering::SeqCst);
    let (mut names, mut subjects) = reading.await.unwrap();
    let mut written: Vec<String> = (0..SERVERS)
        .flat_map(|server| (0..WRITES).map(move |write| format!("of-{server}-{write}")))
        .collect();
    written.sort();
    names.sort();
    subjects.sort();
    assert_eq!(names, written);
    assert_eq!(subjects, written);
}
