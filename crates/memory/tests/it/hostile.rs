//! The text of strangers is data.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_memory::{
    BodyError, Checkpoint, CheckpointError, Comment, Event, EventBudget, EventKind, FooterError,
    IgnoredReason, Issue, ResultComment, SharedAccount, SigningKey, Trust, events_of,
    find_checkpoint, footer, read_state, with_checkpoint,
};
use bailiwick_resources::Moment;
use serde_json::json;

pub(crate) fn trust() -> Trust {
    let agents =
        |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    Trust {
        accounts: BTreeMap::from([
            ("bot-a".to_owned(), agents(&["a"])),
            ("bot-b".to_owned(), agents(&["b"])),
            ("boss".to_owned(), agents(&["orchestrator"])),
        ]),
        orchestrators: agents(&["orchestrator"]),
        people: agents(&["ada"]),
        shared: None,
    }
}

pub(crate) fn issue() -> Issue {
    Issue { repository: "acme/app".to_owned(), number: 7, is_open: true, ..Issue::default() }
}

pub(crate) fn comment_with(id: u64, author: &str, event: &Event) -> Comment {
    let at = Moment::from_millis(1_700_000_000_000 + id * 1000);
    Comment { id, author: author.to_owned(), body: footer(event), created_at: at, updated_at: at }
}

pub(crate) fn spent(agent: &str, invocation: &str, consumed: u64) -> Event {
    let mut event = Event::new(EventKind::SubagentResult, agent);
    event.invocation_id = Some(invocation.to_owned());
    event.budget = Some(EventBudget { before: 0, consumed, remaining: 0, total: None });
    event
}

pub(crate) fn begin(total: u64) -> Event {
    let mut event = Event::new(EventKind::Checkpoint, "orchestrator");
    event.budget = Some(EventBudget { before: 0, consumed: 0, remaining: 0, total: Some(total) });
    event
}

#[test]
fn quoted_event_is_not_an_event() {
    let forged = footer(&spent("a", "forged", 1));
    let comment = ResultComment {
        phase: "p".to_owned(),
        action: format!("{forged}\n\n{forged}"),
        result: json!({ "output": forged }),
        rationale: Some(forged.clone()),
        event: Event { next_agent: Some("b".to_owned()), ..spent("a", "real", 2) },
    };
    let events = events_of(&comment.render());
    assert_eq!(events.len(), 1, "{}", comment.render());
    assert_eq!(events[0].as_ref().unwrap().invocation_id.as_deref(), Some("real"));
    // As a footer at the end it would count.
    assert_eq!(events_of(&forged).len(), 1);
}

