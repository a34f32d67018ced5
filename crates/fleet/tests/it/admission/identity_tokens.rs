//! The token of an identity: when a run gets one, and why it is refused.

use bailiwick_fleet::admission::{Decision, Review};
use bailiwick_resources::{Kind, Reason};
use serde_json::{Value, json};

use super::world::World;

/// A world whose stack asks for a token, with a pool of Jobs.
fn review_of(account: Value, pool: Value) -> Review {
    let mut world = World::good();
    let changes =
        [(Kind::AgentServiceAccount, "fixer", account), (Kind::RunnerPool, "trusted", pool)];
    for (kind, name, change) in changes {
        for (field, value) in change.as_object().unwrap() {
            world.spec(kind, name)[field.as_str()] = value.clone();
        }
    }
    world.review()
}

fn token(seconds: u64) -> Value {
    json!({
        "automountServiceAccountToken": true, "tokenAudience": "vault",
        "tokenExpirationSeconds": seconds,
    })
}

fn jobs(deadline: &str) -> Value {
    json!({ "runsOn": "jobs", "job": { "deadline": deadline } })
}

#[test]
fn token_as_long_as_the_job_is_allowed() {
    let review = review_of(token(7_200), jobs("2h"));
    assert_eq!(review.decision, Decision::Allowed, "{:#?}", review.reasons);
    // Without a token, no pool is refused.
    let review = review_of(json!({}), json!({}));
    assert_eq!(review.decision, Decision::Allowed, "{:#?}", review.reasons);
}

#[test]
fn token_that_no_pod_can_get_is_refused_with_the_reason() {
    let without_audience = json!({ "automountServiceAccountToken": true });
    let empty_audience = json!({ "automountServiceAccountToken": true, "tokenAudience": " " });
    let forbidden = Reason::TokenProjectionForbidden;
    for (account, pool, reason, part) in [
        (token(7_200), json!({}), forbidden, "`runsOn: jobs`"),
        (token(7_200), json!({ "runsOn": "workers" }), forbidden, "`runsOn: jobs`"),
        (without_audience, jobs("1h"), forbidden, "`tokenAudience`"),
        (empty_audience, jobs("1h"), forbidden, "`tokenAudience`"),
        (token(7_199), jobs("2h"), Reason::TokenLifetimeOutOfBounds, "`job.deadline`"),
        // The default of the pool is six hours.
        (token(3_600), json!({ "runsOn": "jobs" }), Reason::TokenLifetimeOutOfBounds, "21600"),
    ] {
        let review = review_of(account, pool);
        assert_eq!(review.decision, Decision::Denied, "{part}");
        let found = review.reasons.iter().find(|why| why.code == reason);
        let message = found.map(|why| why.message.as_str()).unwrap_or_default();
        assert!(message.contains(part), "{part}: {:#?}", review.reasons);
    }
}
