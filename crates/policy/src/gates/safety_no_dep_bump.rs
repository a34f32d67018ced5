//! `safety::no-dep-bump`: dependencies stay as they are.

use bailiwick_model::well_known::is_manifest;

use crate::decision::Objection;
use crate::gates::Context;
use crate::gates::{Concern, base_name, named_program, names, shown};
use crate::package_managers;
use crate::paths::Place;
use crate::shell::ProgramRun;

const INSTEAD: &str = "work with the dependencies there are; name in your report the ones you would \
                       need, with the reason";

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    if context.policy.dependencies_may_change {
        return None;
    }
    for run in context.effects.runs.iter().filter(|run| !run.builtin) {
        let Some(program) = named_program(run) else { continue };
        let named = names(&program, context);
        let name = named.iter().map(|name| base_name(name)).find(|name| changes(name, run));
        if name.is_some() {
            let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
            let reason = format!("`{}` changes dependencies", shown(&words.join(" ")));
            return Some(Objection::new(rule, reason, INSTEAD));
        }
    }
    for target in context.write_targets {
        let Place::Inside { path, .. } = &target.place else { continue };
        if is_manifest(path) {
            let reason = format!("{} says which dependencies there are", shown(&target.shown));
            return Some(Objection::new(rule, reason, INSTEAD));
        }
    }
    super::hidden_unless_sandboxed(context, rule, Concern::Programs)
}

fn changes(name: &str, run: &ProgramRun) -> bool {
    if !package_managers::is_one(name) {
        return false;
    }
    let mut words = Vec::new();
    let mut unknown = false;
    for field in run.argv.iter().skip(1) {
        match field.known() {
            Some(word) => words.push(word),
            None => {
                unknown |= words.iter().all(|word: &String| word.starts_with(['-', '+']));
                words.push("…".to_owned());
            }
        }
    }
    unknown || package_managers::changes(name, &words)
}
