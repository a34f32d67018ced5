//! Limits what our own runs cause: otherwise runs would start runs without end.

use bailiwick_resources::{AgentTriggerRule, EventSource};

use super::event::SourceEvent;

/// How the names of our own statuses begin.
const OUR_STATUS: &str = "bailiwick/";
/// The prefix of branches that runs create.
const OUR_BRANCHES: &str = "agent/";

/// The run whose own work an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnWork {
    pub run: String,
    /// The length of the chain of runs in which each was caused by the work of the one before.
    pub depth: u32,
}

/// The attempt that created a branch, from its name.
pub fn attempt_of(branch: &str) -> Option<&str> {
    branch.strip_prefix(OUR_BRANCHES).filter(|rest| !rest.is_empty() && !rest.contains('/'))
}

/// Why an event starts nothing: a code and a reason. Text is attributed to its author, and work to its commit, so
/// that a person who continues our work counts as a person.
pub(super) fn objection(
    event: &SourceEvent,
    rule: &AgentTriggerRule,
    own: Option<&OwnWork>,
) -> Option<(&'static str, String)> {
    let code = "OwnWork";
    if is_our_status(event) {
        return Some((code, "our own statuses start nothing".to_owned()));
    }
    // Anyone can copy our marker.
    let marked = event.by_agent && event.is_marked();
    let words = ("OwnAccount", "an agent's own words start nothing".to_owned());
    let depth = match evidence(event) {
        Evidence::Nothing => return None,
        Evidence::Words | Evidence::Anything if marked => return Some(words),
        Evidence::Words if !event.by_agent => return None,
        Evidence::Words => 1,
        Evidence::Anything if event.by_agent => own.map_or(1, |own| own.depth),
        Evidence::Anything | Evidence::Work => own?.depth,
    };
    if depth <= rule.own_work_depth {
        return None;
    }
    if rule.own_work_depth == 0 && event.by_agent && own.is_none() {
        return Some(words);
    }
    let run = own.map_or("our own account", |own| own.run.as_str());
    let why = format!(
        "it comes of {run}, {depth} in a row, and the rule's ownWorkDepth is {}",
        rule.own_work_depth
    );
    Some((code, why))
}

/// Whether the commit of an event attributes it to us. Text and actions of a person about our work are that
/// person's.
pub fn is_told_by_work(event: &SourceEvent, own_accounts: &[String]) -> bool {
    match evidence(event) {
        Evidence::Work => true,
        Evidence::Anything => own_accounts.is_empty() || is_ours(event, own_accounts),
        Evidence::Words | Evidence::Nothing => false,
    }
}

/// Whether one of our own accounts did it, or the actor is not known.
pub fn is_ours(event: &SourceEvent, own_accounts: &[String]) -> bool {
    let own = |actor: &str| own_accounts.iter().any(|own| own.eq_ignore_ascii_case(actor));
    event.actor.as_deref().is_none_or(own)
}

/// Our commit statuses come back as events.
fn is_our_status(event: &SourceEvent) -> bool {
    let ours = event.check.as_deref().is_some_and(|check| check.starts_with(OUR_STATUS));
    ours && event.event == "status"
}

/// What attributes an event of a source to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// Its author.
    Words,
    /// By the commit that it is about.
    Work,
    /// By either.
    Anything,
    /// It is never ours.
    Nothing,
}

/// A webhook counts as its more specific source.
fn evidence(event: &SourceEvent) -> Evidence {
    let source = if event.source == EventSource::Webhook { event.telling } else { event.source };
    match source {
        EventSource::IssueComment | EventSource::PrComment | EventSource::Label => Evidence::Words,
        EventSource::Ci | EventSource::Push | EventSource::Tag => Evidence::Work,
        EventSource::Webhook | EventSource::RepositoryDispatch => Evidence::Anything,
        EventSource::Schedule | EventSource::Manual => Evidence::Nothing,
    }
}
