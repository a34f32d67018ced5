//! Where the parts of a bundle come from.

use bailiwick_resources::{BundleLayer, ContextSource, LabelSource, SkillFormat};

use crate::admission::snapshot::Frozen;

/// What a text is, which decides what of it stays when it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Something that an agent is to do or to be.
    Instruction,
    /// What a job has printed.
    Log,
    /// A diff.
    Diff,
    /// Where the work comes from: kept before all other sources.
    Breadcrumbs,
    /// Anything else.
    Plain,
}

/// One part, before anything is taken out or cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPart {
    /// Its layer.
    pub layer: BundleLayer,
    /// What it is called.
    pub name: String,
    /// Where it comes from.
    pub provenance: String,
    /// What it is.
    pub form: Form,
    /// The text.
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
    /// The text.
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

/// The parts of a stack's bundle, in the order of the layers.
pub fn stack_parts(frozen: &Frozen, texts: StackTexts) -> Vec<InputPart> {
    let mut parts = Vec::new();
    let stack = &frozen.stack;
    let object = |kind: &str, name: &str, generation: u64| format!("{kind}/{name}@{generation}");
    let from_stack = object("AgentStack", stack.name(), stack.metadata.generation);
    let mut add = |layer, name: &str, provenance: &str, form, text: &str| {
        if !text.trim().is_empty() {
            parts.push(InputPart {
                layer,
                name: name.to_owned(),
                provenance: provenance.to_owned(),
                form,
                text: text.to_owned(),
            });
        }
    };
    let prompt = &stack.spec.prompt;
    let instruct = Form::Instruction;
    add(BundleLayer::StackSystem, "system", &from_stack, instruct, &prompt.system);
    add(BundleLayer::StackDeveloper, "developer", &from_stack, instruct, &prompt.developer);
    if let (Some((commit, text)), Some(doc)) = (&texts.agents_doc, &stack.spec.agents_doc_ref) {
        let from = format!("{}@{commit}", doc.path);
        add(BundleLayer::StackDeveloper, &doc.path, &from, instruct, text);
    }
    for skill in &frozen.skills {
        let mut from = object("AgentSkill", skill.name(), skill.metadata.generation);
        if let Some(version) = &skill.spec.version {
            from = format!("{from} version {version}");
        }
        let layer = BundleLayer::SkillFragments;
        add(layer, skill.name(), &from, instruct, &skill.spec.prompt_fragment);
        let found = texts.skills.iter().find(|(name, _)| name == skill.name());
        let text = match skill.spec.format {
            SkillFormat::Inline => skill.spec.source_ref.inline.as_deref(),
            SkillFormat::File | SkillFormat::Directory | SkillFormat::Package => {
                found.map(|(_, text)| text.as_str())
            }
        };
        let name = format!("{} (skill)", skill.name());
        add(layer, &name, &from, instruct, text.unwrap_or_default());
    }
    for label in &frozen.labels {
        let meant = texts.about.is_none_or(|about| label.spec.allowed_sources.contains(&about));
        if meant {
            let from = object("AgentContextLabel", label.name(), label.metadata.generation);
            let layer = BundleLayer::ContextLabelFragments;
            add(layer, label.name(), &from, instruct, &label.spec.prompt_fragment);
        }
    }
    if let Some((rule, text)) = &texts.trigger {
        add(BundleLayer::TriggerTemplate, "trigger", rule, instruct, text);
    }
    match &texts.task {
        Some((who, text)) => add(BundleLayer::UserTask, "task", who, instruct, text),
        None => add(BundleLayer::UserTask, "task", &from_stack, instruct, &prompt.task),
    }
    let crumbs = &texts.breadcrumbs;
    add(BundleLayer::Sources, "breadcrumbs", "the event", Form::Breadcrumbs, crumbs);
    parts.extend(texts.sources.into_iter().map(InputPart::from));
    parts
}