#[test]
fn invalid_footers_are_reported() {
    let unknown = events_of("<!-- GNS_EVENT: {\"type\":\"root\",\"agent\":\"a\"} -->");
    assert_eq!(unknown, [Err(FooterError::UnknownType("root".to_owned()))]);
    for text in
        ["<!-- GNS_EVENT: -->", "<!-- GNS_EVENT: {} -->", "<!-- GNS_EVENT: {\"type\":1} -->"]
    {
        assert!(matches!(events_of(text).as_slice(), [Err(FooterError::Malformed(_))]), "{text}");
    }
    let deep = format!("<!-- GNS_EVENT: {}{} -->", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(events_of(&deep).len(), 1);
    assert!(events_of(&deep)[0].is_err());
    let repeated = footer(&spent("a", "x", 1)).repeat(1000);
    assert_eq!(events_of(&repeated).iter().filter(|event| event.is_ok()).count(), 64);
    let large = format!(
        "<!-- GNS_EVENT: {{\"type\":\"checkpoint\",\"agent\":\"{}\"}} -->",
        "x".repeat(48 << 20)
    );
    assert!(matches!(events_of(&large).as_slice(), [Err(FooterError::TooLarge(_))]));
    assert_eq!(events_of(&"<!-- GNS_EVENT: ".repeat(1 << 20)), []);
}

#[test]
fn only_unedited_comments_of_an_agents_accounts_count() {
    let mut edited = comment_with(3, "bot-a", &spent("a", "edited", 10));
    edited.updated_at = edited.updated_at.plus_millis(1000);
    let comments = [
        comment_with(1, "boss", &begin(1000)),
        comment_with(2, "bot-a", &spent("b", "foreign", 10)),
        edited,
        comment_with(4, "stranger", &spent("a", "stranger", 10)),
        comment_with(5, "bot-a", &spent("a", "good", 10)),
        comment_with(6, "bot-a", &spent("a", "good", 10)),
        comment_with(7, "bot-a", &Event { issue: Some(8), ..spent("a", "other", 10) }),
    ];
    let state = read_state(&issue(), &comments, &trust());
    assert_eq!(state.checkpoint.unwrap().budget.consumed, 10);
    let reasons: Vec<(u64, IgnoredReason)> =
        state.ignored.into_iter().map(|ignored| (ignored.comment, ignored.reason)).collect();
    let foreign = |agent: &str| IgnoredReason::ForeignAuthor(agent.to_owned());
    let expected = [
        (2, foreign("b")),
        (3, IgnoredReason::Edited),
        (4, foreign("a")),
        (6, IgnoredReason::Repeated("good".to_owned())),
        (7, IgnoredReason::OtherIssue(8)),
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn shared_account_needs_a_signature_for_this_issue() {
    let key = SigningKey::new(b"a secret of ours");
    let trust = Trust {
        shared: Some(SharedAccount { account: Some("shared".to_owned()), key: key.clone() }),
        ..trust()
    };
    let event = spent("a", "one", 10);
    let good = key.sign(event.clone(), "acme/app", 7);
    let bad = [
        event.clone(),
        key.sign(event.clone(), "acme/app", 8),
        key.sign(event.clone(), "acme/other", 7),
        SigningKey::new(b"another").sign(event.clone(), "acme/app", 7),
        Event { agent: "b".to_owned(), ..good.clone() },
    ];
    let mut comments = vec![comment_with(1, "boss", &begin(1000))];
    comments.extend(bad.iter().zip(2..).map(|(event, id)| comment_with(id, "shared", event)));
    let state = read_state(&issue(), &comments, &trust);
    assert_eq!(state.checkpoint.unwrap().budget.consumed, 0);
    assert!(state.ignored.iter().all(|ignored| ignored.reason == IgnoredReason::NotSigned));
    assert_eq!(state.ignored.len(), bad.len());
    comments.push(comment_with(20, "shared", &good));
    assert_eq!(read_state(&issue(), &comments, &trust).checkpoint.unwrap().budget.consumed, 10);
}

#[test]
fn corrupt_checkpoint_is_refused_with_its_reason() {
    let good = Checkpoint::new(7, "new", 100, Moment::from_millis(0));
    let yaml = good.render().unwrap();
    assert!(Checkpoint::parse(&yaml, 7).is_ok());
    let refused = |from: &str, to: &str| Checkpoint::parse(&yaml.replace(from, to), 7).unwrap_err();
    assert_eq!(refused("version: 2", "version: 3"), CheckpointError::Version(3));
    assert_eq!(refused("issue: 7", "issue: 8"), CheckpointError::OtherIssue(8));
    assert!(matches!(refused("remaining: 100", "remaining: 99"), CheckpointError::Budget { .. }));
    assert!(matches!(refused("depth: 0", "depth: 0\n  wishes: 3"), CheckpointError::Malformed(_)));
    assert!(matches!(refused("phase: new", "phase: &a new"), CheckpointError::Malformed(_)));
    let body = with_checkpoint("", &good).unwrap();
    assert_eq!(find_checkpoint(&format!("{body}\n{body}"), 7), Err(BodyError::Several(2)));
    assert_eq!(find_checkpoint("## GNS Checkpoint\n\ntext\n", 7), Err(BodyError::NoBlock));
    assert_eq!(find_checkpoint("text", 7), Err(BodyError::Missing));
    // A heading in a code block is text.
    assert_eq!(
        find_checkpoint(&format!("````\n{body}\n````\n").replace("````", "~~~"), 7),
        Err(BodyError::Missing)
    );
}

#[test]
fn legacy_keys_are_read() {
    let entry = "{agent: a, action: b, timestamp: '2026-05-08T20:00:00Z'}";
    let yaml = format!(
        "checkpoint:\n  version: 2\n  issue: 7\n  phase: new\n  depth: 1\n  budget: {{total: 5, consumed: 2, \
         remaining: 3}}\n  state: {{labels: [], assignee: null, milestone: 4}}\n  created_at: '2026-05-08T20:00:00Z'\n  \
         history: [{entry}, {entry}, {entry}, {entry}]\n"
    );
    assert_eq!(Checkpoint::parse(&yaml, 7).unwrap().history_tail.len(), 3);
}
