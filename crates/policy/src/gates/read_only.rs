//! A template that may only read: whatever writes files is denied.

use super::role_tools::shell_writes;
use crate::decide::Context;
use crate::decision::Objection;
use crate::tool::Class;

const RULE: &str = "template::read-only";
const WHO: &str = "a read-only agent";
const INSTEAD: &str = "look, and say what you found";

pub(crate) fn judge(context: &Context<'_>) -> Option<Objection> {
    let writes = context.call.tools.iter().find(|tool| tool.class() == Class::Writes);
    if let Some(tool) = writes {
        let reason = format!("{WHO} may change no file, and {tool} does");
        return Some(Objection::new(RULE, reason, INSTEAD));
    }
    shell_writes(context, RULE, WHO, INSTEAD)
}
