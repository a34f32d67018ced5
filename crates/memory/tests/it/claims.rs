//! Claims: one winner for any order of arrival.

use bailiwick_memory::{
    ClaimError, ClaimLog, ClaimRefusal, ClaimRelease, ClaimRequest, ClaimStore, Comment, Event,
    EventKind, IssueMemory as _, Protocol, ReservationRequest, Resource, ResourceKind, RunResult,
    SigningKey, TaskClaim, footer, overlap, read_state,
};
use bailiwick_model::claim::ClaimOutcome;
use bailiwick_resources::Moment;
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;

use crate::fake::{CLAIMS_ISSUE, Fake, run};
use crate::hostile::{comment_with, issue, trust};

fn claim(id: u64, agent: &str, keys: &[&str], lease_s: u64, renews: Option<u64>) -> Comment {
    let resources = keys.iter().map(|key| Resource::file(key)).collect();
    let event = Event::new(EventKind::TaskClaim, agent).with_claim(&TaskClaim {
        resources,
        lease_s,
        renews,
        for_issue: None,
        takes_over: Vec::new(),
    });
    comment_with(id, &format!("bot-{agent}"), &event)
}

fn release(id: u64, author: &str, agent: &str, claim: u64, outcome: ClaimOutcome) -> Comment {
    let event = Event::new(EventKind::TaskClaimRelease, agent)
        .with_release(&ClaimRelease { claim, outcome });
    comment_with(id, author, &event)
}

fn at(id: u64) -> Moment {
    Moment::from_millis(1_700_000_000_000 + id * 1000)
}

fn log(comments: &[Comment]) -> ClaimLog {
    read_state(&issue(), comments, &trust()).claims
}

fn holders(comments: &[Comment], now: u64) -> Vec<u64> {
    let live_claims =
        log(comments).table.claims.into_iter().filter(|claim| at(now) < claim.leased_until);
    live_claims.map(|claim| claim.fence).collect()
}

#[test]
fn parent_and_child_paths_overlap_and_siblings_do_not() {
    let cases = [
        ("src/a.rs", "src/a.rs", true),
        ("src/", "src/a.rs", true),
        ("src", "src/a/b.rs", true),
        ("src/a.rs", "src/b.rs", false),
        ("src/a", "src/ab", false),
        ("src/*.rs", "src/deep/x.py", true),
        ("src/*.rs", "docs/x.md", false),
        ("./src//a.rs", "src/a.rs", true),
        ("../other", "src/a.rs", true),
        ("Src/a.rs", "src/a.rs", false),
    ];
    for (left, right, expected) in cases {
        let (left, right) = (Resource::file(left), Resource::file(right));
        assert_eq!(overlap(&left, &right, false), expected, "{left} {right}");
        assert_eq!(overlap(&right, &left, false), expected, "{right} {left}");
    }
    assert!(overlap(&Resource::file("Src/a.rs"), &Resource::file("src/a.rs"), true));
    let migration = |key: &str| Resource { kind: ResourceKind::Migration, key: key.to_owned() };
    assert!(overlap(&migration("0007"), &migration("0007"), false));
    assert!(!overlap(&migration("0007"), &migration("0008"), false));
    let module = Resource { kind: ResourceKind::Module, key: "src/parser".to_owned() };
    assert!(overlap(&module, &Resource::file("src/parser/x.rs"), false));
}

