//! Plans what rules do with an event: records to write, runs to create, runs to cancel. Pure: the same event in the
//! same state gives the same plan, and a performed plan is not planned again.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, AgentTriggerRule, EventSource, ExecutionDecision,
    Moment, Object, Reason, TrustTier, WorkItemMode,
};

use super::concurrency::{self, ActiveRun, GroupDecision};
use super::dedupe::{self, DedupeKey};
use super::draft;
use super::event::SourceEvent;
use super::lifecycle;
use super::matcher::{self, MatchReport};
use super::names::timed_name;
use super::own_work::{self, OwnWork};
use super::prompt::{self, RenderedPrompt};
use super::template::{TemplateContext, TemplateError};

/// The stored state when an event is evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventContext {
    /// How much the repository's own branches are trusted.
    pub repository_trust: TrustTier,
    /// The branch of what names none.
    pub default_branch: String,
    /// Our own accounts on the forge.
    pub own_accounts: Vec<String>,
    /// The run whose work the events are about.
    pub own_work: Option<OwnWork>,
    /// Executions that are recorded already, of those in `required_lookups`.
    pub recorded: BTreeSet<String>,
    /// Executions with the keys in `required_lookups`.
    pub recent: Vec<RecentExecution>,
    /// Runs of the groups in `required_lookups` that are not at their end, the oldest first.
    pub active: Vec<ActiveRun>,
}

/// An execution that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentExecution {
    pub name: String,
    /// The rule, with its namespace.
    pub rule: String,
    /// The ID of its event.
    pub event_uid: String,
    /// Its key.
    pub dedupe_key: Option<String>,
    /// How much it was trusted.
    pub trust_tier: TrustTier,
    /// Whether its event was polled.
    pub polled: bool,
    /// The decision.
    pub decision: ExecutionDecision,
    /// When.
    pub at: Moment,
    pub run: Option<String>,
}

/// Why an event is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// A delivery arrived.
    Deliver,
    /// A person replays it: duplicates are allowed.
    Replay,
    /// A person requested a work item, and no run.
    Materialize,
}

/// What to look up before `evaluate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequiredLookups {
    /// Names that executions would have.
    pub executions: BTreeSet<String>,
    /// Keys that they would have.
    pub dedupe_keys: BTreeSet<String>,
    /// The events themselves, by what they are recognised by.
    pub events: BTreeSet<String>,
    /// Failures that executions may describe in other ways.
    pub failures: BTreeSet<String>,
    /// Groups that runs would have.
    pub groups: BTreeSet<String>,
}

/// The plan of a rule for an event.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedExecution {
    /// The execution's name: the same for the same event, rule, generation and key.
    pub name: String,
    /// The namespace of the rule, and of all created objects.
    pub namespace: String,
    /// The execution. The one who admits the run adds the digests and may let it wait for a person.
    pub execution: AgentTriggerExecution,
    /// The run to create.
    pub run: Option<RunDraft>,
    /// Runs to be cancelled, the oldest first.
    pub cancel: Vec<String>,
}

/// A run to create.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDraft {
    /// Its name, derived from the execution's.
    pub name: String,
    /// Its spec. The pool is the rule's and may be empty; admission decides.
    pub spec: AgentDispatchRun,
    /// The prompt, and what of it is data; its text is the spec's task.
    pub prompt: RenderedPrompt,
    /// That its pool must be an untrusted one, and why.
    pub forced_untrusted: Option<String>,
    /// Runs of its group that must end before it begins.
    pub queue_behind: Vec<String>,
    /// How many runs of its group may be active.
    pub most_active: Option<usize>,
}

pub(super) fn execution_name(
    event: &SourceEvent,
    rule: &Object<AgentTriggerRule>,
    key: &str,
) -> String {
    let metadata = &rule.metadata;
    let (namespace, name, generation) = (&metadata.namespace, &metadata.name, metadata.generation);
    let uid = &event.uid;
    timed_name("ate", event.at, &format!("{uid}\n{namespace}/{name}\n{generation}\n{key}"))
}

