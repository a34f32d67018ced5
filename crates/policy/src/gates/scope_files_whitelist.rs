//! `scope::files-whitelist`: files are written only where the task allows it.

use crate::decide::Context;
use crate::decision::Objection;
use crate::gates::{Care, protected, shown};
use crate::paths::{Globs, Place, Spot};
use crate::shell::How;

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    let list = Globs::parse(&context.policy.whitelist);
    let instead = match context.policy.whitelist.as_slice() {
        [] => "write nothing: the task names no files; put what should change into your report"
            .to_owned(),
        globs => format!("write only {}", globs.join(", ")),
    };
    for spot in context.spots {
        let reason = match &spot.place {
            Place::Unknown => {
                format!("it cannot be told where {} is written", shown(&spot.shown))
            }
            Place::Outside(path) if protected::is_temporary(context, path) => continue,
            Place::Outside(_) => {
                format!("{} is outside of the workspace", shown(&spot.shown))
            }
            Place::Inside { path, directory } => {
                if super::is_own_report(context, path) || allowed(&list, spot, path, *directory) {
                    continue;
                }
                let name = if path.is_empty() { "the workspace's root" } else { path.as_str() };
                format!("{} is not on the task's whitelist", shown(name))
            }
        };
        return Some(Objection::new(rule, reason, instead));
    }
    super::hidden(context, rule, Care::Files)
}

fn allowed(list: &Globs, spot: &Spot, path: &str, directory: bool) -> bool {
    match spot.how {
        How::Change | How::Delete => {
            let makes_way = spot.by == "mkdir" && list.reaches_below(path);
            list.matches(path, directory || spot.by == "mkdir") || makes_way
        }
        How::Fill => list.covers_below(path),
        How::DeleteTree => {
            let covered = list.covers_below(path) || list.matches(path, directory);
            covered
                || spot.below.as_ref().is_some_and(|files| {
                    !files.is_empty()
                        && files.iter().all(|file| list.matches(&format!("{path}/{file}"), false))
                })
        }
    }
}
