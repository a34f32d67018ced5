//! The six conditions of a trigger rule, from what is really there.

use bailiwick_resources::{
    AgentTriggerRule, ConditionType, EventSource, Finding, ForgeKind, Reason,
};

use super::event::SourceEvent;
use super::template::{TemplateContext, TemplateError, names_used};
use super::{concurrency, dedupe, lifecycle, matcher, prompt, schedule};

/// The maximum size of a bundle.
const MAX_BUNDLE_BYTES: u64 = 750 * 1024;

/// The facts about a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleFacts {
    /// Every repository there is.
    pub repositories: Vec<RepositoryFacts>,
    /// The state of the stack.
    pub stack: StackFacts,
    /// A received event that matches the rule, or one from a person.
    pub sample: Option<SourceEvent>,
}

/// The facts about a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// As `owner/name`.
    pub full_name: String,
    /// The kind of its forge.
    pub forge: ForgeKind,
    /// Whether there is a secret, with its key, to check webhooks with.
    pub has_webhook_secret: bool,
    /// The known workflows; nothing if they were not read.
    pub known_workflows: Option<Vec<String>>,
    /// The known labels; nothing if they were not read.
    pub known_labels: Option<Vec<String>>,
}

/// The state of the stack of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackFacts {
    /// There is none of the name.
    Missing,
    Ready,
    /// It is not, and why.
    NotReady(String),
    /// Unknown, and why.
    Unknown(String),
}

/// The conditions, in the order in which they are shown.
pub fn conditions(name: &str, rule: &AgentTriggerRule, facts: &RuleFacts) -> Vec<Finding> {
    vec![
        source_configured(rule, facts),
        matcher_valid(rule, facts),
        target_stack_ready(rule, facts),
        context_template_valid(name, rule, facts),
        dedupe_policy_valid(rule),
        lifecycle_active(rule),
    ]
}

/// The repositories that a rule is about.
fn meant<'a>(rule: &AgentTriggerRule, facts: &'a RuleFacts) -> Vec<&'a RepositoryFacts> {
    let only = bailiwick_resources::Matcher {
        repository: rule.matcher.repository.clone(),
        ..bailiwick_resources::Matcher::default()
    };
    let Ok(compiled) = matcher::compile(&only) else { return Vec::new() };
    let may_match = |repository: &&RepositoryFacts| {
        let name = &repository.full_name;
        let event = SourceEvent::new(EventSource::Webhook, repository.forge, "-", name);
        compiled.matches(&event).matched
    };
    facts.repositories.iter().filter(may_match).collect()
}

fn comes_by_webhook(source: EventSource) -> bool {
    match source {
        EventSource::Schedule | EventSource::Manual => false,
        EventSource::Ci
        | EventSource::Webhook
        | EventSource::IssueComment
        | EventSource::PrComment
        | EventSource::Label
        | EventSource::Push
        | EventSource::Tag
        | EventSource::RepositoryDispatch => true,
    }
}

fn source_configured(rule: &AgentTriggerRule, facts: &RuleFacts) -> Finding {
    let kind = ConditionType::SourceConfigured;
    let meant = meant(rule, facts);
    let delivered: Vec<&str> = rule
        .sources
        .iter()
        .filter(|source| comes_by_webhook(**source))
        .map(|source| source.as_str())
        .collect();
    if let Some(written) = &rule.schedule {
        if let Err(error) = schedule::compile(written) {
            return Finding::fails(kind, Reason::InvalidSchedule, error.to_string());
        }
        let wanted = &written.repository;
        let known = |one: &RepositoryFacts| one.full_name.eq_ignore_ascii_case(wanted);
        if !facts.repositories.iter().any(known) {
            let message = format!("schedule.repository: there is no repository `{wanted}`");
            return Finding::fails(kind, Reason::RepositoryMissing, message);
        }
    }
    if !delivered.is_empty() {
        if meant.is_empty() {
            let message = "no repository is meant by match.repository; declare one";
            return Finding::fails(kind, Reason::RepositoryMissing, message);
        }
        if let Some(bare) = meant.iter().find(|repository| !repository.has_webhook_secret) {
            let message = format!(
                "{} of `{}` would come by a webhook that cannot be verified: set webhookSecretRef",
                delivered.join(", "),
                bare.full_name
            );
            return Finding::fails(kind, Reason::WebhookSecretMissing, message);
        }
    }
    if rule.sources.contains(&EventSource::Ci)
        && !rule.matcher.workflow.is_empty()
        && let Some(finding) = workflows(rule, &meant)
    {
        return finding;
    }
    Finding::holds(kind, Reason::SourcesReady, "every source can deliver")
}

