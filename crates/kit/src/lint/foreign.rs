//! Agent files of other programs that were not imported: the problems that prevent an import.

use std::path::Path;

use bailiwick_model::template::AgentType;
use bailiwick_model::{Problem, Severity};

use crate::foreign::{self, Format, FoundAgentFile, Options};
use crate::layer::Origin;
use crate::templates::Templates;
use crate::tree::Tree;

/// The number of files that can be imported, and the problems of the others: a note, because they bind no agent
/// here. Skips a file whose type has a template in the repository.
pub(super) fn check(tree: &dyn Tree, templates: &Templates) -> (usize, Vec<Problem>) {
    let own = own(templates);
    let is_own = |name: &AgentType| own.iter().any(|other| other.folds_to(name));
    let (found, mut problems) = foreign::find(tree, &Format::AGENTS);
    let mut ready: Vec<(AgentType, FoundAgentFile)> = Vec::new();
    for file in found {
        match foreign::import(file.format, &file.source, &Options::default()) {
            Ok(imported) if is_own(&imported.template.agent_type) => {}
            Ok(imported) => ready.push((imported.template.agent_type, file)),
            Err(more) => {
                // A directory of agents also holds notes and reports.
                let no_agent = more.iter().all(|problem| problem.code == "no-frontmatter");
                if !no_agent && !stem(&file).is_some_and(|name| is_own(&name)) {
                    problems.extend(more);
                }
            }
        }
    }
    let twins = |name: &AgentType| ready.iter().filter(|(other, _)| other.folds_to(name)).count();
    let (single, same): (Vec<_>, Vec<_>) = ready.iter().partition(|(name, _)| twins(name) == 1);
    problems.extend(same.iter().map(|(name, file)| {
        let message = format!("several files are an agent called `{name}`");
        Problem::warning("same-name", file.source.whole(), message)
            .help("bailiwick agents import takes one of them if it is named")
    }));
    for problem in &mut problems {
        problem.severity = Severity::Warning;
    }
    (single.len(), problems)
}

/// The types that the repository has a template for, also if that is broken.
fn own(templates: &Templates) -> Vec<AgentType> {
    let all = templates.inventory().templates.into_iter();
    let own = all.filter(|(_, found)| match found {
        Ok(found) => matches!(found.origin, Origin::Repository | Origin::KitRoot),
        Err(_) => true,
    });
    own.map(|(name, _)| name).collect()
}

/// The type that a file would be by its name.
fn stem(file: &FoundAgentFile) -> Option<AgentType> {
    let stem = Path::new(&*file.source.file).file_stem()?.to_str()?;
    AgentType::parse(stem).ok()
}
