//! A dry run of a rule with an event, as `trigger test` shows it.

use bailiwick_resources::{
    AgentTriggerRule, ContextSource, ExecutionDecision, LifecycleState, Moment, Object, TrustTier,
};
use serde::Serialize;

use super::concurrency::{self, GroupDecision};
use super::dedupe;
use super::draft::written;
use super::event::SourceEvent;
use super::lifecycle;
use super::matcher::{self, MatchReport};
use super::plan::{EventContext, Intent, judge};
use super::prompt::{self, RenderedPrompt};
use super::template::TemplateContext;

/// The result of a dry run, without the permission review.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    pub rule: String,
    pub generation: u64,
    /// Whether the rule has the event's source.
    pub source_agrees: bool,
    /// Field by field.
    pub matcher: MatchReport,
    /// The faults of the matcher, if it cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matcher_faults: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<RenderedPrompt>,
    /// Why there is no prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_fault: Option<String>,
    /// The sources that would be attached.
    pub context: Vec<ContextPlan>,
    /// The maximum size of the context, in bytes.
    pub context_max_bytes: u64,
    /// The key that identifies equal events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// Why there is no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe_fault: Option<String>,
    /// The execution that it is the same as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_group: Option<String>,
    /// The decision within its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<GroupDecision>,
    /// How much it is trusted.
    pub trust_tier: TrustTier,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distrust: Option<String>,
    /// Whether the rule is active; a dry run evaluates it in any case.
    pub lifecycle: String,
    /// The decision; none if the rule does not match the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<ExecutionDecision>,
    /// Why.
    pub reason: String,
    /// The actions that would be taken, as sentences.
    pub expected_actions: Vec<String>,
}

/// One thing that would be attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextPlan {
    pub source: ContextSource,
    /// Its origin.
    pub from: String,
    /// Whether the event has enough data to get it.
    pub available: bool,
    /// Its maximum size in bytes.
    pub limit: u64,
}

/// Tries a rule on an event.
pub fn dry_run(
    event: &SourceEvent,
    rule: &Object<AgentTriggerRule>,
    seen: &EventContext,
    now: Moment,
) -> DryRun {
    let mut event = event.clone();
    event.mark_agent(&seen.own_accounts);
    let spec = &rule.spec;
    let name = rule.name();
    let (matcher, matcher_faults) = match matcher::compile(&spec.matcher) {
        Ok(compiled) => (compiled.matches(&event), Vec::new()),
        Err(faults) => (
            MatchReport { matched: false, fields: Vec::new() },
            faults.into_iter().map(|(reason, why)| format!("{}: {why}", reason.as_str())).collect(),
        ),
    };
    let about = TemplateContext { rule: name, task_kind: &spec.task_kind, event: &event };
    let (prompt, prompt_fault) = split(prompt::render(&spec.prompt_template, &about));
    let (key, dedupe_fault) = split(dedupe::key(rule, &event));
    let group = concurrency::group(rule, &event).ok();
    let groups = concurrency::by_group(&seen.active);
    let active = group.as_ref().and_then(|group| groups.get(group));
    let active = active.map(Vec::as_slice).unwrap_or_default();
    let active = concurrency::counted(&spec.concurrency_policy, active);
    let concurrency =
        group.as_ref().map(|_| concurrency::decide(&spec.concurrency_policy, &active));
    let source_agrees = spec.sources.contains(&event.source);
    let mut as_if = rule.clone();
    as_if.spec.lifecycle_state = LifecycleState::Active;
    let planned = source_agrees
        .then(|| judge(&event, &as_if, seen, &groups, Intent::Deliver, now))
        .flatten()
        .map(|judgement| judgement.into_plan(&event, &as_if, seen, now));
    let reason = match &planned {
        Some(planned) => planned.execution.reason.clone(),
        None if source_agrees => format!("the rule does not mean it: {}", matcher.objections()),
        None => format!("the rule does not have the source `{}`", event.source.as_str()),
    };
    let mut expected_actions = Vec::new();
    if let Some(planned) = &planned {
        expected_actions.extend(planned.cancel.iter().map(|run| format!("cancel run {run}")));
        if let Some(run) = &planned.run {
            expected_actions.extend(actions(rule, run));
        }
    }
    DryRun {
        rule: name.to_owned(),
        generation: rule.metadata.generation,
        source_agrees,
        matcher,
        matcher_faults,
        prompt,
        prompt_fault,
        context: context_plan(spec, &event),
        context_max_bytes: spec.context_bundle_template.max_bytes,
        duplicate_of: key
            .as_ref()
            .and_then(|key| dedupe::duplicate(rule, key, &event, seen, now))
            .map(|earlier| earlier.name.clone()),
        dedupe_key: key.map(|key| key.key),
        dedupe_fault,
        concurrency_group: group,
        concurrency,
        trust_tier: event.trust_tier.min(seen.repository_trust),
        distrust: event.distrust.clone(),
        lifecycle: lifecycle::word(spec.lifecycle_state).to_owned(),
        decision: planned.as_ref().map(|planned| planned.execution.decision),
        reason,
        expected_actions,
    }
}