#[test]
fn earlier_claim_is_valid_until_it_is_released_or_its_lease_ends() {
    let first = claim(1, "a", &["src/"], 100, None);
    let mut comments = vec![first, claim(2, "b", &["src/x.rs"], 100, None)];
    assert_eq!(holders(&comments, 10), [1]);
    let refused = log(&comments).outcome(2).unwrap();
    assert!(matches!(refused, Err(ClaimRefusal::Held { fence: 1, .. })), "{refused:?}");
    // Another agent can neither renew nor release it; its owner, the orchestrator and people can.
    comments.push(claim(3, "b", &["src/"], 1000, Some(1)));
    comments.push(release(4, "bot-b", "b", 1, ClaimOutcome::Revoked));
    assert_eq!(holders(&comments, 10), [1]);
    assert_eq!(log(&comments).unknown.len(), 1);
    for author in [("bot-a", "a"), ("boss", "orchestrator")] {
        let mut comments = comments.clone();
        comments.push(release(5, author.0, author.1, 1, ClaimOutcome::Done));
        assert_eq!(holders(&comments, 10), Vec::<u64>::new());
        comments.push(claim(6, "b", &["src/x.rs"], 100, None));
        assert_eq!(holders(&comments, 10), [6]);
        // The old fence is no longer valid.
        let table = log(&comments).table;
        assert_eq!(table.check_fence(1, &[], false), Err(ClaimRefusal::Lost(1)));
    }
    comments.push(claim(50, "a", &["src/"], 100, Some(1)));
    assert_eq!(holders(&comments, 149), [1]);
    // After its lease another agent acquires it, and it cannot be renewed.
    comments.push(claim(151, "b", &["src/x.rs"], 100, None));
    comments.push(claim(152, "a", &["src/"], 100, Some(1)));
    assert_eq!(holders(&comments, 160), [151]);
    let mut closed = issue();
    closed.is_open = false;
    assert_eq!(read_state(&closed, &comments, &trust()).claims.table.claims, []);
}

#[test]
fn random_claims_have_at_most_one_holder_of_each_file() {
    let mut random = Random::rotating("claims");
    let keys = ["src/", "src/a.rs", "src/b/", "src/b/c.rs", "docs/x.md", "*.toml"];
    let mut losers = 0;
    for _ in 0..Depth::from_env().cases(5_000) {
        let mut comments: Vec<Comment> = (1..u64::try_from(2 + random.below(10)).unwrap())
            .map(|id| {
                let agent = ["a", "b"][random.below(2)];
                let count = 1 + random.below(2);
                let picked: Vec<&str> =
                    (0..count).map(|_| keys[random.below(keys.len())]).collect();
                claim(id, agent, &picked, 1 + random.number() % 20, None)
            })
            .collect();
        let last = u64::try_from(comments.len()).unwrap();
        let claims = log(&comments).table.claims;
        for (index, claim_entry) in claims.iter().enumerate() {
            for other in &claims[index + 1..] {
                let meet = claim_entry
                    .resources
                    .iter()
                    .any(|left| other.resources.iter().any(|right| overlap(left, right, false)));
                assert!(!meet, "{claim_entry:?} {other:?}");
            }
        }
        losers += (1..=last).filter(|id| log(&comments).outcome(*id).unwrap().is_err()).count();
        // The same comments give the same table, in any order.
        let expected = log(&comments);
        let turned = random.below(comments.len());
        comments.rotate_left(turned);
        assert_eq!(log(&comments), expected);
    }
    assert!(losers > 0, "no claim ever conflicted with another");
}

fn key() -> SigningKey {
    SigningKey::new(b"a secret of ours")
}

fn by_comments(fake: &Fake, settle_ms: u64) -> Protocol<'_, Fake> {
    let claim_store = ClaimStore::Comments { issue: CLAIMS_ISSUE, settle_ms };
    Protocol { claim_store, ..run(Protocol::open(fake, key())).unwrap() }
}

fn wish(agent: &str, paths: &[&str]) -> ClaimRequest {
    ClaimRequest {
        agent: agent.to_owned(),
        invocation: format!("{agent}/1"),
        issue: Some(7),
        resources: paths.iter().map(|path| Resource::file(path)).collect(),
        lease_ms: 600_000,
        takes_over: Vec::new(),
    }
}

/// Another machine claims, and its comment appears with this delay.
fn claim_late(fake: &Fake, agent: &str, paths: &[&str], lateness: u64) -> u64 {
    let wish = wish(agent, paths);
    let keys = TaskClaim {
        resources: wish.resources,
        lease_s: 600,
        renews: None,
        for_issue: Some(7),
        takes_over: Vec::new(),
    };
    let mut event = Event::new(EventKind::TaskClaim, agent).with_claim(&keys);
    event.invocation_id = Some(wish.invocation);
    let signed = key().sign(event, "acme/app", CLAIMS_ISSUE);
    fake.delay_next_comment(lateness);
    run(fake.post_comment(CLAIMS_ISSUE, &footer(&signed))).unwrap().id
}

