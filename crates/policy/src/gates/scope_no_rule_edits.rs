//! `scope::no-rule-edits`: the files that instruct or limit agents are not written by one.

use bailiwick_model::well_known::is_rule;

use crate::decision::Objection;
use crate::gates::Context;
use crate::gates::{Concern, protected, shown};
use crate::paths::Place;
use crate::shell::WriteKind;

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    let write_targets = context.write_targets.iter();
    for target in write_targets.filter(|target| !super::is_left_to_sandbox(context, &target.place))
    {
        let hit = match &target.place {
            Place::Unknown => true,
            Place::Outside(path) => !is_scratch(context, path) && is_rule(path),
            Place::Inside { path, .. } => {
                let below = |file: &String| is_rule(file);
                let whole = target.kind == WriteKind::DeleteTree;
                let inside =
                    whole && target.below.as_ref().is_none_or(|files| files.iter().any(below));
                !super::is_own_report(context, path) && (is_rule(path) || inside)
            }
        };
        if hit {
            let reason = match target.place {
                Place::Unknown => {
                    format!("the place of {} is not known", shown(&target.shown))
                }
                Place::Inside { .. } | Place::Outside(_) => {
                    format!("{} instructs or limits agents", shown(&target.shown))
                }
            };
            let instead = "leave the rules as they are, and propose the change in your report";
            return Some(Objection::new(rule, reason, instead));
        }
    }
    super::hidden_unless_sandboxed(context, rule, Concern::Files)
}

/// A copy in a temporary directory instructs no agent.
fn is_scratch(context: &Context<'_>, path: &str) -> bool {
    protected::is_below(path, "/tmp")
        || protected::is_temporary(context, path, WriteKind::WriteBelow)
}
