//! `scope::files-denylist`: what may not be written, though the whitelist has it.

use crate::decide::Context;
use crate::decision::Objection;
use crate::gates::{Concern, copied_trees, shown};
use crate::paths::{Globs, Place, WriteTarget};
use crate::shell::WriteKind;

/// Programs that fill a directory with what no text shows.
const UNPACKS: [&str; 7] = ["tar", "bsdtar", "unzip", "wget", "zipfile", "tarfile", "uudecode"];

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    if context.policy.denylist.is_empty() {
        return None;
    }
    let list = Globs::parse(&context.policy.denylist);
    let instead = format!(
        "leave {} as they are, and say in your report what should change",
        context.policy.denylist.join(", ")
    );
    let write_targets = context.write_targets.iter();
    for spot in write_targets.filter(|spot| !super::is_held_elsewhere(context, &spot.place)) {
        let reason = match &spot.place {
            Place::Outside(_) => continue,
            Place::Unknown => format!("the place of {} is not known", shown(&spot.shown)),
            Place::Inside { path, directory } => {
                let below = |file: &String| {
                    let file =
                        if path.is_empty() { file.clone() } else { format!("{path}/{file}") };
                    list.matches(&file, false)
                };
                let hit = list.matches(path, *directory)
                    || match spot.how {
                        WriteKind::Change | WriteKind::Delete => false,
                        WriteKind::Fill => {
                            list.reaches_below(path) || meets_floating(context, spot)
                        }
                        WriteKind::DeleteTree => match &spot.below {
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
    super::unreadable(context, rule, Concern::Files)
}

/// Whether a directory that is filled has, or gets, a file that the list names in any directory.
fn meets_floating(context: &Context<'_>, spot: &WriteTarget) -> bool {
    let floats =
        |glob: &&String| glob.starts_with("**/") || !glob.trim_end_matches('/').contains('/');
    let globs: Vec<String> = context.policy.denylist.iter().filter(floats).cloned().collect();
    if globs.is_empty() {
        return false;
    }
    let list = Globs::parse(&globs);
    let any = |files: &Option<Vec<String>>| {
        files.as_ref().is_none_or(|files| files.iter().any(|file| list.matches(file, false)))
    };
    // What the same command makes elsewhere may be brought here.
    let made = context.effects.writes.iter().filter(|write| write.how == WriteKind::Change);
    let made = made
        .filter_map(|write| write.path.known())
        .any(|path| list.matches(path.trim_start_matches('/'), false));
    let copies = copied_trees(context.effects, context.facts);
    UNPACKS.contains(&spot.by.as_str())
        || made
        || any(&spot.holds)
        || copies.iter().filter_map(|path| context.facts.trees.get(path)).any(any)
}
