//! `scope::no-rule-edits`: the files that instruct or limit agents are not written by one.

use bailiwick_model::well_known::is_rule;

use crate::decide::Context;
use crate::decision::Objection;
use crate::gates::{Concern, protected, shown};
use crate::paths::Place;
use crate::shell::WriteKind;

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    let write_targets = context.write_targets.iter();
    for spot in write_targets.filter(|spot| !super::is_held_elsewhere(context, &spot.place)) {
        let hit = match &spot.place {
            Place::Unknown => true,
            Place::Outside(path) => !is_scratch(context, path) && is_rule(path),
            Place::Inside { path, .. } => {
                let below = |file: &String| is_rule(file);
                let whole = spot.how == WriteKind::DeleteTree;
                let inside =
                    whole && spot.below.as_ref().is_none_or(|files| files.iter().any(below));
                !super::is_own_report(context, path) && (is_rule(path) || inside)
            }
        };
        if hit {
            let reason = match spot.place {
                Place::Unknown => {
                    format!("the place of {} is not known", shown(&spot.shown))
                }
                Place::Inside { .. } | Place::Outside(_) => {
                    format!("{} instructs or limits agents", shown(&spot.shown))
                }
            };
            let instead = "leave the rules as they are, and propose the change in your report";
            return Some(Objection::new(rule, reason, instead));
        }
    }
    super::unreadable(context, rule, Concern::Files)
}

/// A copy in a directory for temporary files instructs nobody.
fn is_scratch(context: &Context<'_>, path: &str) -> bool {
    protected::is_below(path, "/tmp") || protected::is_temporary(context, path, WriteKind::Fill)
}
