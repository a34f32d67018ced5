//! A full disk, a locked, moved, replaced or read-only database: writes fail, reads work, no acknowledged write
//! is lost, and the same store writes again when the fault is over.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bailiwick_fleet::ports::{FleetError, FleetStore, Received, Selection};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::{Location, Store};
use sqlx::{Connection as _, Executor as _, Row as _, SqliteConnection};

use super::objects::delivery;
use crate::test_database::{TestDatabase, block_on};

/// The directory of the tests that need their own file system.
const PLACE: &str = "BAILIWICK_TEST_STORAGE_FAULTS";

/// Webhooks that a store has acknowledged.
#[derive(Default)]
struct Acknowledged(BTreeSet<String>);

impl Acknowledged {
    /// Delivers a webhook of this size.
    async fn deliver(&mut self, store: &Store, bytes: usize) -> Result<(), FleetError> {
        let name = format!("awd-{}-{bytes}", self.0.len());
        let mut payload = name.clone().into_bytes();
        payload.resize(payload.len() + bytes, b'x');
        let received = store.receive(delivery(&name, &payload, Moment::from_millis(1))).await?;
        assert!(matches!(received, Received::New | Received::Redelivered));
        self.0.insert(name);
        Ok(())
    }

    /// All of them exist, in an undamaged database, and nothing else.
    async fn check(&self, store: &Store, file: &Path) {
        let selection = Selection { limit: usize::MAX, ..Selection::of(Kind::WebhookDelivery) };
        let found = FleetStore::list(store, &selection).await.unwrap().objects;
        let found: BTreeSet<String> =
            found.into_iter().map(|object| object.metadata.name).collect();
        let missing: Vec<_> = self.0.difference(&found).collect();
        assert!(missing.is_empty(), "acknowledged but missing: {missing:?}");
        let mut other = connect(file).await;
        let row = other.fetch_one("PRAGMA integrity_check").await.unwrap();
        assert_eq!(row.get::<String, _>(0), "ok");
    }
}

async fn connect(file: &Path) -> SqliteConnection {
    SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap()
}

fn message(result: Result<(), FleetError>) -> String {
    match result {
        Err(FleetError::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn database_locked_by_another_process_is_written_when_it_is_free() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let mut acknowledged = Acknowledged::default();
        acknowledged.deliver(&store, 10).await.unwrap();
        for _ in 0..3 {
            let mut other = database.connect().await;
            other.execute("BEGIN IMMEDIATE").await.unwrap();
            // The caller stops waiting, which must not break the connection.
            let short = Duration::from_millis(200);
            tokio::time::timeout(short, store.check_writable()).await.unwrap_err();
            tokio::time::timeout(short, store.append_ledger_note("note", "x")).await.unwrap_err();
            let selection = Selection::of(Kind::WebhookDelivery);
            FleetStore::list(&store, &selection).await.unwrap();
            let free = async {
                tokio::time::sleep(short).await;
                other.execute("COMMIT").await.unwrap();
            };
            let (delivered, ()) = tokio::join!(acknowledged.deliver(&store, 10), free);
            delivered.unwrap();
            store.check_writable().await.unwrap();
            store.append_ledger_note("note", "x").await.unwrap();
        }
        acknowledged.check(&store, &database.file()).await;
    });
}

#[test]
fn moved_or_replaced_database_is_not_written_until_it_is_back() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let mut acknowledged = Acknowledged::default();
        acknowledged.deliver(&store, 10).await.unwrap();
        store.check_writable().await.unwrap();
        let (file, moved_file) = (database.file(), database.path("aside.db"));
        fs::rename(&file, &moved_file).unwrap();
        let moved = message(acknowledged.deliver(&store, 10).await);
        assert!(moved.contains("moved or deleted"), "{moved}");
        assert!(message(store.check_writable().await).contains("moved or deleted"));
        let noted = store.append_ledger_note("note", "x").await.unwrap_err().to_string();
        assert!(noted.contains("moved or deleted"), "{noted}");
        assert!(!file.exists(), "an empty database was created");
        fs::write(&file, b"another database").unwrap();
        let replaced = message(acknowledged.deliver(&store, 10).await);
        assert!(replaced.contains("was replaced"), "{replaced}");
        assert_eq!(fs::read(&file).unwrap(), b"another database");
        fs::rename(&moved_file, &file).unwrap();
        store.check_writable().await.unwrap();
        acknowledged.deliver(&store, 10).await.unwrap();
        store.append_ledger_note("note", "x").await.unwrap();
        acknowledged.check(&store, &file).await;
    });
}