/// The faults of the workflows that a rule names.
fn workflows(rule: &AgentTriggerRule, meant: &[&RepositoryFacts]) -> Option<Finding> {
    let kind = ConditionType::SourceConfigured;
    let seen: Vec<&Vec<String>> =
        meant.iter().filter_map(|repository| repository.known_workflows.as_ref()).collect();
    if seen.is_empty() {
        let message = "the workflows of the repository have not been read yet";
        return Some(Finding::unknown(kind, Reason::NotYetObserved, message));
    }
    for wanted in &rule.matcher.workflow {
        let only = bailiwick_resources::Matcher {
            workflow: vec![wanted.clone()],
            ..bailiwick_resources::Matcher::default()
        };
        // An invalid glob is a fault of the matcher, and reported there.
        let Ok(compiled) = matcher::compile(&only) else { continue };
        let runs = |workflow: &&String| {
            let mut event = SourceEvent::new(EventSource::Ci, ForgeKind::Local, "-", "-/-");
            event.workflow = Some((*workflow).clone());
            compiled.matches(&event).matched
        };
        if !seen.iter().any(|workflows| workflows.iter().any(|workflow| runs(&workflow))) {
            let message = format!("no workflow `{wanted}` was ever seen");
            return Some(Finding::fails(kind, Reason::UnknownCiWorkflow, message));
        }
    }
    None
}

fn matcher_valid(rule: &AgentTriggerRule, facts: &RuleFacts) -> Finding {
    let kind = ConditionType::MatcherValid;
    if let Err(faults) = matcher::compile(&rule.matcher) {
        let reason = faults.first().map_or(Reason::InvalidGlob, |(reason, _)| *reason);
        let messages: Vec<String> = faults.into_iter().map(|(_, message)| message).collect();
        return Finding::fails(kind, reason, messages.join("; "));
    }
    let meant = meant(rule, facts);
    let known: Vec<&Vec<String>> =
        meant.iter().filter_map(|repository| repository.known_labels.as_ref()).collect();
    if !known.is_empty() {
        let literal = |label: &&String| !label.contains(['*', '?', '[', '\\']);
        let unknown = rule.matcher.labels.iter().filter(literal).find(|label| {
            let same = |one: &String| one.eq_ignore_ascii_case(label);
            !known.iter().any(|labels| labels.iter().any(same))
        });
        if let Some(label) = unknown {
            let message = format!("match.labels: there is no label `{label}`");
            return Finding::fails(kind, Reason::UnknownLabelMatcher, message);
        }
    }
    Finding::holds(kind, Reason::MatcherCompiled, "the matcher can be used")
}

fn target_stack_ready(rule: &AgentTriggerRule, facts: &RuleFacts) -> Finding {
    let kind = ConditionType::TargetStackReady;
    let stack = &rule.agent_stack;
    match &facts.stack {
        StackFacts::Ready => {
            Finding::holds(kind, Reason::StackReady, format!("stack `{stack}` is ready"))
        }
        StackFacts::Missing => {
            Finding::fails(kind, Reason::StackMissing, format!("there is no stack `{stack}`"))
        }
        StackFacts::NotReady(why) => {
            let message = format!("stack `{stack}` is not ready: {why}");
            Finding::fails(kind, Reason::StackNotAdmitted, message)
        }
        StackFacts::Unknown(why) => {
            let message = format!("it is not known yet whether stack `{stack}` is ready: {why}");
            Finding::unknown(kind, Reason::CapabilityResolutionUnknown, message)
        }
    }
}

fn context_template_valid(name: &str, rule: &AgentTriggerRule, facts: &RuleFacts) -> Finding {
    let kind = ConditionType::ContextTemplateValid;
    let most = rule.context_bundle_template.max_bytes;
    if most > MAX_BUNDLE_BYTES {
        let message = format!(
            "contextBundleTemplate.maxBytes: {most} is more than the {MAX_BUNDLE_BYTES} that a bundle \
             may have"
        );
        return Finding::fails(kind, Reason::AttachmentTooLarge, message);
    }
    let about = facts.sample.as_ref().map(|event| TemplateContext {
        rule: name,
        task_kind: &rule.task_kind,
        event,
    });
    let faults = prompt::validate(&rule.prompt_template, about.as_ref());
    if let Some(fault) = faults.first() {
        return Finding::fails(kind, fault.reason, format!("promptTemplate: {}", fault.message));
    }
    let asks = names_used(&rule.prompt_template);
    let asks_event =
        asks.iter().any(|name| name.starts_with("event") || name.starts_with("payload"));
    if about.is_none() && asks_event {
        let message = "the template can be read; no event has come yet that it could be tried with";
        return Finding::unknown(kind, Reason::NotYetObserved, message);
    }
    Finding::holds(kind, Reason::TemplateRendered, "the template renders")
}

fn dedupe_policy_valid(rule: &AgentTriggerRule) -> Finding {
    let kind = ConditionType::DedupePolicyValid;
    let faults: Vec<TemplateError> =
        dedupe::faults(rule).into_iter().chain(concurrency::faults(rule)).collect();
    let Some(first) = faults.first() else {
        return Finding::holds(kind, Reason::DedupeKeysBounded, "the keys are stable and bounded");
    };
    let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    Finding::fails(kind, first.reason, messages.join("; "))
}

fn lifecycle_active(rule: &AgentTriggerRule) -> Finding {
    let kind = ConditionType::LifecycleActive;
    match lifecycle::may_dispatch(rule.lifecycle_state) {
        Ok(()) => Finding::holds(kind, Reason::RuleActive, "the rule is active"),
        Err((reason, why)) => Finding::fails(kind, reason, why),
    }
}
