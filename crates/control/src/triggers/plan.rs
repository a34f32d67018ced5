//! What rules do with an event: records to be written, runs to be made, runs to be cancelled. Pure: the
//! same event with the same world gives the same plan, and a plan that was carried out is not made again.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_model::fleet::{
    AgentDispatchRun, AgentTriggerExecution, AgentTriggerRule, EventSource, ExecutionDecision,
    Moment, Object, Reason, SourceEventRef, SourceRefs, TrustTier, WorkItemMode,
};

use super::concurrency::{self, ActiveRun, GroupDecision};
use super::dedupe::{self, DedupeKey};
use super::event::SourceEvent;
use super::lifecycle;
use super::matcher::{self, MatchReport};
use super::names::timed_name;
use super::prompt::{self, RenderedPrompt};
use super::template::{TemplateContext, TemplateError};

/// What is known when an event is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// How much the repository's own branches are trusted.
    pub repository_trust: TrustTier,
    /// The branch of what names none.
    pub default_branch: String,
    /// Our own accounts on the forge.
    pub own_accounts: Vec<String>,
    /// Executions that are recorded already, of those in `interests`.
    pub recorded: BTreeSet<String>,
    /// Executions with the keys in `interests`.
    pub recent: Vec<RecentExecution>,
    /// Runs of the groups in `interests` that are not at their end, the oldest first.
    pub active: Vec<ActiveRun>,
}

/// An execution that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentExecution {
    /// Its name.
    pub name: String,
    /// Its key.
    pub dedupe_key: Option<String>,
    /// What was decided.
    pub decision: ExecutionDecision,
    /// When.
    pub at: Moment,
    /// Its run.
    pub run: Option<String>,
}

/// Why an event is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// It came in.
    Deliver,
    /// A person wants it looked at again: that it came before does not matter.
    Replay,
    /// A person wants a work item made of it, and no run.
    Materialize,
}

/// What to look up before `evaluate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interests {
    /// Names that executions would have.
    pub executions: BTreeSet<String>,
    /// Keys that they would have.
    pub dedupe_keys: BTreeSet<String>,
    /// Groups that runs would have.
    pub groups: BTreeSet<String>,
}

/// What a rule does with an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The execution's name: the same for the same event, rule, generation and key.
    pub name: String,
    /// The namespace of the rule, and of all that is made.
    pub namespace: String,
    /// The execution. Whoever admits the run adds the digests and may let it wait for a person.
    pub execution: AgentTriggerExecution,
    /// The run to be made.
    pub run: Option<RunDraft>,
    /// Runs to be cancelled, the oldest first.
    pub cancel: Vec<String>,
}

/// A run to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDraft {
    /// Its name, made from the execution's.
    pub name: String,
    /// What it is. The pool is the rule's and may be empty; admission has the last word.
    pub spec: AgentDispatchRun,
    /// The prompt, and what of it is data; its text is the spec's task.
    pub prompt: RenderedPrompt,
    /// That its pool must be an untrusted one, and why.
    pub forced_untrusted: Option<String>,
    /// Runs of its group that must end before it begins.
    pub queue_behind: Vec<String>,
    /// How many of its group may be at work.
    pub most_active: Option<usize>,
}

/// The name of an execution.
fn execution_name(event: &SourceEvent, rule: &Object<AgentTriggerRule>, key: &str) -> String {
    let metadata = &rule.metadata;
    let (namespace, name, generation) = (&metadata.namespace, &metadata.name, metadata.generation);
    let uid = &event.uid;
    timed_name("ate", event.at, &format!("{uid}\n{namespace}/{name}\n{generation}\n{key}"))
}

/// The name of the run that an execution makes.
pub fn run_name(execution: &str, at: Moment) -> String {
    timed_name("adr", at, &format!("run of {execution}"))
}

/// The event of a delivery that a rule looks at: the first whose source it has.
fn concerning<'a>(events: &'a [SourceEvent], rule: &AgentTriggerRule) -> Option<&'a SourceEvent> {
    events.iter().find(|event| rule.sources.contains(&event.source))
}

/// What has to be known of executions and runs before these events can be judged.
pub fn interests(events: &[SourceEvent], rules: &[Object<AgentTriggerRule>]) -> Interests {
    let mut interests = Interests::default();
    for rule in rules {
        let Some(event) = concerning(events, &rule.spec) else { continue };
        let name = rule.name();
        let key = dedupe::key(name, &rule.spec, event).ok().map(|key| key.key);
        let text = key.as_deref().unwrap_or("-");
        interests.executions.insert(execution_name(event, rule, text));
        interests.dedupe_keys.extend(key);
        interests.groups.extend(concurrency::group(name, &rule.spec, event).ok());
    }
    interests
}

