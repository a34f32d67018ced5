//! `tools::bash-allowlist`: only commands that match the role's patterns run.

use crate::decision::Objection;
use crate::gates::Context;
use crate::gates::{Concern, base_name, protected, shown};
use crate::paths::Place;
use crate::pattern::{DamagedTable, Patterns};
use crate::shell::variables::meaning;
use crate::shell::{Field, ProgramRun, VariableSet};
use crate::tool::matches;
use crate::word_list::words;

/// Builtins that start nothing and change nothing but the shell itself.
const HARMLESS: &[&str] = words!(
    ": [ alias break builtin caller cd command compgen continue declare dirs echo \
    eval exec exit export false getopts hash help jobs let local mapfile popd printf pushd pwd read \
    readarray readonly return set shift shopt test times trap true type typeset ulimit umask unalias \
    unset wait"
);

/// Programs whose every operand counts, since each is a file that they change.
const BY_OPERAND: [&str; 12] = [
    "rm", "rmdir", "unlink", "shred", "mv", "cp", "tee", "touch", "chmod", "chown", "ln",
    "truncate",
];

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    match &context.policy.shell {
        Some(patterns) => objection(context, patterns, rule),
        None => Some(Objection::new(
            rule,
            "the role names no command that may run",
            "use the tools that need no shell",
        )),
    }
}

/// The objection of an allowlist to a command.
pub(crate) fn objection(
    context: &Context<'_>,
    patterns: &Patterns,
    rule: &str,
) -> Option<Objection> {
    let instead = format!("run only commands that match {}", patterns.written.join(", "));
    let refuse = |reason: String| Some(Objection::new(rule, reason, instead.clone()));
    if let Some(hidden) = super::hidden(context, rule, Concern::Programs) {
        return Some(Objection { instead, ..hidden });
    }
    for run in &context.effects.runs {
        match allowed(run, patterns) {
            Ok(true) => {}
            Ok(false) => return refuse(format!("`{}` is not on the list", line(run))),
            Err(DamagedTable) => return refuse(DamagedTable.to_string()),
        }
    }
    if let Some(script) = context.effects.scripts_not_in_text.first() {
        return refuse(format!("the script {} is not on the list", shown(&script.to_string())));
    }
    let changes = |set: &&VariableSet| changes_programs(&set.name) && !is_plain_flags(set);
    if let Some(set) = context.effects.sets.iter().find(changes) {
        return refuse(format!("{} changes which programs run", set.name));
    }
    written(context).and_then(|path| {
        refuse(format!("{} is written by a redirection, which no pattern allows", shown(&path)))
    })
}

/// A redirection into a file, where no other gate looks after files.
fn written(context: &Context<'_>) -> Option<String> {
    let looks = |glob: &String| matches(glob, "Write") || matches(glob, "Edit");
    let scoped = context.policy.tools.is_some()
        && context.policy.rules.iter().any(|rule| {
            rule.gate == Some(bailiwick_model::module::GateModule::ScopeFilesWhitelist)
                && rule.tools.iter().any(looks)
        });
    if scoped {
        return None;
    }
    let target =
        context.write_targets.iter().filter(|target| target.by == ">").find(
            |target| match &target.place {
                Place::Inside { .. } | Place::Unknown => true,
                Place::Outside(path) => {
                    let temporary = path.starts_with("/tmp/") || path.starts_with("/var/tmp/");
                    !temporary && !protected::is_temporary(context, path, target.kind)
                }
            },
        )?;
    Some(target.shown.clone())
}

fn allowed(run: &ProgramRun, patterns: &Patterns) -> Result<bool, DamagedTable> {
    let Some(program) = run.program() else { return Ok(false) };
    // `jobs -x` starts a program.
    let starts = program == "jobs" && run.argv.len() > 1;
    if run.builtin && !starts && HARMLESS.contains(&program.as_str()) {
        return Ok(true);
    }
    let words: Vec<String> = run.argv.iter().map(plainly).collect();
    if !patterns.matches(&words.join(" "))? {
        return Ok(false);
    }
    if !BY_OPERAND.contains(&base_name(&program)) {
        return Ok(true);
    }
    let (options, operands): (Vec<&String>, Vec<&String>) =
        words.iter().skip(1).partition(|word| word.starts_with('-'));
    for operand in operands {
        let mut one = vec![program.clone()];
        one.extend(options.iter().map(|option| (*option).clone()));
        one.push(operand.clone());
        if !patterns.matches(&one.join(" "))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A word as a pattern must see it: `..` resolved, and unknown parts at their worst.
fn plainly(field: &Field) -> String {
    let text = match field.known() {
        Some(text) => text,
        None => field.to_string().replace('…', "../…"),
    };
    if !text.split('/').any(|part| part == "..") {
        return text;
    }
    let mut parts: Vec<&str> = Vec::new();
    for (at, part) in text.split('/').enumerate() {
        match part {
            // `a/./..` and `a//..` are what `a/..` is.
            "" | "." if at > 0 => {}
            ".." if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                parts.pop();
            }
            ".." if parts.first() == Some(&"") => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Variables that replace a program, or make it start another; most that only tune cargo do not.
fn changes_programs(name: &str) -> bool {
    const TUNING: [&str; 8] = [
        "CARGO_TERM_",
        "CARGO_INCREMENTAL",
        "CARGO_NET_OFFLINE",
        "CARGO_NET_RETRY",
        "CARGO_PROFILE_",
        "CARGO_MANIFEST_",
        "RUST_LOG",
        "RUST_",
    ];
    meaning(name).is_some() && !TUNING.iter().any(|start| name.starts_with(start))
}

/// Flags for the compiler that name no program and load nothing.
fn is_plain_flags(set: &VariableSet) -> bool {
    const RISKY: [&str; 10] = [
        "link",
        "-Z",
        "ar=",
        "runner",
        "wrapper",
        "--extern",
        "--sysroot",
        "plugin",
        "@",
        "config",
    ];
    matches!(set.name.as_str(), "RUSTFLAGS" | "RUSTDOCFLAGS")
        && set.value.as_ref().is_some_and(|value| !RISKY.iter().any(|risky| value.contains(risky)))
}

fn line(run: &ProgramRun) -> String {
    let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
    shown(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_normalised_with_its_dots() {
        for (word, expected) in [
            ("/tmp/a", "/tmp/a"),
            ("/tmp/../etc", "/etc"),
            ("/tmp/./../etc", "/etc"),
            ("/tmp//../etc", "/etc"),
            ("/tmp/a/./b/../../../etc", "/etc"),
            ("../x", "../x"),
            ("a/../../x", "../x"),
            ("--flag=1..2", "--flag=1..2"),
        ] {
            assert_eq!(plainly(&Field::text(word)), expected, "{word}");
        }
    }
}
