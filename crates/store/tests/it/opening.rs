//! Opening: new, existing, too new and unusable files; and the view for other programs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bailiwick_fleet::ports::{FleetStore, Write};
use bailiwick_lifecycle::ports::{NewRun, RunStore as _, StoreError};
use bailiwick_model::attempt::Exhausted;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, LedgerNote, RunName, RunState, RunStatus};
use bailiwick_resources::{API_VERSION, AnyObject, Kind, Metadata, Moment};
use bailiwick_store::{Cost, Event, Location, Store};
use sqlx::Row as _;

use crate::test_database::{TestDatabase, attempt, id, run};

/// The tables of schema version 5.
const TABLES_OF_VERSION_5: [&str; 8] = [
    "resources",
    "resource_terms",
    "resource_changes",
    "blobs",
    "secret_values",
    "tokens",
    "audit",
    "resource_index",
];

/// Reverts schema version 16.
const REVERT_VERSION_16: [&str; 2] = [
    "ALTER TABLE worker_attempts DROP COLUMN pod_grants",
    "DELETE FROM _sqlx_migrations WHERE version = 16",
];

/// Reverts schema version 15.
const REVERT_VERSION_15: [&str; 3] = [
    "DROP INDEX worker_attempts_to_claim",
    "CREATE INDEX worker_attempts_in_queue ON worker_attempts (pool, state, queued_at, agent)",
    "DELETE FROM _sqlx_migrations WHERE version = 15",
];

/// Reverts schema version 14.
const REVERT_VERSION_14: [&str; 4] = [
    "DROP TABLE schema_compatibility",
    "ALTER TABLE resource_index DROP COLUMN version",
    "ALTER TABLE resource_index DROP COLUMN has_older_terms",
    "DELETE FROM _sqlx_migrations WHERE version = 14",
];

/// Reverts schema version 13.
const REVERT_VERSION_13: [&str; 5] = [
    "ALTER TABLE worker_tokens DROP COLUMN agent",
    "ALTER TABLE worker_attempts DROP COLUMN jobs_ended",
    "ALTER TABLE worker_attempts DROP COLUMN pod_problem",
    "ALTER TABLE worker_attempts DROP COLUMN job_detail",
    "DELETE FROM _sqlx_migrations WHERE version = 13",
];

/// Reverts schema version 12.
const REVERT_VERSION_12: [&str; 5] = [
    "DROP INDEX worker_attempts_by_check",
    "ALTER TABLE worker_attempts DROP COLUMN check_key",
    "ALTER TABLE worker_attempts DROP COLUMN checks_on",
    "ALTER TABLE worker_attempts DROP COLUMN claimed_by",
    "DELETE FROM _sqlx_migrations WHERE version = 12",
];

/// Reverts schema version 11.
const REVERT_VERSION_11: [&str; 6] = [
    "DROP TABLE workers",
    "DROP TABLE worker_tokens",
    "DROP TABLE worker_credentials",
    "DROP TABLE worker_attempts",
    "DROP TABLE worker_events",
    "DELETE FROM _sqlx_migrations WHERE version = 11",
];

/// Reverts schema version 10.
const REVERT_VERSION_10: [&str; 2] =
    ["DROP TABLE leader_lease", "DELETE FROM _sqlx_migrations WHERE version = 10"];

/// Reverts schema version 9.
const REVERT_VERSION_9: [&str; 2] =
    ["DROP TABLE saved_filters", "DELETE FROM _sqlx_migrations WHERE version = 9"];

/// Reverts schema version 8.
const REVERT_VERSION_8: [&str; 2] =
    ["DROP TABLE people", "DELETE FROM _sqlx_migrations WHERE version = 8"];

/// Reverts schema version 7.
const REVERT_VERSION_7: [&str; 2] = [
    "ALTER TABLE attempts DROP COLUMN exhausted",
    "DELETE FROM _sqlx_migrations WHERE version = 7",
];

