//! Which events are the same. A new commit never is; what was refused does not count.

use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::{
    AgentTriggerRule, EventSource, ExecutionDecision, Moment, Object, Reason, Span,
};
use serde_json::Value;

use super::event::SourceEvent;
use super::plan::{EventContext, RecentExecution};
use super::template::{TemplateContext, TemplateError, inspect, names_used, render_key};
use super::text::{beginning, key_part, visible};

/// The default window in which events are duplicates.
const DEFAULT_WINDOW_MILLIS: u64 = 24 * 3_600_000;
/// The longest window.
pub(crate) const MAX_WINDOW_MILLIS: u64 = 30 * 24 * 3_600_000;

/// The placeholder for a missing part.
const UNKNOWN: &str = "-";

/// The key that identifies equal events, and its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupeKey {
    pub key: String,
    pub window: Span,
    /// The key of everything about the same failure; only if the rule has no key template.
    pub failure: Option<String>,
}

/// The key of an event for a rule. The rule, its namespace and the commit are always part of it.
pub fn key(
    rule: &Object<AgentTriggerRule>,
    event: &SourceEvent,
) -> Result<DedupeKey, TemplateError> {
    let sha = event.sha.as_deref().map_or(UNKNOWN.to_owned(), key_part);
    let (own, window) = match &rule.spec.dedupe_policy {
        Some(policy) => {
            let task_kind = &rule.spec.task_kind;
            let about = TemplateContext { rule: rule.name(), task_kind, event };
            (render_key(&policy.key, &about)?, policy.window)
        }
        None => (default_key(event), Span::from_millis(DEFAULT_WINDOW_MILLIS)),
    };
    let (namespace, name) = (key_part(&rule.metadata.namespace), key_part(rule.name()));
    let by_us = rule.spec.dedupe_policy.is_none() && event.source == EventSource::Ci;
    let failure = (by_us && event.sha.is_some()).then(|| {
        let repository = key_part(&event.repository.to_lowercase());
        format!("{namespace}:{name}:{repository}@{sha}")
    });
    Ok(DedupeKey { key: format!("{namespace}:{name}:{own}@{sha}"), window, failure })
}

/// The prefix of the IDs of polled events, which no webhook brought.
pub(crate) const POLLED: &str = "poll/";

/// Whether an event was learnt by asking the forge, by its id.
pub(crate) fn was_polled(uid: &str) -> bool {
    uid.starts_with(POLLED)
}

