//! What an agent returned, whole: an attempt keeps the beginning of its last words, and the events have all.

use bailiwick_model::AgentId;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::What;

use crate::context::Context;
use crate::failure::Failure;
use crate::wire;

/// Words of fewer characters are all there were.
const CUT: usize = 4000;
/// How many events before the last are looked through.
const BACK: u64 = 200;

/// The last words of an attempt.
pub fn whole(context: &Context, run: &AgentId, last: &Attempt) -> Result<String, Failure> {
    if last.detail.chars().count() < CUT {
        return Ok(last.detail.clone());
    }
    let events = wire::with_store(context, async |store| {
        let from = store.last_event(run).await?.saturating_sub(BACK);
        Ok(store.run_events(run, from, u32::MAX).await?)
    })?;
    let texts = events.into_iter().rev().filter(|event| event.agent.is_none());
    let mut said = texts.filter_map(|event| {
        let What::Text { text } = event.what else { return None };
        Some(text)
    });
    Ok(said.find(|text| text.starts_with(&last.detail)).unwrap_or_else(|| last.detail.clone()))
}
