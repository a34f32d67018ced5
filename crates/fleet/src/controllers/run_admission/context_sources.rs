//! The sources that a rule attaches to a run: taken from the event, or fetched; or the reason why there is no run.

use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerRule, ContextSource, Object, Reason, Repository,
};

use crate::admission::Refused;
use crate::admission::admit::Step;
use crate::admission::review::{ReviewReason, Severity};
use crate::bundle::SourcePart;
use crate::controllers::ReconcileError;
use crate::controllers::run_admission::RunAdmission;
use crate::ports::{
    Clock, Commits, FetchError, ForgeError, Forges, ObjectStore, SecretStore, StackSources,
};
use crate::triggers::SourceEvent;

/// How much of a payload is used: more than a bundle may have, so that all of a bundle is searched for secrets.
const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// Attached sources, and sources that do not apply to the event.
#[derive(Debug, Default)]
pub(super) struct Attached {
    pub(super) parts: Vec<SourcePart>,
    pub(super) left_out: Vec<ContextSource>,
}

impl Attached {
    /// The line of the breadcrumbs about sources that were left out.
    pub(super) fn left_out_line(&self) -> Option<String> {
        let names = self.left_out.iter().filter_map(|source| {
            let word = serde_json::to_value(source).ok()?;
            word.as_str().map(str::to_owned)
        });
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| {
            format!("not attached, for the event is about nothing of it: {}", names.join(", "))
        })
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources> RunAdmission<S, W> {
    /// The sources that a rule attaches. A source that cannot be fetched refuses the run: an agent must not mistake
    /// it for an empty one.
    pub(super) async fn attached(
        &self,
        repository: &Object<Repository>,
        (spec, kit_commit): (&AgentDispatchRun, &str),
        rule: Option<&Object<AgentTriggerRule>>,
        event: Option<&SourceEvent>,
    ) -> Result<Result<Attached, Box<Refused>>, ReconcileError> {
        let mut attached = Attached::default();
        let wanted = rule.map(|rule| rule.spec.context_bundle_template.include.as_slice());
        for &source in wanted.unwrap_or_default() {
            let known = event.and_then(|event| part_of_event(event, source));
            let found = match known {
                Some(part) => Ok(Some(part)),
                // Instructions for agents come from the commit that binds them; other sources are about the work.
                None if source == ContextSource::RepositoryInstructions => {
                    let bound = AgentDispatchRun { sha: kit_commit.to_owned(), ..spec.clone() };
                    self.source(repository, &bound, source).await
                }
                None => self.source(repository, spec, source).await,
            };
            match found {
                Ok(Some(part)) => attached.parts.push(part),
                Ok(None) => attached.left_out.push(source),
                Err(fault) => {
                    let about = serde_json::to_value(source).unwrap_or_default();
                    let about = about.as_str().unwrap_or("context");
                    return refusal(Step::AssembleContext, about, fault).map(Err);
                }
            }
        }
        Ok(Ok(attached))
    }

    async fn source(
        &self,
        repository: &Object<Repository>,
        spec: &AgentDispatchRun,
        source: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        let found = self.world.source(repository, spec, source);
        self.forges.wait_for_source(repository, found).await
    }
}

/// A source that the event itself contains.
fn part_of_event(event: &SourceEvent, source: ContextSource) -> Option<SourcePart> {
    let (name, text) = match source {
        ContextSource::FailingJobLog => {
            let job = event.job.as_ref().or(event.check.as_ref()).or(event.job_id.as_ref());
            let name = job.map_or("log of the job".to_owned(), |job| format!("log of job {job}"));
            (name, event.failure_log.clone()?)
        }
        ContextSource::EventPayload if !event.payload.is_null() => {
            let mut text = serde_json::to_string_pretty(event.payload.as_ref()).ok()?;
            text.truncate(text.floor_char_boundary(MAX_PAYLOAD_BYTES));
            ("event payload".to_owned(), text)
        }
        ContextSource::EventPayload
        | ContextSource::ChangedFiles
        | ContextSource::Diff
        | ContextSource::PullRequestSummary
        | ContextSource::IssueSummary
        | ContextSource::RecentCommits
        | ContextSource::RepositoryInstructions => return None,
    };
    let delivery = event.source_refs.webhook_delivery.as_ref().unwrap_or(&event.uid);
    let provenance = format!("{} {delivery}", event.repository);
    Some(SourcePart { source, name, provenance, text })
}

/// The refusal for a commit that is missing or cannot be fetched.
pub(super) fn commit_unavailable(
    spec: &AgentDispatchRun,
    found: Result<Option<String>, FetchError>,
) -> Result<Option<Box<Refused>>, ReconcileError> {
    let fault = match found {
        Ok(Some(_)) => return Ok(None),
        Ok(None) => {
            let why = format!("the commit {} of {} is not there", spec.sha, spec.reference);
            FetchError::Missing(why)
        }
        Err(fault) => fault,
    };
    refusal(Step::ResolveSource, &spec.reference, fault).map(Some)
}

/// The refusal for a failed fetch. An unavailable forge and a fault of this machine are errors instead, and are tried
/// again.
pub(super) fn refusal(
    step: Step,
    about: &str,
    fault: FetchError,
) -> Result<Box<Refused>, ReconcileError> {
    let (code, message) = match fault {
        FetchError::Missing(why) => (Reason::SourceObjectMissing, why),
        FetchError::Failed(why) => (Reason::ArtifactFetchFailed, why),
        FetchError::Unavailable(why) => return Err(ForgeError::Unavailable(why).into()),
        FetchError::Account(problem) => return Err(ForgeError::Account(problem).into()),
        FetchError::Local(error) => return Err(error.into()),
    };
    Ok(refused(step, about, code, message))
}

/// The refusal for unknown secrets.
pub(super) fn not_redacted(why: String) -> Box<Refused> {
    refused(Step::AssembleContext, "context", Reason::RedactionFailed, why)
}

fn refused(step: Step, about: &str, code: Reason, message: String) -> Box<Refused> {
    let why = ReviewReason { severity: Severity::Error, code, about: about.to_owned(), message };
    Box::new(Refused { step, validations: Vec::new(), reasons: vec![why], review: None })
}
