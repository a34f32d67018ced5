//! Following `extends`, `required` and `relaxes` to one flat role.

use bailiwick_model::role::{Capabilities, EscalationPolicy, Header, Isolation};
use bailiwick_model::{CapabilityName, Problem, RoleName, Source};

use crate::kit::{FoundRole, Kit};

/// The maximum length of a chain of `extends`.
pub const MAX_DEPTH: usize = 16;

/// A role with everything that it inherits.
#[derive(Debug, Clone)]
pub struct ResolvedRole {
    pub name: RoleName,
    /// Its name for people.
    pub display_name: String,
    /// One sentence.
    pub description: String,
    /// Whether an agent may be started in it.
    pub spawnable: bool,
    /// The `subagent_type` for Claude Code's Agent tool.
    pub claude_subagent_type: String,
    /// Whether Claude Code's Agent tool creates a worktree.
    pub isolation: Isolation,
    /// The capabilities that bind it, in order.
    pub capabilities: Vec<CapabilityName>,
    /// The tools that it may use.
    pub tools: Vec<String>,
    /// The tools that need an approval for each call.
    pub ask: Vec<String>,
    /// Patterns that a shell command must match; none means any command.
    pub bash_patterns: Vec<String>,
    /// What the agent does when it is denied.
    pub escalation: EscalationPolicy,
    /// The role itself and those that it extends, nearest first.
    pub chain: Vec<RoleName>,
    /// Warnings.
    pub warnings: Vec<Problem>,
}

/// Why a set of capabilities could not be worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpressionError<E> {
    /// `extends` leads back to a role that is being worked out.
    Cycle {
        /// The roles on the way, the offender at both ends.
        path: Vec<RoleName>,
    },
    /// `extends` was followed too often.
    TooDeep {
        /// The roles on the way.
        path: Vec<RoleName>,
    },
    /// A role could not be looked up.
    Lookup(E),
}

/// A capability that was relaxed though the parent does not have it, or an old name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveWarning {
    /// `relaxes` names what was not inherited.
    NotInherited {
        /// The role that declares it.
        role: RoleName,
        capability: CapabilityName,
    },
    /// A capability is called by the name of an earlier version.
    OldName {
        /// The role that declares it.
        role: RoleName,
        /// The name it uses.
        old: CapabilityName,
        /// The name of today.
        new: CapabilityName,
    },
}

/// The result of `extends`, `required` and `relaxes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlattenedRole {
    /// The capabilities, in order.
    pub capabilities: Vec<CapabilityName>,
    /// Warnings about them.
    pub warnings: Vec<ResolveWarning>,
    /// The role itself and those that it extends, nearest first.
    pub chain: Vec<RoleName>,
}

/// The flat, ordered capabilities of `name`, and warnings about them.
///
/// Parent first, own `required` behind it without repeats, then `relaxes` dropped.
pub fn flatten<E>(
    name: &RoleName,
    mut lookup: impl FnMut(&RoleName) -> Result<Capabilities, E>,
) -> Result<FlattenedRole, ExpressionError<E>> {
    let mut chain: Vec<(RoleName, Capabilities)> = Vec::new();
    let mut next = Some(name.clone());
    while let Some(role) = next {
        let seen = chain.iter().position(|(earlier, _)| *earlier == role);
        let path = |chain: &[(RoleName, Capabilities)]| {
            chain.iter().map(|(name, _)| name.clone()).chain([role.clone()]).collect()
        };
        if let Some(first) = seen {
            let looped = chain.get(first..).unwrap_or_default();
            return Err(ExpressionError::Cycle { path: path(looped) });
        }
        if chain.len() > MAX_DEPTH {
            return Err(ExpressionError::TooDeep { path: path(&chain) });
        }
        let capabilities = lookup(&role).map_err(ExpressionError::Lookup)?;
        next = capabilities.extends.as_ref().map(|parent| parent.get_ref().clone());
        chain.push((role, capabilities));
    }
    let (mut flat, mut warnings) = (Vec::new(), Vec::new());
    for (role, own) in chain.iter().rev() {
        let mut current = |written: &CapabilityName| match written.renamed_to() {
            Some(new) => {
                let old = written.clone();
                warnings.push(ResolveWarning::OldName {
                    role: role.clone(),
                    old,
                    new: new.clone(),
                });
                new
            }
            None => written.clone(),
        };
        let required: Vec<_> = own.required.iter().map(|name| current(name.get_ref())).collect();
        let relaxed: Vec<_> = own.relaxes.iter().map(|name| current(name.get_ref())).collect();
        for capability in &relaxed {
            if !flat.contains(capability) {
                let (role, capability) = (role.clone(), capability.clone());
                warnings.push(ResolveWarning::NotInherited { role, capability });
            }
        }
        for capability in required {
            if !flat.contains(&capability) {
                flat.push(capability);
            }
        }
        flat.retain(|capability| !relaxed.contains(capability));
    }
    let mut distinct: Vec<ResolveWarning> = Vec::new();
    for warning in warnings {
        if !distinct.contains(&warning) {
            distinct.push(warning);
        }
    }
    let warnings = distinct;
    let chain = chain.into_iter().map(|(role, _)| role).collect();
    Ok(FlattenedRole { capabilities: flat, warnings, chain })
}

