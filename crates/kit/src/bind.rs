//! Binding a task to its role and the capabilities behind it.

use std::collections::BTreeSet;
use std::ops::Range;

use bailiwick_model::globs::odd;
use bailiwick_model::nearest::nearest;
use bailiwick_model::task::PathPattern;
use bailiwick_model::{CapabilityName, Place, Problem, Source, Task};

use crate::kit::{FoundCapability, Kit};
use crate::resolve::{ResolvedRole, resolve};

/// The separator between the parts of a prompt.
pub const SEPARATOR: &str = "\n\n---\n\n";

/// A task with the role, capabilities and limits of its agent.
#[derive(Debug, Clone)]
pub struct Bound {
    pub task: Task,
    /// Its file.
    pub source: Source,
    pub role: ResolvedRole,
    /// The role's capabilities, in order.
    pub capabilities: Vec<FoundCapability>,
    /// Warnings.
    pub warnings: Vec<Problem>,
}

/// Reads a task and finds its role and capabilities.
pub fn bind(kit: &Kit, source: &Source) -> Result<Bound, Vec<Problem>> {
    let task = Task::parse(source).map_err(|problem| Task::problems(source, problem))?;
    let asked_in = source.at(task.task.role.span());
    let mut role = resolve(kit, task.task.role.get_ref(), asked_in)?;
    for other in &task.task.bound_by {
        let other = resolve(kit, other.get_ref(), source.at(other.span()))?;
        for name in other.capabilities {
            if !role.capabilities.contains(&name) {
                role.capabilities.push(name);
            }
        }
    }
    let capabilities = capabilities(kit, &role)?;
    let (malformed, unmatchable): (Vec<Problem>, _) =
        unmatchable_globs(&task, source).into_iter().partition(Problem::is_error);
    let mut problems = unaccepted(&task, source, &role, &capabilities);
    problems.extend(malformed);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut warnings = role.warnings.clone();
    warnings.extend(writes_nothing(&task, source, &role));
    warnings.extend(unmatchable);
    Ok(Bound { task, source: source.clone(), role, capabilities, warnings })
}

/// The capabilities of a role, read from the kit.
pub fn capabilities(kit: &Kit, role: &ResolvedRole) -> Result<Vec<FoundCapability>, Vec<Problem>> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for name in &role.capabilities {
        match kit.capability(name) {
            Ok(Some(capability)) => found.push(capability),
            Ok(None) => problems.push(unknown_capability(kit, role, name)),
            Err(more) => problems.extend(more),
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// The texts of the capabilities, in order, without blank lines at their ends.
pub fn texts(capabilities: &[FoundCapability]) -> impl Iterator<Item = String> {
    capabilities.iter().map(|capability| capability.text.text.trim_end().to_owned())
}

fn unknown_capability(kit: &Kit, role: &ResolvedRole, name: &CapabilityName) -> Problem {
    let help = match kit.nearest_capability(&name.to_string()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`bailiwick capabilities list` shows those there are".to_owned(),
    };
    let place = role.chain.iter().find_map(|role| {
        let file = kit.role(role).ok()??;
        let written = &file.declared.capabilities.required;
        let entry = written.iter().find(|entry| {
            entry.get_ref() == name || entry.get_ref().renamed_to().as_ref() == Some(name)
        })?;
        Some(file.source.at(entry.span()))
    });
    let place = place.unwrap_or_else(|| Source::new(role.name.to_string(), "").whole());
    Problem::error("unknown-capability", place, format!("there is no capability `{name}`"))
        .help(help)
}

fn unaccepted(
    task: &Task,
    source: &Source,
    role: &ResolvedRole,
    capabilities: &[FoundCapability],
) -> Vec<Problem> {
    let accepted: Vec<&str> = capabilities
        .iter()
        .flat_map(|capability| &capability.declared.parameterized.accepts)
        .map(|name| name.get_ref().as_str())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let refused =
        task.parameters_set().into_iter().filter(|(name, _)| !accepted.contains(&name.as_str()));
    refused
        .map(|(name, span)| {
            let message = format!("no capability of role `{}` accepts `{name}`", role.name);
            let help = match nearest(&name, accepted.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if accepted.is_empty() => "its capabilities accept no parameters".to_owned(),
                None => format!("they accept {}", accepted.join(", ")),
            };
            let place = key_before(source, &name, span);
            Problem::error("unaccepted-parameter", place, message).help(help)
        })
        .collect()
}

/// The key in front of a value, as far as it can be found; the value otherwise.
fn key_before(source: &Source, key: &str, value: Range<usize>) -> Place {
    let before = source.text.get(..value.start).and_then(|text| text.rfind(key));
    source.at(before.map_or(value, |start| start..start + key.len()))
}

/// Patterns in the task's scope that match no path. A malformed one is an error: a denylist with it would deny less than
/// its author means.
fn unmatchable_globs(task: &Task, source: &Source) -> Vec<Problem> {
    let lists = [&task.scope.files_whitelist, &task.scope.files_denylist];
    let patterns = lists.into_iter().flat_map(|list| {
        let written = list.get().iter().map(PathPattern::as_str);
        written.map(|glob| (glob, list.span()))
    });
    let problem = |(glob, list): (&str, Range<usize>)| {
        let odd = odd(glob)?;
        // As in TOML, where a backslash is only itself between single quotes.
        let quoted = |glob: &String| match glob.contains('\\') {
            true => format!("'{glob}'"),
            false => format!("\"{glob}\""),
        };
        let instead: Vec<String> = odd.instead.iter().map(quoted).collect();
        let message = format!("`{glob}` matches nothing: {}", odd.why);
        let place = entry_in(source, glob, list);
        let problem = match odd.is_malformed {
            true => Problem::error("malformed-glob", place, message),
            false => Problem::warning("matches-nothing", place, message),
        };
        Some(problem.help(format!("write {}", instead.join(", "))))
    };
    patterns.filter_map(problem).collect()
}

/// An entry of a list, as far as it can be found; the list otherwise.
fn entry_in(source: &Source, entry: &str, list: Range<usize>) -> Place {
    let text = source.text.get(list.clone()).unwrap_or_default();
    let quoted = [format!("\"{entry}\""), format!("'{entry}'")];
    let found = quoted.iter().find_map(|entry| Some((text.find(entry.as_str())?, entry.len())));
    source.at(found.map_or_else(
        || list.clone(),
        |(start, length)| list.start + start..list.start + start + length,
    ))
}

fn writes_nothing(task: &Task, source: &Source, role: &ResolvedRole) -> Option<Problem> {
    let whitelisted =
        role.capabilities.iter().any(|name| name.to_string() == "scope::files-whitelist");
    (whitelisted && task.scope.files_whitelist.is_empty()).then(|| {
        let message = "the task names no files-whitelist, so the agent may write nothing";
        Problem::warning("writes-nothing", source.at(task.task.role.span()), message)
            .help("name the files under [scope] files-whitelist")
    })
}