/// The name of the run of an execution.
pub fn run_name(execution: &str, at: Moment) -> String {
    timed_name("adr", at, &format!("run of {execution}"))
}

/// The event of a delivery that concerns a rule: the first one with its source.
fn concerning<'a>(events: &'a [SourceEvent], rule: &AgentTriggerRule) -> Option<&'a SourceEvent> {
    events.iter().find(|event| rule.sources.contains(&event.source))
}

/// The executions and runs that must be looked up before these events can be evaluated.
pub fn required_lookups(
    events: &[SourceEvent],
    rules: &[Object<AgentTriggerRule>],
) -> RequiredLookups {
    let mut lookups = RequiredLookups::default();
    for rule in rules {
        let Some(event) = concerning(events, &rule.spec) else { continue };
        lookups.events.insert(event.uid.clone());
        let key = dedupe::key(rule, event).ok();
        let text = key.as_ref().map_or("-", |key| key.key.as_str());
        lookups.executions.insert(execution_name(event, rule, text));
        if let Some(key) = key {
            lookups.failures.extend(key.failure);
            lookups.dedupe_keys.insert(key.key);
        }
        lookups.groups.extend(concurrency::group(rule, event).ok());
    }
    lookups
}

/// Whether `evaluate` can have an effect for these events in any state: a rule matches one of them, or is invalid
/// and reports it.
pub fn may_match(
    events: &[SourceEvent],
    rules: &[Object<AgentTriggerRule>],
    own_accounts: &[String],
) -> bool {
    rules.iter().any(|rule| {
        concerning(events, &rule.spec).is_some_and(|event| {
            let mut event = event.clone();
            event.mark_agent(own_accounts);
            let compiled = matcher::compile(&rule.spec.matcher);
            compiled.map_or(true, |compiled| compiled.matches(&event).matched)
        })
    })
}

/// Evaluates the events of one delivery, tick or request. A rule evaluates at most one of them, and a rule that does
/// not match has no record.
pub fn evaluate(
    events: &[SourceEvent],
    rules: &[Object<AgentTriggerRule>],
    seen: &EventContext,
    intent: Intent,
    now: Moment,
) -> Vec<PlannedExecution> {
    let mut groups = concurrency::by_group(&seen.active);
    let mut planned = Vec::new();
    for rule in rules {
        let Some(event) = concerning(events, &rule.spec) else { continue };
        let mut event = event.clone();
        event.mark_agent(&seen.own_accounts);
        let judgement = judge(&event, rule, seen, &groups, intent, now);
        let Some(plan) = judgement.map(|judgement| judgement.into_plan(&event, rule, seen, now))
        else {
            continue;
        };
        let recent = seen.recent.iter().any(|execution| execution.name == plan.name);
        if recent || seen.recorded.contains(&plan.name) {
            continue;
        }
        // A planned run counts for the next rule of the same group.
        for active in groups.values_mut() {
            active.retain(|run| !plan.cancel.contains(&run.name));
        }
        if let Some(run) = &plan.run {
            let group = run.spec.concurrency_group.clone().unwrap_or_default();
            let made = ActiveRun { name: run.name.clone(), group, agent_has_ended: false };
            groups.entry(made.group.clone()).or_default().push(made);
        }
        planned.push(plan);
    }
    planned
}

/// The decision about an event that a rule matches.
#[derive(Debug, Clone)]
pub(super) struct Judgement {
    pub(super) matched: MatchReport,
    pub(super) key: Result<DedupeKey, TemplateError>,
    pub(super) group: Result<String, TemplateError>,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Start { prompt: RenderedPrompt, group: GroupDecision },
    Join { run: String },
    Duplicate { of: String, run: Option<String> },
    Refused { why: String },
    WorkItem,
}

fn refused(code: &str, why: impl std::fmt::Display) -> Outcome {
    Outcome::Refused { why: format!("{code}: {why}") }
}

fn faulty(error: &TemplateError) -> Outcome {
    refused(error.reason.as_str(), &error.message)
}

