//! Snapshots of claims: reading one gives the same table as reading all comments.

use bailiwick_memory::{
    ClaimError, ClaimRefusal, ClaimRequest, ClaimStore, ClaimTable, Event, EventKind,
    IssueMemory as _, MemoryError, Protocol, ReleaseReport, ReservationRequest, Resource,
    SigningKey, TokenClaim, events_of, footer,
};
use bailiwick_resources::Moment;
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;

use crate::fake::{CLAIMS_ISSUE, Fake, run};

const HOUR_MS: u64 = 60 * 60 * 1000;

fn protocol(fake: &Fake) -> Protocol<'_, Fake> {
    let opened = run(Protocol::open(fake, SigningKey::new(b"a secret of ours"))).unwrap();
    let claim_store = ClaimStore::Comments { issue: CLAIMS_ISSUE, settle_ms: 5_000 };
    Protocol { claim_store, ..opened }
}

fn wish(invocation: &str, path: &str) -> ClaimRequest {
    ClaimRequest {
        agent: invocation.to_owned(),
        invocation: invocation.to_owned(),
        issue: Some(7),
        resources: vec![Resource::file(path)],
        lease_ms: 48 * HOUR_MS,
        takes_over: Vec::new(),
    }
}

fn claim(protocol: &Protocol<'_, Fake>, invocation: &str, path: &str) -> Result<u64, ClaimError> {
    run(protocol.claim(&wish(invocation, path), Moment::from_millis(0)))
}

fn reservation(invocation: &str, tokens: u64) -> ReservationRequest {
    ReservationRequest {
        issue: 7,
        agent: invocation.to_owned(),
        invocation: invocation.to_owned(),
        tokens: Some(tokens),
        lease_ms: HOUR_MS,
    }
}

/// Claims and releases until there are enough comments for a snapshot.
fn fill(protocol: &Protocol<'_, Fake>) {
    for round in 0..60 {
        let invocation = format!("early-{round}");
        let fence = claim(protocol, &invocation, "docs").unwrap();
        run(protocol.release(fence)).unwrap();
    }
}

/// Claims and releases until a snapshot was written, an hour after the last of them.
fn compact(fake: &Fake, protocol: &Protocol<'_, Fake>) {
    fill(protocol);
    assert_eq!(fake.claims_body(), "", "the comments are too young");
    run(fake.wait(2 * HOUR_MS));
    let fence = claim(protocol, "compacts", "docs").unwrap();
    run(protocol.release(fence)).unwrap();
    assert!(fake.claims_body().contains("GNS_EVENT"), "no snapshot was written");
}

/// The tables of a reader of the snapshot, and of a reader of all comments.
fn tables(protocol: &Protocol<'_, Fake>) -> (ClaimTable, ClaimTable) {
    let from_snapshot = run(protocol.claims()).unwrap();
    (from_snapshot, run(protocol.load(CLAIMS_ISSUE)).unwrap().state.claims.table)
}

#[test]
fn comments_of_the_snapshot_are_not_read_again_and_old_fences_stay_refused() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    let live = claim(&protocol, "held", "src").unwrap();
    let released = claim(&protocol, "lost", "db").unwrap();
    run(protocol.release(released)).unwrap();
    fake.set_claims_body("");
    compact(&fake, &protocol);
    let comment_count = fake.all_comments().len();
    let (from_snapshot, from_comments) = tables(&protocol);
    assert_eq!(from_snapshot, from_comments);
    run(protocol.claims()).unwrap();
    assert!(
        comment_count > 120 && fake.last_listed() < comment_count / 2,
        "{} of {comment_count}",
        fake.last_listed()
    );
    // A live claim is part of it, and blocks others.
    run(protocol.require_claim(live, &["src/a".to_owned()], Moment::from_millis(0), 1)).unwrap();
    let refused = claim(&protocol, "other", "src/a");
    assert!(
        matches!(refused, Err(ClaimError::Refused(ClaimRefusal::Held { fence, .. })) if fence == live)
    );
    // Claims that had ended stay ended, and new fences are larger.
    let refused = run(protocol.require_claim(released, &[], Moment::from_millis(0), 1));
    assert_eq!(refused, Err(ClaimError::Refused(ClaimRefusal::Lost(released))));
    assert!(claim(&protocol, "later", "db").unwrap() > released);
}

#[test]
fn closing_after_the_snapshot_ends_its_claims() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    let live = claim(&protocol, "held", "src").unwrap();
    compact(&fake, &protocol);
    run(fake.set_open(CLAIMS_ISSUE, false)).unwrap();
    run(fake.set_open(CLAIMS_ISSUE, true)).unwrap();
    let (from_snapshot, from_comments) = tables(&protocol);
    assert_eq!((from_snapshot.claims.len(), from_comments.claims.len()), (0, 0));
    let refused = run(protocol.require_claim(live, &[], Moment::from_millis(0), 1));
    assert_eq!(refused, Err(ClaimError::Refused(ClaimRefusal::Lost(live))));
}

