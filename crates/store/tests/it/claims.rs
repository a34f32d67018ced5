//! Claims agree with a plain model that compares every pair.

use std::collections::BTreeSet;

use bailiwick_lifecycle::delegation::claim::{Acquired, ClaimRequest, FenceState, Released};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::RunStatus;
use bailiwick_model::claim::{Claim, ClaimOutcome, Fence};
use bailiwick_model::globs::{Area, Overlap};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use crate::test_database::{TestDatabase, block_on, id, run};

pub(crate) fn request(run: &str, repository: &str, inside: &[&str]) -> ClaimRequest {
    ClaimRequest {
        run: id(run),
        line: Vec::new(),
        repository: repository.to_owned(),
        inside: inside.iter().map(|glob| (*glob).to_owned()).collect(),
        except: Vec::new(),
        lease: 100,
        takes_over: Vec::new(),
    }
}

const GLOBS: [&str; 16] = [
    "src/**",
    "src/a/**",
    "src/a*",
    "src/b/x.rs",
    "src/b",
    "/src/ab/*.rs",
    "docs/*.md",
    "docs/",
    "*.md",
    "/a",
    "/ab",
    "é/*",
    "é/è",
    "**/x.rs",
    "src/[ab]/y",
    "src/[a[:x]z",
];

fn globs(random: &mut Random, max_count: usize) -> Vec<String> {
    (0..max_count).map(|_| GLOBS[random.below(GLOBS.len())].to_owned()).collect()
}

fn random_request(random: &mut Random) -> ClaimRequest {
    // Runs of one lineage: each was started by the one before it.
    let lineage = ["one", "two", "three"];
    let unrelated = ["four", "five", "six", "seven", "eight", "nine"];
    let (run, lineage) = match random.below(3) {
        0 => {
            let index = random.below(lineage.len());
            (lineage[index], lineage[..index].iter().rev().map(|run| id(run)).collect())
        }
        _ => (unrelated[random.below(unrelated.len())], Vec::new()),
    };
    let (max_inside, min_outside) = (1 + random.below(2), random.below(2));
    ClaimRequest {
        run: id(run),
        line: lineage,
        repository: ["/one", "/two"][random.below(2)].to_owned(),
        inside: globs(random, max_inside),
        except: globs(random, min_outside),
        lease: u64::try_from(random.below(60)).unwrap(),
        takes_over: Vec::new(),
    }
}

/// All claims, without an index.
#[derive(Default)]
struct Plain {
    claims: Vec<Claim>,
}

fn overlap(left: &Area, right: &Area) -> bool {
    left.overlap(right) != Overlap::Never
}

impl Plain {
    /// The overlapping claims of unrelated runs.
    fn overlapping(&self, request: &ClaimRequest, fits: impl Fn(&Claim) -> bool) -> BTreeSet<u64> {
        self.claims
            .iter()
            .filter(|claim| {
                claim.repository == request.repository
                    && claim.run != request.run
                    && !request.line.contains(&claim.run)
                    && !claim.line.contains(&request.run)
                    && fits(claim)
                    && overlap(&claim.area(), &request.area())
            })
            .map(|claim| claim.fence.0)
            .collect()
    }

    fn as_request(claim: &Claim) -> ClaimRequest {
        ClaimRequest {
            run: claim.run.clone(),
            line: claim.line.clone(),
            repository: claim.repository.clone(),
            inside: claim.inside.clone(),
            except: claim.except.clone(),
            lease: 0,
            takes_over: Vec::new(),
        }
    }

    fn stale(&self, own_claim: &Claim) -> bool {
        !self
            .overlapping(&Self::as_request(own_claim), |claim| claim.fence > own_claim.fence)
            .is_empty()
    }
}

#[test]
fn random_operations_agree_with_the_plain_model() {
    let mut random = Random::rotating("claims");
    for _ in 0..Depth::from_env().cases(60) {
        let database = TestDatabase::new();
        block_on(one_history(&database, &mut random));
    }
}