/// What the rules do with the events of one delivery, one tick or one request. A rule looks at one of
/// them at most, and a rule that does not match leaves no trace.
pub fn evaluate(
    events: &[SourceEvent],
    rules: &[Object<AgentTriggerRule>],
    seen: &Seen,
    intent: Intent,
    now: Moment,
) -> Vec<Planned> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for run in &seen.active {
        groups.entry(run.group.clone()).or_default().push(run.name.clone());
    }
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
        if seen.recorded.contains(&plan.name) {
            continue;
        }
        // What is planned here counts for the next rule of the same group.
        for active in groups.values_mut() {
            active.retain(|run| !plan.cancel.contains(run));
        }
        if let Some(run) = &plan.run {
            let group = run.spec.concurrency_group.clone().unwrap_or_default();
            groups.entry(group).or_default().push(run.name.clone());
        }
        planned.push(plan);
    }
    planned
}

/// What becomes of an event under a rule that means it.
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
    seen: &Seen,
    groups: &BTreeMap<String, Vec<String>>,
    intent: Intent,
    now: Moment,
) -> Option<Judgement> {
    let name = rule.name();
    let key = dedupe::key(name, &rule.spec, event);
    let group = concurrency::group(name, &rule.spec, event);
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
    seen: &Seen,
    groups: &BTreeMap<String, Vec<String>>,
    intent: Intent,
    now: Moment,
    key: &Result<DedupeKey, TemplateError>,
    group: &Result<String, TemplateError>,
) -> Outcome {
    let spec = &rule.spec;
    if intent == Intent::Materialize {
        return Outcome::WorkItem;
    }
    if let Err((reason, why)) = lifecycle::may_dispatch(spec.lifecycle_state) {
        return refused(reason.as_str(), why);
    }
    if event.source == EventSource::Label && !spec.allow_label_dispatch {
        let why = "a label alone starts nothing unless allowLabelDispatch says so";
        return refused("LabelDispatchOff", why);
    }
    let speaks = match event.source {
        EventSource::IssueComment | EventSource::PrComment | EventSource::Label => true,
        EventSource::Ci
        | EventSource::Webhook
        | EventSource::Push
        | EventSource::Tag
        | EventSource::Schedule
        | EventSource::Manual
        | EventSource::RepositoryDispatch => false,
    };
    if event.by_agent && speaks {
        return refused("OwnAccount", "an agent's own words start nothing");
    }
    let (key, group) = match (key, group) {
        (Ok(key), Ok(group)) => (key, group),
        (Err(error), _) | (_, Err(error)) => return faulty(error),
    };
    if intent == Intent::Deliver
        && let Some(earlier) = dedupe::duplicate(key, &seen.recent, now)
    {
        return Outcome::Duplicate { of: earlier.name.clone(), run: earlier.run.clone() };
    }
    if event.sha.is_none() {
        let why = "nobody knows which commit it is about: the forge did not say";
        return refused("CommitUnknown", why);
    }
    let about = TemplateContext { rule: rule.name(), task_kind: &spec.task_kind, event };
    let prompt = match prompt::render(&spec.prompt_template, &about) {
        Ok(prompt) => prompt,
        Err(error) => return faulty(&error),
    };
    let active = groups.get(group).map(Vec::as_slice).unwrap_or_default();
    match concurrency::decide(&spec.concurrency_policy, active) {
        GroupDecision::Join { run } => Outcome::Join { run },
        GroupDecision::Refuse { active } => {
            let why = format!("{} at work in its group already", active.join(", "));
            refused("ConcurrencyLimit", why)
        }
        group @ (GroupDecision::Start
        | GroupDecision::Queue { .. }
        | GroupDecision::Replace { .. }) => Outcome::Start { prompt, group },
    }
}

impl Judgement {
    pub(super) fn into_plan(
        self,
        event: &SourceEvent,
        rule: &Object<AgentTriggerRule>,
        seen: &Seen,
        now: Moment,
    ) -> Planned {
        let key = self.key.ok().map(|key| key.key);
        let name = execution_name(event, rule, key.as_deref().unwrap_or("-"));
        let trust_tier = event.trust_tier.min(seen.repository_trust);
        let mut matched = vec![format!("source: {}", event.source.as_str())];
        matched.extend(self.matched.agreements());
        let mut execution = AgentTriggerExecution {
            trigger_rule: rule.name().to_owned(),
            rule_generation: rule.metadata.generation,
            source: event.source,
            event_uid: event.uid.clone(),
            source_refs: source_refs(event, rule.spec.work_item),
            trust_tier,
            decision: ExecutionDecision::Rejected,
            reason: String::new(),
            matched,
            dedupe_key: key,
            duplicate_of: None,
            approval_decision: None,
            context_bundle_digest: None,
            stack_digest: None,
            dispatch_run: None,
            at: now,
        };
        let mut run = None;
        let mut cancel = Vec::new();
        match self.outcome {
            Outcome::Refused { why } => execution.reason = why,
            Outcome::WorkItem => {
                execution.decision = ExecutionDecision::Materialized;
                "a person asked for a work item without a run".clone_into(&mut execution.reason);
            }
            Outcome::Join { run } => {
                execution.decision = ExecutionDecision::Coalesced;
                execution.reason = format!("it joins {run}, which is at work in its group");
                execution.dispatch_run = Some(run);
            }
            Outcome::Duplicate { of, run } => {
                execution.decision = ExecutionDecision::Deduplicated;
                execution.reason = format!("it is the same as {of}");
                execution.duplicate_of = Some(of);
                execution.dispatch_run = run;
            }
            Outcome::Start { prompt, group } => {
                execution.decision = ExecutionDecision::Created;
                execution.reason = started(&group);
                execution.approval_decision = Some(approval(&rule.spec));
                let made = RunDraft::new(&name, event, rule, seen, trust_tier, prompt).in_group(
                    self.group.unwrap_or_default(),
                    &rule.spec,
                    &group,
                );
                if let GroupDecision::Replace { cancel: old } = group {
                    cancel = old;
                }
                execution.dispatch_run = Some(made.name.clone());
                run = Some(made);
            }
        }
        Planned { name, namespace: rule.metadata.namespace.clone(), execution, run, cancel }
    }
}

