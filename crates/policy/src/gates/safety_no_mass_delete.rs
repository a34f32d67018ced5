//! `safety::no-mass-delete`: at most a few files are deleted at once.

use crate::decision::Objection;
use crate::gates::Context;
use crate::gates::{Concern, base_name, protected, shown};
use crate::paths::{Place, WriteTarget};
use crate::shell::{Hidden, HiddenReason, ProgramRun, WriteKind};

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    let most = usize::try_from(context.policy.most_deleted).unwrap_or(usize::MAX);
    let instead = format!(
        "delete at most {most} files, each by its name, or ask for the rest in your report"
    );
    // Files that are moved out of the workspace count as deleted.
    let moved_out = context.write_targets.iter().any(|target| {
        target.by == "mv" && matches!(target.place, Place::Outside(_)) && !deletes(target)
    });
    let counted = |target: &&WriteTarget| deletes(target) && (target.by != "mv" || moved_out);
    let mut count = 0_usize;
    for target in
        context.write_targets.iter().filter(counted).filter(|target| !is_rebuilt(context, target))
    {
        count += match (target.kind, &target.below) {
            (WriteKind::Delete, _) if !target.many => 1,
            (WriteKind::DeleteTree, Some(files)) if !target.many => files.len().max(1),
            (
                WriteKind::Delete
                | WriteKind::DeleteTree
                | WriteKind::Change
                | WriteKind::WriteBelow,
                _,
            ) => {
                let reason =
                    format!("the number of files in {} is not known", shown(&target.shown));
                return Some(Objection::new(rule, reason, instead));
            }
        };
    }
    if count > most {
        let reason = format!("it would delete {count} files, and {most} are allowed");
        return Some(Objection::new(rule, reason, instead));
    }
    if let Some(run) = context.effects.runs.iter().find(|run| deletes_by_git(run)) {
        let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
        let reason =
            format!("the number of files that `{}` deletes is not known", shown(&words.join(" ")));
        return Some(Objection::new(rule, reason, instead));
    }
    let computed = context.effects.hidden.iter().find(|hidden| deletes_computed(hidden));
    if let Some(hidden) = computed {
        let reason =
            format!("the number of files that `{}` deletes is not known", shown(&hidden.text));
        return Some(Objection::new(rule, reason, instead));
    }
    // A verification counts deleted files, whatever deleted them.
    super::hidden_unless_sandboxed(context, rule, Concern::Programs)
}

fn deletes(target: &WriteTarget) -> bool {
    matches!(target.kind, WriteKind::Delete | WriteKind::DeleteTree)
}

/// Files that are recreated automatically: the output of builds, temporary files.
fn is_rebuilt(context: &Context<'_>, target: &WriteTarget) -> bool {
    const REBUILT: [&str; 14] = [
        "node_modules",
        "target",
        "__pycache__",
        ".venv",
        "venv",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".tox",
        ".next",
        ".nuxt",
        ".gradle",
        ".cache",
        "coverage",
    ];
    match &target.place {
        Place::Inside { path, .. } => path.split('/').any(|part| REBUILT.contains(&part)),
        Place::Outside(path) => {
            protected::is_below(path, "/tmp") || protected::is_temporary(context, path, target.kind)
        }
        Place::Unknown => false,
    }
}

fn deletes_by_git(run: &ProgramRun) -> bool {
    let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
    let is_git = words.first().is_some_and(|program| base_name(program) == "git");
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let verb = words.iter().skip(1).find(|word| !word.starts_with('-')).map(String::as_str);
    let flags = |letter: char| {
        words
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
    };
    let dry = has(&["--dry-run"]) || flags('n');
    is_git
        && !dry
        && match verb {
            Some("clean") => true,
            Some("rm") => flags('r'),
            _ => false,
        }
}

/// Code that deletes files which it works out.
fn deletes_computed(hidden: &Hidden) -> bool {
    hidden.why == HiddenReason::ComputedDeletion
}