#[test]
fn claim_counts_only_after_a_second_reading_some_seconds_later() {
    for (settle_ms, has_won) in [(30_000, false), (0, true)] {
        let fake = Fake::new(true);
        let earlier = claim_late(&fake, "a", &["src"], 20_000);
        let later = by_comments(&fake, settle_ms);
        let outcome = run(later.claim(&wish("b", &["docs", "src/x.rs"]), Moment::from_millis(0)));
        // Read immediately, both would have won.
        assert_eq!(outcome.is_ok(), has_won, "{outcome:?}");
        run(fake.wait(20_000));
        let table = run(by_comments(&fake, 5_000).claims()).unwrap();
        let fences: Vec<u64> = table.claims.iter().map(|claim| claim.fence).collect();
        assert_eq!(fences, [earlier]);
        // Even then the work of the other one does not land.
        if let Ok(fence) = outcome {
            let refused = run(later.require_claim(fence, &[], Moment::from_millis(0), 1_000));
            assert_eq!(refused, Err(ClaimError::Refused(ClaimRefusal::Lost(fence))));
        }
        // A refused claim acquires nothing.
        run(later.claim(&wish("c", &["docs"]), Moment::from_millis(0))).unwrap();
    }
}

#[test]
fn next_run_of_an_issue_takes_over_a_claim_in_one_step() {
    let never = Moment::from_millis(0);
    for in_comments in [false, true] {
        let fake = Fake::new(true);
        let protocol = match in_comments {
            true => by_comments(&fake, 5_000),
            false => run(Protocol::open(&fake, key())).unwrap(),
        };
        let first = run(protocol.claim(&wish("a", &["src"]), never)).unwrap();
        let next = ClaimRequest { takes_over: vec![first], ..wish("b", &["src/x.rs"]) };
        // Not by a run of another issue, and not by one without a hand-off.
        for other in [ClaimRequest { issue: Some(8), ..next.clone() }, wish("c", &["src/x.rs"])] {
            let refused = run(protocol.claim(&other, never));
            let is_refused = matches!(refused, Err(ClaimError::Refused(ClaimRefusal::Held { .. })));
            assert!(is_refused, "{refused:?}");
        }
        let second = run(protocol.claim(&next, never)).unwrap();
        assert!(second > first);
        let former_claim = run(protocol.require_claim(first, &[], never, 600_000));
        assert_eq!(former_claim, Err(ClaimError::Refused(ClaimRefusal::Lost(first))));
        let refused = run(protocol.claim(&wish("c", &["src/x.rs"]), never));
        assert!(refused.is_err(), "{refused:?}");
        // Every reader of the table gets the same result.
        let table = run(protocol.claims()).unwrap();
        let fences: Vec<u64> = table.claims.iter().map(|claim| claim.fence).collect();
        assert_eq!(fences, [second]);
    }
}

#[test]
fn claims_by_comments_behave_like_claims_on_a_reference() {
    let fake = Fake::new(true);
    let protocol = by_comments(&fake, 5_000);
    let never = Moment::from_millis(0);
    let before = fake.calls();
    let first = run(protocol.claim(&wish("a", &["src/parser"]), never)).unwrap();
    // Two reads, the comment, and three reads after the delay: by then the issue may have been closed.
    assert_eq!(fake.calls() - before, 6);
    run(fake.wait(5_000));
    let comments = fake.all_comments().len();
    assert_eq!(run(protocol.claim(&wish("a", &["src/parser"]), never)), Ok(first));
    assert_eq!(fake.all_comments().len(), comments, "a new lease was written again");
    let path = |path: &str| vec![path.to_owned()];
    run(protocol.require_claim(first, &path("src/parser/x.rs"), never, 600_000)).unwrap();
    let outside = run(protocol.require_claim(first, &path("src/main.rs"), never, 600_000));
    assert!(matches!(outside, Err(ClaimError::Refused(ClaimRefusal::Outside { .. }))));
    // Its lease has ended, and no other run claimed the paths: it is renewed, and is valid again.
    run(fake.wait(700_000));
    run(protocol.require_claim(first, &path("src/parser/x.rs"), never, 600_000)).unwrap();
    let refused = run(protocol.claim(&wish("b", &["src"]), never));
    assert!(matches!(refused, Err(ClaimError::Refused(ClaimRefusal::Held { .. }))), "{refused:?}");
    run(fake.wait(700_000));
    let second = run(protocol.claim(&wish("b", &["src"]), never)).unwrap();
    assert!(second > first);
    let former_claim = run(protocol.require_claim(first, &[], never, 600_000));
    assert_eq!(former_claim, Err(ClaimError::Refused(ClaimRefusal::Lost(first))));
    run(protocol.release(second)).unwrap();
    run(protocol.release(second)).unwrap();
    run(protocol.claim(&wish("c", &["src/parser/lexer.rs"]), never)).unwrap();
    let state = run(protocol.load(CLAIMS_ISSUE)).unwrap().state;
    assert_eq!(state.inconsistencies, []);
}

