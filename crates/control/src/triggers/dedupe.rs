//! Which events are the same. A new commit never is; what was refused does not count.

use bailiwick_model::digest::Sha256Hex;
use bailiwick_model::fleet::{
    AgentTriggerRule, EventSource, ExecutionDecision, Moment, Object, Reason, Span,
};

use super::event::SourceEvent;
use super::plan::RecentExecution;
use super::template::{TemplateContext, TemplateError, inspect, names_used, render_key};
use super::text::{beginning, key_part, visible};

/// For how long events are the same where the rule does not say.
const DEFAULT_WINDOW_MILLIS: u64 = 24 * 3_600_000;
/// The longest window.
pub(crate) const LONGEST_WINDOW_MILLIS: u64 = 30 * 24 * 3_600_000;

/// What makes an event the same as others, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupeKey {
    /// The key.
    pub key: String,
    /// How long it holds.
    pub window: Span,
}

/// The key of an event for a rule. The rule, its namespace and the commit are always part of it.
pub fn key(
    rule: &Object<AgentTriggerRule>,
    event: &SourceEvent,
) -> Result<DedupeKey, TemplateError> {
    let sha = event.sha.as_deref().map_or("-".to_owned(), key_part);
    let (own, window) = match &rule.spec.dedupe_policy {
        Some(policy) => {
            let task_kind = &rule.spec.task_kind;
            let about = TemplateContext { rule: rule.name(), task_kind, event };
            (render_key(&policy.key, &about)?, policy.window)
        }
        None => (default_key(event), Span::from_millis(DEFAULT_WINDOW_MILLIS)),
    };
    let (namespace, name) = (key_part(&rule.metadata.namespace), key_part(rule.name()));
    Ok(DedupeKey { key: format!("{namespace}:{name}:{own}@{sha}"), window })
}

fn default_key(event: &SourceEvent) -> String {
    let number = |kind: &str, number: Option<u64>| number.map(|number| format!("{kind}{number}"));
    let word = |text: &Option<String>| text.as_deref().map(key_part);
    let parts = match event.source {
        EventSource::Ci => vec![
            number("pr", event.pull_request).or_else(|| word(&event.branch)),
            word(&event.workflow),
            word(&event.check),
            word(&event.job),
            word(&event.step),
            word(&event.conclusion),
            event.failure_log.as_deref().map(signature),
        ],
        EventSource::Push => vec![word(&event.branch), word(&event.base_sha)],
        EventSource::Tag => vec![word(&event.tag)],
        EventSource::Webhook
        | EventSource::IssueComment
        | EventSource::PrComment
        | EventSource::Label
        | EventSource::Schedule
        | EventSource::Manual
        | EventSource::RepositoryDispatch => vec![Some(key_part(&event.uid))],
    };
    let parts: Vec<String> =
        parts.into_iter().map(|part| part.unwrap_or_else(|| "-".to_owned())).collect();
    let repository = key_part(&event.repository.to_lowercase());
    format!("{}:{repository}:{}", event.source.as_str(), parts.join(":"))
}

/// What a failure is recognised by: the first lines that speak of it, without numbers, which differ
/// from one time to the next.
pub fn signature(log: &str) -> String {
    const WORDS: [&str; 6] = ["error", "fail", "panic", "exception", "fatal", "assert"];
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    };
    let mut lines: Vec<&str> = log.lines().filter(tells).take(8).collect();
    if lines.is_empty() {
        lines = log.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    }
    let mut plain = String::new();
    for line in lines {
        let mut last = ' ';
        for next in visible(beginning(line, 400)).trim().chars() {
            let next = if next.is_ascii_digit() { '#' } else { next };
            if next != '#' || last != '#' {
                plain.push(next);
            }
            last = next;
        }
        plain.push('\n');
    }
    Sha256Hex::of(plain).prefix(16).to_owned()
}

/// The earlier execution that this key is the same as, if there is one in its window.
pub fn duplicate<'a>(
    key: &DedupeKey,
    recent: &'a [RecentExecution],
    now: Moment,
) -> Option<&'a RecentExecution> {
    recent
        .iter()
        .filter(|execution| execution.dedupe_key.as_deref() == Some(key.key.as_str()))
        .filter(|execution| counts(execution.decision))
        .filter(|execution| {
            now.millis().saturating_sub(execution.at.millis()) < key.window.millis()
        })
        .max_by_key(|execution| execution.at)
}

/// Whether something came of an execution: only that makes another one a repetition.
fn counts(decision: ExecutionDecision) -> bool {
    match decision {
        ExecutionDecision::Created
        | ExecutionDecision::Coalesced
        | ExecutionDecision::WaitingForApproval => true,
        ExecutionDecision::Deduplicated
        | ExecutionDecision::Rejected
        | ExecutionDecision::Materialized => false,
    }
}

/// Fields that differ from event to event, or grow with what strangers write.
const UNSTABLE: [&str; 9] = [
    "event",
    "event.uid",
    "event.at",
    "event.body",
    "event.title",
    "event.failureLog",
    "event.changedPaths",
    "event.labels",
    "payload",
];

/// What of a template's names makes a key grow, or never the same.
pub(super) fn unstable(template: &str) -> Option<TemplateError> {
    if let Err(error) = inspect(template) {
        return Some(error);
    }
    let unbounded = |message: String| TemplateError::new(Reason::UnboundedDedupeKey, message);
    if template.contains("{%") && template.contains("for") && names_loop(template) {
        return Some(unbounded("a key has no loops: it would grow with the event".to_owned()));
    }
    let names = names_used(template);
    let wrong = names.iter().find(|name| UNSTABLE.contains(&name.as_str()))?;
    let message = format!(
        "`{wrong}` differs from one event to the next, or grows with what strangers write; \
         use fields such as event.branch, event.check or payload.id"
    );
    Some(unbounded(message))
}

fn names_loop(template: &str) -> bool {
    template
        .split("{%")
        .skip(1)
        .any(|tag| tag.trim_start_matches(['-', '+']).trim_start().starts_with("for "))
}

/// What is wrong with a rule's dedupe policy.
pub fn faults(rule: &AgentTriggerRule) -> Vec<TemplateError> {
    let Some(policy) = &rule.dedupe_policy else { return Vec::new() };
    let mut faults = Vec::new();
    let window = policy.window.millis();
    if window == 0 || window > LONGEST_WINDOW_MILLIS {
        let message = format!("dedupePolicy.window: {} is not within 1ms and 30d", policy.window);
        faults.push(TemplateError::new(Reason::UnboundedDedupeKey, message));
    }
    if let Some(mut fault) = unstable(&policy.key) {
        fault.message = format!("dedupePolicy.key: {}", fault.message);
        faults.push(fault);
    }
    if !policy.key.contains("{{") {
        let message = "dedupePolicy.key: every event has the same key; name a field of the event";
        faults.push(TemplateError::new(Reason::UnboundedDedupeKey, message));
    }
    faults
}
