//! Finds all problems of a kit and its tasks.

mod foreign;
mod manifests;
mod other_kits;
mod templates;
mod text_leads;
mod text_length;
mod text_repeats;
mod text_stands_alone;
mod words;

use std::collections::BTreeSet;

use bailiwick_model::{CapabilityName, Problem, RoleName, Source};

use crate::bind::{bind, capabilities};
use crate::kit::Kit;
use crate::resolve::resolve;
use crate::templates::Templates;
use crate::tree::Tree;
use crate::{capability_file, role_file};

/// The result of a lint run.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of capabilities.
    pub capabilities: usize,
    /// The number of roles.
    pub roles: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of agent templates.
    pub templates: usize,
    /// The number of agent files of other programs that can be imported.
    pub importable: usize,
    /// The problems, by file and line.
    pub problems: Vec<Problem>,
}

impl Report {
    /// The same, with every agent template read as well.
    #[must_use]
    pub fn and_templates(mut self, kit: &Kit, found: &Templates) -> Self {
        let (count, problems) = templates::check(kit, found);
        self.templates += count;
        self.problems.extend(problems);
        sort(&mut self.problems);
        self
    }

    /// The same, with the agent files of other programs in a repository read as well, but for those of
    /// which it has its own templates.
    #[must_use]
    pub fn and_foreign(mut self, repository: &dyn Tree, templates: &Templates) -> Self {
        let (count, problems) = foreign::check(repository, templates);
        self.importable += count;
        self.problems.extend(problems);
        sort(&mut self.problems);
        self
    }
}

/// Reads every layer of the kit and every task, and reports what is wrong.
pub fn lint(kit: &Kit, tasks: &[Source]) -> Report {
    let (capability_names, role_names, mut problems) = names(kit);
    let mut found = Vec::new();
    for name in &capability_names {
        match kit.capability(name) {
            Ok(Some(capability)) => found.push(capability),
            Ok(None) => {}
            Err(more) => problems.extend(more),
        }
    }
    for capability in &found {
        problems.extend(text_length::check(capability));
        problems.extend(text_leads::check(capability));
        problems.extend(text_stands_alone::check(capability));
    }
    let mut together = Vec::new();
    for name in &role_names {
        problems.extend(lint_role(kit, name, &capability_names, &mut together));
    }
    problems.extend(text_repeats::check(&found, &together));
    problems.extend(manifests::check(kit));
    for task in tasks {
        match bind(kit, task) {
            Ok(bound) => problems.extend(bound.warnings),
            Err(more) => problems.extend(more),
        }
    }
    other_kits::soften(kit, &mut problems);
    sort(&mut problems);
    Report {
        capabilities: capability_names.len(),
        roles: role_names.len(),
        tasks: tasks.len(),
        templates: 0,
        importable: 0,
        problems,
    }
}

fn names(kit: &Kit) -> (BTreeSet<CapabilityName>, BTreeSet<RoleName>, Vec<Problem>) {
    let (mut capabilities, mut roles, mut problems) =
        (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for layer in kit.layers() {
        match capability_file::names(layer) {
            Ok((names, more)) => {
                capabilities.extend(names);
                problems.extend(more);
            }
            Err(more) => problems.extend(more),
        }
        match role_file::names(layer) {
            Ok((names, more)) => {
                roles.extend(names);
                problems.extend(more);
            }
            Err(more) => problems.extend(more),
        }
    }
    (capabilities, roles, problems)
}

fn lint_role(
    kit: &Kit,
    name: &RoleName,
    known: &BTreeSet<CapabilityName>,
    together: &mut Vec<Vec<CapabilityName>>,
) -> Vec<Problem> {
    let file = match kit.role(name) {
        Ok(Some(file)) => file,
        Ok(None) => return Vec::new(),
        Err(problems) => return problems,
    };
    let role = match resolve(kit, name, file.source.at(file.declared.role.name.span())) {
        Ok(role) => role,
        Err(problems) => return problems,
    };
    let mut problems = role.warnings.clone();
    problems.extend(capabilities(kit, &role).err().unwrap_or_default());
    let relaxed = file.declared.capabilities.relaxes.iter();
    for entry in relaxed.filter(|entry| entry.get_ref().renamed_to().is_none()) {
        let capability = entry.get_ref();
        if !known.contains(capability) {
            let near = kit.nearest_capability(&capability.to_string());
            let message = format!("there is no capability `{capability}` to relax");
            problems.push(
                Problem::error("unknown-capability", file.source.at(entry.span()), message)
                    .maybe_help(near.map(|near| format!("did you mean `{near}`?"))),
            );
        }
    }
    let place = || file.source.at(file.declared.role.name.span());
    if role.tools.is_empty() && role.spawnable {
        let message = format!("role `{name}` allows no tool, so its agent can do nothing");
        problems.push(
            Problem::warning("no-tools", place(), message).help("name tools under [tools] allowed"),
        );
    }
    if role.capabilities.is_empty() && role.spawnable {
        let message = format!("role `{name}` has no capability, so nothing limits its agent");
        problems.push(
            Problem::warning("no-limits", place(), message).help(
                "name capabilities under [capabilities] required, or write spawnable = false",
            ),
        );
    }
    if role.description.trim().is_empty() {
        let message = format!("role `{name}` has no description");
        problems.push(Problem::warning("no-description", place(), message));
    }
    together.push(role.capabilities);
    problems
}

/// Sorts by file and line, without repetitions.
fn sort(problems: &mut Vec<Problem>) {
    let key = |problem: &Problem| {
        let start = problem.place.span.as_ref().map_or(0, |span| span.start);
        (problem.place.source.file.clone(), start, problem.code, problem.message.clone())
    };
    problems.sort_by_key(key);
    problems.dedup();
}
