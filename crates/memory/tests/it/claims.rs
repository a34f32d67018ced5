//! Claims: one winner, whatever the order of arrival.

use bailiwick_memory::{
    ClaimRelease, Comment, Event, EventKind, Hold, Resource, ResourceKind, TaskClaim, hold,
    overlap, read_state,
};
use bailiwick_model::claim::ClaimOutcome;
use bailiwick_resources::Moment;
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;

use crate::hostile::{issue, said, trust};

fn claim(id: u64, agent: &str, keys: &[&str], lease_s: u64, renews: Option<u64>) -> Comment {
    let resources = keys.iter().map(|key| Resource::file(key)).collect();
    let event = Event::new(EventKind::TaskClaim, agent).with_claim(&TaskClaim {
        resources,
        lease_s,
        renews,
    });
    said(id, &format!("bot-{agent}"), &event)
}

fn release(id: u64, author: &str, agent: &str, claim: u64, outcome: ClaimOutcome) -> Comment {
    let event = Event::new(EventKind::TaskClaimRelease, agent)
        .with_release(&ClaimRelease { claim, outcome });
    said(id, author, &event)
}

fn at(id: u64) -> Moment {
    Moment::from_millis(1_700_000_000_000 + id * 1000)
}

fn held(comments: &[Comment], id: u64, now: u64) -> Hold {
    hold(&read_state(&issue(), comments, &trust()).claims, id, at(now), false)
}

#[test]
fn paths_above_and_below_overlap_and_neighbours_do_not() {
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
    for (one, other, expected) in cases {
        let (one, other) = (Resource::file(one), Resource::file(other));
        assert_eq!(overlap(&one, &other, false), expected, "{one} {other}");
        assert_eq!(overlap(&other, &one, false), expected, "{other} {one}");
    }
    assert!(overlap(&Resource::file("Src/a.rs"), &Resource::file("src/a.rs"), true));
    let migration = |key: &str| Resource { kind: ResourceKind::Migration, key: key.to_owned() };
    assert!(overlap(&migration("0007"), &migration("0007"), false));
    assert!(!overlap(&migration("0007"), &migration("0008"), false));
    let module = Resource { kind: ResourceKind::Module, key: "src/parser".to_owned() };
    assert!(overlap(&module, &Resource::file("src/parser/x.rs"), false));
}

#[test]
fn the_earlier_claim_holds_until_it_is_released_or_its_lease_ends() {
    let mut comments =
        vec![claim(1, "a", &["src/"], 100, None), claim(2, "b", &["src/x.rs"], 100, None)];
    assert_eq!((held(&comments, 1, 10), held(&comments, 2, 10)), (Hold::Held, Hold::LostTo(1)));
    assert_eq!((held(&comments, 1, 101), held(&comments, 2, 101)), (Hold::Expired, Hold::Held));
    comments.push(claim(3, "a", &["src/"], 100, Some(1)));
    assert_eq!((held(&comments, 1, 101), held(&comments, 2, 101)), (Hold::Held, Hold::LostTo(1)));
    // Another agent cannot release it; its owner, the orchestrator and people can.
    comments.push(release(4, "bot-b", "b", 1, ClaimOutcome::Revoked));
    assert_eq!(held(&comments, 1, 10), Hold::Held);
    for author in [("bot-a", "a"), ("boss", "orchestrator")] {
        let mut comments = comments.clone();
        comments.push(release(5, author.0, author.1, 1, ClaimOutcome::Done));
        assert_eq!(held(&comments, 1, 10), Hold::Released(ClaimOutcome::Done));
        assert_eq!(held(&comments, 2, 10), Hold::Held);
    }
    let mut over = issue();
    over.is_open = false;
    let state = read_state(&over, &comments, &trust());
    assert_eq!(hold(&state.claims, 1, at(10), false), Hold::Released(ClaimOutcome::Revoked));
}

#[test]
fn random_claims_have_at_most_one_holder_of_each_file() {
    let mut random = Random::rotating("claims");
    let keys = ["src/", "src/a.rs", "src/b/", "src/b/c.rs", "docs/x.md", "*.toml"];
    let mut losers = 0;
    for _ in 0..Depth::from_env().cases(5_000) {
        let comments: Vec<Comment> = (1..u64::try_from(2 + random.below(10)).unwrap())
            .map(|id| {
                let agent = ["a", "b"][random.below(2)];
                let count = 1 + random.below(2);
                let picked: Vec<&str> =
                    (0..count).map(|_| keys[random.below(keys.len())]).collect();
                claim(id, agent, &picked, 1 + random.number() % 20, None)
            })
            .collect();
        let claims = read_state(&issue(), &comments, &trust()).claims;
        let now = at(random.number() % 25);
        let holders: Vec<_> = claims
            .iter()
            .filter(|claim| hold(&claims, claim.id, now, false) == Hold::Held)
            .collect();
        for (index, one) in holders.iter().enumerate() {
            for other in &holders[index + 1..] {
                let meet = one
                    .resources
                    .iter()
                    .any(|one| other.resources.iter().any(|two| overlap(one, two, false)));
                assert!(!meet, "{one:?} {other:?}");
            }
        }
        losers += claims
            .iter()
            .filter(|claim| matches!(hold(&claims, claim.id, now, false), Hold::LostTo(_)))
            .count();
        if let Some(first) =
            claims.iter().filter(|claim| claim.is_live(now)).min_by_key(|claim| claim.id)
        {
            assert_eq!(
                hold(&claims, first.id, now, false),
                Hold::Held,
                "the first live claim always holds"
            );
        }
    }
    assert!(losers > 0, "no claim was ever in the way of another");
}