/// The parts of a failure key.
struct Failure<'a> {
    /// Rule, repository and commit: they are always known.
    whose: [&'a str; 5],
    /// The workflow, by its name or by its file.
    workflow: &'a str,
    /// The job or check.
    name: &'a str,
    /// Step, conclusion and signature; a dash for a missing one.
    told: [&'a str; 3],
    /// The run of a workflow, by the forge's number.
    run: &'a str,
    /// Whether the event was polled.
    polled: bool,
}

impl<'a> Failure<'a> {
    fn parse(key: &'a str, polled: bool) -> Option<Self> {
        let (parts, sha) = key.rsplit_once('@')?;
        let parts: Vec<&str> = parts.split(':').collect();
        // The place is left out: for one commit, one event has a branch and another a pull request.
        let [namespace, rule, source, repository, _, workflow, check, job, step, end, log, run] =
            *parts.as_slice()
        else {
            return None;
        };
        Some(Self {
            whose: [namespace, rule, source, repository, sha],
            workflow,
            // A job is a check of the same name.
            name: if job == UNKNOWN { check } else { job },
            told: [step, end, log],
            run,
            polled,
        })
    }

    /// Whether it is the same failure. A forge reports a failed job as a job, as a check, as a run of a workflow and
    /// in a poll, each with other details: those that both have must be equal.
    fn is(&self, other: &Self) -> bool {
        let agree = |one: &str, other: &str| one == other || one == UNKNOWN || other == UNKNOWN;
        let mut told = self.told.iter().zip(&other.told);
        self.whose == other.whose
            && self.is_named_as(other)
            && told.all(|(one, other)| agree(one, other))
    }

    /// Whether both name the same object. A missing name is not equal to another missing name: then the forge's
    /// number of the run decides, or they are two failures. Another system's check names no workflow.
    fn is_named_as(&self, other: &Self) -> bool {
        let names = self.name != UNKNOWN && other.name != UNKNOWN;
        let workflows = self.workflow != UNKNOWN && other.workflow != UNKNOWN;
        match (names, workflows) {
            (true, true) => self.name == other.name && self.has_workflow_of(other),
            (true, false) => self.name == other.name && self.is_of_run(other).unwrap_or(true),
            (false, true) => self.has_workflow_of(other),
            (false, false) => self.is_of_run(other).unwrap_or(false),
        }
    }

    /// Whether both belong to one run of a workflow; none if it is not known of both. The jobs of one forge do not
    /// name their workflow, and its runs do not name their jobs.
    fn is_of_run(&self, other: &Self) -> Option<bool> {
        (self.run != UNKNOWN && other.run != UNKNOWN).then(|| self.run == other.run)
    }

    fn has_workflow_of(&self, other: &Self) -> bool {
        match (file_stem(self.workflow), file_stem(other.workflow)) {
            (Some(stem), None) => self.is_file_of(stem, other),
            (None, Some(stem)) => other.is_file_of(stem, self),
            (Some(_), Some(_)) | (None, None) => self.workflow == other.workflow,
        }
    }

    /// Whether a workflow file is the one with this name. One forge sends the name in a webhook, and the file in a
    /// poll; otherwise the file must be named like the workflow.
    fn is_file_of(&self, stem: &str, named: &Self) -> bool {
        (self.polled && !named.polled) || stem.eq_ignore_ascii_case(named.workflow)
    }
}

/// The name of a workflow's file without folder, ref and ending, as in a key; nothing if it is not a file.
fn file_stem(workflow: &str) -> Option<&str> {
    let path = workflow.split_once("%40").map_or(workflow, |(path, _)| path);
    let file = path.rsplit_once("%2F").map_or(path, |(_, file)| file);
    file.strip_suffix(".yml").or_else(|| file.strip_suffix(".yaml"))
}

/// A suite of checks names neither: its number identifies it, or else its delivery.
fn suite(event: &SourceEvent) -> Option<String> {
    let id = event.payload.pointer("/check_suite/id").and_then(Value::as_u64);
    let known = || id.map_or_else(|| key_part(&event.uid), |id| format!("suite{id}"));
    (event.event == "check_suite").then(known)
}

/// The forge's number of the run of a workflow that an event is about.
fn run_of(event: &SourceEvent) -> Option<String> {
    let number = |place: &str| event.payload.pointer(place).and_then(Value::as_u64);
    let id = match event.event.as_str() {
        "workflow_job" => number("/workflow_job/run_id").or_else(|| number("/workflow_run/id")),
        "workflow_run" => number("/workflow_run/id"),
        // No other event has it.
        _ => None,
    };
    id.map(|id| format!("run{id}"))
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
            event.failure_log.as_deref().map(signature).or_else(|| suite(event)),
            run_of(event),
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
        parts.into_iter().map(|part| part.unwrap_or_else(|| UNKNOWN.to_owned())).collect();
    let repository = key_part(&event.repository.to_lowercase());
    format!("{}:{repository}:{}", event.source.as_str(), parts.join(":"))
}

/// The signature of a failure: the first lines about it, without numbers, which differ each time.
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

/// The earlier execution that an event repeats: it has the same uid, or the same key within its window. Less trusted
/// ones do not count: a stranger could suppress our own failures.
pub fn duplicate<'a>(
    rule: &Object<AgentTriggerRule>,
    key: &DedupeKey,
    event: &SourceEvent,
    seen: &'a EventContext,
    now: Moment,
) -> Option<&'a RecentExecution> {
    let trust = event.trust_tier.min(seen.repository_trust);
    let polled = was_polled(&event.uid);
    let rule = rule_name(rule);
    // The ID of a delivery does not identify the occurrence, and the sender of another repository may use the same.
    let says_what_happened =
        event.uid.starts_with(&format!("{}/", event.repository.to_lowercase()));
    let is_same_event = |earlier: &RecentExecution| {
        says_what_happened && earlier.event_uid == event.uid && earlier.rule == rule
    };
    let is_recent = |earlier: &RecentExecution| {
        now.millis().saturating_sub(earlier.at.millis()) < key.window.millis()
    };
    seen.recent
        .iter()
        .filter(|execution| execution.trust_tier >= trust)
        .filter(|execution| counts(execution.decision))
        .filter(|earlier| {
            is_same_event(earlier) || (is_recent(earlier) && is_same(key, polled, earlier))
        })
        .max_by_key(|execution| execution.at)
}

/// A rule as executions are compared by it.
pub(crate) fn rule_name(rule: &Object<AgentTriggerRule>) -> String {
    format!("{}/{}", rule.metadata.namespace, rule.name())
}

fn is_same(key: &DedupeKey, polled: bool, earlier: &RecentExecution) -> bool {
    let Some(other) = earlier.dedupe_key.as_deref() else { return false };
    if key.key == other {
        return true;
    }
    let failures = Failure::parse(&key.key, polled).zip(Failure::parse(other, earlier.polled));
    key.failure.is_some() && failures.is_some_and(|(one, two)| one.is(&two))
}

/// Whether an execution had an effect: only then, another one is a repetition.
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

/// The names in a template that make a key unbounded, or different each time.
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

/// The faults of a rule's dedupe policy.
pub fn faults(rule: &AgentTriggerRule) -> Vec<TemplateError> {
    let Some(policy) = &rule.dedupe_policy else { return Vec::new() };
    let mut faults = Vec::new();
    let window = policy.window.millis();
    if window == 0 || window > MAX_WINDOW_MILLIS {
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
