//! Random faults against three servers, four workers and a database on machines of their own, while webhooks arrive at all
//! servers: nothing is lost, nothing is done twice, and every run ends.
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
use super::several_servers::{Watching, commented_at, deliver_to_any, labelled};
use bailiwick_testkit::forge::Told;

/// What an agent does in steps, so that faults find it in the middle.
const STEPS: usize = 5;
/// How long runs may make no progress after the last fault.
const MAX_STILL: Duration = Duration::from_secs(180);

fn faults() -> usize {
    let by_depth = if Depth::from_env() == Depth::Full { 300 } else { 12 };
    std::env::var("FAULTS").map_or(by_depth, |count| count.parse().unwrap())
}

/// How long a fault lasts: shorter or longer than the leases of workers (8 seconds) and of the leader (10 seconds).
fn duration(random: &mut Random) -> Duration {
    let seconds: &[u64] = match Depth::from_env() {
        Depth::Full => &[0, 1, 2, 3, 5, 9, 14, 60],
        Depth::Ci => &[0, 1, 2, 3, 4, 11],
    };
    // Long ones are rare.
    let place = random.below(seconds.len()).min(random.below(seconds.len()));
    Duration::from_secs(seconds[place]) + Duration::from_millis(random.number() % 1_000)
}

/// The lines that an agent prints, in order.
fn lines() -> Vec<String> {
    (1..=STEPS).map(|step| format!("step-{step}-of-{STEPS}")).collect()
}

/// Events of runs that were seen, by run and cursor.
type SeenEvents = Mutex<BTreeMap<String, BTreeMap<u64, String>>>;

/// The events of a run by their cursor; none if they cannot be read now.
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
    let said = place.run(&["get", "runs", "-o", "json"]);
    let all: Option<Value> = (said.code == 0).then(|| serde_json::from_str(&said.out).unwrap());
    all.map(|all| all.as_array().unwrap().clone())
}

fn phase(run: &Value) -> &str {
    run["status"]["phase"].as_str().unwrap_or_default()
}

fn is_over(run: &Value) -> bool {
    matches!(phase(run), "succeeded" | "failed" | "cancelled")
}

fn name(run: &Value) -> &str {
    run["metadata"]["name"].as_str().unwrap()
}

/// Reads events of unfinished runs until the faults are over, as a person who follows them.
fn follow_events(place: &Place, seen: &SeenEvents, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
        let all = runs(place).unwrap_or_default();
        for run in all.iter().filter(|run| !is_over(run)) {
            for (cursor, event) in events(place, name(run)).unwrap_or_default() {
                let mut seen = seen.lock().unwrap();
                seen.entry(name(run).to_owned()).or_default().insert(cursor, event);
            }
        }
    }
}