async fn one_history(database: &TestDatabase, random: &mut Random) {
    let store = database.open().await;
    let mut plain = Plain::default();
    let mut now = 1_000_u64;
    let (mut granted, mut obstructed) = (0, 0);
    for _ in 0..120 {
        now += u64::try_from(random.below(12)).unwrap();
        let request = random_request(random);
        match random.below(10) {
            0..6 => match store.acquire(&request, now).await.unwrap() {
                Acquired::Obstructed(found) => {
                    obstructed += 1;
                    let expected = plain.overlapping(&request, |claim| claim.is_live(now));
                    let found: Vec<u64> =
                        found.iter().map(|obstruction| obstruction.claim.fence.0).collect();
                    assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{request:?}");
                }
                Acquired::Granted(claim) => {
                    granted += 1;
                    assert_eq!(
                        plain.overlapping(&request, |claim| claim.is_live(now)),
                        BTreeSet::new()
                    );
                    let highest = plain.claims.iter().map(|claim| claim.fence.0).max();
                    assert_eq!(claim.fence.0, highest.unwrap_or(0) + 1, "a fence was used twice");
                    assert_eq!(claim.leased_until, now + request.lease);
                }
                Acquired::Renewed(claim) => {
                    assert_eq!(
                        plain.overlapping(&request, |claim| claim.is_live(now)),
                        BTreeSet::new()
                    );
                    let own_claim = plain.claims.iter().rfind(|own_claim| {
                        own_claim.run == request.run && own_claim.repository == request.repository
                    });
                    let own_claim = own_claim.unwrap();
                    assert!(
                        own_claim.fence == claim.fence && !plain.stale(own_claim),
                        "{own_claim:?}"
                    );
                    assert_eq!(claim.leased_until, own_claim.leased_until.max(now + request.lease));
                }
            },
            6 | 7 => {
                let until = now + 30;
                let renewed =
                    store.renew_claim(&request.run, &request.repository, until).await.unwrap();
                let own_claim = plain.claims.iter().rfind(|own_claim| {
                    own_claim.run == request.run && own_claim.repository == request.repository
                });
                match (renewed, own_claim) {
                    (None, None) => {}
                    (Some((claim, holding)), Some(own_claim)) => {
                        assert_eq!(claim.fence, own_claim.fence);
                        let is_released = own_claim
                            .release
                            .is_some_and(|release| release.outcome != ClaimOutcome::Expired);
                        match holding {
                            FenceState::Stale(_) => assert!(plain.stale(own_claim)),
                            FenceState::Released(_) => {
                                assert!(is_released && !plain.stale(own_claim))
                            }
                            FenceState::Valid => assert!(!is_released && !plain.stale(own_claim)),
                        }
                    }
                    (renewed, own_claim) => panic!("{renewed:?} instead of {own_claim:?}"),
                }
            }
            8 => {
                let limit = plain.claims.len() + 2;
                let fence = Fence(u64::try_from(random.below(limit)).unwrap());
                let outcome = ClaimOutcome::ALL[random.below(ClaimOutcome::ALL.len())];
                let known = plain.claims.iter().find(|claim| claim.fence == fence);
                match store.release(fence, outcome, now).await.unwrap() {
                    Released::Unknown => assert!(known.is_none()),
                    Released::Before(claim) => assert_eq!(Some(&claim), known),
                    Released::Now(claim) => {
                        assert!(known.unwrap().release.is_none());
                        assert_eq!(claim.release.unwrap().outcome, outcome);
                    }
                }
            }
            _ => {
                let expired = |claim: &&Claim| claim.release.is_none() && claim.leased_until <= now;
                let expected: Vec<Fence> =
                    plain.claims.iter().filter(expired).map(|claim| claim.fence).collect();
                assert_eq!(store.expire(now).await.unwrap(), expected);
            }
        }
        // The stored claims are the model for the next step.
        plain.claims = store.claims(None).await.unwrap();
        exclusive(&plain, now);
    }
    assert!(granted > 5 && obstructed > 5, "too plain: {granted} granted, {obstructed} not");
}

/// Live claims of unrelated runs never overlap.
fn exclusive(plain: &Plain, now: u64) {
    for claim in plain.claims.iter().filter(|claim| claim.is_live(now)) {
        let overlapping = plain.overlapping(&Plain::as_request(claim), |other| other.is_live(now));
        assert_eq!(overlapping, BTreeSet::new(), "{claim:?}");
    }
}

