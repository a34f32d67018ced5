//! The full messages of an agent: an attempt stores only the beginning of the final message, the event of its end has
//! all of it.

use bailiwick_model::AgentId;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::{Event, EventKind};
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::Context;
use crate::failure::Failure;

/// A shorter message was not truncated.
const CUT: usize = 4000;

/// How many notifications a parent gets.
const NOTIFICATIONS: u32 = 20;

/// The mark behind a truncated message.
const REST: &str = " … [cut]";

/// The final message of a run's last attempt, whole.
pub fn final_message(context: &Context, run: &AgentId, last: &Attempt) -> Result<String, Failure> {
    if last.detail.chars().count() < CUT {
        return Ok(last.detail.clone());
    }
    let ends =
        context.with_store(async |store| Ok(store.events_of_kind(run, "ended", 1).await?))?;
    Ok(whole_message(last, ends))
}

/// The message of the event with which the attempt ended. If there is none, only the beginning is stored; it is marked
/// as truncated.
fn whole_message(last: &Attempt, ends: Vec<Event>) -> String {
    let whole = ends.into_iter().find_map(|event| {
        let EventKind::Ended { how, detail } = event.what else { return None };
        (Some(how) == last.ending).then_some(detail)
    });
    whole.unwrap_or_else(|| format!("{}{REST}", last.detail))
}

/// The messages that a run got after its task, in order; and those that it has not received.
pub fn messages_after_task(
    context: &Context,
    run: &AgentId,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let directory = RunDirectory::new(&context.state, run.as_str());
    let not_heard = directory.pending_messages().map_err(|error| {
        Failure::general(format!("the undelivered messages of `{run}` cannot be read: {error}"))
    })?;
    let events =
        context.with_store(async |store| Ok(store.run_events(run, 0, u32::MAX).await?))?;
    let texts = events.into_iter().filter_map(|event| {
        let EventKind::Message { text } = event.what else { return None };
        Some(text)
    });
    Ok(split_undelivered(texts.collect(), not_heard.len()))
}

/// The notifications of a run to its parent, oldest first.
pub fn notifications(context: &Context, run: &AgentId) -> Result<Vec<String>, Failure> {
    let events = context.with_store(async |store| {
        Ok(store.events_of_kind(run, "notification", NOTIFICATIONS).await?)
    })?;
    let texts = events.into_iter().filter_map(|event| {
        let EventKind::Notification { text } = event.what else { return None };
        Some(text)
    });
    Ok(texts.collect())
}

/// Splits recorded messages into those that were delivered and those that were not, which are the last ones. Recorded
/// messages contain no secrets.
fn split_undelivered(mut texts: Vec<String>, not_heard: usize) -> (Vec<String>, Vec<String>) {
    let rest = texts.split_off(texts.len().saturating_sub(not_heard));
    (texts, rest)
}

#[cfg(test)]
mod tests {
    use bailiwick_model::attempt::{Allowance, Used};
    use bailiwick_model::event::{ExitReason, Phase, ReportedBy};

    use super::*;

    #[test]
    fn final_message_is_that_of_the_end_whatever_it_begins_with() {
        let attempt = Attempt {
            run: AgentId::parse("one").unwrap(),
            number: 1,
            cli: "script".to_owned(),
            version: "1".to_owned(),
            model: String::new(),
            login: "api-key".to_owned(),
            sandbox: "full".to_owned(),
            session: None,
            phase: Phase::Over,
            ending: Some(ExitReason::Completed),
            detail: "x".repeat(CUT),
            exhausted: None,
            started_at: 1,
            ended_at: Some(2),
            used: Used::default(),
            budget: Allowance::default(),
        };
        let ended = |how| Event {
            number: 1,
            at: 2,
            reported_by: ReportedBy::Supervisor,
            agent: None,
            what: EventKind::Ended { how, detail: "all of it".to_owned() },
            raw: None,
        };
        assert_eq!(whole_message(&attempt, vec![ended(ExitReason::Completed)]), "all of it");
        let of_another_end = whole_message(&attempt, vec![ended(ExitReason::CutOff)]);
        assert_eq!(of_another_end, format!("{}{REST}", attempt.detail));
    }

    #[test]
    fn last_messages_are_the_undelivered_ones() {
        let messages = ["heard", "the key is [redacted]"].map(ToOwned::to_owned);
        for (undelivered, at) in [(0, 2), (1, 1), (2, 0), (3, 0)] {
            let (delivered, rest) = split_undelivered(messages.to_vec(), undelivered);
            assert_eq!(
                (delivered.as_slice(), rest.as_slice()),
                messages.split_at(at),
                "{undelivered}"
            );
        }
    }
}
