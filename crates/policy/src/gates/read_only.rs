//! Enforces a read-only template: everything that writes files or uses the network is denied.

use super::role_tools::shell_writes;
use crate::decision::Objection;
use crate::gates::Concern;
use crate::gates::Context;
use crate::tool::Class;

const RULE: &str = "template::read-only";
const WHO: &str = "a read-only agent";
const INSTEAD: &str = "look, and say what you found";
/// Tools that use the network outside the sandbox: on the side of the model or of the CLI.
const NETWORK: [&str; 3] = ["WebFetch", "WebSearch", "CodeSearch"];

pub(crate) fn judge(context: &Context<'_>) -> Option<Objection> {
    let writes = context.call.tools.iter().find(|tool| tool.class() == Class::Writes);
    if let Some(tool) = writes {
        let reason = format!("{WHO} may change no file, and {tool} does");
        return Some(Objection::new(RULE, reason, INSTEAD));
    }
    let reaches = context.call.tools.iter().find(|tool| NETWORK.contains(&tool.as_str()));
    // A limit without writable paths lists the tools itself.
    if let Some(tool) = reaches.filter(|_| context.policy.limit_owner.is_none()) {
        let reason = format!("{WHO} has no network, and {tool} needs it");
        return Some(Objection::new(RULE, reason, INSTEAD));
    }
    let unknown = context
        .write_targets
        .iter()
        .all(|target| super::is_left_to_sandbox(context, &target.place));
    let writes = if unknown { None } else { shell_writes(context, RULE, WHO, INSTEAD) };
    writes.or_else(|| super::hidden_unless_sandboxed(context, RULE, Concern::Files))
}
