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
    let (first_run, second_run) = (id("one"), id("two"));
    let mut first = [event("a"), event("b")];
    store.append_events(&first_run, &mut first).await.unwrap();
    store.append_events(&second_run, &mut [event("x")]).await.unwrap();
    let mut later = [event("c")];
    store.append_events(&first_run, &mut later).await.unwrap();
    assert_eq!(first.clone().map(|event| event.number), [1, 2]);
    assert_eq!(later[0].number, 3);
    let stored = store.run_events(&first_run, 0, 100).await.unwrap();
    assert_eq!(stored, [first.to_vec(), later.to_vec()].concat());
    assert_eq!(store.run_events(&first_run, 1, 1).await.unwrap(), first[1..]);
    assert!(store.run_events(&first_run, 3, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn last_events_of_a_kind_are_read_in_order() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let run_id = id("one");
    let notification =
        |text: &str| Event { what: EventKind::Notification { text: text.to_owned() }, ..event("") };
    let mut events = [notification("a"), event("b"), notification("c"), notification("d")];
    store.append_events(&run_id, &mut events).await.unwrap();
    store.append_events(&id("two"), &mut [notification("x")]).await.unwrap();
    assert_eq!(store.events_of_kind(&run_id, "notification", 2).await.unwrap(), events[2..]);
    assert_eq!(store.events_of_kind(&run_id, "notification", 9).await.unwrap().len(), 3);
    assert_eq!(store.events_of_kind(&run_id, "warning", 9).await.unwrap(), []);
}

#[tokio::test]
async fn ledger_notes_are_not_in_the_event_stream_but_have_a_number() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = id("one");
    store.record(&run("one"), None).await.unwrap();
    let mut events = [event("a")];
    store.append_events(&id, &mut events).await.unwrap();
    assert!(events[0].number > 1, "the ledger's event comes first");
    assert_eq!(store.run_events(&id, 0, 9).await.unwrap(), events);
}

#[tokio::test]
async fn attempt_is_read_back_unchanged() {
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
    let missing = Attempt { number: 7, ..attempt };
    assert!(store.update_attempt(&missing).await.is_err());
}
