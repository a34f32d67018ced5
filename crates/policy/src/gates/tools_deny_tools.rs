//! `tools::deny-tools`: what the closed tools would do, no other tool does in their place.

use super::role_tools::shell_writes;
use crate::decision::Objection;
use crate::gates::Concern;
use crate::gates::Context;
use crate::policy::Rule;
use crate::tool::matches;

const INSTEAD: &str = "read, and put what should change into your report";

/// Whether the rule closes the tools that write files.
pub(crate) fn closes_writing(rule: &Rule) -> bool {
    rule.tools_denied.iter().any(|glob| matches(glob, "Write") || matches(glob, "Edit"))
}

pub(crate) fn judge(context: &Context<'_>, rule: &Rule) -> Option<Objection> {
    let named = |glob: &String| context.call.tools.iter().any(|tool| matches(glob, tool.as_str()));
    // A tool that is denied by name is reported first.
    if !closes_writing(rule) || rule.tools_denied.iter().any(named) {
        return None;
    }
    shell_writes(context, &rule.capability, "this agent", INSTEAD)
        .or_else(|| super::hidden(context, &rule.capability, Concern::Files))
}
