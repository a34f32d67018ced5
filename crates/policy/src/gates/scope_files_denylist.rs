//! `scope::files-denylist`: what may not be written, though the whitelist has it.

use crate::decision::Objection;
use crate::gates::Context;
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
    for target in write_targets.filter(|target| !super::is_left_to_sandbox(context, &target.place))
    {
        let reason = match &target.place {
            Place::Outside(_) => continue,
            Place::Unknown => format!("the place of {} is not known", shown(&target.shown)),
            Place::Inside { path, directory } => {
                let below = |file: &String| {
                    let file =
                        if path.is_empty() { file.clone() } else { format!("{path}/{file}") };
                    list.matches(&file, false)
                };
                let hit = list.matches(path, *directory)
                    || match target.kind {
                        WriteKind::Change | WriteKind::Delete => false,
                        WriteKind::WriteBelow => {
                            list.reaches_below(path) || meets_floating(context, target)
                        }
                        WriteKind::DeleteTree => match &target.below {
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
    super::hidden_unless_sandboxed(context, rule, Concern::Files)
}

/// Whether a directory that is filled has, or gets, a file that the list names in any directory.
fn meets_floating(context: &Context<'_>, target: &WriteTarget) -> bool {
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
    // A file that the same command creates elsewhere may be moved here.
    let made = context.effects.writes.iter().filter(|write| write.kind == WriteKind::Change);
    let made = made
        .filter_map(|write| write.path.known())
        .any(|path| list.matches(path.trim_start_matches('/'), false));
    let copies = copied_trees(context.effects, context.facts);
    UNPACKS.contains(&target.by.as_str())
        || made
        || any(&target.holds)
        || copies.iter().filter_map(|path| context.facts.trees.get(path)).any(any)
}
