//! `safety::no-mass-delete`: at most a few files are deleted at once.

use crate::decide::Context;
use crate::decision::Objection;
use crate::gates::{Care, shown};
use crate::shell::How;

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    let most = usize::try_from(context.policy.most_deleted).unwrap_or(usize::MAX);
    let instead = format!(
        "delete at most {most} files, each by its name, or ask for the rest in your report"
    );
    let mut count = 0_usize;
    for spot in context.spots.iter().filter(|spot| spot.by != "mv") {
        count += match (spot.how, &spot.below) {
            (How::Change | How::Fill, _) => 0,
            (How::Delete, _) if !spot.many => 1,
            (How::DeleteTree, Some(files)) if !spot.many => files.len().max(1),
            (How::Delete | How::DeleteTree, _) => {
                let reason = format!("it cannot be told how much {} has", shown(&spot.shown));
                return Some(Objection::new(rule, reason, instead));
            }
        };
    }
    if count > most {
        let reason = format!("it would delete {count} files, and {most} are allowed");
        return Some(Objection::new(rule, reason, instead));
    }
    super::hidden(context, rule, Care::Programs)
}
