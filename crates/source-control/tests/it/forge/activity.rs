//! Events that were missed are found in Gitea's lists, equal to those of its webhooks.

use bailiwick_fleet::ports::{Forge as _, PolledEvent};
use bailiwick_fleet::triggers::{Delivery, SourceEvent, wire};
use bailiwick_resources::{EventSource, ForgeKind, Moment};
use bailiwick_testkit::forge::{Fault, Flavour, Told};
use serde_json::json;

use super::{Setup, block_on};

/// A polled event as rules read it.
fn read(event: &PolledEvent) -> SourceEvent {
    let delivery = Delivery {
        forge: ForgeKind::Gitea,
        id: &format!("poll/{}", event.id),
        event: &event.event,
        repository: "acme/widgets",
        name: "whd-1",
        received_at: Moment::from_millis(1),
    };
    let bytes = event.payload.to_string().into_bytes();
    wire::read(&delivery, &bytes).unwrap().swap_remove(0)
}

fn poll(setup: &Setup, cursor: Option<&str>) -> (Vec<PolledEvent>, Option<String>) {
    block_on(setup.forge.activity_since(cursor)).unwrap()
}

#[test]
fn all_events_since_the_cursor_are_found_and_none_before_it() {
    let setup = Setup::new(Flavour::Gitea);
    let old = setup.stand_in.add_issue("Old", "");
    setup.stand_in.add_comment(old, "before");
    setup.stand_in.put_label(old, "bug");
    for _ in 0..70 {
        setup.stand_in.add_issue("Time passes", "");
    }
    let (none, cursor) = poll(&setup, None);
    assert_eq!(none, [], "the first poll only sets the cursor");
    // Longer than the time by which polls overlap.
    for _ in 0..70 {
        setup.stand_in.add_issue("Time passes", "");
    }
    let (before, cursor) = poll(&setup, cursor.as_deref());
    assert!(before.iter().all(|event| event.event == "issues"), "{before:?}");
    for _ in 0..70 {
        setup.stand_in.add_issue("Time passes", "");
    }
    let comment = setup.stand_in.add_comment(old, "@bailiwick look");
    setup.stand_in.put_labels(old, &["agent", "docs"], "alice");
    setup.stand_in.take_label(old, "bug", "alice");
    let pull = setup.stand_in.add_pull("Add a", "feature", "main");
    setup.stand_in.add_activity("refs/heads/feature", None, &setup.feature, "pusher");
    // Gitea lists it once for each user who watches.
    setup.stand_in.add_activity("refs/heads/feature", None, &setup.feature, "pusher");
    setup.stand_in.add_activity("refs/tags/v1", None, &setup.feature, "pusher");
    let status = bailiwick_fleet::ports::WriteBack::CheckStatus {
        sha: setup.main.clone(),
        context: "ci/build".to_owned(),
        state: bailiwick_fleet::ports::CheckState::Failure,
        description: String::new(),
        url: None,
    };
    block_on(setup.forge.write("key", &status)).unwrap();
    let (found, _) = poll(&setup, cursor.as_deref());
    let ids: std::collections::BTreeSet<&str> =
        found.iter().map(|event| event.id.as_str()).collect();
    let events: Vec<SourceEvent> = found.iter().map(read).collect();
    let of = |source: EventSource| events.iter().filter(move |event| event.source == source);
    let comments: Vec<_> = of(EventSource::IssueComment).collect();
    assert_eq!(comments.len(), 1);
    assert_eq!(comments[0].uid, format!("acme/widgets/comment/{comment}"));
    assert_eq!((comments[0].issue, comments[0].actor.as_deref()), (Some(old), Some("commenter")));
    assert_eq!(comments[0].body.as_deref(), Some("@bailiwick look"));
    let labels: Vec<&[String]> = of(EventSource::Label).map(|event| &event.labels[..]).collect();
    assert_eq!(labels, [["agent"], ["docs"]]);
    let pushes: Vec<_> = of(EventSource::Push).collect();
    assert_eq!(pushes[0].branch.as_deref(), Some("feature"));
    assert_eq!(pushes[0].sha.as_deref(), Some(&*setup.feature));
    assert_eq!(pushes[0].base_sha, None, "the branch is new, as in its webhook");
    assert_eq!(pushes[0].changed_paths, None, "the list does not contain them");
    assert!(ids.iter().filter(|id| id.starts_with("push/")).count() == 1, "{ids:?}");
    let tags: Vec<_> = of(EventSource::Tag).collect();
    assert_eq!((tags.len(), tags[0].sha.as_deref()), (1, Some(&*setup.feature)));
    let checks: Vec<_> = of(EventSource::Ci).collect();
    assert_eq!((checks.len(), checks[0].check.as_deref()), (1, Some("ci/build")));
    let opened = events.iter().find(|event| event.pull_request == Some(pull)).unwrap();
    assert_eq!(opened.uid, format!("acme/widgets/pull/{pull}/head/{}", setup.feature));
    setup.keeps_contract();
}

