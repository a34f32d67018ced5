//! What the store of resources costs beside the database that it stands on, from one interleaved run:
//! webhooks acknowledged, and pages of 100,000 runs.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot do its work must stop"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_control::ports::fleet::{FleetStore, IncomingDelivery, Received, Selection, Write};
use bailiwick_model::digest::Sha256Hex;
use bailiwick_model::fleet::{
    API_VERSION, AnyObject, ForgeKind, Kind, Metadata, Moment, WebhookDelivery,
};
use bailiwick_store::{Location, Store};
use bailiwick_testkit::figure;
use bailiwick_testkit::stopwatch::{median, ratio};
use serde_json::{Value, json};
use sqlx::{Connection as _, Row as _, SqliteConnection};
use tokio::task::JoinSet;

/// Rounds, each with every contender in turn.
const ROUNDS: usize = 5;
/// Webhooks of a contender in a round.
const WEBHOOKS: usize = 1_024;
/// A webhook of this many bytes; forges send 5 to 30 KiB.
const BYTES: usize = 8 << 10;
const CALLERS: [usize; 3] = [1, 8, 64];
const RUNS: usize = 100_000;
const PAGE: usize = 50;
const LISTINGS: usize = 300;

fn payload(number: usize) -> Vec<u8> {
    let mut bytes = format!("{{\"delivery\":{number},\"rest\":\"").into_bytes();
    bytes.resize(BYTES, b'x');
    bytes
}

fn webhook(number: usize) -> IncomingDelivery {
    let payload = payload(number);
    let name = format!("d-{number}");
    IncomingDelivery {
        spec: WebhookDelivery {
            forge: ForgeKind::Gitea,
            delivery_id: name.clone(),
            event: "push".to_owned(),
            repository: "acme".to_owned(),
            payload_digest: Sha256Hex::of(&payload).to_string(),
            bytes: BYTES as u64,
            received_at: Moment::from_millis(1_790_000_000_000),
            headers: BTreeMap::new(),
        },
        name,
        payload,
    }
}

/// What was measured of one contender.
#[derive(Default)]
struct Times {
    all: Duration,
    each: Vec<Duration>,
}

impl Times {
    fn a_second(&self) -> f64 {
        self.each.len() as f64 / self.all.as_secs_f64()
    }

    fn p99(&mut self) -> Duration {
        self.each.sort_unstable();
        self.each[self.each.len() * 99 / 100]
    }
}

/// The database alone: the bytes under an id, one transaction each.
async fn bare(connection: &mut SqliteConnection, from: usize, times: &mut Times) {
    let given: Vec<_> = (from..from + WEBHOOKS).map(|number| (number, payload(number))).collect();
    let begun = Instant::now();
    for (number, bytes) in given {
        let one = Instant::now();
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.expect("a beginning");
        sqlx::query("INSERT INTO deliveries (name, bytes) VALUES ($1, $2)")
            .bind(format!("d-{number}"))
            .bind(bytes)
            .execute(&mut *transaction)
            .await
            .expect("an insertion");
        transaction.commit().await.expect("a commit");
        times.each.push(one.elapsed());
    }
    times.all += begun.elapsed();
}

async fn received(store: &Arc<Store>, callers: usize, from: usize, times: &mut Times) {
    let given: Vec<Vec<IncomingDelivery>> = (0..callers)
        .map(|caller| (from + caller..from + WEBHOOKS).step_by(callers).map(webhook).collect())
        .collect();
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for own in given {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let mut each = Vec::with_capacity(own.len());
            for webhook in own {
                let one = Instant::now();
                let answer = store.receive(webhook).await.expect("an answer");
                each.push(one.elapsed());
                assert_eq!(answer, Received::New);
            }
            each
        });
    }
    for each in tasks.join_all().await {
        times.each.extend(each);
    }
    times.all += begun.elapsed();
}

/// One write of a page and its way to the disk, nothing else.
fn synced(file: &Path, times: &mut Vec<Duration>) {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).expect("file");
    for _ in 0..100 {
        file.write_all(&[7; 4096]).expect("a write");
        let one = Instant::now();
        file.sync_data().expect("a sync");
        times.push(one.elapsed());
    }
}

async fn connect(file: &Path) -> SqliteConnection {
    let url = format!("sqlite://{}?mode=rwc", file.display());
    let mut connection = SqliteConnection::connect(&url).await.expect("a connection");
    for setting in ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"] {
        sqlx::raw_sql(setting).execute(&mut connection).await.expect("a setting");
    }
    connection
}

async fn webhooks(place: &Path) {
    let mut connection = connect(&place.join("bare.db")).await;
    sqlx::raw_sql("CREATE TABLE deliveries (name TEXT NOT NULL PRIMARY KEY, bytes BLOB NOT NULL)")
        .execute(&mut connection)
        .await
        .expect("a table");
    let store = Store::open(Location::file(place.join("store.db"))).await.expect("a store");
    let store = Arc::new(store);
    let mut alone = Times::default();
    let mut ours: Vec<Times> = CALLERS.iter().map(|_| Times::default()).collect();
    let mut syncs = Vec::new();
    let mut next = 0;
    for _ in 0..ROUNDS {
        synced(&place.join("synced"), &mut syncs);
        bare(&mut connection, next, &mut alone).await;
        for (callers, times) in CALLERS.into_iter().zip(&mut ours) {
            received(&store, callers, next, times).await;
            next += WEBHOOKS;
        }
    }
    let sync = median(&mut syncs);
    let one = alone.a_second();
    figure(&format!(
        "webhooks of {BYTES} bytes: the database alone commits {one:.0} a second, p99 {:.1} times one \
         sync of {sync:.0?}",
        ratio(alone.p99(), sync)
    ));
    for (callers, times) in CALLERS.into_iter().zip(&mut ours) {
        let rate = times.a_second();
        figure(&format!(
            "webhooks, {callers} callers at once: {rate:.0} acknowledged a second, {:.0} % of that; p99 \
             {:.1} times one sync",
            100.0 * rate / one,
            ratio(times.p99(), sync)
        ));
    }
}

