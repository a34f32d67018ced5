//! Metrics: the text format of Prometheus, and their values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiwick_fleet::ports::{FleetStore, Write};
use bailiwick_fleet::workers::{
    RegisteredWorker, WorkerAnswer, WorkerCapabilities, WorkerError, WorkerRecord, WorkerRegistry,
    WorkerState,
};
use bailiwick_resources::Moment;
use bailiwick_server::Settings;
use serde_json::json;

use crate::client::HttpRequest;
use crate::test_server::{TestServer, moment, start, start_server};

/// The page with the metrics of workers.
const GUIDE: &str = include_str!("../../../../docs/guides/workers.md");

/// Parses the text format strictly; returns the samples.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':')
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && !name.is_empty()
    };
    let mut types = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut samples = BTreeMap::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        assert!(is_name(name), "{line}");
        let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(key), "{line}");
            assert!(!value.trim_end_matches('"').contains('"'), "{line}");
        }
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let family =
            family.filter(|family| types.get(*family).is_some_and(|kind| kind == "histogram"));
        assert!(types.contains_key(family.unwrap_or(name)), "{line} has no type");
        assert!(samples.insert(sample.to_owned(), value).is_none(), "{line} occurs twice");
    }
    assert_eq!(helped, types.keys().cloned().collect());
    samples
}

async fn metrics(server: &TestServer) -> BTreeMap<String, f64> {
    parse(&server.get("/metrics").await.expect(200).text())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_well_formed_and_correct() {
    let server = start_server().await;
    for _ in 0..3 {
        server.get("/api/v1alpha1/runs").await.expect(200);
    }
    server.execute(HttpRequest::get("/api/v1alpha1/runs")).await.expect(401);
    server.execute(HttpRequest::get("/nothing/here")).await.expect(404);
    let _watcher = server.watch("/api/v1alpha1/events", None).await;
    let mut run = server.run("run-a").await;
    server.run("run-b").await;
    run.status["phase"] = json!("queued");
    let applied = server.store.commit(vec![Write::Status(run)], moment()).await.unwrap();
    let mut samples = BTreeMap::new();
    for _ in 0..200 {
        samples = metrics(&server).await;
        if samples["bailiwick_changes_total"] == 3.0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let requests = |status: u16| {
        let labels = format!("route=\"/api/v1alpha1/runs\",method=\"get\",status=\"{status}\"");
        samples[&format!("bailiwick_http_requests_total{{{labels}}}")]
    };
    assert_eq!((requests(200), requests(401)), (3.0, 1.0));
    assert_eq!(samples["bailiwick_runs{phase=\"queued\"}"], 1.0);
    assert_eq!(samples["bailiwick_runs{phase=\"pending\"}"], 1.0);
    assert_eq!(samples["bailiwick_queue_length{pool=\"local\"}"], 1.0);
    assert_eq!(samples["bailiwick_watchers"], 1.0);
    assert_eq!(samples["bailiwick_deliveries_waiting"], 0.0);
    let token = samples["bailiwick_store_seconds_count{op=\"token\"}"];
    assert!(token >= 4.0, "{token}");
    assert_eq!(samples["bailiwick_store_seconds_bucket{op=\"token\",le=\"+Inf\"}"], token);
    let mut run = applied.objects.into_iter().next().unwrap();
    run.status["phase"] = json!("succeeded");
    for _ in 0..2 {
        run.metadata.resource_version = 0;
        server.store.commit(vec![Write::Status(run.clone())], moment()).await.unwrap();
    }
    for _ in 0..200 {
        samples = metrics(&server).await;
        if samples["bailiwick_changes_total"] == 5.0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(
        samples["bailiwick_runs_ended_total{phase=\"succeeded\"}"], 1.0,
        "the run ended once"
    );
    assert_eq!(samples["bailiwick_runs{phase=\"queued\"}"], 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_names_do_not_become_labels() {
    let server = start_server().await;
    for number in 0..20 {
        server
            .get(&format!("/api/v1alpha1/namespaces/default/configmaps/x{number}"))
            .await
            .expect(404);
        server.get(&format!("/made/up/{number}")).await.expect(404);
    }
    let text = server.get("/metrics").await.text();
    assert!(!text.contains("x19") && !text.contains("made/up"), "{text}");
    assert!(text.contains("status=\"404\"} 20"), "{text}");
    parse(&text);
}

/// The workers of a server, or `None` if they cannot be read.
#[derive(Debug)]
struct Registry(Option<Vec<RegisteredWorker>>);

impl WorkerRegistry for Registry {
    fn registered(&self) -> WorkerAnswer<'_, Vec<RegisteredWorker>> {
        let workers = self.0.clone();
        let unavailable = || WorkerError::Unavailable("the database is away".to_owned());
        Box::pin(async move { workers.ok_or_else(unavailable) })
    }
}

fn worker(name: &str, state: WorkerState, is_present: bool) -> RegisteredWorker {
    let worker = WorkerRecord {
        name: name.to_owned(),
        pool: "inside".to_owned(),
        labels: BTreeMap::new(),
        capabilities: WorkerCapabilities { slots: 3, ..WorkerCapabilities::default() },
        version: "1.0.0".to_owned(),
        state,
        joined_at: Moment::default(),
        seen_at: Moment::default(),
        is_present,
        running: 2,
    };
    RegisteredWorker { worker, silent_millis: 4_500 }
}

async fn start_with_registry(registry: Registry) -> TestServer {
    let registry: Arc<dyn WorkerRegistry> = Arc::new(registry);
    let settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        worker_registry: Some(registry),
        ..Settings::default()
    };
    start(settings).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_worker_has_its_metrics_and_the_guide_names_them() {
    let workers = vec![
        worker("one", WorkerState::Active, true),
        worker("two", WorkerState::Draining, true),
        worker("three", WorkerState::Cordoned, false),
    ];
    let server = start_with_registry(Registry(Some(workers))).await;
    let samples = metrics(&server).await;
    let value_of = |name: &str, labels: &str| samples.get(&format!("{name}{{{labels}}}")).copied();
    let one = "worker=\"one\",pool=\"inside\"";
    assert_eq!(value_of("bailiwick_worker_attempts", one), Some(2.0));
    assert_eq!(value_of("bailiwick_worker_slots", one), Some(3.0));
    assert_eq!(value_of("bailiwick_worker_silent_seconds", one), Some(4.5));
    for (name, state) in [("one", "ready"), ("two", "draining"), ("three", "absent")] {
        let labels = format!("worker=\"{name}\",pool=\"inside\",state=\"{state}\"");
        assert_eq!(value_of("bailiwick_worker_state", &labels), Some(1.0), "{labels}");
        assert_eq!(value_of("bailiwick_workers", &format!("state=\"{state}\"")), Some(1.0));
    }
    assert_eq!(value_of("bailiwick_workers", "state=\"cordoned\""), Some(0.0));
    let names: BTreeSet<&str> = samples
        .keys()
        .filter_map(|sample| sample.split('{').next())
        .filter(|name| name.starts_with("bailiwick_worker"))
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        assert!(GUIDE.contains(&format!("`{name}`")), "the guide does not name {name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_no_workers_if_the_registry_is_unavailable() {
    let server = start_with_registry(Registry(None)).await;
    let samples = metrics(&server).await;
    assert!(samples.contains_key("bailiwick_connections"), "{samples:?}");
    assert!(!samples.keys().any(|sample| sample.starts_with("bailiwick_worker")), "{samples:?}");
}
