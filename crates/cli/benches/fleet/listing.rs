//! Pages of 100,000 runs, beside the bare query of a table that was made for it, which gives the same
//! bytes: the store reads each object from its text besides, and the API writes it as text again.

use std::time::{Duration, Instant};

use bailiwick_fleet::ports::{FleetStore, Selection, Write};
use bailiwick_resources::{API_VERSION, AnyObject, Kind, Metadata, Moment};
use bailiwick_store::Store;
use bailiwick_testkit::stopwatch::median;
use serde_json::{Value, json};
use sqlx::{Connection as _, Row as _, SqliteConnection};

use crate::client::Client;
use crate::place::{Place, Serving, now};
use crate::table::{times, turns};
use crate::webhooks::connect;

const RUNS: usize = 100_000;
const PAGE: usize = 50;
const ROUNDS: usize = 300;

type Filter = Option<(&'static str, &'static str)>;

fn run(number: usize, now: Moment) -> AnyObject {
    let phases = ["succeeded", "failed", "succeeded", "cancelled"];
    let spec: Value = json!({
        "repository": format!("acme/repository-{}", number % 20),
        "ref": "refs/heads/main",
        "branch": "main",
        "sha": format!("{number:040x}"),
        "sourceEvent": { "source": "webhook", "uid": format!("event-{number}") },
        "sourceRefs": { "pullRequest": number % 5_000 },
        "agentStack": format!("stack-{}", number % 50),
        "taskKind": "repair",
        "triggerRule": format!("rule-{}", number % 30),
        "task": "Find out why the check failed, and mend it. ".repeat(8),
        "runnerPool": "inside",
        "trustTier": "trusted",
        "concurrencyGroup": format!("group-{}", number % 10),
    });
    AnyObject {
        api_version: API_VERSION.to_owned(),
        kind: Kind::AgentDispatchRun,
        metadata: Metadata::named(format!("adr-{number:06}")),
        spec,
        status: json!({
            "phase": phases[number * 7 / 3 % 4], "attempts": [], "conditions": [],
            "startedAt": now, "completedAt": now,
        }),
    }
}

/// The runs, in the store and in a table of their own.
pub(crate) async fn fill(place: &Place, store: &Store) -> SqliteConnection {
    let mut bare = connect(&place.beside("bare-runs.db")).await;
    sqlx::raw_sql(
        "CREATE TABLE runs (number INTEGER PRIMARY KEY, name TEXT NOT NULL, phase TEXT NOT NULL, \
         stack TEXT NOT NULL, object TEXT NOT NULL); \
         CREATE INDEX runs_both ON runs (phase, stack, number)",
    )
    .execute(&mut bare)
    .await
    .expect("a table");
    for some in (0..RUNS).collect::<Vec<_>>().chunks(1_000) {
        let now = now();
        let writes = some.iter().map(|number| Write::Create(run(*number, now))).collect();
        let kept = FleetStore::commit(store, writes, now).await.expect("a commit").objects;
        let mut transaction = bare.begin().await.expect("a beginning");
        for run in kept {
            sqlx::query("INSERT INTO runs (name, phase, stack, object) VALUES ($1, $2, $3, $4)")
                .bind(run.metadata.name.clone())
                .bind(run.status["phase"].as_str().unwrap_or_default().to_owned())
                .bind(run.spec["agentStack"].as_str().unwrap_or_default().to_owned())
                .bind(serde_json::to_string(&run).expect("JSON"))
                .execute(&mut *transaction)
                .await
                .expect("an insertion");
        }
        transaction.commit().await.expect("a commit");
    }
    bare
}

/// What a bare query gives: names, and the objects as texts.
async fn queried(connection: &mut SqliteConnection, filter: Filter) -> (Vec<String>, Duration) {
    let begun = Instant::now();
    let rows = match filter {
        None => {
            let newest = "SELECT name, object FROM runs ORDER BY number DESC LIMIT 50";
            sqlx::query(newest).fetch_all(connection).await
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

async fn listed(store: &Store, filter: Filter) -> (Vec<String>, Duration) {
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

async fn asked(client: &mut Client, token: &str, filter: Filter) -> (Vec<String>, Duration) {
    let fields =
        filter.map(|(phase, stack)| format!("&fieldSelector=status%3D{phase}%2Cstack%3D{stack}"));
    let fields = fields.unwrap_or_default();
    let path = format!("GET /api/v1alpha1/runs?limit={PAGE}&order=newest{fields}");
    let head = format!("authorization: Bearer {token}\r\n");
    let begun = Instant::now();
    let answered = client.ask(&path, &head, b"").await;
    let took = begun.elapsed();
    let body: Value = serde_json::from_slice(&answered.body).expect("JSON");
    assert_eq!(answered.status, 200, "{body:#}");
    let items = body["items"].as_array().expect("items");
    let name = |item: &Value| item["metadata"]["name"].as_str().expect("a name").to_owned();
    (items.iter().map(name).collect(), took)
}

pub(crate) async fn measure(
    place: &Place,
    serving: &Serving,
    store: &Store,
    bare: &mut SqliteConnection,
) {
    let token = place.token("lister", "viewer");
    let mut client = Client::from(243, serving.address).await;
    for (what, filter) in [
        ("newest 50 of 100,000 runs, store", None),
        ("  of a phase and a stack, store", Some(("failed", "stack-3"))),
    ] {
        let mut taken = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let mut seen = Vec::new();
            for contender in turns(round, 3) {
                let (found, took) = match contender {
                    0 => queried(bare, filter).await,
                    1 => listed(store, filter).await,
                    _ => asked(&mut client, &token, filter).await,
                };
                taken[contender].push(took);
                seen.push(found);
            }
            assert_eq!(seen[0].len(), PAGE);
            assert!(seen.windows(2).all(|two| two[0] == two[1]), "{seen:#?}");
        }
        let [bare, ours, api] = taken.map(|mut all| median(&mut all));
        times(what, ours, bare);
        times("  the same over the API", api, bare);
    }
}
