//! Finds a received event to try a rule with.

use bailiwick_resources::{AgentTriggerRule, Globs, Matcher};

use super::event::SourceEvent;
use super::matcher;

/// The first of these events that the rule matches, as far as the payload shows. Values that need a lookup are
/// placeholders.
pub fn sample(rule: &AgentTriggerRule, events: &[SourceEvent]) -> Option<SourceEvent> {
    // Neither was sent: both are looked up for events that count.
    let told =
        Matcher { paths: Globs::default(), failure_signature: Vec::new(), ..rule.matcher.clone() };
    let told = matcher::compile(&told).ok()?;
    let meant =
        |event: &&SourceEvent| rule.sources.contains(&event.source) && told.matches(event).matched;
    events.iter().find(meant).cloned().map(filled)
}

fn filled(mut event: SourceEvent) -> SourceEvent {
    let word = || Some("(looked up)".to_owned());
    event.sha = event.sha.or_else(|| Some("0".repeat(40)));
    if event.pull_request.is_some() {
        event.branch = event.branch.or_else(word);
        event.title = event.title.or_else(word);
        event.head_repository = event.head_repository.or_else(word);
    }
    if event.job_id.is_some() {
        event.failure_log = event.failure_log.or_else(word);
    }
    event.changed_paths = event.changed_paths.or_else(|| Some(Vec::new()));
    event
}
