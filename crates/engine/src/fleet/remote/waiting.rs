//! Why no worker has begun an attempt, in one sentence with the way out.

use std::collections::BTreeMap;

use bailiwick_fleet::workers::{
    ATTEMPT_LABEL, CORES_LABEL, WorkerAttempt, WorkerRecord, WorkerState, satisfies,
};

use super::{CHECKS_LABEL, PROGRAM_LABEL, SANDBOX_LABEL};

/// The labels of a worker with those that its capabilities give it.
pub(super) fn with_capabilities(mut worker: WorkerRecord) -> WorkerRecord {
    for program in worker.capabilities.programs.keys() {
        worker.labels.insert(format!("{PROGRAM_LABEL}{program}"), "installed".to_owned());
    }
    worker.labels.insert(SANDBOX_LABEL.to_owned(), worker.capabilities.sandbox.clone());
    worker.labels.insert(CORES_LABEL.to_owned(), worker.capabilities.cores.to_string());
    if worker.capabilities.checks {
        worker.labels.insert(CHECKS_LABEL.to_owned(), "accepted".to_owned());
    }
    worker
}

pub(super) fn reason(attempt: &WorkerAttempt, workers: &[WorkerRecord]) -> String {
    let pool = &attempt.pool;
    if attempt.is_job() {
        let own = workers.iter().filter(|worker| worker.pool == *pool).cloned();
        let mut own = own
            .map(with_capabilities)
            .filter(|worker| worker.labels.get(ATTEMPT_LABEL) == attempt.labels.get(ATTEMPT_LABEL));
        return of_job(attempt, own.next_back());
    }
    let of_pool: Vec<WorkerRecord> = workers
        .iter()
        .filter(|worker| worker.pool == *pool)
        .cloned()
        .map(with_capabilities)
        .collect();
    if of_pool.is_empty() {
        return format!(
            "no worker has joined the pool `{pool}`; start one: bailiwick worker --pool {pool}"
        );
    }
    let present: Vec<&WorkerRecord> = of_pool.iter().filter(|worker| worker.is_present).collect();
    let Some(first) = present.first() else {
        return format!("no worker of the pool `{pool}` is running; see: bailiwick workers list");
    };
    let suitable: Vec<&&WorkerRecord> =
        present.iter().filter(|worker| satisfies(&worker.labels, &attempt.labels)).collect();
    if suitable.is_empty() {
        let missing = present
            .iter()
            .map(|worker| missing(&worker.labels, &attempt.labels))
            .min_by_key(Vec::len)
            .unwrap_or_else(|| missing(&first.labels, &attempt.labels));
        return format!("no running worker of the pool `{pool}` has {}", missing.join(", "));
    }
    if suitable.iter().all(|worker| worker.state != WorkerState::Active) {
        return format!(
            "the suitable workers of the pool `{pool}` take no new attempts; allow it: bailiwick \
             workers uncordon {}",
            suitable.first().map(|worker| worker.name.as_str()).unwrap_or_default()
        );
    }
    let others = suitable.iter().filter(|worker| !attempt.claimed_by.contains(&worker.name));
    match (attempt.detail.is_empty(), others.count()) {
        (true, _) => format!("the suitable workers of the pool `{pool}` are busy"),
        (false, 0) => format!(
            "{}; no other worker of the pool `{pool}` is suitable: repair its machine ({}), or start another \
             worker",
            attempt.detail, attempt.worker
        ),
        (false, _) => format!("{}; the other suitable workers are busy", attempt.detail),
    }
}

/// Why an attempt has not begun in its Job.
fn of_job(attempt: &WorkerAttempt, worker: Option<WorkerRecord>) -> String {
    if attempt.job.problem.is_some() {
        return attempt.job.detail.clone();
    }
    match worker {
        None => "the operator has not started its Job yet; see: kubectl get jobs -A -l \
                 app.kubernetes.io/component=attempt"
            .to_owned(),
        Some(worker) if !satisfies(&worker.labels, &attempt.labels) => {
            format!("its pod lacks {}", missing(&worker.labels, &attempt.labels).join(", "))
        }
        Some(worker) if attempt.claimed_by.contains(&worker.name) => attempt.detail.clone(),
        Some(worker) => format!("the worker {} of its pod has not begun it yet", worker.name),
    }
}

