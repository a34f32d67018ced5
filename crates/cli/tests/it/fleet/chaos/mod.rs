//! Random faults in three servers, four workers and a database, each on its own machine, while webhooks arrive at all
//! servers: nothing is lost or repeated, and every run ends.
//!
//! `DEPTH=full` runs 300 faults, `FAULTS=<n>` another number; `SEED=<n>` repeats a sequence.

#![expect(clippy::print_stdout, reason = "the history of a run that failed")]

mod faults;
mod machines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::network::Network;
use bailiwick_testkit::random::Random;
use serde_json::{Value, json};

use self::faults::{ActiveFault, Fault};
use self::machines::{Machines, SERVERS, WORKERS, place_with_database};
use super::Place;
use super::several_servers::{Watcher, deliver_to_any, label_new_issue, place_with_comments_at};
use bailiwick_testkit::forge::Told;

/// The number of steps of an agent, so that faults hit it between them.
const STEPS: usize = 5;
/// How long runs may make no progress after the last fault.
const MAX_TIME_WITHOUT_PROGRESS: Duration = Duration::from_secs(180);

fn faults() -> usize {
    let by_depth = if Depth::from_env() == Depth::Full { 300 } else { 12 };
    std::env::var("FAULTS").map_or(by_depth, |count| count.parse().unwrap())
}

/// With this many faults, each kind must be among them.
const ENOUGH_FOR_ALL_KINDS: usize = 300;

/// How long a pause lasts after which everything that the process held has expired.
const LONG_PAUSE: Duration = Duration::from_secs(60);

/// How long a fault lasts: shorter or longer than the leases of workers (8 seconds) and of the leader (10 seconds). At full
/// depth, a third of the pauses are long.
fn duration(fault: Fault, random: &mut Random) -> Duration {
    if fault.kind() == "pause" && Depth::from_env() == Depth::Full && random.once_in(3) {
        return LONG_PAUSE;
    }
    let seconds: &[u64] = match Depth::from_env() {
        Depth::Full => &[0, 1, 2, 3, 5, 9, 14, 60],
        Depth::Ci => &[0, 1, 2, 3, 4, 11],
    };
    // Long faults are rare.
    let index = random.below(seconds.len()).min(random.below(seconds.len()));
    Duration::from_secs(seconds[index]) + Duration::from_millis(random.number() % 1_000)
}

/// The lines that an agent prints, in order.
fn lines() -> Vec<String> {
    (1..=STEPS).map(|step| format!("step-{step}-of-{STEPS}")).collect()
}

/// Received events, by run and cursor.
type ReceivedEvents = Mutex<BTreeMap<String, BTreeMap<u64, String>>>;

/// The events of a run by cursor, or `None` if they cannot be read now.
fn events(place: &Place, run: &str) -> Option<Vec<(u64, String)>> {
    let logs = place.run(&["runs", "logs", run, "-o", "json"]);
    if logs.code != 0 {
        return None;
    }
    let all = serde_json::Deserializer::from_str(&logs.out).into_iter::<Value>();
    let all = all.map(Result::unwrap);
    let all = all.flat_map(|one| one.as_array().cloned().unwrap_or_else(|| vec![one]));
    Some(all.map(|event| (event["cursor"].as_u64().unwrap(), event.to_string())).collect())
}

fn runs(place: &Place) -> Option<Vec<Value>> {
    let output = place.run(&["get", "runs", "-o", "json"]);
    let all: Option<Value> = (output.code == 0).then(|| serde_json::from_str(&output.out).unwrap());
    all.map(|all| all.as_array().unwrap().clone())
}

fn phase(run: &Value) -> &str {
    run["status"]["phase"].as_str().unwrap_or_default()
}

fn has_ended(run: &Value) -> bool {
    matches!(phase(run), "succeeded" | "failed" | "cancelled")
}

fn name(run: &Value) -> &str {
    run["metadata"]["name"].as_str().unwrap()
}

/// Reads the events of unfinished runs until the faults have ended, as a user who follows them.
fn follow_events(place: &Place, received: &ReceivedEvents, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
        let all = runs(place).unwrap_or_default();
        for run in all.iter().filter(|run| !has_ended(run)) {
            for (cursor, event) in events(place, name(run)).unwrap_or_default() {
                let mut received = received.lock().unwrap();
                received.entry(name(run).to_owned()).or_default().insert(cursor, event);
            }
        }
    }
}

