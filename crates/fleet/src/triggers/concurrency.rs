//! Concurrency groups: what happens to a new run while others of its group are active.

use std::collections::BTreeMap;

use bailiwick_resources::{
    AgentTriggerRule, ConcurrencyMode, ConcurrencyPolicy, EventSource, Object, Reason, TrustTier,
};
use serde::Serialize;

use super::dedupe::unstable;
use super::event::SourceEvent;
use super::template::{TemplateContext, TemplateError, names_used, render_key};
use super::text::key_part;

/// A run that is not at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveRun {
    pub name: String,
    pub group: String,
    /// Whether its agent has ended: its work waits to be written, and new events cannot influence it.
    pub agent_has_ended: bool,
}

/// The decision about an event within its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "decision")]
pub enum GroupDecision {
    /// There is room.
    Start,
    /// A run is created that starts when these have ended.
    Queue {
        /// Active runs, oldest first.
        behind: Vec<String>,
    },
    /// It joins a run.
    Join { run: String },
    /// A run is created, and these are cancelled.
    Replace {
        /// Those that have to go, the oldest first.
        cancel: Vec<String>,
    },
    /// It is refused.
    Refuse {
        /// Active runs.
        active: Vec<String>,
    },
}

/// The group of an event. Groups of different namespaces never meet.
pub fn group(
    rule: &Object<AgentTriggerRule>,
    event: &SourceEvent,
) -> Result<String, TemplateError> {
    // An untrusted event neither cancels nor absorbs trusted runs.
    let tier = match event.trust_tier {
        TrustTier::Trusted => "",
        TrustTier::Untrusted => "untrusted:",
    };
    let namespace = format!("{tier}{}", key_part(&rule.metadata.namespace));
    if let Some(template) = &rule.spec.concurrency_policy.group {
        let task_kind = &rule.spec.task_kind;
        let about = TemplateContext { rule: rule.name(), task_kind, event };
        return Ok(format!("{namespace}:group:{}", render_key(template, &about)?));
    }
    let about = match (event.pull_request, event.issue, &event.tag, &event.branch) {
        (Some(number), _, _, _) => format!("pr{number}"),
        (None, Some(number), _, _) => format!("issue{number}"),
        (None, None, Some(tag), _) => format!("tag:{}", key_part(tag)),
        (None, None, None, Some(branch)) => format!("branch:{}", key_part(branch)),
        (None, None, None, None) => "-".to_owned(),
    };
    let repository = key_part(&event.repository.to_lowercase());
    Ok(format!("{namespace}:rule:{}:{repository}:{about}", key_part(rule.name())))
}

/// How many runs of a group may be active; nothing means no limit.
pub fn limit(policy: &ConcurrencyPolicy) -> Option<usize> {
    let given = policy.max_active.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    match policy.mode {
        ConcurrencyMode::Queue => given,
        ConcurrencyMode::Coalesce | ConcurrencyMode::CancelPrevious | ConcurrencyMode::Reject => {
            Some(given.unwrap_or(1))
        }
    }
}

/// Runs by their groups, in the order in which they are given.
pub(super) fn by_group(runs: &[ActiveRun]) -> BTreeMap<String, Vec<ActiveRun>> {
    let mut groups: BTreeMap<String, Vec<ActiveRun>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.group.clone()).or_default().push(run.clone());
    }
    groups
}

/// The runs of a group that count for the next event. To join, wait for or replace a run, its agent must not have
/// ended; a later run also replaces work that waits to be written.
pub fn counted(policy: &ConcurrencyPolicy, unfinished: &[ActiveRun]) -> Vec<String> {
    let counts = |run: &&ActiveRun| match policy.mode {
        ConcurrencyMode::Coalesce | ConcurrencyMode::Queue | ConcurrencyMode::Reject => {
            !run.agent_has_ended
        }
        ConcurrencyMode::CancelPrevious => true,
    };
    unfinished.iter().filter(counts).map(|run| run.name.clone()).collect()
}

/// The decision about the next event of a group; `active` are the runs that count, oldest first.
pub fn decide(policy: &ConcurrencyPolicy, active: &[String]) -> GroupDecision {
    let Some(most) = limit(policy) else { return GroupDecision::Start };
    if active.len() < most {
        return GroupDecision::Start;
    }
    match (policy.mode, active.last()) {
        (ConcurrencyMode::Queue, _) => GroupDecision::Queue { behind: active.to_vec() },
        (ConcurrencyMode::Coalesce, Some(newest)) => GroupDecision::Join { run: newest.clone() },
        (ConcurrencyMode::CancelPrevious, _) if most > 0 => {
            let over = active.len() + 1 - most;
            GroupDecision::Replace { cancel: active.iter().take(over).cloned().collect() }
        }
        // A limit of none at all: nothing starts.
        (
            ConcurrencyMode::Coalesce | ConcurrencyMode::CancelPrevious | ConcurrencyMode::Reject,
            _,
        ) => GroupDecision::Refuse { active: active.to_vec() },
    }
}

/// Whether events of a source always are about a pull request, an issue, a branch or a tag.
fn has_target(source: EventSource) -> bool {
    match source {
        EventSource::Ci
        | EventSource::IssueComment
        | EventSource::PrComment
        | EventSource::Label
        | EventSource::Push
        | EventSource::Tag => true,
        EventSource::Webhook
        | EventSource::Schedule
        | EventSource::Manual
        | EventSource::RepositoryDispatch => false,
    }
}

/// The faults of a rule's concurrency policy.
pub fn faults(rule: &AgentTriggerRule) -> Vec<TemplateError> {
    let policy = &rule.concurrency_policy;
    let fault = |reason, message: &str| TemplateError::new(reason, message);
    let conflict = |message: &str| fault(Reason::ConflictingConcurrencyPolicy, message);
    let mut faults = Vec::new();
    if policy.max_active == Some(0) {
        faults.push(conflict("concurrencyPolicy.maxActive: with 0 nothing would ever start"));
    }
    if policy.mode == ConcurrencyMode::Queue
        && policy.group.is_some()
        && policy.max_active.is_none()
    {
        let message = "concurrencyPolicy: a group that queues needs maxActive, or nothing waits";
        faults.push(conflict(message));
    }
    if let Some(template) = &policy.group {
        if let Some(mut error) = unstable(template) {
            error.message = format!("concurrencyPolicy.group: {}", error.message);
            faults.push(error);
        }
        let by_commit = names_used(template).iter().any(|name| name == "event.sha");
        if by_commit && policy.mode == ConcurrencyMode::CancelPrevious {
            let message =
                "concurrencyPolicy: a group for each commit has no previous run to cancel";
            faults.push(conflict(message));
        }
    }
    let untold = rule.sources.iter().find(|source| !has_target(**source));
    if policy.mode == ConcurrencyMode::Coalesce
        && policy.group.is_none()
        && let Some(source) = untold
    {
        let message = format!(
            "concurrencyPolicy: events of `{}` need not be about a pull request, an issue or a \
             branch; name a group to coalesce in",
            source.as_str()
        );
        faults.push(TemplateError::new(Reason::MissingCoalescingTarget, message));
    }
    faults
}
