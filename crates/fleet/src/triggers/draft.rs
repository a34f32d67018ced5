//! The records of a decision: the execution, and the run that it creates.

use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, AgentTriggerRule, ExecutionDecision, Moment, Object,
    SourceEventRef, SourceRefs, TrustTier, WorkItemMode,
};

use super::concurrency::{self, GroupDecision};
use super::event::SourceEvent;
use super::plan::{
    EventContext, Judgement, Outcome, PlannedExecution, RunDraft, execution_name, run_name,
};
use super::prompt::RenderedPrompt;

impl Judgement {
    pub(super) fn into_plan(
        self,
        event: &SourceEvent,
        rule: &Object<AgentTriggerRule>,
        seen: &EventContext,
        now: Moment,
    ) -> PlannedExecution {
        let (key, failure_key) = match self.key {
            Ok(key) => (Some(key.key), key.failure),
            Err(_) => (None, None),
        };
        let name = execution_name(event, rule, key.as_deref().unwrap_or("-"));
        let trust_tier = event.trust_tier.min(seen.repository_trust);
        let mut matched = vec![format!("source: {}", event.source.as_str())];
        matched.extend(self.matched.agreements());
        let mut execution = AgentTriggerExecution {
            trigger_rule: rule.name().to_owned(),
            rule_generation: rule.metadata.generation,
            source: event.source,
            event_uid: event.uid.clone(),
            source_refs: source_refs(event, rule.spec.work_item, seen),
            trust_tier,
            decision: ExecutionDecision::Rejected,
            reason: String::new(),
            matched,
            dedupe_key: key,
            failure_key,
            duplicate_of: None,
            approval_decision: None,
            context_bundle_digest: None,
            stack_digest: None,
            dispatch_run: None,
            at: now,
        };
        let mut run = None;
        let mut cancel = Vec::new();
        let works = matches!(self.outcome, Outcome::WorkItem | Outcome::Start { .. });
        let creates = match rule.spec.work_item {
            WorkItemMode::Create | WorkItemMode::OpenIssue => true,
            WorkItemMode::Link | WorkItemMode::None => false,
        };
        if works && creates {
            // The execution is the card: one for each event with an effect.
            execution.source_refs.work_item.get_or_insert_with(|| format!("card/{name}"));
        }
        match self.outcome {
            Outcome::Refused { why } => execution.reason = why,
            Outcome::WorkItem => {
                execution.decision = ExecutionDecision::Materialized;
                "a person asked for a work item without a run".clone_into(&mut execution.reason);
            }
            Outcome::Join { run } => {
                execution.decision = ExecutionDecision::Coalesced;
                execution.reason = format!("it joins {run}, which is active in its group");
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
                let mut made = RunDraft::new(&name, event, rule, seen, trust_tier, prompt)
                    .in_group(self.group.unwrap_or_default(), &rule.spec, &group);
                made.spec.source_refs.work_item.clone_from(&execution.source_refs.work_item);
                if let GroupDecision::Replace { cancel: old } = group {
                    cancel = old;
                }
                execution.dispatch_run = Some(made.name.clone());
                run = Some(made);
            }
        }
        PlannedExecution {
            name,
            namespace: rule.metadata.namespace.clone(),
            execution,
            run,
            cancel,
        }
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
        return "the rule requires no approval".to_owned();
    }
    let words: Vec<String> = asked.iter().map(written).collect();
    format!("a person must approve {}", words.join(", "))
}

fn source_refs(event: &SourceEvent, mode: WorkItemMode, seen: &EventContext) -> SourceRefs {
    let mut refs = event.source_refs.clone();
    refs.pull_request = event.pull_request;
    refs.issue = event.issue;
    refs.job_id.clone_from(&event.job_id);
    refs.base_sha.clone_from(&event.base_sha);
    refs.caused_by = seen.own_work.as_ref().map(|own| own.run.clone());
    if mode != WorkItemMode::None && refs.work_item.is_none() {
        refs.work_item = work_item(event);
    }
    refs
}

/// The work item that an event is about, as `issue/7`; nothing if it is about none.
pub(super) fn work_item(event: &SourceEvent) -> Option<String> {
    let pull_request = event.pull_request.map(|number| format!("pull-request/{number}"));
    let issue = || event.issue.map(|number| format!("issue/{number}"));
    let refs = &event.source_refs;
    let check = || refs.check.as_ref().or(refs.pipeline.as_ref()).map(|id| format!("check/{id}"));
    let release = || event.tag.as_ref().map(|tag| format!("release/{tag}"));
    pull_request.or_else(issue).or_else(check).or_else(release)
}

impl RunDraft {
    fn new(
        execution: &str,
        event: &SourceEvent,
        rule: &Object<AgentTriggerRule>,
        seen: &EventContext,
        trust_tier: TrustTier,
        prompt: RenderedPrompt,
    ) -> Self {
        let spec = &rule.spec;
        let mut refs = source_refs(event, spec.work_item, seen);
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
                asked_by: event.asked_by.clone(),
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
