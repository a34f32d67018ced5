//! The context that a stack brings: prompts, skills, labels and the texts of one piece of work, in the order of the
//! bundle's layers.

use bailiwick_resources::{BundleLayer, SkillFormat};

use super::snapshot::FrozenStack;
use crate::bundle::{Form, InputPart, StackTexts};

/// The parts of a stack's bundle, in the order of the layers.
pub fn stack_parts(frozen: &FrozenStack, texts: StackTexts) -> Vec<InputPart> {
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
    parts.extend(source_parts(texts));
    parts
}

/// The sources of a bundle.
pub fn source_parts(texts: StackTexts) -> Vec<InputPart> {
    let crumbs = InputPart {
        layer: BundleLayer::Sources,
        name: "breadcrumbs".to_owned(),
        provenance: "the event".to_owned(),
        form: Form::Breadcrumbs,
        text: texts.breadcrumbs,
    };
    let crumbs = Some(crumbs).filter(|part| !part.text.trim().is_empty());
    crumbs.into_iter().chain(texts.sources.into_iter().map(InputPart::from)).collect()
}
