//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::histogram::Histogram;
use super::run_counts::RunCounts;
use crate::control_loop::{ControlLoopMonitor, ServerRole};

type Requests = BTreeMap<(String, &'static str, u16), u64>;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<Requests>,
    answers: Histogram,
    store: Mutex<BTreeMap<&'static str, Histogram>>,
    deliveries: Mutex<BTreeMap<&'static str, u64>>,
    streams: AtomicU64,
    lagged_streams: AtomicU64,
    changes: AtomicU64,
    connections: AtomicU64,
}

pub(super) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Metrics {
    pub(crate) fn request(&self, path: &str, method: &'static str, status: u16, elapsed: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((path.to_owned(), method, status)).or_default() += 1;
        drop(requests);
        self.answers.observe(elapsed);
    }

    pub(crate) fn observe_store(&self, operation: &'static str, elapsed: Duration) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.entry(operation).or_default().observe(elapsed);
    }

    pub(crate) fn delivery(&self, outcome: &'static str) {
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        *deliveries.entry(outcome).or_default() += 1;
    }

    pub(crate) fn stream_opened(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream_closed(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn stream_lagged(&self) {
        self.lagged_streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn text(
        &self,
        run_counts: &RunCounts,
        control_loop: Option<&ControlLoopMonitor>,
    ) -> String {
        let mut out = String::new();
        let name = "bailiwick_http_requests_total";
        head(&mut out, name, "counter", "Requests by route and status.");
        for ((path, method, status), count) in
            &*self.requests.lock().unwrap_or_else(PoisonError::into_inner)
        {
            let route = escaped(path);
            let _ = writeln!(
                out,
                "{name}{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {count}"
            );
        }
        let name = "bailiwick_http_answer_seconds";
        head(&mut out, name, "histogram", "Time to the start of a response.");
        self.answers.write(&mut out, name, "");
        let name = "bailiwick_store_seconds";
        head(&mut out, name, "histogram", "Latency of the store by operation.");
        for (what, histogram) in &*self.store.lock().unwrap_or_else(PoisonError::into_inner) {
            histogram.write(&mut out, name, &format!("op=\"{what}\""));
        }
        let name = "bailiwick_webhook_deliveries_total";
        head(&mut out, name, "counter", "Webhooks by outcome.");
        for (outcome, count) in &*self.deliveries.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(out, "{name}{{outcome=\"{outcome}\"}} {count}");
        }
        let plain = [
            ("bailiwick_watchers", "gauge", "Streams of events.", &self.streams),
            (
                "bailiwick_watchers_left_behind_total",
                "counter",
                "Streams that were closed because the client read too slowly.",
                &self.lagged_streams,
            ),
            (
                "bailiwick_changes_total",
                "counter",
                "Changes that were sent to streams.",
                &self.changes,
            ),
            ("bailiwick_connections", "gauge", "Connections.", &self.connections),
        ];
        for (name, kind, help, value) in plain {
            head(&mut out, name, kind, help);
            let _ = writeln!(out, "{name} {}", value.load(Ordering::Relaxed));
        }
        if let Some(role) = control_loop.and_then(ControlLoopMonitor::role) {
            let name = "bailiwick_leader";
            head(&mut out, name, "gauge", "Whether this server runs the controllers.");
            let _ = writeln!(out, "{name} {}", u8::from(role == ServerRole::Leader));
        }
        run_counts.write(&mut out);
        out
    }
}
