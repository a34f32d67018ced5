//! The full messages of an agent: an attempt stores only the beginning of the final message, the events have
//! all of it.

use bailiwick_model::AgentId;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::EventKind;
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::Context;
use crate::failure::Failure;

/// A shorter message was not truncated.
const CUT: usize = 4000;
/// How many of the last events are searched.
const BACK: u64 = 200;

/// How many notifications a parent gets.
const NOTIFICATIONS: u32 = 20;

/// The mark behind a truncated message.
const REST: &str = " … [cut]";

/// The final message of an attempt, whole.
pub fn final_message(context: &Context, run: &AgentId, last: &Attempt) -> Result<String, Failure> {
    if last.detail.chars().count() < CUT {
        return Ok(last.detail.clone());
    }
    let events = context.with_store(async |store| {
        let from = store.last_event(run).await?.saturating_sub(BACK);
        Ok(store.run_events(run, from, u32::MAX).await?)
    })?;
    let of_it = events.into_iter().rev().filter(|event| event.agent.is_none());
    let mut texts = of_it.filter_map(|event| {
        let (EventKind::Text { text } | EventKind::Ended { detail: text, .. }) = event.what else {
            return None;
        };
        Some(text)
    });
    let found = texts.find(|text| text.starts_with(&last.detail));
    // If only the beginning is stored, it is marked as truncated.
    Ok(found.unwrap_or_else(|| format!("{}{REST}", last.detail)))
}

/// The messages that a run got after its task, in order; and those that it has not received.
pub fn messages_after_task(
    context: &Context,
    run: &AgentId,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let directory = RunDirectory::new(&context.state, run.as_str());
    let not_heard = directory.pending_messages().map_err(|error| {
        Failure::general(format!("what `{run}` has not heard cannot be read: {error}"))
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
    use super::split_undelivered;

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
