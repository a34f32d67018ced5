//! Processes that race for one claim: one acquires it, and its previous holder is refused.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bailiwick_lifecycle::delegation::claim::{Acquired, FenceState};
use bailiwick_store::Store;
use bailiwick_testkit::{Depth, figure};

use crate::claims::request;
use crate::test_database::{TestDatabase, block_on, id, location};

/// The variable that makes this program a racer; its value is the address of the database.
const RACER: &str = "BAILIWICK_TEST_RACER";
/// The prefix of an answer; the test program prints other lines too.
const ANSWER: &str = "answer:";

/// For each line on stdin, a racer tries once. Does nothing unless this process is a racer.
#[test]
fn racer() {
    let Some(database) = std::env::var(RACER).ok() else { return };
    block_on(async {
        let store = Store::open(location(&database)).await.unwrap();
        println!("\n{ANSWER} ready");
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            let (run, now) = line.split_once(' ').unwrap();
            let request = request(run, "/contested", &["src/**"]);
            match store.acquire(&request, now.parse().unwrap()).await.unwrap() {
                Acquired::Granted(claim) => println!("{ANSWER} {}", claim.fence),
                Acquired::Obstructed(_) => println!("{ANSWER} no"),
                Acquired::Renewed(claim) => panic!("a new run has a claim already: {claim:?}"),
            }
        }
    });
}

struct Racer {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Racer {
    fn start(database: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "claims_race::racer", "--nocapture", "--test-threads=1"])
            .env(RACER, database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, orders, answers }
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "a racer ended");
            if let Some(answer) = line.trim().strip_prefix(ANSWER) {
                return answer.trim().to_owned();
            }
        }
    }
}

fn race(racers: usize, rounds: u64) {
    let database = TestDatabase::new();
    block_on(database.open());
    let mut racers_started: Vec<Racer> =
        (0..racers).map(|_| Racer::start(&database.address())).collect();
    for racer in &mut racers_started {
        assert_eq!(racer.answer(), "ready");
    }
    let mut before: Option<(String, u64)> = None;
    for round in 1..=rounds {
        // The lease of the previous round has expired.
        let now = round * 1_000;
        let orders: Vec<String> = (0..racers).map(|n| format!("p{n}-r{round}")).collect();
        for (racer, order) in racers_started.iter_mut().zip(&orders) {
            writeln!(racer.orders, "{order} {now}").unwrap();
        }
        let answers: Vec<String> = racers_started.iter_mut().map(Racer::answer).collect();
        let winners: Vec<(String, u64)> = orders
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| *answer != "no")
            .map(|(order, answer)| (order.clone(), answer.parse().unwrap()))
            .collect();
        let [(winner, fence)] = winners.as_slice() else { panic!("round {round}: {winners:?}") };
        let holding_of = |run: &str| {
            block_on(async {
                let store = database.open().await;
                store.renew_claim(&id(run), "/contested", now + 1).await.unwrap().unwrap().1
            })
        };
        assert_eq!(holding_of(winner), FenceState::Valid, "round {round}");
        if let Some((loser, old_fence)) = before {
            assert!(old_fence < *fence, "fence {fence} came after {old_fence}");
            match holding_of(&loser) {
                FenceState::Stale(by) => assert_eq!(by.claim.run.as_str(), winner),
                other @ (FenceState::Valid | FenceState::Released(_)) => {
                    panic!("round {round}: {loser} with fence {old_fence}: {other:?}")
                }
            }
        }
        before = Some((winner.clone(), *fence));
    }
    for racer in racers_started {
        drop(racer.orders);
        let mut process = racer.process;
        assert!(process.wait().unwrap().success());
    }
}

#[test]
fn exactly_one_of_racing_processes_acquires_the_claim() {
    let rounds = match Depth::from_env() {
        Depth::Ci => 15,
        Depth::Full => 1_000,
    };
    for racers in [2, 8, 64] {
        race(racers, rounds);
        figure(&format!(
            "claims: {racers} processes raced for one claim {rounds} times: one winner each time, and \
             the fence before it refused each time"
        ));
    }
}
