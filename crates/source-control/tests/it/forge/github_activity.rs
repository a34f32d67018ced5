//! Events that were missed are found in GitHub's lists, equal to those of its webhooks.

use bailiwick_fleet::ports::{CheckState, Forge as _, PolledEvent, WriteBack};
use bailiwick_fleet::triggers::{Delivery, LabelChange, SourceEvent, occurrences, wire};
use bailiwick_resources::{EventSource, ForgeKind, Moment};
use bailiwick_testkit::forge::{Fault, Flavour, RunSeed, Told};
use serde_json::json;

use super::{Setup, block_on};

/// An event as rules read it.
fn read_as(id: &str, event: &str, payload: &serde_json::Value) -> SourceEvent {
    let delivery = Delivery {
        forge: ForgeKind::Github,
        id,
        event,
        repository: "acme/widgets",
        name: "whd-1",
        received_at: Moment::from_millis(1),
    };
    wire::read(&delivery, payload.to_string().as_bytes()).unwrap().swap_remove(0)
}

fn read(event: &PolledEvent) -> SourceEvent {
    read_as(&format!("poll/{}", event.id), &event.event, &event.payload)
}

fn poll(setup: &Setup, cursor: Option<&str>) -> (Vec<PolledEvent>, Option<String>) {
    block_on(setup.forge.activity_since(cursor)).unwrap()
}

/// Longer than the time by which polls overlap.
fn time_passes(setup: &Setup) {
    for _ in 0..70 {
        setup.stand_in.add_issue("Time passes", "");
    }
}

/// A cursor before which there is one of every kind of event.
fn with_cursor(setup: &Setup) -> (u64, u64, Option<String>) {
    let issue = setup.stand_in.add_issue("Old", "");
    let pull = setup.stand_in.add_pull("Add a", "feature", "main");
    setup.stand_in.add_comment(issue, "before");
    setup.stand_in.add_review_comment(pull, "before");
    setup.stand_in.put_label(issue, "bug");
    setup.stand_in.add_activity("refs/heads/main", None, &setup.main, "pusher");
    let approved = json!({ "event": "APPROVE", "body": "", "commit_id": setup.feature });
    setup.stand_in.add_review(pull, "alice", approved);
    setup.stand_in.add_run(&RunSeed { sha: &setup.main, ..RunSeed::default() });
    time_passes(setup);
    let (none, cursor) = poll(setup, None);
    assert_eq!(none, [], "the first poll only sets the cursor");
    time_passes(setup);
    (issue, pull, cursor)
}

#[test]
fn all_events_since_the_cursor_are_found_and_none_before_it() {
    let setup = Setup::new(Flavour::Github);
    setup.stand_in.limit_pages(3);
    let (issue, pull, cursor) = with_cursor(&setup);
    let (before, cursor) = poll(&setup, cursor.as_deref());
    assert!(before.iter().all(|event| event.event == "issues"), "{before:?}");
    time_passes(&setup);
    let comment = setup.stand_in.add_comment(issue, "@bailiwick look");
    let on_line = setup.stand_in.add_review_comment(pull, "why?");
    setup.stand_in.put_labels(issue, &["agent", "docs"], "alice");
    setup.stand_in.put_label(pull, "agent");
    setup.stand_in.take_label(issue, "bug", "alice");
    setup.stand_in.add_activity("refs/heads/new", None, &setup.feature, "pusher");
    for _ in 0..4 {
        let (before, after) = (Some(setup.feature.as_str()), setup.main.as_str());
        setup.stand_in.add_activity("refs/heads/main", before, after, "pusher");
    }
    setup.stand_in.add_activity("refs/tags/v1", None, &setup.feature, "pusher");
    let status = WriteBack::CheckStatus {
        sha: setup.main.clone(),
        context: "ci/build".to_owned(),
        state: CheckState::Failure,
        description: String::new(),
        url: None,
    };
    block_on(setup.forge.write("key", &status)).unwrap();
    let (_, job) = setup.stand_in.add_run(&RunSeed { sha: &setup.feature, ..RunSeed::default() });
    let (found, _) = poll(&setup, cursor.as_deref());
    assert!(found.is_sorted_by_key(|event| event.at));
    let events: Vec<SourceEvent> = found.iter().map(read).collect();
    let of = |source: EventSource| events.iter().filter(move |event| event.source == source);
    let comments: Vec<_> = of(EventSource::IssueComment).collect();
    assert_eq!(comments.len(), 1, "{comments:?}");
    assert_eq!(comments[0].uid, format!("acme/widgets/comment/{comment}"));
    assert_eq!((comments[0].issue, comments[0].actor.as_deref()), (Some(issue), Some("commenter")));
    assert_eq!(comments[0].body.as_deref(), Some("@bailiwick look"));
    let on_pulls: Vec<_> = of(EventSource::PrComment).collect();
    assert_eq!(on_pulls.len(), 1, "{on_pulls:?}");
    assert_eq!(on_pulls[0].uid, format!("acme/widgets/review-comment/{on_line}"));
    assert_eq!(on_pulls[0].pull_request, Some(pull));
    let labels: Vec<_> = of(EventSource::Label)
        .map(|event| (event.labels[0].as_str(), event.issue, event.pull_request))
        .collect();
    let (of_issue, of_pull) = ((Some(issue), None), (None, Some(pull)));
    let expected = [("docs", of_issue), ("agent", of_issue), ("agent", of_pull)];
    for (name, (issue, pull)) in expected {
        assert!(labels.contains(&(name, issue, pull)), "{name} {labels:?}");
    }
    assert_eq!(labels.len(), 3);
    let pushes: Vec<_> = of(EventSource::Push).collect();
    assert_eq!(pushes.len(), 5, "more than a page");
    assert_eq!(pushes[0].branch.as_deref(), Some("new"));
    assert_eq!(pushes[0].sha.as_deref(), Some(&*setup.feature));
    assert_eq!(pushes[0].base_sha, None, "the branch is new");
    assert_eq!(pushes[1].base_sha.as_deref(), Some(&*setup.feature));
    assert_eq!(pushes[1].changed_paths, None, "the list does not contain them");
    assert_eq!(pushes[1].actor.as_deref(), Some("pusher"));
    let tags: Vec<_> = of(EventSource::Tag).collect();
    assert_eq!((tags.len(), tags[0].tag.as_deref()), (1, Some("v1")));
    let checks: Vec<_> = of(EventSource::Ci).map(|event| event.check.as_deref().unwrap()).collect();
    assert_eq!(checks.len(), 2, "{checks:?}");
    assert!(checks.contains(&"ci/build") && checks.contains(&"test"), "{checks:?}");
    let check = of(EventSource::Ci).find(|event| event.check.as_deref() == Some("test")).unwrap();
    assert_eq!(
        (check.job_id.as_deref(), check.branch.as_deref()),
        (Some(&*job.to_string()), Some("feature"))
    );
    assert_eq!(check.conclusion.as_deref(), Some("failure"));
}