fn started(group: &GroupDecision) -> String {
    match group {
        GroupDecision::Queue { behind } => {
            format!("a run is made that waits for {}", behind.join(", "))
        }
        GroupDecision::Replace { cancel } => {
            format!("a run is made in place of {}", cancel.join(", "))
        }
        GroupDecision::Start | GroupDecision::Join { .. } | GroupDecision::Refuse { .. } => {
            "a run is made".to_owned()
        }
    }
}

/// A word of ours as resources write it.
pub(super) fn written<T: serde::Serialize>(word: &T) -> String {
    let text = serde_json::to_value(word).ok();
    text.as_ref().and_then(|text| text.as_str()).unwrap_or_default().to_owned()
}

fn approval(rule: &AgentTriggerRule) -> String {
    let asked = &rule.approval_policy.require_for;
    if asked.is_empty() {
        return "the rule asks nobody".to_owned();
    }
    let words: Vec<String> = asked.iter().map(written).collect();
    format!("a person is asked for {}", words.join(", "))
}

fn source_refs(event: &SourceEvent, mode: WorkItemMode) -> SourceRefs {
    let mut refs = event.source_refs.clone();
    refs.pull_request = event.pull_request;
    refs.issue = event.issue;
    if mode != WorkItemMode::None && refs.work_item.is_none() {
        let pull_request = event.pull_request.map(|number| format!("pull-request/{number}"));
        refs.work_item =
            pull_request.or_else(|| event.issue.map(|number| format!("issue/{number}")));
    }
    refs
}

impl RunDraft {
    fn new(
        execution: &str,
        event: &SourceEvent,
        rule: &Object<AgentTriggerRule>,
        seen: &Seen,
        trust_tier: TrustTier,
        prompt: RenderedPrompt,
    ) -> Self {
        let spec = &rule.spec;
        let mut refs = source_refs(event, spec.work_item);
        refs.trigger_execution = Some(execution.to_owned());
        let branch = event.branch.clone().or_else(|| {
            (event.tag.is_none() && event.pull_request.is_none())
                .then(|| seen.default_branch.clone())
        });
        let spec = AgentDispatchRun {
            repository: event.repository.clone(),
            reference: event.full_reference(&seen.default_branch),
            branch,
            sha: event.sha.clone().unwrap_or_default(),
            source_event: SourceEventRef {
                source: event.source,
                uid: event.uid.clone(),
                actor: event.actor.clone(),
            },
            source_refs: refs,
            agent_stack: spec.agent_stack.clone(),
            task_kind: spec.task_kind.clone(),
            trigger_rule: Some(rule.name().to_owned()),
            task: prompt.text.clone(),
            context_bundle_ref: None,
            workspace_ref: None,
            runner_pool: spec.runner_pool.clone().unwrap_or_default(),
            trust_tier,
            approval_policy: spec.approval_policy.clone(),
            write_back_policy: spec.write_back_policy.clone().unwrap_or_default(),
            parent_run: None,
            concurrency_group: None,
        };
        let forced_untrusted = (trust_tier == TrustTier::Untrusted).then(|| {
            let own = "the repository itself is not trusted".to_owned();
            event.distrust.clone().unwrap_or(own)
        });
        Self {
            name: run_name(execution, event.at),
            spec,
            prompt,
            forced_untrusted,
            queue_behind: Vec::new(),
            most_active: None,
        }
    }

    fn in_group(
        mut self,
        group: String,
        rule: &AgentTriggerRule,
        decision: &GroupDecision,
    ) -> Self {
        self.spec.concurrency_group = Some(group);
        self.most_active = concurrency::limit(&rule.concurrency_policy);
        if let GroupDecision::Queue { behind } = decision {
            self.queue_behind.clone_from(behind);
        }
        self
    }
}