/// Causes faults one after another; some overlap with the one before. A label starts a run before every other one.
fn cause_faults(
    machines: &mut Machines<'_>,
    random: &mut Random,
    mut start_run: impl FnMut(usize),
) {
    let begun = Instant::now();
    let mut active: Vec<(Instant, ActiveFault, String)> = Vec::new();
    for number in 1..=faults() {
        if number % 2 == 1 {
            start_run(random.below(SERVERS));
        }
        let fault = Fault::random(random);
        let time = fault.limit(duration(random));
        let told = fault.describe(machines);
        let at = begun.elapsed().as_secs();
        println!("fault {number} at {at} s: {told} for {} ms", time.as_millis());
        active.push((Instant::now() + time, fault.begin(machines, time), told));
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
}

/// Waits for the end of all runs; gives them. What was unclear is approved by a person meanwhile.
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
        if all.len() >= count && all.iter().all(is_over) {
            return all;
        }
        let now = all.iter().filter(|run| is_over(run)).count().to_string();
        if now != last {
            (last, changed) = (now, Instant::now());
        }
        if changed.elapsed() > MAX_STILL {
            for node in &machines.nodes {
                println!("--- {} ({} starts)\n{}", node.name, node.starts, node.last_words());
            }
            let left: Vec<&Value> = all.iter().filter(|run| !is_over(run)).collect();
            println!("{}", machines.place.run(&["workers", "list"]).out);
            let queue = "SELECT agent, state, worker, fence, lease_until, cancelled, report FROM worker_attempts \
                         WHERE state IN ('queued', 'claimed', 'finished')";
            println!("{}", machines.database.sql(&machines.database_name, queue));
            panic!("{} of {count} runs, and these do not end: {left:#?}", all.len());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn nothing_is_lost_or_doubled_among_random_faults() {
    let mut random = Random::rotating("chaos");
    let network = Network::new();
    let (client, database_machine) = (network.machine(), network.machine());
    let (place, database, database_name) = place_with_database(&client, &database_machine);
    let step =
        |line: String| json!({ "do": "shell", "command": format!("echo {line}; sleep 0.4") });
    let mut script: Vec<Value> = lines().into_iter().map(step).collect();
    script.push(json!({ "do": "write", "path": "src/made.txt", "text": "made\n" }));
    let pool = json!({ "capacity": WORKERS, "runsOn": "workers" });
    let place = commented_at(place, &Value::Array(script), &pool);
    let token = place.run(&["tokens", "new", "ada", "--scope", "admin"]).expect_code(0).out;
    let mut machines =
        Machines::start(network, (client, database_machine), &place, (database, database_name));
    let addresses = machines.addresses();
    let watching = Watching::start(addresses.clone(), token.trim().to_owned());
    let is_finished = AtomicBool::new(false);
    let seen = SeenEvents::default();
    let mut issues = Vec::new();
    let quiet = std::thread::scope(|scope| {
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
        scope.spawn(|| follow_events(&place, &seen, &is_finished));
        cause_faults(&mut machines, &mut random, |server| {
            let (number, webhook) = labelled(&place);
            issues.push(number);
            let addresses = &addresses;
            // A fault does not wait for what it disturbs.
            scope.spawn(move || deliver_to_any(addresses, server, &webhook));
        });
        drop(end);
        sender.join().unwrap()
    });
    let runs = end_of_all_runs(&mut machines, issues.len());
    // Each label has started one run, which had one attempt.
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
    println!("{succeeded} of {} runs succeeded, {quiet} other deliveries", runs.len());
    assert!(succeeded * 2 >= runs.len(), "most runs survive");
    // Every result was written to its issue once, and no issue has two.
    let comments: Vec<usize> =
        issues.iter().map(|issue| place.forge.comments(*issue).len()).collect();
    assert!(comments.iter().all(|count| *count <= 1), "{issues:?}: {comments:?}");
    assert!(comments.iter().sum::<usize>() >= succeeded, "{issues:?}: {comments:?}");
    // Everything that was shown is still there, in order, and what succeeded has printed everything once.
    let seen = seen.into_inner().unwrap();
    for run in &runs {
        let events = events(&place, name(run)).unwrap();
        assert!(events.is_sorted_by(|one, other| one.0 < other.0), "{events:#?}");
        let events: BTreeMap<u64, String> = events.into_iter().collect();
        for (cursor, event) in seen.get(name(run)).into_iter().flatten() {
            assert_eq!(events.get(cursor), Some(event), "{} lost an event", name(run));
        }
        if phase(run) == "succeeded" {
            let all: String = events.into_values().collect();
            for line in lines() {
                assert!(all.contains(&line), "{} lost {line}: {all}", name(run));
            }
        }
    }
    // Each delivery is stored once, and the client has seen each once and in order.
    let sent = quiet + issues.len();
    assert_eq!(place.json(&["get", "deliveries"]).as_array().unwrap().len(), sent);
    place.until("all events", || (watching.added() >= sent).then_some(()));
    let watched = watching.finish();
    assert!(watched.is_sorted_by(|one, other| one.0 < other.0), "in order, and none twice");
    let added = watched.iter().filter(|(_, what, _)| what == "ADDED").map(|(_, _, name)| name);
    assert_eq!(added.collect::<BTreeSet<_>>().len(), sent);
}

/// Ends the threads beside a test, also if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