#[test]
fn new_pull_requests_and_new_heads_are_found() {
    let setup = Setup::new(Flavour::Github);
    let (_, pull, cursor) = with_cursor(&setup);
    let heads = |found: &[PolledEvent]| -> Vec<String> {
        let pull_events = found.iter().filter(|event| event.event == "pull_request");
        pull_events.map(|event| read(event).uid).collect()
    };
    // It was changed, but its head is an old one.
    setup.stand_in.add_comment(pull, "words");
    let (found, _) = poll(&setup, cursor.as_deref());
    assert_eq!(heads(&found), Vec::<String>::new());
    setup.stand_in.add_activity("refs/heads/feature", Some(&setup.main), &setup.feature, "pusher");
    let fork = setup.stand_in.add_fork_pull("Mine", "them/widgets", "feature", &setup.main);
    let (found, _) = poll(&setup, cursor.as_deref());
    let uid = |pull: u64, sha: &str| format!("acme/widgets/pull/{pull}/head/{sha}");
    assert_eq!(heads(&found), [uid(pull, &setup.feature), uid(fork, &setup.main)]);
}

#[test]
fn reviews_are_found_but_not_drafts_and_dismissed_ones() {
    let setup = Setup::new(Flavour::Github);
    let (_, pull, cursor) = with_cursor(&setup);
    let review = |event: Option<&str>| {
        let sent = json!({ "event": event, "body": "words", "commit_id": setup.main });
        setup.stand_in.add_review(pull, "alice", sent)
    };
    let ids = [review(Some("REQUEST_CHANGES")), review(Some("APPROVE")), review(Some("COMMENT"))];
    review(None);
    setup.stand_in.dismiss_review(review(Some("APPROVE")));
    let (found, _) = poll(&setup, cursor.as_deref());
    let found: Vec<&PolledEvent> =
        found.iter().filter(|event| event.event == "pull_request_review").collect();
    let events: Vec<SourceEvent> = found.iter().map(|event| read(event)).collect();
    let uids: Vec<&str> = events.iter().map(|event| event.uid.as_str()).collect();
    assert_eq!(uids, ids.map(|id| format!("acme/widgets/review/{id}")));
    let conclusions: Vec<_> =
        events.iter().map(|event| event.conclusion.as_deref().unwrap()).collect();
    assert_eq!(conclusions, ["changes_requested", "approved", "commented"]);
    assert!(events.iter().all(|event| event.source == EventSource::PrComment));
    assert!(events.iter().all(|event| event.sha.as_deref() == Some(&*setup.main)), "as reviewed");
}

