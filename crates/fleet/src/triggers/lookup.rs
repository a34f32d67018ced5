//! What has to be asked before rules can judge an event: forges do not send everything.

use bailiwick_resources::{
    AgentTriggerRule, ContextSource, EventSource, ForgeKind, LifecycleState, Object,
};

use super::event::{Association, SourceEvent};
use super::labels::LabelChange;

/// Something that the forge, or git, is to be asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// How a pull request stands; tell it by `SourceEvent::learn_pull_request`.
    PullRequest(u64),
    /// Where a branch of the repository itself is, the default branch when none is named; tell it by
    /// `SourceEvent::learn_branch`.
    Branch(Option<String>),
    /// Which commit a ref is at; it becomes `sha`.
    Commit(String),
    /// Which paths differ between two commits; they become `changed_paths`.
    ChangedPaths {
        /// From.
        base: String,
        /// To.
        head: String,
    },
    /// Which branch or pull request a commit is on; tell it by `learn_branch` or `learn_pull_request`.
    Place(String),
    /// How the labels of an issue or pull request changed; tell it by `SourceEvent::learn_labels`.
    Labels(u64),
    /// The end of a job's log; it becomes `failure_log`.
    JobLog(String),
    /// What somebody may do to the repository; tell it by `SourceEvent::learn_rights`.
    Permission(String),
}

/// What should be asked for the sake of these rules. An answer that does not come leaves the field
/// empty, and a rule that demands it does not match.
pub fn lookups(event: &SourceEvent, rules: &[Object<AgentTriggerRule>]) -> Vec<Lookup> {
    let concerned: Vec<&AgentTriggerRule> = rules
        .iter()
        .map(|rule| &rule.spec)
        .filter(|rule| rule.lifecycle_state == LifecycleState::Active)
        .filter(|rule| rule.sources.contains(&event.source))
        .collect();
    if concerned.is_empty() {
        return Vec::new();
    }
    let wants_paths = concerned
        .iter()
        .any(|rule| !rule.matcher.paths.is_empty() && event.changed_paths.is_none());
    let wants_log = concerned.iter().any(|rule| {
        let attached = &rule.context_bundle_template.include;
        !rule.matcher.failure_signature.is_empty()
            || attached.contains(&ContextSource::FailingJobLog)
    });
    let mut asked = Vec::new();
    match event.pull_request {
        Some(number) => {
            let known = event.head_repository.is_some() && event.sha.is_some();
            if !known || wants_paths {
                asked.push(Lookup::PullRequest(number));
            }
        }
        None => {
            let origin = event.source == EventSource::Ci && event.head_repository.is_none();
            match (&event.sha, &event.tag) {
                (None, Some(tag)) => asked.push(Lookup::Commit(format!("refs/tags/{tag}"))),
                (None, None) => asked.push(Lookup::Branch(event.branch.clone())),
                (Some(_), _) if origin && event.branch.is_some() => {
                    asked.push(Lookup::Branch(event.branch.clone()));
                }
                (Some(sha), None) if origin => asked.push(Lookup::Place(sha.clone())),
                (Some(_), _) => {}
            }
            if let (true, Some(base), Some(head)) = (wants_paths, &event.base_sha, &event.sha) {
                let (base, head) = (base.clone(), head.clone());
                asked.push(Lookup::ChangedPaths { base, head });
            }
        }
    }
    let number = event.issue.or(event.pull_request);
    if let (EventSource::Label, LabelChange::Unknown | LabelChange::EntryUnknown, Some(number)) =
        (event.source, &event.label_change, number)
    {
        asked.push(Lookup::Labels(number));
    }
    // Who pushes may write; of others it has to be known.
    let by_word = match event.telling {
        EventSource::IssueComment
        | EventSource::PrComment
        | EventSource::Label
        | EventSource::Webhook => event.forge != ForgeKind::Generic,
        EventSource::Ci
        | EventSource::Push
        | EventSource::Tag
        | EventSource::Schedule
        | EventSource::Manual
        | EventSource::RepositoryDispatch => false,
    };
    if let (true, Association::Unknown, Some(actor)) = (by_word, event.association, &event.actor) {
        asked.push(Lookup::Permission(actor.clone()));
    }
    if let (true, None, Some(job)) = (wants_log, &event.failure_log, &event.job_id) {
        asked.push(Lookup::JobLog(job.clone()));
    }
    asked
}