/// What a worker lacks, in words.
fn missing(has: &BTreeMap<String, String>, needed: &BTreeMap<String, String>) -> Vec<String> {
    let lacks = needed.iter().filter(|(key, value)| {
        let one = BTreeMap::from([((*key).clone(), (*value).clone())]);
        !satisfies(has, &one)
    });
    let words = lacks.map(|(key, value)| match key.strip_prefix(PROGRAM_LABEL) {
        Some(program) => format!("the agent program {program}"),
        None if key == CORES_LABEL => format!("{value} processor cores"),
        None if key == SANDBOX_LABEL => format!("a {value} sandbox"),
        None => format!("the label {key}={value}"),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::workers::{JobRecord, ProgressReport, QueuedState, WorkerCapabilities};
    use bailiwick_resources::{ChecksOn, Moment, PodGrants, RunCost};

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn worker(change: impl FnOnce(&mut WorkerRecord)) -> WorkerRecord {
        let mut worker = WorkerRecord {
            name: "one".to_owned(),
            pool: "inside".to_owned(),
            labels: pairs(&[("gpu", "yes")]),
            capabilities: WorkerCapabilities {
                programs: pairs(&[("codex", "1.0")]),
                sandbox: "full".to_owned(),
                cores: 2,
                slots: 1,
                checks: true,
                ..WorkerCapabilities::default()
            },
            version: "1.0.0".to_owned(),
            state: WorkerState::Active,
            joined_at: Moment::default(),
            seen_at: Moment::default(),
            is_present: true,
            running: 0,
        };
        change(&mut worker);
        worker
    }

    #[test]
    fn reason_names_what_is_missing_and_how_to_fix_it() {
        let attempt = WorkerAttempt {
            agent: "a".to_owned(),
            pool: "inside".to_owned(),
            labels: pairs(&[
                ("gpu", "yes"),
                ("bailiwick.dev/program-codex", "installed"),
                ("bailiwick.dev/sandbox", "full"),
                ("bailiwick.dev/cores", "2"),
            ]),
            state: QueuedState::Queued,
            worker: String::new(),
            fence: 0,
            is_expired: false,
            is_cancelled: false,
            last_event: 0,
            report: ProgressReport::default(),
            spent: RunCost::default(),
            finish: None,
            detail: String::new(),
            checks_on: ChecksOn::Server,
            claimed_by: Vec::new(),
            queued_millis: 0,
            job: JobRecord::default(),
            pod_grants: PodGrants::default(),
        };
        let reason_for = |workers: &[WorkerRecord]| reason(&attempt, workers);
        let other = worker(|worker| worker.pool = "other".to_owned());
        assert_contains(&reason_for(&[other]), "no worker has joined the pool `inside`; start one");
        assert_contains(
            &reason_for(&[worker(|worker| worker.is_present = false)]),
            "is running; see",
        );
        let bare = worker(|worker| worker.labels = pairs(&[("gpu", "no")]));
        assert_contains(&reason_for(&[bare]), "has the label gpu=yes");
        let other = worker(|worker| worker.capabilities.programs.clear());
        assert_contains(&reason_for(&[other]), "has the agent program codex");
        let open = worker(|worker| worker.capabilities.sandbox = "off".to_owned());
        assert_contains(&reason_for(&[open]), "has a full sandbox");
        let small = worker(|worker| worker.capabilities.cores = 1);
        assert_contains(&reason_for(&[small]), "has 2 processor cores");
        let cordoned = worker(|worker| worker.state = WorkerState::Cordoned);
        assert_contains(&reason_for(&[cordoned]), "bailiwick workers uncordon one");
        assert_contains(&reason_for(&[worker(|_| {})]), "are busy");
        let returned = WorkerAttempt {
            worker: "one".to_owned(),
            claimed_by: vec!["one".to_owned()],
            detail: "its disk is full".to_owned(),
            ..attempt.clone()
        };
        let alone = reason(&returned, &[worker(|_| {})]);
        assert_contains(
            &alone,
            "its disk is full; no other worker of the pool `inside` is suitable",
        );
        let other = worker(|worker| worker.name = "two".to_owned());
        let both = reason(&returned, &[worker(|_| {}), other]);
        assert_contains(&both, "its disk is full; the other suitable workers are busy");
        // The suggested command selects Jobs by label, in all namespaces.
        let job = WorkerAttempt { labels: pairs(&[(ATTEMPT_LABEL, "a")]), ..attempt.clone() };
        let command = "kubectl get jobs -A -l app.kubernetes.io/component=attempt";
        assert_contains(&reason(&job, &[]), command);
    }

    fn assert_contains(message: &str, part: &str) {
        assert!(message.contains(part), "{message}");
    }
}
