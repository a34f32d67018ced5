//! Attempts and events of a run.

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::Event;
use bailiwick_model::attempt::{Attempt, Exhausted, Used};
use bailiwick_model::event::{EventKind, ExitReason, Phase, ReportedBy};

use crate::test_database::{TestDatabase, attempt, id, run};

fn event(text: &str) -> Event {
    Event {
        number: 0,
        at: 7,
        reported_by: ReportedBy::Program,
        agent: None,
        what: EventKind::Text { text: text.to_owned() },
        raw: Some(format!("{{\"raw\":\"{text}\"}}")),
    }
}

#[tokio::test]
async fn events_are_numbered_within_their_run_and_read_back_unchanged() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let (one, two) = (id("one"), id("two"));
    let mut first = [event("a"), event("b")];
    store.append_events(&one, &mut first).await.unwrap();
    store.append_events(&two, &mut [event("x")]).await.unwrap();
    let mut more = [event("c")];
    store.append_events(&one, &mut more).await.unwrap();
    assert_eq!(first.clone().map(|event| event.number), [1, 2]);
    assert_eq!(more[0].number, 3);
    let all = store.run_events(&one, 0, 100).await.unwrap();
    assert_eq!(all, [first.to_vec(), more.to_vec()].concat());
    assert_eq!(store.run_events(&one, 1, 1).await.unwrap(), first[1..]);
    assert!(store.run_events(&one, 3, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_last_events_of_a_kind_are_read_in_order() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let one = id("one");
    let found =
        |text: &str| Event { what: EventKind::Notification { text: text.to_owned() }, ..event("") };
    let mut all = [found("a"), event("b"), found("c"), found("d")];
    store.append_events(&one, &mut all).await.unwrap();
    store.append_events(&id("two"), &mut [found("x")]).await.unwrap();
    assert_eq!(store.events_of_kind(&one, "notification", 2).await.unwrap(), all[2..]);
    assert_eq!(store.events_of_kind(&one, "notification", 9).await.unwrap().len(), 3);
    assert_eq!(store.events_of_kind(&one, "warning", 9).await.unwrap(), []);
}

#[tokio::test]
async fn notes_of_the_ledger_are_not_in_the_event_stream_but_have_a_number() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = id("one");
    store.record(&run("one"), None).await.unwrap();
    let mut events = [event("a")];
    store.append_events(&id, &mut events).await.unwrap();
    assert!(events[0].number > 1, "the event of the ledger came first");
    assert_eq!(store.run_events(&id, 0, 9).await.unwrap(), events);
}

#[tokio::test]
async fn an_attempt_is_read_back_unchanged() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let mut attempt = attempt("one");
    attempt.number = store.begin_attempt(&attempt).await.unwrap();
    assert_eq!(attempt.number, 1);
    assert_eq!(store.attempts(None).await.unwrap(), [attempt.clone()]);
    attempt.phase = Phase::Over;
    attempt.ending = Some(ExitReason::BudgetExhausted);
    attempt.exhausted = Some(Exhausted::ToolCalls);
    attempt.session = Some("s".to_owned());
    attempt.ended_at = Some(6);
    attempt.used = Used { tokens: 1, micro_usd: 2, turns: 3, tool_calls: 4, denied: 5 };
    store.update_attempt(&attempt).await.unwrap();
    assert_eq!(store.attempts(Some(&attempt.run)).await.unwrap(), [attempt.clone()]);
    assert_eq!(store.begin_attempt(&attempt).await.unwrap(), 2);
    let none = Attempt { number: 7, ..attempt };
    assert!(store.update_attempt(&none).await.is_err());
}