#[test]
fn closing_the_issue_ends_all_claims_even_if_it_is_reopened() {
    let fake = Fake::new(true);
    let protocol = by_comments(&fake, 5_000);
    let never = Moment::from_millis(0);
    let first = run(protocol.claim(&wish("a", &["src"]), never)).unwrap();
    assert_eq!(
        run(protocol.require_claim(first, &[], never, 600_000)),
        Ok(()),
        "the control: the claim is valid"
    );
    run(fake.set_open(CLAIMS_ISSUE, false)).unwrap();
    let closed = ClaimError::Refused(ClaimRefusal::Closed(CLAIMS_ISSUE));
    assert_eq!(run(protocol.release_invocation("a/1")), Err(closed.clone()));
    assert_eq!(run(protocol.claim(&wish("b", &["src"]), never)), Err(closed));
    run(fake.set_open(CLAIMS_ISSUE, true)).unwrap();
    assert_eq!(run(protocol.claims()).unwrap().claims, []);
    let ended_claim = run(protocol.require_claim(first, &[], never, 600_000));
    assert_eq!(ended_claim, Err(ClaimError::Refused(ClaimRefusal::Lost(first))));
    // A later claim counts, although the lease of the old claim has not ended.
    let second = run(protocol.claim(&wish("b", &["src/x.rs"]), never)).unwrap();
    assert_eq!(run(protocol.require_claim(second, &[], never, 600_000)), Ok(()));
    run(protocol.release_invocation("b/1")).unwrap();
    assert_eq!(run(protocol.claims()).unwrap().claims, []);
}

#[test]
fn returned_tokens_are_not_available_before_their_result() {
    let fake = Fake::new(true);
    let protocol = by_comments(&fake, 5_000);
    run(protocol.begin(7, "planner", "new", 1000, None)).unwrap();
    let wish = |agent: &str, tokens: Option<u64>| ReservationRequest {
        issue: 7,
        agent: agent.to_owned(),
        invocation: format!("{agent}/1"),
        tokens,
        lease_ms: 600_000,
    };
    assert_eq!(run(protocol.reserve(&wish("a", Some(700)))), Ok(700));
    assert_eq!(run(protocol.reserve(&wish("b", Some(700)))), Ok(300));
    // A repeated request gets the same tokens.
    assert_eq!(run(protocol.reserve(&wish("a", Some(700)))), Ok(700));
    let refused = run(protocol.reserve(&wish("c", None)));
    let no_tokens = ClaimRefusal::NoTokens { remaining: 1000, reserved: 1000 };
    assert_eq!(refused, Err(ClaimError::Refused(no_tokens)));
    // Between the reading and the comment of `c`, the run of `a` uses 600 and returns its reservation.
    let loaded = run(protocol.load(CLAIMS_ISSUE)).unwrap();
    let exit_result = RunResult { consumed: 600, ..crate::protocol::result("builder", "a/1", 600) };
    run(protocol.exit(7, &exit_result)).unwrap();
    run(protocol.unreserve("a/1")).unwrap();
    let stale = bailiwick_memory::TokenClaim {
        for_issue: 7,
        tokens: None,
        remaining: 1000,
        lease_s: 600,
        seen: loaded.state.claims.last_change,
        settled: Vec::new(),
    };
    let mut event = Event::new(EventKind::TaskClaim, "c").with_token_claim(&stale);
    event.invocation_id = Some("c/1".to_owned());
    let signed = key().sign(event, "acme/app", CLAIMS_ISSUE);
    let comment = run(fake.post_comment(CLAIMS_ISSUE, &footer(&signed))).unwrap();
    let log = run(protocol.load(CLAIMS_ISSUE)).unwrap().state.claims;
    assert!(matches!(log.outcome(comment.id), Some(Err(ClaimRefusal::NoTokens { .. }))));
    // Read now, there are 1000 - 600 used - 300 of `b`.
    assert_eq!(run(protocol.reserve(&wish("c", None))), Ok(100));
}
