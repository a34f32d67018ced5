//! Events on the server: each event that a rule matches starts one run.

use std::thread;
use std::time::Duration;

use bailiwick_testkit::gitea_server::PersonsClone;
use serde_json::{Value, json};

use super::site::{Site, rule};

/// The rules, and how many runs each has started after one event of each kind.
pub(crate) const STARTED: [(&str, usize); 8] = [
    ("labels", 1),
    ("mentions", 1),
    ("pulls", 2),
    ("pushes", 1),
    ("releases", 1),
    ("reviews", 1),
    ("statuses", 1),
    ("tags", 2),
];

/// A rule for each kind of event; none of them writes anything back.
pub(crate) fn rules() -> Vec<Value> {
    vec![
        rule("pushes", &["push"], &json!({ "branches": { "include": ["main"] } }), &[]),
        rule("tags", &["tag"], &json!({}), &[]),
        rule("labels", &["label"], &json!({ "labels": ["agent"] }), &[]),
        rule("mentions", &["issue-comment"], &json!({ "mention": ["/agent"] }), &[]),
        rule("reviews", &["pr-comment"], &json!({ "mention": ["/agent"] }), &[]),
        rule("statuses", &["ci"], &json!({ "conclusion": ["failure"] }), &[]),
        rule("pulls", &["webhook"], &json!({ "eventTypes": ["pull_request.opened"] }), &[]),
        rule("releases", &["webhook"], &json!({ "eventTypes": ["release.updated"] }), &[]),
    ]
}

/// Triggers each rule once, and makes other events that no rule matches.
fn trigger_every_rule(site: &Site) {
    let clone = site.clone();
    let commit = clone.push("main", "src/pushed.txt", "pushed\n");
    clone.scratch.git(&["tag", "light"]);
    clone.scratch.git(&["tag", "-a", "heavy", "-m", "An annotated tag"]);
    clone.scratch.git(&["push", "--quiet", "origin", "light", "heavy"]);
    let issue = site.issue(&site.dev, "Work");
    site.label(&site.dev, issue, "agent");
    // The added label is another one, though the issue now has both.
    site.label(&site.dev, issue, "other");
    site.comment(&site.dev, issue, "Please, /agent, do it.");
    site.comment(&site.dev, issue, "Nobody is asked here.");
    clone.push("topic", "src/topic.txt", "topic\n");
    let pull = site.pull(&site.dev, "topic", "A topic");
    let body = json!({ "event": "COMMENT", "body": "Look again, /agent." });
    site.request_as(&site.dev, "POST", &format!("/pulls/{pull}/reviews"), &body);
    let status = json!({ "state": "failure", "context": "build", "description": "It failed." });
    site.request_as(&site.dev, "POST", &format!("/statuses/{commit}"), &status);
    // Gitea reports a release of an existing tag as an update.
    let release = json!({ "tag_name": "light", "name": "Light", "body": "Notes." });
    site.request_as(&site.dev, "POST", "/releases", &release);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn each_event_starts_one_run() {
    let site = Site::new(&rules());
    println!("Gitea {}", site.server.version());
    // A busy server may list the push of the set-up after the rules were applied.
    site.wait_until_quiet();
    let before = site.started_runs();
    trigger_every_rule(&site);
    site.request_as(&site.stranger, "POST", "/forks", &json!({}));
    let fork = format!("{}/app", site.stranger);
    let clone = PersonsClone::new(&site.server, &site.stranger, &fork);
    clone.push("offer", "src/offer.txt", "offer\n");
    site.pull(&site.stranger, &format!("{}:offer", site.stranger), "An offer");
    site.wait_until_quiet();
    let expected = STARTED.map(|(rule, count)| (rule.to_owned(), count)).into();
    let mut started = site.started_runs();
    for (rule, count) in before {
        *started.get_mut(&rule).unwrap() -= count;
    }
    assert_eq!(started, expected, "{}", site.report());
}

/// The length of a downtime, from the variable `DOWNTIME`.
fn downtime() -> Duration {
    Duration::from_secs(std::env::var("DOWNTIME").map_or(0, |seconds| seconds.parse().unwrap()))
}

/// Every event during the downtime has started one run.
fn assert_each_event_started_one_run(site: &Site) {
    // The lists are read at the next poll, which may be late on a busy machine.
    site.wait_until("a run", || (!site.started_runs().is_empty()).then_some(()));
    site.wait_until_quiet();
    let expected = [
        ("labels", 1),
        ("mentions", 1),
        ("pushes", 1),
        ("reviews", 1),
        ("statuses", 1),
        ("tags", 2),
    ];
    let expected = expected.map(|(rule, count)| (rule.to_owned(), count)).into();
    assert_eq!(site.started_runs(), expected, "{}", site.report());
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn events_during_a_downtime_are_processed_afterwards() {
    let mut site = Site::new(&rules()[..6]);
    site.wait_until_quiet();
    site.stop();
    trigger_every_rule(&site);
    thread::sleep(downtime());
    site.serve();
    assert_each_event_started_one_run(&site);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn events_are_complete_after_the_server_was_unreachable() {
    let site = Site::new(&rules()[..6]);
    site.wait_until_quiet();
    site.faults.set_away(true);
    trigger_every_rule(&site);
    site.wait_until("a failed request", || (site.faults.count() > 0).then_some(()));
    thread::sleep(downtime());
    site.faults.set_away(false);
    assert_each_event_started_one_run(&site);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn huge_comment_of_a_stranger_does_not_block_events() {
    let site = Site::new(&rules());
    let issue = site.issue(&site.dev, "Work");
    site.comment(&site.stranger, issue, &"x".repeat(48 << 20));
    site.comment(&site.dev, issue, "Now, /agent, do it.");
    site.label(&site.dev, issue, "agent");
    site.wait_until("both runs", || {
        let started = site.started_runs();
        (started.get("mentions") == Some(&1) && started.get("labels") == Some(&1)).then_some(())
    });
}
