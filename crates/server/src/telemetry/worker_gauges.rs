//! Metrics of workers, for a limited number of them.

use std::fmt::Write as _;

use bailiwick_fleet::workers::{ATTEMPT_LABEL, RegisteredWorker, WorkerState};

use super::metrics::{escaped, head};

/// How many workers have metrics of their own.
const MAX_WORKERS: usize = 500;

/// The label for all workers without metrics of their own. No worker has this name.
const OTHERS: &str = "worker=\"(others)\",pool=\"\"";

/// What is counted of a worker.
type Number = fn(&RegisteredWorker) -> u64;

const STATES: [&str; 4] = ["ready", "cordoned", "draining", "absent"];

fn state(registered: &RegisteredWorker) -> &'static str {
    let worker = &registered.worker;
    if !worker.is_present {
        return "absent";
    }
    match worker.state {
        WorkerState::Active => "ready",
        WorkerState::Cordoned => "cordoned",
        WorkerState::Draining => "draining",
    }
}

fn labels(registered: &RegisteredWorker) -> String {
    let worker = &registered.worker;
    format!("worker=\"{}\",pool=\"{}\"", escaped(&worker.name), escaped(&worker.pool))
}

fn attempts(registered: &RegisteredWorker) -> u64 {
    registered.worker.running
}

fn slots(registered: &RegisteredWorker) -> u64 {
    registered.worker.capabilities.slots
}

pub(crate) fn write(out: &mut String, workers: Vec<RegisteredWorker>) {
    let name = "bailiwick_workers";
    head(out, name, "gauge", "Workers that have joined, by state.");
    for known in STATES {
        let count = workers.iter().filter(|worker| state(worker) == known).count();
        let _ = writeln!(out, "{name}{{state=\"{known}\"}} {count}");
    }
    // The workers of Kubernetes Jobs are gone soon.
    let (mut own, mut others): (Vec<_>, Vec<_>) = workers
        .into_iter()
        .partition(|registered| !registered.worker.labels.contains_key(ATTEMPT_LABEL));
    own.sort_by_key(|registered| !registered.worker.is_present);
    others.extend(own.drain(own.len().min(MAX_WORKERS)..));
    let name = "bailiwick_worker_state";
    head(out, name, "gauge", "The state of a worker.");
    for worker in &own {
        let _ = writeln!(out, "{name}{{{},state=\"{}\"}} 1", labels(worker), state(worker));
    }
    let name = "bailiwick_worker_silent_seconds";
    head(out, name, "gauge", "Time since the last request of a worker.");
    for worker in &own {
        let (seconds, millis) = (worker.silent_millis / 1_000, worker.silent_millis % 1_000);
        let _ = writeln!(out, "{name}{{{}}} {seconds}.{millis:03}", labels(worker));
    }
    let numbers: [(&str, &str, Number); 2] = [
        ("bailiwick_worker_attempts", "Attempts that a worker runs.", attempts),
        ("bailiwick_worker_slots", "Attempts that a worker can run at the same time.", slots),
    ];
    for (name, help, number) in numbers {
        head(out, name, "gauge", help);
        for worker in &own {
            let _ = writeln!(out, "{name}{{{}}} {}", labels(worker), number(worker));
        }
        if !others.is_empty() {
            let sum = others.iter().map(number).fold(0, u64::saturating_add);
            let _ = writeln!(out, "{name}{{{OTHERS}}} {sum}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bailiwick_fleet::workers::{WorkerCapabilities, WorkerRecord};
    use bailiwick_resources::Moment;

    use super::*;

    fn worker(name: &str, is_present: bool) -> RegisteredWorker {
        let worker = WorkerRecord {
            name: name.to_owned(),
            pool: "inside".to_owned(),
            labels: BTreeMap::new(),
            capabilities: WorkerCapabilities { slots: 4, ..WorkerCapabilities::default() },
            version: "1.0.0".to_owned(),
            state: WorkerState::Active,
            joined_at: Moment::default(),
            seen_at: Moment::default(),
            is_present,
            running: 1,
        };
        RegisteredWorker { worker, silent_millis: 1_250 }
    }

    #[test]
    fn series_are_limited_and_the_rest_is_summed() {
        let mut workers: Vec<_> =
            (0..600).map(|number| worker(&format!("w{number:03}"), number >= 50)).collect();
        let mut job = worker("job", true);
        job.worker.labels.insert(ATTEMPT_LABEL.to_owned(), "fix-42".to_owned());
        workers.push(job);
        let mut output = String::new();
        write(&mut output, workers);
        let count = |name: &str| {
            let series = format!("{name}{{");
            output.lines().filter(|line| line.starts_with(&series)).count()
        };
        assert_eq!(count("bailiwick_worker_state"), 500);
        assert_eq!(count("bailiwick_worker_attempts"), 501);
        assert!(output.contains("bailiwick_workers{state=\"absent\"} 50\n"), "{output}");
        assert!(
            output.contains("worker=\"w050\",pool=\"inside\",state=\"ready\"} 1\n"),
            "{output}"
        );
        assert!(!output.contains("w049") && !output.contains("w550"), "present workers come first");
        assert!(!output.contains("job"), "{output}");
        let rest = "bailiwick_worker_slots{worker=\"(others)\",pool=\"\"} 404\n";
        assert!(output.contains(rest), "{output}");
        let silent = "bailiwick_worker_silent_seconds{worker=\"w050\",pool=\"inside\"} 1.250\n";
        assert!(output.contains(silent), "{output}");
    }
}
