//! The cost of checking a claim against 10,000 live claims compared with 10: ratios from one interleaved run.

#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark panics on failure")]

use std::time::{Duration, Instant};

use bailiwick_lifecycle::delegation::claim::{Acquired, ClaimRequest};
use bailiwick_model::AgentId;
use bailiwick_model::claim::ClaimOutcome;
use bailiwick_store::{Location, Store};
use bailiwick_testkit::figure;
use bailiwick_testkit::stopwatch::{median, ratio};

const FEW: usize = 10;
const MANY: usize = 10_000;
const ROUNDS: usize = 200;
const LEASE: u64 = 1_000_000;

fn request(run: &str, glob: String) -> ClaimRequest {
    ClaimRequest {
        run: AgentId::parse(run).expect("an id"),
        line: Vec::new(),
        repository: "/repository".to_owned(),
        inside: vec![glob],
        except: Vec::new(),
        lease: LEASE,
        takes_over: Vec::new(),
    }
}

/// A directory, a file, or names with a common prefix.
fn glob(number: usize) -> String {
    match number % 3 {
        0 => format!("crates/c{number}-x/src/**"),
        1 => format!("docs/d{number}-x.md"),
        _ => format!("src/s{number}-*.rs"),
    }
}

async fn filled(file: std::path::PathBuf, count: usize) -> Store {
    let store = Store::open(Location::file(file)).await.expect("a store");
    for number in 0..count {
        let acquired = store.acquire(&request(&format!("run-{number}"), glob(number)), 0).await;
        assert!(matches!(acquired.expect("a claim"), Acquired::Granted(_)), "{}", glob(number));
    }
    store
}

/// The time of a refused claim.
async fn refused(store: &Store, number: usize) -> Duration {
    let request = request("requester", glob(number % FEW));
    let started = Instant::now();
    let answer = store.acquire(&request, 1).await.expect("an answer");
    let duration = started.elapsed();
    assert!(matches!(answer, Acquired::Obstructed(_)), "{answer:?}");
    duration
}

/// The time of a granted claim.
async fn granted(store: &Store, number: usize) -> Duration {
    let request = request("requester", glob(MANY + number % FEW));
    let started = Instant::now();
    let answer = store.acquire(&request, 1).await.expect("an answer");
    let duration = started.elapsed();
    let Acquired::Granted(claim) = answer else { panic!("{answer:?}") };
    store.release(claim.fence, ClaimOutcome::Failed, 2).await.expect("a release");
    duration
}

async fn measure() {
    let directory = tempfile::tempdir().expect("a directory");
    let few_claims = filled(directory.path().join("few.db"), FEW).await;
    let many_claims = filled(directory.path().join("many.db"), MANY).await;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for number in 0..ROUNDS {
        let durations = [
            refused(&few_claims, number).await,
            refused(&many_claims, number).await,
            granted(&few_claims, number).await,
            granted(&many_claims, number).await,
        ];
        for (samples, duration) in times.iter_mut().zip(durations) {
            samples.push(duration);
        }
    }
    let [few_no, many_no, few_yes, many_yes] = times.map(|mut times| median(&mut times));
    figure(&format!(
        "claims: to be refused takes {:.2} times as long against {MANY} live claims as against {FEW} \
         ({many_no:.0?} and {few_no:.0?}), to be granted {:.2} times ({many_yes:.0?} and {few_yes:.0?})",
        ratio(many_no, few_no),
        ratio(many_yes, few_yes),
    ));
    assert!(ratio(many_no, few_no) <= 20.0, "the bound is 20");
    assert!(ratio(many_yes, few_yes) <= 20.0, "the bound is 20");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}
