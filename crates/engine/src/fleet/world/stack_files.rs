//! Roles, skills and texts of a stack, as a commit has them.

use std::path::Path;

use bailiwick_fleet::admission::conditions::{KitRole, RoleFacts, SkillProbe};
use bailiwick_kit::bind;
use bailiwick_model::{Sha256Hex, Source};
use bailiwick_resources::{AgentSkill, AgentStack, SkillFormat};
use bailiwick_source_control::Repository as Checkout;
use serde_json::json;

use crate::context::Context;
use crate::running::{skill_files, skill_packages};
use crate::sources;

/// What the kit of the commit says of the stack's role.
pub(super) fn role(
    context: &Context,
    checkout: &Checkout,
    commit: &str,
    stack: &AgentStack,
) -> KitRole {
    let task = format!("[task]\nrole = {}\n", json!(stack.role));
    let bound = sources::committed_kit(context, checkout, commit)
        .and_then(|kit| Ok(bind(&kit, &Source::new("the stack's role", task))?));
    match bound {
        Ok(bound) => KitRole::Found(RoleFacts::of(&bound)),
        Err(failure) => KitRole::Missing(failure.in_one_line()),
    }
}

/// A skill as the commit, or the package, has it.
pub(super) fn skill_at(
    context: &Context,
    checkout: &Checkout,
    commit: &str,
    skill: &AgentSkill,
) -> SkillProbe {
    let path = skill.source_ref.path.clone().unwrap_or_default();
    let file = match skill.format {
        SkillFormat::Inline => {
            let text = skill.source_ref.inline.clone().unwrap_or_default();
            return SkillProbe::Found { digest: Sha256Hex::of(&text).to_string(), text };
        }
        SkillFormat::Package => {
            let reference = skill.source_ref.package.as_deref().unwrap_or_default();
            return match skill_packages::read(&context.user_kit, reference) {
                Ok(package) => SkillProbe::Found {
                    digest: package.digest.to_string(),
                    text: package.instructions,
                },
                Err(failure) => SkillProbe::Invalid(failure.in_one_line()),
            };
        }
        SkillFormat::File => path,
        SkillFormat::Directory => return directory_at(checkout, commit, &path),
    };
    text_at(checkout, commit, &file)
}

/// A skill with files of its own: all of them have to be such as can be handed to an agent.
fn directory_at(checkout: &Checkout, commit: &str, path: &str) -> SkillProbe {
    let file = Path::new(path).join("SKILL.md").to_string_lossy().into_owned();
    let text = match text_at(checkout, commit, &file) {
        SkillProbe::Found { text, .. } => text,
        other @ (SkillProbe::NotYet | SkillProbe::Missing | SkillProbe::Invalid(_)) => {
            return other;
        }
    };
    match skill_files::listed(checkout, commit, path) {
        Ok(files) => SkillProbe::Found { digest: skill_files::digest(&files).to_string(), text },
        Err(failure) => SkillProbe::Invalid(failure.in_one_line()),
    }
}

/// A text as the commit has it.
pub(super) fn text_at(checkout: &Checkout, commit: &str, file: &str) -> SkillProbe {
    match sources::committed_file(checkout, commit, file) {
        Ok(Some(text)) => SkillProbe::Found { digest: Sha256Hex::of(&text).to_string(), text },
        Ok(None) => SkillProbe::Missing,
        Err(failure) => SkillProbe::Invalid(failure.in_one_line()),
    }
}