/// GitHub's webhooks name a label, but not its entry in the history.
#[test]
fn delivered_and_polled_labels_are_recognised_as_the_same() {
    let setup = Setup::new(Flavour::Github);
    let issue = setup.stand_in.add_issue("It fails", "");
    let (_, cursor) = poll(&setup, None);
    let labelled = Told::Label { number: issue, label: "agent".to_owned() };
    let mut uids = Vec::new();
    for _ in 0..2 {
        let webhook = setup.stand_in.webhook(&labelled);
        setup.stand_in.take_label(issue, "agent", "labeller");
        uids.push(webhook);
    }
    let history = block_on(setup.forge.label_history(issue)).unwrap().unwrap();
    assert_eq!(history.len(), 4, "{history:?}");
    let delivered = |number: usize| {
        let mut event = read_as("0000", &uids[number].event, &uids[number].payload);
        assert_eq!(event.label_change, LabelChange::EntryUnknown);
        event.learn_labels(&history);
        let [group] = &occurrences(vec![event])[..] else { panic!("one label") };
        group[0].uid.clone()
    };
    let (found, _) = poll(&setup, cursor.as_deref());
    let mut polled: Vec<String> = found
        .iter()
        .map(read)
        .filter(|event| event.source == EventSource::Label)
        .map(|event| event.uid)
        .collect();
    polled.sort();
    assert_eq!(polled, [delivered(0), delivered(1)]);
    // The list may be delayed: the webhook still names the label.
    let mut early = read_as("0000", &uids[0].event, &uids[0].payload);
    early.learn_labels(&[]);
    let [group] = &occurrences(vec![early])[..] else { panic!("one label") };
    assert_eq!(
        (group[0].source, &group[0].labels[..]),
        (EventSource::Label, &["agent".to_owned()][..])
    );
}

#[test]
fn tag_that_github_shows_hours_late_is_found() {
    let setup = Setup::new(Flavour::Github);
    let (_, _, cursor) = with_cursor(&setup);
    setup.stand_in.delay_event("refs/tags/v1", true);
    setup.stand_in.add_activity("refs/tags/v1", None, &setup.feature, "pusher");
    let tags = |found: &[PolledEvent]| -> Vec<String> {
        found.iter().filter(|event| event.event == "create").map(|event| event.id.clone()).collect()
    };
    let (found, mut cursor) = poll(&setup, cursor.as_deref());
    assert_eq!(tags(&found), Vec::<String>::new());
    for _ in 0..3 {
        time_passes(&setup);
        cursor = poll(&setup, cursor.as_deref()).1;
    }
    setup.stand_in.delay_event("refs/tags/v1", false);
    let (found, cursor) = poll(&setup, cursor.as_deref());
    assert_eq!(tags(&found).len(), 1);
    let (repeated, _) = poll(&setup, cursor.as_deref());
    assert_eq!(tags(&repeated), tags(&found), "the tag is recognised by its id");
}

#[test]
fn unchanged_data_is_not_sent_again() {
    let setup = Setup::new(Flavour::Github);
    setup.stand_in.limit_pages(3);
    let (issue, _, cursor) = with_cursor(&setup);
    let (first, _) = poll(&setup, cursor.as_deref());
    let sent = setup.stand_in.requests().len();
    let (second, _) = poll(&setup, cursor.as_deref());
    assert_eq!(second, first);
    let repeated: Vec<u16> =
        setup.stand_in.requests()[sent..].iter().map(|one| one.status).collect();
    assert!(repeated.len() > 20 && repeated.iter().all(|status| *status == 304), "{repeated:?}");
    setup.stand_in.add_comment(issue, "new");
    let (changed, _) = poll(&setup, cursor.as_deref());
    assert!(changed.iter().any(|event| event.event == "issue_comment"), "{changed:?}");
}

/// A token may lack the right to read checks, and an old server has no list of activities.
#[test]
fn unreadable_lists_do_not_hide_the_others() {
    let setup = Setup::new(Flavour::Github);
    let (issue, _, cursor) = with_cursor(&setup);
    setup.stand_in.add_comment(issue, "look");
    let denied = "Resource not accessible by personal access token";
    for list in ["/check-runs", "/statuses"] {
        for _ in 0..2 {
            setup.stand_in.fail_next(list, Fault::Status(403, denied.to_owned()));
        }
    }
    setup.stand_in.fail_next("/activity", Fault::Status(404, "Not Found".to_owned()));
    let (found, _) = poll(&setup, cursor.as_deref());
    assert!(found.iter().any(|event| event.event == "issue_comment"), "{found:?}");
    setup.stand_in.fail_next("/issues/comments", Fault::Status(403, denied.to_owned()));
    assert!(block_on(setup.forge.activity_since(cursor.as_deref())).is_err());
}
