//! Where the parts of a bundle come from.

use bailiwick_resources::{BundleLayer, ContextSource, LabelSource};
use serde::{Deserialize, Serialize};

/// What a text is, which decides what of it stays when it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Something that an agent is to do or to be.
    Instruction,
    /// What a job has printed.
    Log,
    Diff,
    /// Where the work comes from: kept before all other sources.
    Breadcrumbs,
    /// Anything else.
    Plain,
}

/// One part, before anything is taken out or cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPart {
    pub layer: BundleLayer,
    /// What it is called.
    pub name: String,
    /// Where it comes from.
    pub provenance: String,
    /// What it is.
    pub form: Form,
    pub text: String,
}

/// A source as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePart {
    /// What it is.
    pub source: ContextSource,
    /// What it is called, as `job 17`.
    pub name: String,
    /// Where it comes from.
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

/// The texts that come with a piece of work.
#[derive(Debug, Clone, Default)]
pub struct StackTexts {
    /// Texts of skills that are files, directories or packages, as they were found: by the object's name.
    pub skills: Vec<(String, String)>,
    /// The instructions of the repository that the stack names, with the commit they were read from.
    pub agents_doc: Option<(String, String)>,
    /// The rule and what its template gave.
    pub trigger: Option<(String, String)>,
    /// What a person asked for, and who.
    pub task: Option<(String, String)>,
    /// Where the work comes from, in a few lines.
    pub breadcrumbs: String,
    /// What was fetched, in the order of the rule.
    pub sources: Vec<SourcePart>,
    /// What the work is about: labels that are not for it are left out.
    pub about: Option<LabelSource>,
}
