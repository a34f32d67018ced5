//! This test program as a worker process: it receives orders on stdin and answers on stdout.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use bailiwick_fleet::ports::{FleetError, FleetStore, Received, Selection, Write};
use bailiwick_resources::{API_VERSION, AnyObject, Kind, Metadata, Moment};
use bailiwick_store::Store;
use serde_json::json;

use super::objects::delivery;
use crate::test_database::location;

/// The variable that makes this program a worker; its value is the address of the database.
const WORKER: &str = "BAILIWICK_TEST_FLEET_WORKER";
/// The prefix of an answer; the test program prints other lines too.
const ANSWER: &str = "answer:";

pub(crate) struct Worker {
    pub(crate) process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(database: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fleet::worker::worker", "--nocapture", "--test-threads=1"])
            .env(WORKER, database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut worker = Self { process, orders, answers };
        assert_eq!(worker.answer().as_deref(), Some("ready"));
        worker
    }

    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// The next answer; none if the process ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A line that a kill cut off is not an answer.
            let complete = line.strip_suffix('\n').unwrap_or_default();
            if let Some(answer) = complete.strip_prefix(ANSWER) {
                return Some(answer.trim().to_owned());
            }
        }
    }

    /// Closes stdin, so that the worker ends.
    pub(crate) fn finish(mut self) {
        drop(self.orders);
        assert!(self.process.wait().unwrap().success());
    }
}

fn answer(text: &str) {
    let mut out = std::io::stdout().lock();
    // In one write, on a separate line.
    out.write_all(format!("\n{ANSWER} {text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Does nothing unless this process is a worker.
#[test]
fn worker() {
    let Some(database) = std::env::var(WORKER).ok() else { return };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(async {
        let store = Arc::new(Store::open(location(&database)).await.unwrap());
        answer("ready");
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            let arguments: Vec<&str> = line.split(' ').collect();
            match arguments.as_slice() {
                ["increment", times] => {
                    let conflicts = increment(&*store, times.parse().unwrap()).await;
                    answer(&format!("conflicts {conflicts}"));
                }
                ["echo", times] => {
                    answer(&format!("saw {}", echo(&*store, times.parse().unwrap()).await));
                }
                ["secret", name] => {
                    let values = [("key".to_owned(), format!("value of {name}").into_bytes())];
                    let now = Moment::from_millis(1);
                    store.set_secret("default", name, values.into(), now).await.unwrap();
                    answer("set");
                }
                ["work", name] => work(&store, name).await,
                other => panic!("{other:?}"),
            }
        }
    });
}

pub(crate) fn plain(kind: Kind, name: &str, spec: serde_json::Value) -> AnyObject {
    let metadata = Metadata::named(name);
    let api_version = API_VERSION.to_owned();
    AnyObject { api_version, kind, metadata, spec, status: serde_json::Value::Null }
}

pub(crate) const COUNTER: &str = "counter";

/// Reads and increments the counter `times` times; returns the number of conflicts.
pub(crate) async fn increment(store: &impl FleetStore, times: u64) -> u64 {
    let mut conflicts = 0;
    for _ in 0..times {
        loop {
            let found = store.get(Kind::ConfigMap, "default", COUNTER).await.unwrap();
            let mut object = found.unwrap();
            let count = object.status["count"].as_u64().unwrap_or_default();
            object.status = json!({ "count": count + 1 });
            match store.commit(vec![Write::Status(object)], Moment::default()).await {
                Ok(_) => break,
                Err(FleetError::Conflict { .. }) => conflicts += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    conflicts
}

/// Watches for `ping-n` and creates `pong-n`; returns the versions that it saw.
async fn echo(store: &impl FleetStore, times: usize) -> String {
    let (mut after, mut answered, mut versions) = (0, 0, Vec::new());
    while answered < times {
        store.wait_for_change(after, 60_000).await;
        let new = store.changes(after, 3).await.unwrap();
        assert!(!new.is_empty(), "the change of another process was not seen");
        for change in new {
            after = change.version;
            versions.push(change.version.to_string());
            if let Some(number) = change.object.metadata.name.strip_prefix("ping-") {
                let pong = plain(Kind::ConfigMap, &format!("pong-{number}"), json!({}));
                let now = Moment::from_millis(after);
                store.commit(vec![Write::Create(pong)], now).await.unwrap();
                answered += 1;
            }
        }
    }
    versions.join(",")
}

/// Writes webhooks and transactions without end, and prints what was acknowledged.
async fn work(store: &Arc<Store>, name: &str) {
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let (store, name) = (Arc::clone(store), name.to_owned());
        tasks.spawn(async move {
            for number in 0.. {
                let what = format!("{name}-{task}-{number}");
                let now = Moment::from_millis(number);
                if task < 4 {
                    let incoming = delivery(&what, what.as_bytes(), now);
                    let received = store.receive(incoming.clone()).await.unwrap();
                    assert_eq!(received, Received::New);
                    answer(&format!("received {what}"));
                    if number % 3 == 0 {
                        assert_eq!(store.receive(incoming).await.unwrap(), Received::Redelivered);
                    }
                } else {
                    let applied = pair(&*store, &what, now).await.unwrap();
                    answer(&format!("paired {what} {applied}"));
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Two objects, bytes, an audit entry and a status in one transaction.
async fn pair(store: &impl FleetStore, what: &str, now: Moment) -> Result<u64, FleetError> {
    let page = Selection { limit: 1, ..Selection::of(Kind::AgentDispatchRun) };
    store.list(&page).await?;
    let side = |side: &str| {
        plain(
            Kind::AgentDispatchRun,
            &format!("{what}-{side}"),
            json!({ "agentStack": what, "branch": side }),
        )
    };
    let mut random = bailiwick_testkit::random::Random::new(now.millis());
    let mut audit = super::objects::audit(&mut random);
    audit.subject = what.to_owned();
    let mut counter = plain(Kind::ConfigMap, COUNTER, json!({}));
    counter.status = json!({ "last": what });
    let writes = vec![
        Write::Create(side("left")),
        Write::Blob { digest: what.to_owned(), bytes: what.as_bytes().to_vec() },
        Write::Status(counter),
        Write::Audit(audit),
        Write::Create(side("right")),
    ];
    store.commit(writes, now).await.map(|applied| applied.version)
}