/// Runs a test of this program in a mount namespace with its own small disk.
fn with_small_disk(test: &str) {
    let directory = tempfile::Builder::new().prefix("bailiwick-disk-").tempdir().unwrap();
    let script = "mount -t tmpfs -o size=48m tmpfs \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("fleet::storage_faults::{test}"), "--nocapture"])
        .env(PLACE, directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("the fault is over"), "{text}\n{errors}");
}

fn place() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(PathBuf::from)
}

/// Writes until the disk is full.
fn fill(file: &Path) {
    let mut out = File::create(file).unwrap();
    for size in [1 << 16, 1 << 10, 1] {
        while out.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

#[test]
fn store_writes_again_after_a_full_disk() {
    with_small_disk("inner_full_disk");
}

/// Does nothing unless it has its own disk.
#[test]
fn inner_full_disk() {
    let Some(place) = place() else { return };
    let (file, filler) = (place.join("ledger.db"), place.join("filler"));
    block_on(async {
        let store = Store::open(Location::file(file.clone())).await.unwrap();
        let mut acknowledged = Acknowledged::default();
        for round in 0..4 {
            acknowledged.deliver(&store, 1_000).await.unwrap();
            store.check_writable().await.unwrap();
            fill(&filler);
            let mut why = None;
            for _ in 0..64 {
                if let Err(error) = acknowledged.deliver(&store, 100_000).await {
                    why = Some(error);
                    break;
                }
            }
            let why = message(Err(why.expect("the disk must be full")));
            assert!(why.contains("full") || why.contains("I/O"), "{why}");
            message(store.check_writable().await);
            // The ledger fails too; it may have room for a small note.
            let long = "x".repeat(200_000);
            store.append_ledger_note("note", &long).await.unwrap_err();
            acknowledged.check(&store, &file).await;
            fs::remove_file(&filler).unwrap();
            store.check_writable().await.unwrap();
            acknowledged.deliver(&store, 100_000).await.unwrap();
            store.append_ledger_note("note", &long).await.unwrap();
            acknowledged.check(&store, &file).await;
            assert!(acknowledged.0.len() > round);
        }
        store.close().await;
        let reopened = Store::open(Location::file(file.clone())).await.unwrap();
        acknowledged.check(&reopened, &file).await;
    });
    println!("the fault is over");
}

#[test]
fn store_writes_again_after_a_read_only_disk() {
    with_small_disk("inner_read_only_disk");
}

/// Does nothing unless it has its own disk.
#[test]
fn inner_read_only_disk() {
    let Some(place) = place() else { return };
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).arg(&place).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}");
    };
    let file = place.join("ledger.db");
    block_on(async {
        let mut acknowledged = Acknowledged::default();
        let first = Store::open(Location::file(file.clone())).await.unwrap();
        acknowledged.deliver(&first, 1_000).await.unwrap();
        first.close().await;
        // Its writing connection is opened by the first write.
        let store = Store::open(Location::file(file.clone())).await.unwrap();
        // A read-only mount on top: open files cannot be made read-only.
        run("mount", &["--bind", place.to_str().unwrap()]);
        run("mount", &["-o", "bind,remount,ro"]);
        for _ in 0..2 {
            message(store.check_writable().await);
            message(acknowledged.deliver(&store, 1_000).await);
        }
        // Lazily: connections that only read may have been opened through it.
        run("umount", &["--lazy"]);
        store.check_writable().await.unwrap();
        acknowledged.deliver(&store, 1_000).await.unwrap();
        acknowledged.check(&store, &file).await;
    });
    println!("the fault is over");
}