/// Reverts schema version 6.
const REVERT_VERSION_6: [&str; 6] = [
    "DROP INDEX runs_name",
    "DROP INDEX runs_by_name",
    "ALTER TABLE runs DROP COLUMN name",
    "ALTER TABLE runs DROP COLUMN repository",
    "ALTER TABLE runs DROP COLUMN rolled_back_at",
    "DELETE FROM _sqlx_migrations WHERE version = 6",
];

async fn failure(location: Location) -> StoreError {
    match Store::open(location).await {
        Ok(_) => panic!("the database was opened"),
        Err(error) => error,
    }
}

fn cost(cents: u32, replace: bool) -> Cost {
    Cost { cents, provider: "acme".to_owned(), model: "large".to_owned(), replace }
}

#[tokio::test]
async fn other_users_cannot_read_a_database() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let file = directory.join("bailiwick.db");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    Store::open(Location::file(file.clone())).await.unwrap().close().await;
    assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    Store::open(Location::file(file.clone())).await.unwrap().close().await;
    assert_eq!(mode(&file), 0o600, "a file of an older version");
}

/// Makes the database look as a program leaves it whose schema is one version newer.
async fn migrate_to_newer_version(database: &TestDatabase, oldest_usable: i64) {
    let mut connection = database.connect().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, \
                 execution_time) VALUES (17, 'newer', TRUE, '', 0)";
    sqlx::query(newer).execute(&mut connection).await.unwrap();
    let floor = "UPDATE schema_compatibility SET oldest_usable = $1";
    sqlx::query(floor).bind(oldest_usable).execute(&mut connection).await.unwrap();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
    sqlx::Connection::close(connection).await.unwrap();
}

#[tokio::test]
async fn newer_schema_without_what_this_program_needs_is_refused_and_not_changed() {
    let database = TestDatabase::new();
    database.open().await.record(&run("kept"), None).await.unwrap();
    migrate_to_newer_version(&database, 17).await;
    let before = std::fs::read(database.file()).unwrap();
    let error = failure(Location::file(database.file())).await;
    assert!(matches!(error, StoreError::TooNew { found: 17, known: 16, .. }), "{error:?}");
    assert!(error.to_string().contains(&database.file().display().to_string()), "{error}");
    assert_eq!(std::fs::read(database.file()).unwrap(), before);
    let mut connection = database.connect().await;
    let sql = "DELETE FROM _sqlx_migrations WHERE version = 17";
    sqlx::query(sql).execute(&mut connection).await.unwrap();
    let reopened = database.open().await;
    assert_eq!(reopened.get(&id("kept")).await.unwrap().status, RunStatus::Running);
}

#[tokio::test]
async fn newer_schema_that_only_added_is_used_by_an_older_program() {
    let database = TestDatabase::new();
    database.open().await.record(&run("kept"), None).await.unwrap();
    migrate_to_newer_version(&database, 16).await;
    let mut connection = database.connect().await;
    let added = "ALTER TABLE runs ADD COLUMN new_in_17 BIGINT NOT NULL DEFAULT 7";
    sqlx::query(added).execute(&mut connection).await.unwrap();
    let store = database.open().await;
    assert_eq!(store.schema().await.unwrap(), 17);
    store.record(&run("new"), None).await.unwrap();
    store.change_status(&id("kept"), RunStatus::Done, None).await.unwrap();
    assert_eq!(store.get(&id("kept")).await.unwrap().status, RunStatus::Done);
    let new = "SELECT new_in_17 FROM runs WHERE id = 'new'";
    let new = sqlx::query(new).fetch_one(&mut connection).await.unwrap();
    assert_eq!(new.get::<i64, _>(0), 7);
    let copy = Store::open_for_copy(Location::file(database.path("copy.db"))).await.unwrap();
    let refused = store.copy_to(&copy).await;
    assert!(matches!(refused, Err(StoreError::TooNew { found: 17, .. })), "{refused:?}");
}

#[tokio::test]
async fn error_for_a_directory_that_cannot_be_created_names_the_file() {
    let database = TestDatabase::new();
    std::fs::write(database.path("occupied"), "a file").unwrap();
    let file = database.path("occupied/below/ledger.db");
    let text = failure(Location::file(&file)).await.to_string();
    assert!(text.contains(&file.display().to_string()), "{text}");
    assert!(text.contains("cannot be created"), "{text}");
    // The same path opens without the obstacle, and its directories are created.
    std::fs::remove_file(database.path("occupied")).unwrap();
    Store::open(Location::file(&file)).await.unwrap();
    assert!(file.is_file());
}