/// Causes faults one after another; some overlap. A label starts a run before every second fault.
fn cause_faults(
    machines: &mut Machines<'_>,
    random: &mut Random,
    mut start_run: impl FnMut(usize),
) {
    let started = Instant::now();
    let mut active: Vec<(Instant, ActiveFault, String)> = Vec::new();
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut long_pauses = 0;
    for number in 1..=faults() {
        if number % 2 == 1 {
            start_run(random.below(SERVERS));
        }
        let fault = Fault::random(random);
        let time = fault.limit(duration(fault, random));
        *counts.entry(fault.kind()).or_default() += 1;
        long_pauses += usize::from(fault.kind() == "pause" && time >= LONG_PAUSE);
        let description = fault.describe(machines);
        let seconds = started.elapsed().as_secs();
        println!("fault {number} at {seconds} s: {description} for {} ms", time.as_millis());
        active.push((Instant::now() + time, fault.begin(machines, time), description));
        let overlaps = random.once_in(3);
        let pause = Duration::from_millis(random.number() % 1_500);
        let next = Instant::now() + pause;
        while Instant::now() < next || active.len() > usize::from(overlaps) {
            let due = active.iter().position(|(end, _, _)| *end <= Instant::now());
            if let Some(due) = due {
                active.remove(due).1.end(machines);
            }
            machines.keep_running();
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    for (_, fault, _) in active {
        fault.end(machines);
    }
    machines.keep_running();
    println!("faults of each kind: {counts:?}, and {long_pauses} pauses of {LONG_PAUSE:?} or more");
    if faults() >= ENOUGH_FOR_ALL_KINDS {
        let is_missing = |kind: &&str| !counts.contains_key(kind);
        let missing: Vec<&str> = Fault::KINDS.into_iter().filter(is_missing).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{counts:?}");
        assert!(long_pauses > 0 || Depth::from_env() != Depth::Full, "no pause was long");
    }
}

/// Waits for the end of all runs, and returns them. Pending approvals are approved meanwhile.
fn end_of_all_runs(machines: &mut Machines<'_>, count: usize) -> Vec<Value> {
    let (mut last, mut changed) = (String::new(), Instant::now());
    loop {
        machines.keep_running();
        let place = machines.place;
        let pending = place.run(&["get", "approvals", "--field", "phase=pending", "-o", "json"]);
        let pending: Value = serde_json::from_str(&pending.out).unwrap_or_default();
        for approval in pending.as_array().into_iter().flatten() {
            place.run(&["approvals", "approve", name(approval)]);
        }
        let all = runs(place).unwrap_or_default();
        if all.len() >= count && all.iter().all(has_ended) {
            return all;
        }
        let ended_count = all.iter().filter(|run| has_ended(run)).count().to_string();
        if ended_count != last {
            (last, changed) = (ended_count, Instant::now());
        }
        if changed.elapsed() > MAX_TIME_WITHOUT_PROGRESS {
            for node in &machines.nodes {
                println!("--- {} ({} starts)\n{}", node.name, node.starts, node.last_log_lines());
            }
            let unfinished: Vec<&Value> = all.iter().filter(|run| !has_ended(run)).collect();
            println!("{}", machines.place.run(&["workers", "list"]).out);
            let queue = "SELECT agent, state, worker, fence, lease_until, cancelled, report FROM worker_attempts \
                         WHERE state IN ('queued', 'claimed', 'finished')";
            println!("{}", machines.database.sql(&machines.database_name, queue));
            panic!("{} of {count} runs, and these do not end: {unfinished:#?}", all.len());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn random_faults_lose_or_duplicate_nothing() {
    let mut random = Random::rotating("chaos");
    let network = Network::new();
    let (client, database_machine) = (network.machine(), network.machine());
    let (place, database, database_name) = place_with_database(&client, &database_machine);
    let step =
        |line: String| json!({ "do": "shell", "command": format!("echo {line}; sleep 0.4") });
    let mut script: Vec<Value> = lines().into_iter().map(step).collect();
    script.push(json!({ "do": "write", "path": "src/made.txt", "text": "made\n" }));
    let pool = json!({ "capacity": WORKERS, "runsOn": "workers" });
    let place = place_with_comments_at(place, &Value::Array(script), &pool);
    let token = place.run(&["tokens", "new", "ada", "--scope", "admin"]).expect_code(0).out;
    let mut machines =
        Machines::start(network, (client, database_machine), &place, (database, database_name));
    let addresses = machines.addresses();
    let watcher = Watcher::start(addresses.clone(), token.trim().to_owned());
    let is_finished = AtomicBool::new(false);
    let received = ReceivedEvents::default();
    let mut issues = Vec::new();
    let other_deliveries = std::thread::scope(|scope| {
        let end = EndOnDrop(&is_finished);
        // Deliveries that start no run, to all servers in turn.
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !is_finished.load(Ordering::Relaxed) {
                let number = place.forge.add_issue("Quiet", "Nothing to do.");
                let label = Told::Label { number, label: "other".to_owned() };
                deliver_to_any(&addresses, sent, &place.forge.webhook(&label));
                sent += 1;
                std::thread::sleep(Duration::from_millis(800));
            }
            sent
        });
        scope.spawn(|| follow_events(&place, &received, &is_finished));
        cause_faults(&mut machines, &mut random, |server| {
            let (number, webhook) = label_new_issue(&place);
            issues.push(number);
            let addresses = &addresses;
            // The faults continue while the delivery is repeated.
            scope.spawn(move || deliver_to_any(addresses, server, &webhook));
        });
        drop(end);
        sender.join().unwrap()
    });
    let runs = end_of_all_runs(&mut machines, issues.len());
    // Each label has started one run with one attempt.
    assert_eq!(runs.len(), issues.len(), "{runs:#?}");
    let started_for: BTreeSet<String> =
        runs.iter().map(|run| run["spec"]["sourceRefs"]["issue"].to_string()).collect();
    assert_eq!(started_for.len(), issues.len(), "{started_for:?}");
    for run in &runs {
        assert_eq!(run["status"]["attempts"].as_array().unwrap().len(), 1, "{run:#}");
    }
    let succeeded = runs.iter().filter(|run| phase(run) == "succeeded").count();
    for run in runs.iter().filter(|run| phase(run) != "succeeded") {
        println!("{} {}: {}", name(run), phase(run), run["status"]["conditions"]);
    }
    println!("{succeeded} of {} runs succeeded, {other_deliveries} other deliveries", runs.len());
    assert!(succeeded * 2 >= runs.len(), "fewer than half of the runs succeeded");
    // Every result was written to its issue exactly once.
    let comments: Vec<usize> =
        issues.iter().map(|issue| place.forge.comments(*issue).len()).collect();
    assert!(comments.iter().all(|count| *count <= 1), "{issues:?}: {comments:?}");
    assert!(comments.iter().sum::<usize>() >= succeeded, "{issues:?}: {comments:?}");
    // All received events are still stored, in order, and each succeeded run has all its output.
    let received = received.into_inner().unwrap();
    for run in &runs {
        let events = events(&place, name(run)).unwrap();
        assert!(events.is_sorted_by(|one, other| one.0 < other.0), "{events:#?}");
        let events: BTreeMap<u64, String> = events.into_iter().collect();
        for (cursor, event) in received.get(name(run)).into_iter().flatten() {
            assert_eq!(events.get(cursor), Some(event), "{} lost an event", name(run));
        }
        if phase(run) == "succeeded" {
            let all: String = events.into_values().collect();
            for line in lines() {
                assert!(all.contains(&line), "{} lost {line}: {all}", name(run));
            }
        }
    }
    // Each delivery is stored once, and the client has received each once and in order.
    let sent = other_deliveries + issues.len();
    assert_eq!(place.json(&["get", "deliveries"]).as_array().unwrap().len(), sent);
    place.wait_for("all events", || (watcher.added() >= sent).then_some(()));
    let watched = watcher.finish();
    assert!(
        watched.is_sorted_by(|one, other| one.0 < other.0),
        "events are out of order or repeated"
    );
    let added = watched.iter().filter(|(_, what, _)| what == "ADDED").map(|(_, _, name)| name);
    assert_eq!(added.collect::<BTreeSet<_>>().len(), sent);
}

/// Stops the other threads of a test, also if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
