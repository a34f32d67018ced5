//! Checks that each template can be read and names only what exists.

use bailiwick_model::Problem;
use bailiwick_model::nearest::nearest;
use bailiwick_model::template::AgentType;

use crate::kit::Kit;
use crate::resolve::resolve;
use crate::templates::discovery::TemplateInventory;
use crate::templates::file::{Parsed, check_listed};
use crate::templates::{TemplateError, Templates};

/// The number of templates, and their problems.
pub(super) fn check(kit: &Kit, templates: &Templates) -> (usize, Vec<Problem>) {
    let TemplateInventory { templates, strays } = templates.inventory();
    let mut problems = strays;
    let names: Vec<AgentType> = templates.iter().map(|(name, _)| name.clone()).collect();
    for (_, found) in templates {
        match found {
            Ok(found) => {
                problems.extend(
                    check_listed(found.template(), &found.source).err().unwrap_or_default(),
                );
                problems.extend(unknown_role(kit, &found.parsed));
                problems.extend(unknown_subagents(&names, &found.parsed));
            }
            Err(TemplateError::Broken { problems: more, .. }) => problems.extend(more),
            // Nobody asked for a name here.
            Err(
                TemplateError::Invalid(_)
                | TemplateError::Missing(_)
                | TemplateError::Ambiguous { .. },
            ) => {}
        }
    }
    (names.len(), problems)
}

/// A role that is not there, or that no agent can have.
fn unknown_role(kit: &Kit, parsed: &Parsed) -> Vec<Problem> {
    let (Some(role), Some(place)) = (&parsed.template.role, &parsed.role) else {
        return Vec::new();
    };
    match resolve(kit, role, place.clone()) {
        Err(problems) => problems,
        Ok(role) if !role.spawnable => {
            let message = format!("no agent can have the role `{}`", role.name);
            vec![Problem::error("not-spawnable", place.clone(), message)]
        }
        Ok(_) => Vec::new(),
    }
}

fn unknown_subagents(names: &[AgentType], parsed: &Parsed) -> Vec<Problem> {
    let known = |name: &AgentType| names.iter().any(|other| other.folds_to(name));
    let unknown = parsed.allowed_subagents.iter().filter(|(name, _)| !known(name));
    let told = unknown.map(|(name, place)| {
        let near = nearest(name.as_str(), names.iter().map(AgentType::as_str));
        let near = near.map(|near| format!("did you mean `{near}`?"));
        let message = format!("there is no agent template `{name}` to be started");
        Problem::error("unknown-template", place.clone(), message).maybe_help(near)
    });
    told.collect()
}
