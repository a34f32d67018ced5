//! The parts of a bundle and their sources.

use bailiwick_resources::{BundleLayer, ContextSource, LabelSource};
use serde::{Deserialize, Serialize};

/// The form of a text, which decides what stays when it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Something that an agent is to do or to be.
    Instruction,
    /// The output of a job.
    Log,
    Diff,
    /// The history of the work: kept before all other sources.
    Breadcrumbs,
    /// Anything else.
    Plain,
}

/// One part before redaction and cutting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPart {
    pub layer: BundleLayer,
    pub name: String,
    /// Its origin.
    pub provenance: String,
    pub form: Form,
    pub text: String,
}

/// A source as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePart {
    pub source: ContextSource,
    /// Its name, such as `job 17`.
    pub name: String,
    /// Its origin.
    pub provenance: String,
    pub text: String,
}

/// A source of a bundle, as an agent reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedSource {
    pub name: String,
    pub text: String,
}

impl From<SourcePart> for InputPart {
    fn from(source: SourcePart) -> Self {
        let form = match source.source {
            ContextSource::FailingJobLog => Form::Log,
            ContextSource::Diff => Form::Diff,
            ContextSource::ChangedFiles
            | ContextSource::PullRequestSummary
            | ContextSource::IssueSummary
            | ContextSource::RecentCommits
            | ContextSource::RepositoryInstructions
            | ContextSource::EventPayload => Form::Plain,
        };
        let SourcePart { name, provenance, text, .. } = source;
        Self { layer: BundleLayer::Sources, name, provenance, form, text }
    }
}

/// The texts for a run.
#[derive(Debug, Clone, Default)]
pub struct StackTexts {
    /// Texts of skills that are files, directories or packages, as they were found: by the object's name.
    pub skills: Vec<(String, String)>,
    /// The instructions of the repository that the stack names, with the commit they were read from.
    pub agents_doc: Option<(String, String)>,
    /// The rule and what its template gave.
    pub trigger: Option<(String, String)>,
    /// The request of a person, with their name.
    pub task: Option<(String, String)>,
    /// The history of the work, in a few lines.
    pub breadcrumbs: String,
    /// The fetched sources, in the order of the rule.
    pub sources: Vec<SourcePart>,
    /// What the work is about: other labels are left out.
    pub about: Option<LabelSource>,
}
