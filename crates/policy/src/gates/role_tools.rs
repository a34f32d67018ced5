//! The role's tools: anything that it does not allow is denied.

use crate::decision::Objection;
use crate::gates::Concern;
use crate::gates::Context;
use crate::paths::Place;
use crate::tool::{Class, matches};

const RULE: &str = "role::tools";

pub(crate) fn judge(context: &Context<'_>) -> Option<Objection> {
    let allowed = context.policy.tools.as_ref()?;
    let has = |name: &str| allowed.iter().any(|glob| matches(glob, name));
    let list = if allowed.is_empty() { "no tools".to_owned() } else { allowed.join(", ") };
    let instead = format!("use {list}");
    let denied = context.call.tools.iter().find(|tool| match tool.class() {
        Class::NoEffect => false,
        // Typing is part of the shell.
        Class::TerminalInput => !has("Bash"),
        Class::Shell | Class::Reads | Class::Writes | Class::Other => !has(tool.as_str()),
    });
    if let Some(tool) = denied {
        let reason = format!("the role {} has no tool {tool}", context.policy.role);
        return Some(Objection::new(RULE, reason, instead));
    }
    let writes = has("Write") || has("Edit");
    let who = format!("the role {}", context.policy.role);
    if writes {
        return None;
    }
    shell_writes(context, RULE, &who, &instead)
        .or_else(|| super::hidden(context, RULE, Concern::Files))
}

/// A call that writes files does what the closed tools would do.
pub(super) fn shell_writes(
    context: &Context<'_>,
    rule: &str,
    who: &str,
    instead: &str,
) -> Option<Objection> {
    let target = context.write_targets.iter().find(|target| match &target.place {
        Place::Inside { .. } | Place::Unknown => true,
        Place::Outside(path) => !super::protected::is_temporary(context, path, target.kind),
    })?;
    let shown = super::shown(&target.shown);
    let reason = format!("{who} may change no file, and the call would write {shown}");
    Some(Objection::new(rule, reason, instead))
}
