//! `scope::files-denylist`: what may not be written, though the whitelist has it.

use crate::decide::Context;
use crate::decision::Objection;
use crate::gates::{Care, shown};
use crate::paths::{Globs, Place};
use crate::shell::How;

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    if context.policy.denylist.is_empty() {
        return None;
    }
    let list = Globs::parse(&context.policy.denylist);
    let instead = format!(
        "leave {} as they are, and say in your report what should change",
        context.policy.denylist.join(", ")
    );
    for spot in context.spots {
        let reason = match &spot.place {
            Place::Outside(_) => continue,
            Place::Unknown => format!("it cannot be told where {} is written", shown(&spot.shown)),
            Place::Inside { path, directory } => {
                let below = |file: &String| {
                    let file =
                        if path.is_empty() { file.clone() } else { format!("{path}/{file}") };
                    list.matches(&file, false)
                };
                let hit = list.matches(path, *directory)
                    || match spot.how {
                        How::Change | How::Delete => false,
                        How::Fill => list.reaches_below(path),
                        How::DeleteTree => match &spot.below {
                            Some(files) => files.iter().any(below),
                            None => true,
                        },
                    };
                if !hit {
                    continue;
                }
                format!("{} is on the task's denylist, or has something of it below", shown(path))
            }
        };
        return Some(Objection::new(rule, reason, instead));
    }
    super::hidden(context, rule, Care::Files)
}