#[tokio::test]
async fn expired_claim_can_be_renewed_until_another_run_acquires_it() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let Acquired::Granted(first) =
        store.acquire(&request("a", "/r", &["src/**"]), 0).await.unwrap()
    else {
        panic!("the claim should be granted")
    };
    assert_eq!(store.expire(100).await.unwrap(), [first.fence]);
    let (renewed, holding) = store.renew_claim(&id("a"), "/r", 300).await.unwrap().unwrap();
    assert_eq!(
        (renewed.fence, renewed.is_live(200), holding),
        (first.fence, true, FenceState::Valid)
    );
    let other = request("b", "/r", &["src/a.rs"]);
    assert!(matches!(store.acquire(&other, 299).await.unwrap(), Acquired::Obstructed(_)));
    assert!(matches!(store.acquire(&other, 300).await.unwrap(), Acquired::Granted(_)));
    let (_, holding) = store.renew_claim(&id("a"), "/r", 900).await.unwrap().unwrap();
    assert!(matches!(holding, FenceState::Stale(_)), "{holding:?}");
    assert_eq!(store.release_run(&id("b"), ClaimOutcome::Done, 310).await.unwrap(), 1);
    assert_eq!(store.release_run(&id("b"), ClaimOutcome::Failed, 320).await.unwrap(), 0);
    let claims = store.claims(Some("/r")).await.unwrap();
    assert_eq!(claims[1].release.unwrap().outcome, ClaimOutcome::Done);
    // Another run had the claim, so the knowledge of the first run may be outdated.
    let (_, holding) = store.renew_claim(&id("a"), "/r", 900).await.unwrap().unwrap();
    assert!(matches!(holding, FenceState::Stale(_)), "{holding:?}");
}

#[tokio::test]
async fn next_run_takes_over_the_claims_of_earlier_runs_in_one_step() {
    let database = TestDatabase::new();
    let store = database.open().await;
    store.acquire(&request("a", "/r", &["src/**"]), 0).await.unwrap();
    let child = ClaimRequest { line: vec![id("a")], ..request("child", "/r", &["src/x/**"]) };
    assert!(matches!(store.acquire(&child, 0).await.unwrap(), Acquired::Granted(_)));
    assert_eq!(store.claimants_below(&[id("a")]).await.unwrap(), [id("child")]);
    let other = request("other", "/r", &["src/x/y.rs"]);
    assert!(matches!(store.acquire(&other, 1).await.unwrap(), Acquired::Obstructed(_)));
    let takes_over = vec![id("a"), id("child")];
    let next = ClaimRequest { takes_over, ..request("b", "/r", &["src/**"]) };
    assert!(matches!(store.acquire(&next, 1).await.unwrap(), Acquired::Granted(_)));
    assert_eq!(store.claimants_below(&[id("a")]).await.unwrap(), []);
    assert!(matches!(store.acquire(&other, 2).await.unwrap(), Acquired::Obstructed(_)));
    // The work of the earlier runs can no longer land.
    for run in ["a", "child"] {
        let (_, holding) = store.renew_claim(&id(run), "/r", 300).await.unwrap().unwrap();
        assert!(matches!(holding, FenceState::Stale(_)), "{run}: {holding:?}");
    }
}

#[tokio::test]
async fn claim_of_a_run_that_cannot_land_blocks_nobody() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for (name, next, expected) in [
        ("a", RunStatus::Done, None),
        ("b", RunStatus::Merged, Some(ClaimOutcome::Done)),
        ("c", RunStatus::Rejected, Some(ClaimOutcome::Failed)),
        ("d", RunStatus::Failed, Some(ClaimOutcome::Failed)),
    ] {
        store.record(&run(name), None).await.unwrap();
        let glob = format!("src/{name}/**");
        store.acquire(&request(name, "/r", &[&glob]), 0).await.unwrap();
        if next == RunStatus::Merged {
            store.change_status(&id(name), RunStatus::Done, None).await.unwrap();
        }
        store.change_status(&id(name), next, None).await.unwrap();
        let claims = store.claims(None).await.unwrap();
        let claim = claims.iter().find(|claim| claim.run.as_str() == name).unwrap();
        assert_eq!(claim.release.map(|release| release.outcome), expected, "{next}");
        let another = store.acquire(&request("other", "/r", &[&glob]), 1).await.unwrap();
        assert_eq!(matches!(another, Acquired::Granted(_)), expected.is_some(), "{next}");
    }
}

#[tokio::test]
async fn request_with_one_occupied_part_acquires_nothing() {
    let database = TestDatabase::new();
    let store = database.open().await;
    store.acquire(&request("a", "/r", &["src/a.rs"]), 0).await.unwrap();
    let both = request("b", "/r", &["docs/**", "src/**"]);
    assert!(matches!(store.acquire(&both, 1).await.unwrap(), Acquired::Obstructed(_)));
    let docs = request("c", "/r", &["docs/x"]);
    assert!(matches!(store.acquire(&docs, 1).await.unwrap(), Acquired::Granted(_)));
    assert_eq!(store.claims(None).await.unwrap().len(), 2);
}
