//! `scope::files-whitelist`: files are written only where the task allows it.

use bailiwick_model::capability::GateSeverity;
use bailiwick_model::module::GateModule;
use bailiwick_model::well_known::{is_build_output, is_manifest};

use crate::decision::Objection;
use crate::facts::Enforcement;
use crate::gates::Context;
use crate::gates::{Concern, protected, shown};
use crate::package_managers;
use crate::paths::{Globs, Place, WriteTarget};
use crate::policy::Rule;
use crate::shell::WriteKind;
use crate::tool::matches;

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    let list = Globs::parse(&context.policy.whitelist);
    let instead = match context.policy.whitelist.as_slice() {
        [] => "write nothing: the task names no files; put what should change into your report"
            .to_owned(),
        globs => format!("write only {}", globs.join(", ")),
    };
    for target in context.write_targets.iter().filter(|target| !is_left_to_others(context, target))
    {
        let reason = match &target.place {
            Place::Unknown => {
                format!("the place of {} is not known", shown(&target.shown))
            }
            Place::Outside(path) if protected::is_temporary(context, path, target.kind) => continue,
            Place::Outside(_) => {
                format!("{} is outside of the workspace", shown(&target.shown))
            }
            Place::Inside { path, directory } => {
                if super::is_own_report(context, path) || allowed(&list, target, path, *directory) {
                    continue;
                }
                let name = if path.is_empty() { "the workspace's root" } else { path.as_str() };
                format!("{} is not on the task's whitelist", shown(name))
            }
        };
        return Some(Objection::new(rule, reason, instead));
    }
    super::hidden_unless_sandboxed(context, rule, Concern::Files)
}

/// Whether another rule has a better answer: that dependencies stay as they are, or the sandbox.
fn is_left_to_others(context: &Context<'_>, target: &WriteTarget) -> bool {
    let stays = |rule: &Rule| {
        rule.gate == Some(GateModule::SafetyNoDepBump)
            && rule.severity == GateSeverity::Block
            && rule.tools.iter().any(|glob| matches(glob, "Bash"))
    };
    let Place::Inside { path, .. } = &target.place else {
        return super::is_left_to_sandbox(context, &target.place);
    };
    // In a sandbox, build output goes to scratch space.
    let rebuilt = context.facts.enforcement == Enforcement::Kernel && is_build_output(path);
    let manifest = package_managers::is_one(&target.by)
        && is_manifest(path)
        && !context.policy.dependencies_may_change;
    rebuilt || (manifest && context.policy.rules.iter().any(stays))
}

fn allowed(list: &Globs, target: &WriteTarget, path: &str, directory: bool) -> bool {
    match target.kind {
        WriteKind::Change | WriteKind::Delete => {
            let makes_way = target.by == "mkdir" && list.reaches_below(path);
            list.matches(path, directory || target.by == "mkdir") || makes_way
        }
        WriteKind::WriteBelow => list.covers_below(path),
        WriteKind::DeleteTree => {
            let covered = list.covers_below(path) || list.matches(path, directory);
            covered
                || target.below.as_ref().is_some_and(|files| {
                    !files.is_empty()
                        && files.iter().all(|file| list.matches(&format!("{path}/{file}"), false))
                })
        }
    }
}