fn run(number: usize) -> AnyObject {
    let phases = ["succeeded", "failed", "running", "queued"];
    let spec: Value = json!({
        "repository": format!("repository-{}", number % 20),
        "ref": "refs/heads/main",
        "branch": "main",
        "sha": format!("{number:040x}"),
        "sourceEvent": { "source": "webhook", "uid": format!("event-{number}") },
        "sourceRefs": { "pullRequest": number % 5_000 },
        "agentStack": format!("stack-{}", number % 50),
        "taskKind": "repair",
        "triggerRule": format!("rule-{}", number % 30),
        "task": "Find out why the check failed, and mend it. ".repeat(8),
        "runnerPool": "trusted",
        "trustTier": "trusted",
    });
    AnyObject {
        api_version: API_VERSION.to_owned(),
        kind: Kind::AgentDispatchRun,
        metadata: Metadata::named(format!("adr-{number:06}")),
        spec,
        status: json!({ "phase": phases[number * 7 / 3 % 4], "attempts": [], "conditions": [] }),
    }
}

async fn filled(place: &Path) -> (Store, SqliteConnection) {
    let store = Store::open(Location::file(place.join("runs.db"))).await.expect("a store");
    let mut connection = connect(&place.join("bare-runs.db")).await;
    sqlx::raw_sql(
        "CREATE TABLE runs (number INTEGER PRIMARY KEY, name TEXT NOT NULL, phase TEXT NOT NULL, \
         stack TEXT NOT NULL, object TEXT NOT NULL); \
         CREATE INDEX runs_both ON runs (phase, stack, number)",
    )
    .execute(&mut connection)
    .await
    .expect("a table");
    for some in (0..RUNS).collect::<Vec<_>>().chunks(500) {
        let runs: Vec<AnyObject> = some.iter().map(|number| run(*number)).collect();
        let mut transaction = connection.begin().await.expect("a beginning");
        for run in &runs {
            sqlx::query("INSERT INTO runs (name, phase, stack, object) VALUES ($1, $2, $3, $4)")
                .bind(run.metadata.name.clone())
                .bind(run.status["phase"].as_str().unwrap_or_default().to_owned())
                .bind(run.spec["agentStack"].as_str().unwrap_or_default().to_owned())
                .bind(serde_json::to_string(run).expect("JSON"))
                .execute(&mut *transaction)
                .await
                .expect("an insertion");
        }
        transaction.commit().await.expect("a commit");
        let writes = runs.into_iter().map(Write::Create).collect();
        store.commit(writes, Moment::from_millis(1)).await.expect("a commit");
    }
    (store, connection)
}

/// What a bare query gives, as names and as the bytes of its objects.
async fn queried(
    connection: &mut SqliteConnection,
    filter: Option<(&str, &str)>,
) -> (Vec<String>, Duration) {
    let begun = Instant::now();
    let rows = match filter {
        None => {
            sqlx::query("SELECT name, object FROM runs ORDER BY number DESC LIMIT 50")
                .fetch_all(connection)
                .await
        }
        Some((phase, stack)) => {
            sqlx::query(
                "SELECT name, object FROM runs WHERE phase = $1 AND stack = $2 \
                 ORDER BY number DESC LIMIT 50",
            )
            .bind(phase.to_owned())
            .bind(stack.to_owned())
            .fetch_all(connection)
            .await
        }
    };
    let rows: Vec<(String, String)> = rows
        .expect("rows")
        .iter()
        .map(|row| (row.get::<String, _>(0), row.get::<String, _>(1)))
        .collect();
    let took = begun.elapsed();
    (rows.into_iter().map(|(name, _)| name).collect(), took)
}

async fn listed(store: &Store, filter: Option<(&str, &str)>) -> (Vec<String>, Duration) {
    let mut selection = Selection { limit: PAGE, ..Selection::of(Kind::AgentDispatchRun) };
    selection.newest_first = true;
    if let Some((phase, stack)) = filter {
        selection = selection.field("status", phase).field("stack", stack);
    }
    let begun = Instant::now();
    let page = FleetStore::list(store, &selection).await.expect("a page");
    let took = begun.elapsed();
    (page.objects.into_iter().map(|object| object.metadata.name).collect(), took)
}

/// The bare query gives texts; the store reads each object from its JSON besides.
async fn listings(place: &Path) {
    let (store, mut connection) = filled(place).await;
    for (what, filter) in [
        ("the newest page", None),
        ("the newest page of a phase and a stack", Some(("failed", "stack-3"))),
    ] {
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..LISTINGS {
            let (expected, took) = queried(&mut connection, filter).await;
            bare.push(took);
            let (found, took) = listed(&store, filter).await;
            ours.push(took);
            assert_eq!((found.len(), found), (PAGE, expected));
        }
        let (bare, ours) = (median(&mut bare), median(&mut ours));
        figure(&format!(
            "{RUNS} runs, {what} ({PAGE} objects): {:.2} times the bare query with its texts \
             ({ours:.0?} and {bare:.0?})",
            ratio(ours, bare)
        ));
    }
}

async fn measure() {
    let place = tempfile::tempdir().expect("a directory");
    webhooks(place.path()).await;
    listings(place.path()).await;
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}