#[test]
fn polled_and_delivered_events_are_recognised_as_the_same() {
    let setup = Setup::new(Flavour::Gitea);
    let issue = setup.stand_in.add_issue("It fails", "");
    let (_, cursor) = poll(&setup, None);
    let comment = Told::Comment { number: issue, by: "alice".to_owned(), body: "look".to_owned() };
    let webhook = setup.stand_in.webhook(&comment);
    let delivered = PolledEvent {
        id: "irrelevant".to_owned(),
        event: webhook.event.clone(),
        payload: webhook.payload.clone(),
        at: Moment::from_millis(1),
    };
    let (found, _) = poll(&setup, cursor.as_deref());
    let polled = found.iter().map(read).find(|event| event.source == EventSource::IssueComment);
    assert_eq!(polled.unwrap().uid, read(&delivered).uid);
}

/// Gitea's webhooks do not contain the id of a review.
#[test]
fn reviews_are_found_and_match_those_of_their_webhooks() {
    let setup = Setup::new(Flavour::Gitea);
    let pull = setup.stand_in.add_pull("Add a", "feature", "main");
    let review = |event: &str, body: &str| {
        let sent = json!({ "event": event, "body": body, "commit_id": setup.feature });
        setup.stand_in.add_review(pull, "alice", sent)
    };
    review("APPROVED", "before");
    for _ in 0..70 {
        setup.stand_in.add_issue("Time passes", "");
    }
    let (_, cursor) = poll(&setup, None);
    for _ in 0..70 {
        setup.stand_in.add_issue("Time passes", "");
    }
    let ids = [
        review("REQUEST_CHANGES", "Please mend."),
        review("APPROVED", "Good."),
        review("COMMENT", "@bailiwick look"),
    ];
    review("PENDING", "a draft");
    setup.stand_in.dismiss_review(review("APPROVED", "Too early."));
    let (found, _) = poll(&setup, cursor.as_deref());
    let reviews: Vec<_> =
        found.iter().filter(|review_event| review_event.id.starts_with("review/")).collect();
    let expected: Vec<String> = ids.iter().map(|id| format!("review/{id}")).collect();
    assert_eq!(
        reviews.iter().map(|review_event| review_event.id.as_str()).collect::<Vec<_>>(),
        expected
    );
    let events: Vec<SourceEvent> = reviews.iter().map(|review_event| read(review_event)).collect();
    let conclusions: Vec<_> =
        events.iter().map(|review_event| review_event.conclusion.as_deref().unwrap()).collect();
    assert_eq!(conclusions, ["changes_requested", "approved", "commented"]);
    for event in &events {
        assert_eq!((event.source, event.pull_request), (EventSource::PrComment, Some(pull)));
        assert_eq!(event.actor.as_deref(), Some("alice"));
        assert_eq!(event.sha.as_deref(), Some(&*setup.feature));
    }
    let mut payload = reviews[0].payload.clone();
    // A webhook has more fields, and another order of fields.
    payload["requested_reviewer"] = serde_json::Value::Null;
    payload["review"]["type"] = json!("pull_request_review_rejected");
    let webhook = PolledEvent {
        id: "irrelevant".to_owned(),
        event: "pull_request_rejected".to_owned(),
        payload,
        at: Moment::from_millis(1),
    };
    assert_eq!(read(&webhook).uid, events[0].uid);
    assert_ne!(events[0].uid, events[1].uid);
    setup.keeps_contract();
}

#[test]
fn timeline_of_several_pages_is_read() {
    let setup = Setup::new(Flavour::Gitea);
    let issue = setup.stand_in.add_issue("It fails", "");
    for number in 0..60 {
        setup.stand_in.put_label(issue, &format!("label-{number}"));
    }
    let history = block_on(setup.forge.label_history(issue)).unwrap().unwrap();
    assert_eq!(history.len(), 60, "Gitea counts only the page");
    assert!(history.iter().all(|entry| entry.added && entry.by == "labeller"));
    setup.keeps_contract();
}

#[test]
fn old_gitea_without_these_lists_is_polled_for_the_others() {
    let setup = Setup::new(Flavour::Gitea);
    let issue = setup.stand_in.add_issue("It fails", "");
    let (_, cursor) = poll(&setup, None);
    setup.stand_in.add_comment(issue, "look");
    let not_found = || Fault::Status(404, "404 page not found".to_owned());
    setup.stand_in.fail_next("/activities/feeds", not_found());
    let (found, _) = poll(&setup, cursor.as_deref());
    assert!(found.iter().any(|event| event.event == "issue_comment"), "{found:?}");
    setup.stand_in.fail_next("/actions/runs", not_found());
    let (checks, next) = block_on(setup.forge.checks_since(Some("cursor"))).unwrap();
    assert_eq!((checks.len(), next.as_deref()), (0, Some("cursor")));
}
