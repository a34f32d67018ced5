//! The lookups before rules can evaluate an event, because forges do not send everything.

use bailiwick_resources::{
    AgentTriggerRule, ContextSource, EventSource, ForgeKind, LifecycleState, Object,
};

use super::event::{Association, SourceEvent};
use super::labels::LabelChange;

/// A lookup at the forge or in git.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// The state of a pull request, for `SourceEvent::learn_pull_request`.
    PullRequest(u64),
    /// The commit of a branch in the repository itself, by default its default branch, for
    /// `SourceEvent::learn_branch`.
    Branch(Option<String>),
    /// The commit of a ref, for `sha`.
    Commit(String),
    /// The paths that differ between two commits, for `changed_paths`.
    ChangedPaths {
        /// From.
        base: String,
        /// To.
        head: String,
    },
    /// The branch or pull request of a commit, for `learn_branch` or `learn_pull_request`.
    Place(String),
    /// The changes of the labels of an issue or pull request, for `SourceEvent::learn_labels`.
    Labels(u64),
    /// The end of a job's log, for `failure_log`.
    JobLog(String),
    /// The rights of an account in the repository, for `SourceEvent::learn_rights`.
    Permission(String),
}

/// The lookups that these rules need. Without a result, the field stays empty, and a rule that requires it does not
/// match.
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
    // An account that pushes may write; for others, it must be looked up.
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