/// Resolves the role `name`; `asked_in` is the place that names it.
pub fn resolve(
    kit: &Kit,
    name: &RoleName,
    asked_in: bailiwick_model::Place,
) -> Result<ResolvedRole, Vec<Problem>> {
    let mut found: Vec<FoundRole> = Vec::new();
    let mut place = asked_in;
    let flat = flatten(name, |role| {
        let Some(file) = kit.role(role)? else {
            return Err(vec![unknown_role(kit, role, place.clone())]);
        };
        let capabilities = file.declared.capabilities.clone();
        if let Some(parent) = &capabilities.extends {
            place = file.source.at(parent.span());
        }
        found.push(file);
        Ok(capabilities)
    });
    let FlattenedRole { capabilities, warnings, chain } =
        flat.map_err(|error| explain(error, &found))?;
    let warnings = warnings.iter().map(|warning| warn(warning, &found)).collect();
    let Some(own) = found.first() else {
        return Err(Vec::new());
    };
    let header = &own.declared.role;
    let tools = found.iter().find_map(|role| role.declared.tools.as_ref());
    let texts = |list: &[serde_spanned::Spanned<String>]| {
        list.iter().map(|text| text.get_ref().clone()).collect()
    };
    Ok(ResolvedRole {
        name: name.clone(),
        display_name: header.display_name.clone().unwrap_or_else(|| name.to_string()),
        description: header.description.clone(),
        spawnable: found.iter().find_map(|role| role.declared.role.spawnable).unwrap_or(true),
        claude_subagent_type: inherited(&found, |role| {
            role.claude_subagent_type
                .clone()
                .map(String::from)
                .or_else(|| default_subagent_type(role))
        })
        .unwrap_or_else(|| "critic".to_owned()),
        isolation: inherited(&found, |role| role.isolation.or_else(|| default_isolation(role)))
            .unwrap_or(Isolation::None),
        capabilities,
        tools: tools.map(|tools| texts(&tools.allowed)).unwrap_or_default(),
        ask: tools.map(|tools| texts(&tools.ask)).unwrap_or_default(),
        bash_patterns: tools.map(|tools| texts(&tools.bash_patterns_allowed)).unwrap_or_default(),
        escalation: found
            .iter()
            .find_map(|role| role.declared.escalation)
            .unwrap_or_default()
            .policy,
        chain,
        warnings,
    })
}

/// The problem of a role that does not exist.
pub fn unknown_role(kit: &Kit, role: &RoleName, place: bailiwick_model::Place) -> Problem {
    let help = kit.nearest_role(role.as_str()).map(|near| format!("did you mean `{near}`?"));
    let known = "`bailiwick roles list` shows the roles there are".to_owned();
    Problem::error("unknown-role", place, format!("there is no role `{role}`"))
        .help(help.unwrap_or(known))
}

fn explain(error: ExpressionError<Vec<Problem>>, found: &[FoundRole]) -> Vec<Problem> {
    let arrows =
        |path: &[RoleName]| path.iter().map(RoleName::to_string).collect::<Vec<_>>().join(" → ");
    let place = found.last().map(|role| {
        let extends = role.declared.capabilities.extends.as_ref();
        extends.map_or_else(|| role.source.whole(), |parent| role.source.at(parent.span()))
    });
    let place = place.unwrap_or_else(|| Source::new("", "").whole());
    match error {
        ExpressionError::Lookup(problems) => problems,
        ExpressionError::Cycle { path } => {
            let offender = path.last().map(RoleName::to_string).unwrap_or_default();
            let message = format!("`{offender}` extends itself: {}", arrows(&path));
            vec![Problem::error("role-cycle", place, message)]
        }
        ExpressionError::TooDeep { path } => {
            let message =
                format!("`extends` is followed more than {MAX_DEPTH} times: {}", arrows(&path));
            vec![Problem::error("role-too-deep", place, message)]
        }
    }
}

fn warn(warning: &ResolveWarning, found: &[FoundRole]) -> Problem {
    let place = |role: &RoleName, capability: &CapabilityName| {
        let file = found.iter().find(|file| file.declared.role.name.get_ref() == role);
        let Some(file) = file else {
            return Source::new(role.to_string(), "").whole();
        };
        let own = &file.declared.capabilities;
        let written = own.relaxes.iter().chain(&own.required);
        let mut spans = written.filter(|name| {
            name.get_ref() == capability || name.get_ref().renamed_to().as_ref() == Some(capability)
        });
        spans.next().map_or_else(|| file.source.whole(), |name| file.source.at(name.span()))
    };
    match warning {
        ResolveWarning::NotInherited { role, capability } => Problem::warning(
            "relaxes-nothing",
            place(role, capability),
            format!("role `{role}` relaxes `{capability}`, which it does not inherit"),
        ),
        ResolveWarning::OldName { role, old, new } => Problem::warning(
            "old-name",
            place(role, old),
            format!("role `{role}` uses the old name `{old}`"),
        )
        .help(format!("it is called `{new}` now")),
    }
}

/// The value of the role, or else of the nearest role that it extends.
fn inherited<T>(found: &[FoundRole], says: impl Fn(&Header) -> Option<T>) -> Option<T> {
    found.iter().find_map(|role| says(&role.declared.role))
}

fn default_subagent_type(role: &Header) -> Option<String> {
    let default = match role.name.get_ref().as_str() {
        "edit-local" | "edit-shared" => "code-implementer",
        "explorer" => "Explore",
        "read-only" => "critic",
        "git-ops" => "NOT-SPAWNABLE",
        _ => return None,
    };
    Some(default.to_owned())
}

fn default_isolation(role: &Header) -> Option<Isolation> {
    match role.name.get_ref().as_str() {
        "edit-local" | "edit-shared" => Some(Isolation::Worktree),
        _ => None,
    }
}