#[tokio::test]
async fn file_that_is_not_a_database_is_refused_and_not_changed() {
    let database = TestDatabase::new();
    let text = "This is a letter, not a database.\n".repeat(100);
    std::fs::write(database.file(), &text).unwrap();
    let error = failure(Location::file(database.file())).await.to_string();
    assert!(error.contains(&database.file().display().to_string()), "{error}");
    assert!(error.contains("not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(database.file()).unwrap(), text);
}

#[tokio::test]
async fn error_for_a_directory_in_place_of_the_file_names_it() {
    let database = TestDatabase::new();
    std::fs::create_dir(database.file()).unwrap();
    let error = failure(Location::file(database.file())).await.to_string();
    assert!(error.contains(&database.file().display().to_string()), "{error}");
}

#[tokio::test]
async fn special_characters_in_the_path_open_exactly_that_file() {
    let database = TestDatabase::new();
    for name in ["a b.db", "what?mode=ro.db", "50%25.db", "#1.db", "ü/日本.db", "x&y=z;.db"] {
        let path = database.path(name);
        let store = Store::open(Location::file(&path)).await.unwrap();
        store.record(&run("one"), None).await.unwrap();
        assert!(path.is_file(), "{name} was not created");
    }
}

#[tokio::test]
async fn opening_again_does_not_migrate_again() {
    let database = TestDatabase::new();
    database.open().await.record(&run("kept"), None).await.unwrap();
    let history = async || {
        let rows = sqlx::query(
            "SELECT version, CAST(installed_on AS TEXT), execution_time FROM _sqlx_migrations",
        )
        .fetch_all(&mut database.connect().await)
        .await
        .unwrap();
        let row = |row: &sqlx::any::AnyRow| {
            (row.get::<i64, _>(0), row.get::<String, _>(1), row.get::<i64, _>(2))
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let first = history().await;
    assert_eq!(
        first.iter().map(|row| row.0).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    );
    for _ in 0..3 {
        let store = database.open().await;
        assert_eq!(store.list(None).await.unwrap().len(), 1);
    }
    assert_eq!(history().await, first);
}

#[tokio::test]
async fn agents_view_has_the_columns_of_the_seed_and_dna_can_be_null() {
    let database = TestDatabase::new();
    let store = database.open().await;
    store.record(&run("without-dna"), None).await.unwrap();
    let mut connection = database.connect().await;
    let columns = sqlx::query("SELECT name FROM pragma_table_info('agents') ORDER BY cid")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let columns: Vec<String> = columns.iter().map(|row| row.get(0)).collect();
    let of_the_kei_tools = [
        "id",
        "branch",
        "parent_branch",
        "spec_sha",
        "status",
        "started_ts",
        "finished_ts",
        "summary",
        "worktree_path",
        "dna",
        "creator_id",
        "fork_parent_id",
        "cost_cents",
    ];
    assert_eq!(columns[..of_the_kei_tools.len()], of_the_kei_tools);
    let added_columns = ["cost_micro_cents", "provider", "model", "half_spawned"];
    assert_eq!(columns[of_the_kei_tools.len()..], added_columns);
    let row = sqlx::query("SELECT dna, started_ts FROM agents").fetch_one(&mut connection).await;
    let row = row.unwrap();
    assert_eq!(row.get::<Option<String>, _>(0), None);
    assert_eq!(store.get(&id("without-dna")).await.unwrap().started_ts, row.get::<i64, _>(1));
}

#[tokio::test]
async fn costs_are_added_or_set_and_belong_to_a_run() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let spender = id("spender");
    store.record(&run("spender"), None).await.unwrap();
    store.record(&run("bystander"), None).await.unwrap();
    let mut sum = 0;
    for (cents, replace) in [(5, false), (7, false), (0, false), (40, true), (2, false), (0, true)]
    {
        sum = if replace { i64::from(cents) } else { sum + i64::from(cents) };
        assert_eq!(store.record_cost(&spender, &cost(cents, replace)).await.unwrap(), sum);
        let row = store.get(&spender).await.unwrap();
        assert_eq!(row.cost_cents, sum);
        assert_eq!((row.provider.as_str(), row.model.as_str()), ("acme", "large"));
    }
    let large = i64::from(u32::MAX);
    for times in 1..=3 {
        assert_eq!(
            store.record_cost(&spender, &cost(u32::MAX, false)).await.unwrap(),
            large * times
        );
    }
    assert_eq!(store.get(&id("bystander")).await.unwrap().cost_cents, 0);
    match store.record_cost(&id("spendre"), &cost(1, false)).await {
        Err(StoreError::NoSuchRun { near, .. }) => assert_eq!(near.as_deref(), Some("spender")),
        other => panic!("{other:?}"),
    }
    assert!(store.events("spendre").await.unwrap().is_empty());
}

#[tokio::test]
async fn events_are_numbered_from_one_for_each_run_and_only_grow() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let (a, b) = (id("a"), id("b"));
    let mut known_events: [Vec<Event>; 3] = Default::default();
    for step in 0..7 {
        match step {
            0 => store.record(&run("a"), None).await.unwrap(),
            1 => store.append_ledger_note("lock-revoked", "schema v1").await.unwrap(),
            2 => store.record(&run("b"), None).await.unwrap(),
            3 => drop(store.record_cost(&a, &cost(9, false)).await.unwrap()),
            4 => store.finish_spawn(&b).await.unwrap(),
            5 => store.change_status(&a, RunStatus::Done, Some("fine")).await.unwrap(),
            _ => store.append_ledger_note("second", "").await.unwrap(),
        }
        for (run, earlier) in ["a", "b", ""].into_iter().zip(&mut known_events) {
            let current = store.events(run).await.unwrap();
            assert_eq!(current[..earlier.len()], earlier[..], "an event of {run:?} was changed");
            for (index, event) in current.iter().enumerate() {
                assert_eq!((event.run.as_str(), event.number), (run, index as i64 + 1));
                assert!(event.at > 1_700_000_000_000, "{event:?}");
            }
            *earlier = current;
        }
        assert_eq!(known_events.iter().map(Vec::len).sum::<usize>(), step + 1);
    }
    let found = |events: &[Event]| -> Vec<(String, String)> {
        events.iter().map(|event| (event.kind.clone(), event.detail.clone())).collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(kind, detail)| ((*kind).to_owned(), (*detail).to_owned())).collect()
    };
    let of_a = [("forked", "agent/a"), ("cost", "9 cents, acme large"), ("done", "fine")];
    assert_eq!(found(&known_events[0]), pairs(&of_a));
    assert_eq!(found(&known_events[1]), pairs(&[("forked", "agent/b"), ("spawned", "")]));
    assert_eq!(found(&known_events[2]), pairs(&[("lock-revoked", "schema v1"), ("second", "")]));
}

#[tokio::test]
async fn ledger_of_another_program_is_refused_and_not_changed() {
    let database = TestDatabase::new();
    std::fs::write(database.file(), "").unwrap();
    let mut connection = database.connect().await;
    let sql = "CREATE TABLE agents (id TEXT PRIMARY KEY, branch TEXT)";
    sqlx::query(sql).execute(&mut connection).await.unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    let before = std::fs::read(database.file()).unwrap();
    let error = failure(Location::file(database.file())).await.to_string();
    assert!(error.contains("the ledger of another program") && error.contains("--db"), "{error}");
    assert_eq!(std::fs::read(database.file()).unwrap(), before);
}

#[tokio::test]
async fn database_of_schema_version_1_is_migrated_without_loss() {
    let database = TestDatabase::new();
    database.open().await.record(&run("kept"), None).await.unwrap();
    let mut connection = database.connect().await;
    for statement in REVERT_VERSION_16
        .into_iter()
        .chain(REVERT_VERSION_15)
        .chain(REVERT_VERSION_14)
        .chain(REVERT_VERSION_13)
        .chain(REVERT_VERSION_12)
        .chain(REVERT_VERSION_11)
        .chain(REVERT_VERSION_10)
        .chain(REVERT_VERSION_9)
        .chain(REVERT_VERSION_8)
        .chain(REVERT_VERSION_7)
        .chain(REVERT_VERSION_6)
    {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    for table in TABLES_OF_VERSION_5 {
        let statement = sqlx::AssertSqlSafe(format!("DROP TABLE {table}"));
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    for statement in [
        "DROP TABLE attempts",
        "ALTER TABLE events DROP COLUMN listed",
        "DROP TABLE claims",
        "DROP TABLE claim_beginnings",
        "DROP TABLE last_fence",
        "DROP TABLE delegates",
        "DELETE FROM _sqlx_migrations WHERE version >= 2",
    ] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    sqlx::Connection::close(connection).await.unwrap();
    let store = database.open().await;
    assert_eq!(store.get(&id("kept")).await.unwrap().status, RunStatus::Running);
    assert_eq!(store.attempts(None).await.unwrap(), []);
    assert_eq!(store.claims(None).await.unwrap(), []);
    assert_eq!(store.run_events(&id("kept"), 0, 9).await.unwrap(), []);
}

#[tokio::test]
async fn database_of_schema_version_4_is_migrated_without_loss() {
    let database = TestDatabase::new();
    database.open().await.record(&run("kept"), None).await.unwrap();
    let mut connection = database.connect().await;
    for statement in REVERT_VERSION_16
        .into_iter()
        .chain(REVERT_VERSION_15)
        .chain(REVERT_VERSION_14)
        .chain(REVERT_VERSION_13)
        .chain(REVERT_VERSION_12)
        .chain(REVERT_VERSION_11)
        .chain(REVERT_VERSION_10)
        .chain(REVERT_VERSION_9)
        .chain(REVERT_VERSION_8)
        .chain(REVERT_VERSION_7)
        .chain(REVERT_VERSION_6)
    {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    for table in TABLES_OF_VERSION_5 {
        let statement = sqlx::AssertSqlSafe(format!("DROP TABLE {table}"));
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    let statement = "DELETE FROM _sqlx_migrations WHERE version = 5";
    sqlx::query(statement).execute(&mut connection).await.unwrap();
    let remaining =
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name LIKE '%resource%'";
    let remaining = sqlx::query(remaining).fetch_one(&mut connection).await.unwrap();
    assert_eq!(remaining.get::<i64, _>(0), 0, "the old schema has no resources");
    sqlx::Connection::close(connection).await.unwrap();
    let store = database.open().await;
    assert_eq!(store.get(&id("kept")).await.unwrap().status, RunStatus::Running);
    let object = AnyObject {
        api_version: API_VERSION.to_owned(),
        kind: Kind::ConfigMap,
        metadata: Metadata::named("new"),
        spec: serde_json::json!({ "data": {} }),
        status: serde_json::Value::Null,
    };
    let writes = vec![Write::Create(object)];
    assert_eq!(store.commit(writes, Moment::default()).await.unwrap().version, 1);
    let found = FleetStore::get(&database.open().await, Kind::ConfigMap, "default", "new").await;
    assert_eq!(found.unwrap().unwrap().metadata.generation, 1);
    assert_eq!(store.get(&id("kept")).await.unwrap().id, id("kept"));
}

#[tokio::test]
async fn database_of_schema_version_5_gets_names_and_rollbacks() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for name in ["kept", "reverted"] {
        store.record(&run(name), None).await.unwrap();
        for status in [RunStatus::Done, RunStatus::Merged] {
            store.change_status(&id(name), status, None).await.unwrap();
        }
    }
    store.append_run_note(&id("reverted"), LedgerNote::RolledBack, "{}").await.unwrap();
    store.close().await;
    let mut connection = database.connect().await;
    for line in REVERT_VERSION_16
        .into_iter()
        .chain(REVERT_VERSION_15)
        .chain(REVERT_VERSION_14)
        .chain(REVERT_VERSION_13)
        .chain(REVERT_VERSION_12)
        .chain(REVERT_VERSION_11)
        .chain(REVERT_VERSION_10)
        .chain(REVERT_VERSION_9)
        .chain(REVERT_VERSION_8)
        .chain(REVERT_VERSION_7)
        .chain(REVERT_VERSION_6)
    {
        sqlx::query(line).execute(&mut connection).await.unwrap();
    }
    drop(connection);
    let store = database.open().await;
    let landed = store.get(&id("kept")).await.unwrap();
    assert_eq!(
        (landed.name, landed.repository, landed.state),
        (id("kept"), None, RunState::Merged)
    );
    assert_eq!(store.get(&id("reverted")).await.unwrap().state, RunState::RolledBack);
}

#[tokio::test]
async fn attempts_of_an_older_schema_keep_their_exhausted_limit() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let details = [
        ("the budget is spent: tokens", Some(Exhausted::Tokens)),
        ("the budget is spent: usd", Some(Exhausted::Usd)),
        ("the budget is spent: turns", Some(Exhausted::Turns)),
        ("the budget is spent: minutes", Some(Exhausted::Minutes)),
        ("the budget is spent: tool-calls", Some(Exhausted::ToolCalls)),
        ("nothing says what x costs, and the budget is in dollars", Some(Exhausted::Price)),
        ("the budget is spent: disk, of which it may add 16 MiB", Some(Exhausted::Disk)),
        ("the disk has less than 512 MiB left", Some(Exhausted::Disk)),
        ("other words", None),
    ];
    for (detail, _) in details {
        let mut attempt = attempt("old");
        attempt.number = store.begin_attempt(&attempt).await.unwrap();
        attempt.ending = Some(ExitReason::BudgetExhausted);
        attempt.detail = detail.to_owned();
        store.update_attempt(&attempt).await.unwrap();
    }
    let mut stopped = attempt("stopped");
    stopped.number = store.begin_attempt(&stopped).await.unwrap();
    stopped.ending = Some(ExitReason::Stopped);
    stopped.detail = "the budget is spent: tokens".to_owned();
    store.update_attempt(&stopped).await.unwrap();
    store.close().await;
    let mut connection = database.connect().await;
    for line in REVERT_VERSION_16
        .into_iter()
        .chain(REVERT_VERSION_15)
        .chain(REVERT_VERSION_14)
        .chain(REVERT_VERSION_13)
        .chain(REVERT_VERSION_12)
        .chain(REVERT_VERSION_11)
        .chain(REVERT_VERSION_10)
        .chain(REVERT_VERSION_9)
        .chain(REVERT_VERSION_8)
        .chain(REVERT_VERSION_7)
    {
        sqlx::query(line).execute(&mut connection).await.unwrap();
    }
    drop(connection);
    let store = database.open().await;
    let found = store.attempts(Some(&id("old"))).await.unwrap();
    let found: Vec<_> = found.iter().map(|found_attempt| found_attempt.exhausted).collect();
    assert_eq!(found, details.map(|(_, exhausted)| exhausted));
    assert_eq!(store.attempts(Some(&id("stopped"))).await.unwrap()[0].exhausted, None);
}

#[tokio::test]
async fn name_is_unique_in_a_repository() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let named = |key: &str, repository: &str| NewRun {
        named: Some(RunName { name: id("fix"), repository: repository.to_owned() }),
        ..run(key)
    };
    store.record(&named("fix", "/a"), None).await.unwrap();
    store.record(&named("fix-b", "/b"), None).await.unwrap();
    let refused = store.record(&named("fix-c", "/b"), None).await;
    assert!(matches!(refused, Err(StoreError::NameTaken { .. })), "{refused:?}");
    let ids: Vec<AgentId> =
        store.runs_named(&id("fix")).await.unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(ids, [id("fix"), id("fix-b")]);
    // An older run gets its repository unless its name is taken there.
    store.record(&run("old"), None).await.unwrap();
    store.set_repository(&id("old"), "/a").await.unwrap();
    assert_eq!(store.get(&id("old")).await.unwrap().repository.as_deref(), Some("/a"));
    store.set_repository(&id("old"), "/b").await.unwrap();
    assert_eq!(store.get(&id("old")).await.unwrap().repository.as_deref(), Some("/a"));
}
