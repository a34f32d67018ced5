//! A plain model of Layer E of the kei tools, with numbers: naive, recursive, one step after the other.

use std::collections::BTreeSet;

/// How many times `extends` may be followed.
pub(super) const MAX_EXTENDS: usize = 16;

/// The capabilities of the roles. The last two are old names of the first two.
pub(super) const POOL: [&str; 9] = [
    "tools::deny-tools",
    "tools::bash-allowlist",
    "policy::no-git-ops",
    "scope::files-whitelist",
    "quality::tests-green",
    "output::report-format",
    "safety::no-dep-bump",
    "tools::read-only",
    "tools::cargo-only-bash",
];

/// The current name of a capability.
pub(super) fn today(capability: usize) -> usize {
    match capability {
        7 => 0,
        8 => 1,
        other => other,
    }
}

/// A role as somebody might write it; roles and capabilities are numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    pub(super) extends: Option<usize>,
    pub(super) required: Vec<usize>,
    pub(super) relaxes: Vec<usize>,
}

pub(super) type Graph = Vec<Written>;

/// A role as resolved by the text of the kei tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) capabilities: Vec<usize>,
    /// The roles that relax a capability that they do not inherit, and the capability.
    pub(super) not_inherited: BTreeSet<(usize, usize)>,
    /// The roles that use an old name, and the name.
    pub(super) old_names: BTreeSet<(usize, usize)>,
    /// The role and its ancestors, nearest first.
    pub(super) chain: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// `extends` leads back to this role, which is still being resolved.
    Cycle(usize),
    TooDeep,
    Missing(usize),
}

/// The resolution order of the kei tools, one step after the other.
pub(super) fn model(graph: &Graph, role: usize, visiting: &[usize]) -> Result<Resolved, Failure> {
    // 4. A chain that loops back to an already-visiting role is an error.
    if visiting.contains(&role) {
        return Err(Failure::Cycle(role));
    }
    if visiting.len() > MAX_EXTENDS {
        return Err(Failure::TooDeep);
    }
    let written = graph.get(role).ok_or(Failure::Missing(role))?;
    let visiting = [visiting, &[role]].concat();
    // 1. The parent's flattened list.
    let parent = match written.extends {
        Some(parent) => model(graph, parent, &visiting)?,
        None => Resolved::default(),
    };
    let mut resolved = parent.clone();
    resolved.chain.insert(0, role);
    for capability in written.required.iter().chain(&written.relaxes) {
        if today(*capability) != *capability {
            resolved.old_names.insert((role, *capability));
        }
    }
    // 2. Every own entry that is not already present, in order.
    for capability in written.required.iter().map(|capability| today(*capability)) {
        if !resolved.capabilities.contains(&capability) {
            resolved.capabilities.push(capability);
        }
    }
    // 3. Without every entry that is relaxed; a warning for one that was not inherited.
    for capability in written.relaxes.iter().map(|capability| today(*capability)) {
        if !parent.capabilities.contains(&capability) {
            resolved.not_inherited.insert((role, capability));
        }
        resolved.capabilities.retain(|own| *own != capability);
    }
    Ok(resolved)
}
