//! `safety::no-dep-bump`: dependencies stay as they are.

use bailiwick_model::well_known::is_manifest;

use crate::decide::Context;
use crate::decision::Objection;
use crate::gates::{Care, base_name, named_program, names, shown};
use crate::paths::Place;
use crate::shell::Run;

const INSTEAD: &str = "work with the dependencies there are; name in your report the ones you would \
                       need, with the reason";

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    if context.policy.dependencies_may_change {
        return None;
    }
    for spot in context.spots {
        let Place::Inside { path, .. } = &spot.place else { continue };
        if is_manifest(path) {
            let reason = format!("{} says which dependencies there are", shown(&spot.shown));
            return Some(Objection::new(rule, reason, INSTEAD));
        }
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
    super::hidden(context, rule, Care::Programs)
}

fn changes(name: &str, run: &Run) -> bool {
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
    let valued =
        ["--manifest-path", "-C", "--config", "--color", "--prefix", "--cwd", "--dir", "-Z"];
    let mut plain: Vec<&str> = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if valued.contains(&word.as_str()) {
            rest.next();
        } else if !word.starts_with(['-', '+']) {
            plain.push(word);
        }
    }
    let (verb, second) = (plain.first().copied().unwrap_or_default(), plain.get(1).copied());
    let has = |option: &str| words.iter().any(|word| word == option);
    let dry = has("--dry-run") || has("-n") || has("--help") || has("-h");
    let decided = match name {
        "cargo" => {
            matches!(verb, "add" | "remove" | "rm" | "update" | "upgrade" | "generate-lockfile")
                && !(dry && verb != "add")
        }
        "npm" | "pnpm" | "yarn" | "bun" => match verb {
            "add" | "remove" | "rm" | "uninstall" | "un" | "unlink" | "update" | "up"
            | "upgrade" | "dedupe" | "link" => !dry,
            "install" | "i" | "in" => second.is_some() && !dry,
            "audit" => second == Some("fix") || has("--fix"),
            _ => false,
        },
        "poetry" | "pdm" | "uv" | "rye" => {
            matches!(verb, "add" | "remove" | "update" | "lock") && !has("--check") && !dry
        }
        "pipenv" => {
            matches!(verb, "install" | "uninstall" | "update" | "upgrade" | "lock")
                && (second.is_some() || verb != "install")
        }
        "pip-compile" => true,
        "go" => {
            matches!(
                (verb, second),
                ("get", _) | ("mod", Some("tidy" | "edit" | "init" | "vendor"))
            )
        }
        "bundle" => matches!(verb, "add" | "remove" | "update" | "lock"),
        "composer" => matches!(verb, "require" | "remove" | "update"),
        "dotnet" => matches!((verb, second), ("add" | "remove", Some("package"))),
        "mix" => verb == "deps.update" || verb == "deps.unlock",
        "deno" => matches!(verb, "add" | "remove"),
        _ => return false,
    };
    decided || unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Field;

    fn changed(words: &[&str]) -> bool {
        let argv = words.iter().map(|word| Field::text(*word)).collect();
        let run = Run { argv, through: Vec::new(), builtin: false };
        changes(words[0], &run)
    }

    #[test]
    fn what_installs_the_lock_file_is_not_a_change() {
        for words in [
            ["npm", "ci"].as_slice(),
            &["npm", "install"],
            &["npm", "run", "update"],
            &["cargo", "build"],
            &["cargo", "fetch"],
            &["uv", "sync"],
            &["go", "mod", "download"],
            &["cargo", "test", "update"],
        ] {
            assert!(!changed(words), "{words:?}");
        }
    }

    #[test]
    fn what_changes_dependencies_is_seen_behind_options() {
        for words in [
            ["cargo", "add", "serde"].as_slice(),
            &["cargo", "+nightly", "--manifest-path", "x/Cargo.toml", "add", "serde"],
            &["npm", "--prefix", "web", "install", "left-pad"],
            &["npm", "i", "-D", "left-pad"],
            &["yarn", "add", "x"],
            &["go", "mod", "tidy", "-v"],
            &["uv", "add", "x"],
            &["poetry", "lock"],
        ] {
            assert!(changed(words), "{words:?}");
        }
    }
}