#[test]
fn text_of_others_is_not_a_snapshot() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    claim(&protocol, "held", "src").unwrap();
    compact(&fake, &protocol);
    let body = fake.claims_body();
    let event = events_of(&body).remove(0).unwrap();
    let other_key = SigningKey::new(b"another secret");
    let comment_count = fake.all_comments().len();
    let forged = [
        body.replace("\"held\"", "\"mine\""),
        footer(&other_key.sign(event.clone(), "acme/app", CLAIMS_ISSUE)),
        // The snapshot of another issue.
        footer(&SigningKey::new(b"a secret of ours").sign(event, "acme/app", 7)),
        "Claims of runs".to_owned(),
    ];
    for text in forged {
        fake.set_claims_body(&text);
        let (from_snapshot, from_comments) = tables(&protocol);
        assert_eq!(from_snapshot, from_comments);
        run(protocol.claims()).unwrap();
        assert_eq!(fake.last_listed(), comment_count, "all comments are read: {text}");
    }
    fake.set_claims_body(&body);
    run(protocol.claims()).unwrap();
    assert!(fake.last_listed() < comment_count, "control");
}

#[test]
fn claim_whose_comment_was_edited_after_the_snapshot_ends_for_all() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    let edited = claim(&protocol, "held", "src").unwrap();
    compact(&fake, &protocol);
    fake.edit_comment(edited);
    let (from_snapshot, from_comments) = tables(&protocol);
    assert_eq!(from_snapshot, from_comments);
    assert!(from_snapshot.claims.iter().all(|claim| claim.fence != edited));
}

#[test]
fn comments_of_other_accounts_do_not_disable_the_snapshot() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    let early = fake.comment_by("mallory", "What is this issue for?");
    compact(&fake, &protocol);
    fake.edit_comment(early);
    fake.comment_by("mallory", &footer(&Event::new(EventKind::SubagentResult, "mallory")));
    let (from_snapshot, from_comments) = tables(&protocol);
    assert_eq!(from_snapshot, from_comments);
    run(protocol.claims()).unwrap();
    let comment_count = fake.all_comments().len();
    assert!(fake.last_listed() < comment_count / 2, "{} of {comment_count}", fake.last_listed());
}

#[test]
fn snapshot_keeps_concurrent_edits_of_a_person() {
    for has_versions in [true, false] {
        let fake = Fake::new(has_versions);
        let protocol = protocol(&fake);
        fill(&protocol);
        run(fake.wait(2 * HOUR_MS));
        let fence = claim(&protocol, "compacts", "docs").unwrap();
        fake.after_next_post(|fake| fake.set_claims_body("Claims of runs. Do not close."));
        assert_eq!(run(protocol.release(fence)), Ok(ReleaseReport::default()));
        let body = fake.claims_body();
        assert!(body.starts_with("Claims of runs. Do not close.\n"), "{has_versions}: {body}");
        assert!(body.contains("GNS_EVENT"), "{has_versions}: no snapshot was written");
    }
}

#[test]
fn release_counts_if_the_issue_has_no_room_for_a_snapshot() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    fill(&protocol);
    run(fake.wait(2 * HOUR_MS));
    for length in [59_900, 65_536, 70_000] {
        let text = "x".repeat(length);
        fake.set_claims_body(&text);
        let fence = claim(&protocol, "one", "docs").unwrap();
        let report = run(protocol.release(fence)).unwrap();
        assert!(matches!(report.problem, Some(MemoryError::Refused(_))), "{length}: {report:?}");
        assert_eq!(run(protocol.claims()).unwrap().claims, [], "{length}");
        assert_eq!(fake.claims_body(), text);
    }
    // There is room again.
    fake.set_claims_body("Claims of runs");
    let fence = claim(&protocol, "one", "docs").unwrap();
    assert_eq!(run(protocol.release(fence)), Ok(ReleaseReport::default()));
    assert!(fake.claims_body().contains("GNS_EVENT"));
}

#[test]
fn snapshot_after_many_reservations_is_written_and_can_be_read() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    run(protocol.begin(7, "planner", "new", 1_000_000, None)).unwrap();
    let name = "a-run-with-a-long-name".repeat(4);
    for round in 0..300 {
        let invocation = format!("{name}-{round}");
        run(protocol.reserve(&reservation(&invocation, 100))).unwrap();
        assert_eq!(run(protocol.unreserve(&invocation)), Ok(ReleaseReport::default()));
        assert!(fake.claims_body().len() <= 60_000, "{}", fake.claims_body().len());
    }
    run(fake.wait(2 * HOUR_MS));
    run(protocol.reserve(&reservation("last", 100))).unwrap();
    assert_eq!(run(protocol.unreserve("last")), Ok(ReleaseReport::default()));
    let (from_snapshot, from_comments) = tables(&protocol);
    assert_eq!(from_snapshot, from_comments);
    run(protocol.claims()).unwrap();
    let comment_count = fake.all_comments().len();
    assert!(
        comment_count > 600 && fake.last_listed() < comment_count / 4,
        "{} of {comment_count}",
        fake.last_listed()
    );
}

