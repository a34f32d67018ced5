//! What the comments with claims led to, up to one of them. It is in the text of their issue, so that earlier comments
//! need not be read again. It is signed, and only a copy: without it, all comments are read, with the same result.

use bailiwick_resources::Moment;
use serde::{Deserialize, Serialize};

use crate::claim_table::ClaimTable;
use crate::event::{Event, EventKind, events_of, footer, without_footers};
use crate::issue::{Comment, Issue, Trust};
use crate::recorded::Recorded;
use crate::reservation::GivenBack;
use crate::signature::SigningKey;

/// The key of the event that has it.
const KEY: &str = "claims";
/// Who writes it.
const AUTHOR: &str = "supervisor";
/// How old the last comment of a snapshot is, at least: no earlier one can appear any more.
const MIN_AGE_MS: u64 = 60 * 60 * 1000;
/// How many comments are read before a snapshot is worth its edit.
const MIN_COMMENTS: usize = 100;
/// How many events a new snapshot has more than the one before, at least.
const MIN_NEW_EVENTS: usize = 20;
/// How much earlier a comment can have been written than one with a smaller number.
const CLOCK_SKEW_MS: u64 = 5 * 60 * 1000;
/// The longest text of an issue with a snapshot. Forges refuse 65,536 characters, and a longer text is not read whole.
const MAX_BYTES: usize = 60_000;

/// The table after one of the comments, and what else later comments need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimSnapshot {
    /// The last comment that is part of it, and when that was written.
    pub(crate) up_to: u64,
    pub(crate) at: Moment,
    pub(crate) table: ClaimTable,
    pub(crate) given_back: Vec<GivenBack>,
}

impl ClaimSnapshot {
    /// The one in the text of an issue, if it was signed for this issue. Text of others is none.
    pub(crate) fn find(issue: &Issue, trust: &Trust) -> Option<Self> {
        let key = &trust.shared.as_ref()?.key;
        let mut events = events_of(&issue.body).into_iter().flatten();
        let event = events.find(|event| event.other.contains_key(KEY))?;
        let is_ours = key.verifies(&event, &issue.repository, issue.number)
            && event.kind == EventKind::Checkpoint
            && event.issue == Some(issue.number);
        let value = event.other.get(KEY).filter(|_| is_ours)?;
        serde_json::from_value(value.clone()).ok()
    }

    /// The text of the issue with this snapshot instead of an earlier one; nothing if it would be too long to be read.
    pub(crate) fn body(&self, issue: &Issue, key: &SigningKey) -> Option<String> {
        let mut event = Event::new(EventKind::Checkpoint, AUTHOR);
        event.issue = Some(issue.number);
        event.other.insert(KEY.to_owned(), serde_json::to_value(self).ok()?);
        let footer = footer(&key.sign(event, &issue.repository, issue.number));
        let body = format!("{}\n\n{footer}\n", without_footers(&issue.body));
        (body.len() <= MAX_BYTES).then_some(body)
    }

    /// From when on comments are read: a comment can have an earlier time than one with a smaller number.
    pub(crate) fn read_from(&self) -> Moment {
        Moment::from_millis(self.at.millis().saturating_sub(CLOCK_SKEW_MS))
    }

    /// Whether a comment was written after it.
    pub(crate) fn is_before(&self, comment: u64) -> bool {
        comment > self.up_to
    }

    /// Whether it says what all comments would: an event whose comment was edited since does not count any more. The
    /// edit may have removed the event, so only the account of the comment tells whether it had one.
    pub(crate) fn holds(&self, comments: &[Comment], trust: &Trust) -> bool {
        let mut edited = comments.iter().filter(|comment| comment.updated_at != comment.created_at);
        edited.all(|comment| self.is_before(comment.id) || !trust.can_count(&comment.author))
    }
}

/// The events that a new snapshot would have; nothing if it is not worth an edit, or other events need all comments.
pub(crate) fn to_compact(events: &[Recorded], comments: usize, now: Moment) -> &[Recorded] {
    if comments < MIN_COMMENTS || !are_changes(events) {
        return &[];
    }
    let is_old = |recorded: &Recorded| recorded.at.plus_millis(MIN_AGE_MS) <= now;
    let count = events.iter().take_while(|recorded| is_old(recorded)).count();
    events.get(..count).filter(|old| old.len() >= MIN_NEW_EVENTS).unwrap_or_default()
}

/// Whether these events only change claims. One of another kind needs all comments.
pub(crate) fn are_changes(events: &[Recorded]) -> bool {
    events.iter().all(|recorded| {
        matches!(recorded.event.kind, EventKind::TaskClaim | EventKind::TaskClaimRelease)
    })
}
