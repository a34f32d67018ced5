//! What the control plane has settled is not among the runs that wait, although it is open in the ledger.

use bailiwick_fleet::ports::{FleetStore, Write};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::RunStatus;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_resources::{API_VERSION, AnyObject, Kind, Metadata, Moment, RunPhase};
use bailiwick_store::{Dispatch, RunPage, SettledDispatches, Store};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, attempt, id, run};

fn object(kind: Kind, name: &str, status: Value) -> AnyObject {
    let (metadata, spec) = (Metadata::named(name), json!({ "agentDispatchRun": "x" }));
    AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
}

fn dispatch_run(agent: &str, phase: RunPhase) -> AnyObject {
    let status = json!({ "phase": phase.as_str(), "agentMuxRunId": agent });
    object(Kind::AgentDispatchRun, &format!("adr-{agent}"), status)
}

/// Records an agent whose attempt has ended, or still works.
async fn record(store: &Store, name: &str, ending: Option<ExitReason>) {
    store.record(&run(name), None).await.unwrap();
    let mut last = attempt(name);
    last.number = store.begin_attempt(&last).await.unwrap();
    if ending.is_some() {
        let last = Attempt { phase: Phase::Over, ending, ended_at: Some(6), ..last };
        store.update_attempt(&last).await.unwrap();
    }
}

async fn listed(store: &Store, is_unsettled: bool) -> Vec<String> {
    let statuses = &[RunStatus::Running, RunStatus::Done];
    let page = RunPage { statuses, failed_by: &[], is_unsettled, after: None, limit: 99 };
    let page = store.run_page(page).await.unwrap();
    let mut found: Vec<String> = page.runs.iter().map(|(_, run)| run.id.to_string()).collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn runs_that_the_control_plane_has_settled_do_not_wait() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let mut writes = Vec::new();
    for phase in RunPhase::ALL {
        record(&store, phase.as_str(), Some(ExitReason::Completed)).await;
        writes.push(Write::Create(dispatch_run(phase.as_str(), phase)));
    }
    for name in ["own", "replaced"] {
        record(&store, name, Some(ExitReason::Completed)).await;
    }
    record(&store, "stopping", None).await;
    writes.push(Write::Create(dispatch_run("stopping", RunPhase::Cancelled)));
    let of = |agent: &str| json!({ "agentMuxRunId": agent });
    writes.push(Write::Create(object(Kind::AgentDispatchAttempt, "first", of("replaced"))));
    writes.push(Write::Create(object(Kind::AgentDispatchAttempt, "second", of("running"))));
    store.commit(writes, Moment::default()).await.unwrap();

    let waiting = ["own", "pending", "queued", "running", "stopping", "waiting-for-approval"];
    assert_eq!(listed(&store, true).await, waiting);
    assert_eq!(listed(&store, false).await.len(), 10, "positive control: all of them are open");
    let settled = store.count_settled_dispatches().await.unwrap();
    assert_eq!(settled, SettledDispatches { succeeded: 1, failed: 3 });
    for phase in RunPhase::ALL {
        let run = format!("adr-{}", phase.as_str());
        let found = store.dispatch_of(&id(phase.as_str())).await.unwrap();
        assert_eq!(found, Some(Dispatch::Current { run, phase }));
    }
    assert_eq!(store.dispatch_of(&id("replaced")).await.unwrap(), Some(Dispatch::Replaced));
    assert_eq!(store.dispatch_of(&id("own")).await.unwrap(), None);

    // A run that a person continues is queued again.
    let found =
        FleetStore::get(&store, Kind::AgentDispatchRun, "default", "adr-succeeded").await.unwrap();
    let mut again = found.unwrap();
    again.status["phase"] = json!("queued");
    store.commit(vec![Write::Status(again)], Moment::default()).await.unwrap();
    assert!(listed(&store, true).await.contains(&"succeeded".to_owned()));
}

/// Many more than a page has, most of them settled.
#[tokio::test]
async fn unsettled_runs_are_found_among_many_settled_ones() {
    const MANY: i64 = 20_000;
    let database = TestDatabase::new();
    let store = database.open().await;
    let mut connection = database.connect().await;
    let numbers =
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $1 - 1)";
    let agent = "'r' || substr(CAST(1000000 + i AS TEXT), 2)";
    for (into, values) in [
        (
            "runs (id, branch, spec_sha, status, started_at, half_spawned, name)",
            format!("{agent}, 'b', '', 'done', 1000000 + i, 0, {agent}"),
        ),
        ("resource_terms (term, value, born)", format!("'AgentDispatchRun.agent', {agent}, i")),
        (
            "resource_terms (term, value, born)",
            "'AgentDispatchRun.status', CASE i % 500 WHEN 7 THEN 'running' ELSE 'succeeded' END, i"
                .to_owned(),
        ),
    ] {
        let statement = format!("{numbers} INSERT INTO {into} SELECT {values} FROM n");
        let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(MANY);
        query.execute(&mut connection).await.unwrap();
    }
    let unsettled: Vec<String> =
        (0..MANY / 500).map(|number| format!("r{:06}", number * 500 + 7)).collect();
    assert_eq!(listed(&store, true).await, unsettled);
    assert_eq!(listed(&store, false).await.len(), 99, "positive control: a page of all of them");
    let settled = store.count_settled_dispatches().await.unwrap();
    let succeeded = MANY.unsigned_abs() / 500 * 499;
    assert_eq!(settled, SettledDispatches { succeeded, failed: 0 });
}