#[test]
fn reservations_of_lost_machines_are_dropped_a_day_after_they_expire() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    run(protocol.begin(7, "planner", "new", 1000, None)).unwrap();
    let listed = || -> Vec<String> {
        let table = run(protocol.claims()).unwrap();
        table
            .reservations
            .into_iter()
            .map(|reservation_entry| reservation_entry.invocation)
            .collect()
    };
    run(protocol.reserve(&reservation("lost", 100))).unwrap();
    run(fake.wait(2 * HOUR_MS));
    run(protocol.reserve(&reservation("second", 100))).unwrap();
    assert_eq!(listed(), ["lost", "second"]);
    run(fake.wait(24 * HOUR_MS));
    run(protocol.reserve(&reservation("third", 100))).unwrap();
    assert_eq!(listed(), ["second", "third"]);
}

#[test]
fn tokens_of_an_outdated_budget_are_refused() {
    let fake = Fake::new(true);
    let protocol = protocol(&fake);
    let minutes = 60 * 1000;
    for (age, is_refused) in [(5 * minutes, false), (20 * minutes, true)] {
        let claim = TokenClaim {
            for_issue: 7,
            tokens: Some(100),
            remaining: 1000,
            lease_s: 600,
            seen: 0,
            settled: Vec::new(),
        };
        let mut event = Event::new(EventKind::TaskClaim, "a").with_token_claim(&claim);
        event.invocation_id = Some(format!("a/{age}"));
        event.timestamp = Some(run(fake.read_issue(CLAIMS_ISSUE)).unwrap().now);
        run(fake.wait(age));
        let signed = protocol.key.sign(event, "acme/app", CLAIMS_ISSUE);
        let comment = run(fake.post_comment(CLAIMS_ISSUE, &footer(&signed))).unwrap();
        let log = run(protocol.load(CLAIMS_ISSUE)).unwrap().state.claims;
        let refused = matches!(log.outcome(comment.id), Some(Err(ClaimRefusal::NoTokens { .. })));
        assert_eq!(refused, is_refused, "{age}");
        assert_eq!(log.table.reservations.len(), 1);
    }
}

#[test]
fn machine_that_slept_learns_that_it_lost_its_claim() {
    let fake = Fake::new(true);
    let sleeper = protocol(&fake);
    fill(&sleeper);
    fake.after_next_post(|fake| {
        run(fake.wait(2 * HOUR_MS));
        let awake = protocol(fake);
        let fence = claim(&awake, "compacts", "docs").unwrap();
        run(awake.release(fence)).unwrap();
        assert!(fake.claims_body().contains("GNS_EVENT"), "no snapshot was written");
    });
    let fence = claim(&sleeper, "sleeper", "src").unwrap();
    let claims = run(sleeper.claims()).unwrap().claims;
    assert_eq!(claims.iter().map(|claim| claim.fence).collect::<Vec<_>>(), [fence]);
}

#[test]
fn random_histories_give_the_same_table_with_and_without_a_snapshot() {
    let mut random = Random::rotating("claim snapshots");
    for _ in 0..Depth::from_env().cases(10) {
        let fake = Fake::new(random.below(2) == 0);
        let protocol = protocol(&fake);
        run(protocol.begin(7, "planner", "new", 10_000, None)).unwrap();
        compact(&fake, &protocol);
        let mut bodies = vec![String::new(), fake.claims_body()];
        for step in 0..100 {
            let invocation = format!("run-{}", random.below(30));
            let paths = ["src", "src/a", "src/b", "docs", "db/20261119050001_x"];
            match random.below(8) {
                0 | 1 => drop(run(protocol.release_invocation(&invocation))),
                2 => drop(run(protocol.reserve(&reservation(&invocation, 500)))),
                3 => drop(run(protocol.unreserve(&invocation))),
                4 if random.once_in(20) => {
                    run(fake.set_open(CLAIMS_ISSUE, false)).unwrap();
                    run(fake.set_open(CLAIMS_ISSUE, true)).unwrap();
                }
                5 => run(fake.wait(random.number() % HOUR_MS)),
                _ => drop(claim(&protocol, &invocation, paths[random.below(paths.len())])),
            }
            let body = fake.claims_body();
            if bodies.last() != Some(&body) {
                bodies.push(body);
            }
            if step % 10 == 0 {
                // An old snapshot is as good as the newest one.
                fake.set_claims_body(&bodies[random.below(bodies.len())]);
                let (from_snapshot, from_comments) = tables(&protocol);
                assert_eq!(from_snapshot, from_comments);
            }
        }
    }
}
