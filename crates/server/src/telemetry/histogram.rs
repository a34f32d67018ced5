//! How long things take, as Prometheus counts it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper ends of the classes, in microseconds, and as they are written.
const ENDS: [(u64, &str); 12] = [
    (100, "0.0001"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (500_000, "0.5"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
];

#[derive(Debug, Default)]
pub(crate) struct Histogram {
    classes: [AtomicU64; ENDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = ENDS.iter().zip(&self.classes).find(|((end, _), _)| micros <= *end);
        if let Some((_, class)) = class {
            class.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Its lines; `labels` as `op="get"`, or empty.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for ((_, end), class) in ENDS.iter().zip(&self.classes) {
            below += class.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {below}");
        }
        let count = self.count.load(Ordering::Relaxed).max(below);
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
        let micros = self.micros.load(Ordering::Relaxed);
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ =
            writeln!(out, "{name}_sum{braces} {}.{:06}", micros / 1_000_000, micros % 1_000_000);
        let _ = writeln!(out, "{name}_count{braces} {count}");
    }
}