fn split<T>(result: Result<T, super::template::TemplateError>) -> (Option<T>, Option<String>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(format!("{}: {}", error.reason.as_str(), error.message))),
    }
}

fn actions(rule: &Object<AgentTriggerRule>, run: &super::plan::RunDraft) -> Vec<String> {
    let spec = &run.spec;
    let mut actions = vec![format!(
        "make run {} of stack {} for {} at {}",
        run.name, spec.agent_stack, spec.task_kind, spec.sha
    )];
    match &run.forced_untrusted {
        Some(why) => actions.push(format!("an untrusted pool is forced: {why}")),
        None if spec.runner_pool.is_empty() => actions.push("the stack names the pool".to_owned()),
        None => actions.push(format!("it is executed in pool {}", spec.runner_pool)),
    }
    if !run.queue_behind.is_empty() {
        actions.push(format!("it waits for {}", run.queue_behind.join(", ")));
    }
    if let Some(item) = &spec.source_refs.work_item {
        actions.push(format!("link work item {item}"));
    }
    match &rule.spec.write_back_policy {
        Some(policy) => {
            for target in &policy.allowed_targets {
                actions.push(format!("may write back: {}", written(target)));
            }
        }
        None => actions.push("what may be written back is the stack's to say".to_owned()),
    }
    actions
}

const EXCERPT_BYTES: u64 = 256 * 1024;

fn context_plan(rule: &AgentTriggerRule, event: &SourceEvent) -> Vec<ContextPlan> {
    let pull_request = event.pull_request.map(|number| format!("pull request #{number}"));
    let commit = event.sha.as_ref().map(|sha| format!("commit {sha}"));
    let plan = |source: &ContextSource| {
        let (from, limit) = match source {
            ContextSource::ChangedFiles => (pull_request.clone().or(commit.clone()), 64 * 1024),
            ContextSource::Diff => (pull_request.clone().or(commit.clone()), EXCERPT_BYTES),
            ContextSource::FailingJobLog => {
                let known =
                    event.failure_log.as_ref().map(|_| "the log that was fetched".to_owned());
                (
                    known.or_else(|| event.job_id.as_ref().map(|id| format!("job {id}"))),
                    EXCERPT_BYTES,
                )
            }
            ContextSource::PullRequestSummary => (pull_request.clone(), 64 * 1024),
            ContextSource::IssueSummary => {
                (event.issue.map(|number| format!("issue #{number}")), 64 * 1024)
            }
            ContextSource::RecentCommits => (commit.clone(), 64 * 1024),
            ContextSource::RepositoryInstructions => (commit.clone(), 64 * 1024),
            ContextSource::EventPayload => {
                let sent = !event.payload.is_null();
                (sent.then(|| format!("event {}", event.uid)), EXCERPT_BYTES)
            }
        };
        let available = from.is_some();
        let from = from.unwrap_or_else(|| "the event does not say".to_owned());
        let limit = limit.min(rule.context_bundle_template.max_bytes);
        ContextPlan { source: *source, from, available, limit }
    };
    rule.context_bundle_template.include.iter().map(plan).collect()
}