/// Nothing if the rule does not mean the event.
pub(super) fn judge(
    event: &SourceEvent,
    rule: &Object<AgentTriggerRule>,
    seen: &EventContext,
    groups: &BTreeMap<String, Vec<ActiveRun>>,
    intent: Intent,
    now: Moment,
) -> Option<Judgement> {
    let key = dedupe::key(rule, event);
    let group = concurrency::group(rule, event);
    let matched = match matcher::compile(&rule.spec.matcher) {
        Ok(compiled) => compiled.matches(event),
        Err(faults) => {
            let (reason, message) =
                faults.into_iter().next().unwrap_or((Reason::InvalidGlob, String::new()));
            let outcome = refused(reason.as_str(), message);
            let matched = MatchReport { matched: false, fields: Vec::new() };
            return Some(Judgement { matched, key, group, outcome });
        }
    };
    if !matched.matched {
        return None;
    }
    let outcome = outcome(event, rule, seen, groups, intent, now, &key, &group);
    Some(Judgement { matched, key, group, outcome })
}

#[expect(clippy::too_many_arguments, reason = "what a decision depends on, each by its name")]
fn outcome(
    event: &SourceEvent,
    rule: &Object<AgentTriggerRule>,
    seen: &EventContext,
    groups: &BTreeMap<String, Vec<ActiveRun>>,
    intent: Intent,
    now: Moment,
    key: &Result<DedupeKey, TemplateError>,
    group: &Result<String, TemplateError>,
) -> Outcome {
    let spec = &rule.spec;
    if intent == Intent::Materialize {
        return match (spec.work_item, draft::work_item(event)) {
            (WorkItemMode::Create | WorkItemMode::OpenIssue, _) | (WorkItemMode::Link, Some(_)) => {
                Outcome::WorkItem
            }
            (WorkItemMode::None, _) => {
                refused("NothingToMaterialize", "the rule neither makes nor links work items")
            }
            (WorkItemMode::Link, None) => {
                let why = "the event is about no issue, pull request, check or release, and the rule \
                           only links; say `workItem: create` and a card is made";
                refused("NothingToMaterialize", why)
            }
        };
    }
    if let Err((reason, why)) = lifecycle::may_dispatch(spec.lifecycle_state) {
        return refused(reason.as_str(), why);
    }
    if event.source == EventSource::Label && !spec.allow_label_dispatch {
        let why = "a label alone starts nothing unless allowLabelDispatch says so";
        return refused("LabelDispatchOff", why);
    }
    if let Some((code, why)) = own_work::objection(event, spec, seen.own_work.as_ref()) {
        return refused(code, why);
    }
    let unbounded = dedupe::faults(spec).into_iter().chain(concurrency::faults(spec)).next();
    if let Some(fault) = unbounded {
        return faulty(&fault);
    }
    let (key, group) = match (key, group) {
        (Ok(key), Ok(group)) => (key, group),
        (Err(error), _) | (_, Err(error)) => return faulty(error),
    };
    if intent == Intent::Deliver
        && let Some(earlier) = dedupe::duplicate(rule, key, event, seen, now)
    {
        return Outcome::Duplicate { of: earlier.name.clone(), run: earlier.run.clone() };
    }
    if event.sha.is_none() {
        let why = "its commit is not known: the forge does not name it";
        return refused("CommitUnknown", why);
    }
    let about = TemplateContext { rule: rule.name(), task_kind: &spec.task_kind, event };
    let prompt = match prompt::render(&spec.prompt_template, &about) {
        Ok(prompt) => prompt,
        Err(error) => return faulty(&error),
    };
    let active = groups.get(group).map(Vec::as_slice).unwrap_or_default();
    let active = concurrency::counted(&spec.concurrency_policy, active);
    match concurrency::decide(&spec.concurrency_policy, &active) {
        GroupDecision::Join { run } => Outcome::Join { run },
        GroupDecision::Refuse { active } => {
            let why = format!("{} already active in its group", active.join(", "));
            refused("ConcurrencyLimit", why)
        }
        group @ (GroupDecision::Start
        | GroupDecision::Queue { .. }
        | GroupDecision::Replace { .. }) => Outcome::Start { prompt, group },
    }
}
