//! The gates: the verdict of each capability on a call, one file each.

mod context;
pub(crate) mod policy_git_read_only;
pub(crate) mod policy_no_git_ops;
pub(crate) mod protected;
pub(crate) mod read_only;
pub(crate) mod role_tools;
pub(crate) mod safety_no_dep_bump;
pub(crate) mod safety_no_mass_delete;
pub(crate) mod scope_files_denylist;
pub(crate) mod scope_files_whitelist;
pub(crate) mod scope_no_rule_edits;
pub(crate) mod tools_bash_allowlist;
pub(crate) mod tools_deny_tools;

use std::borrow::Cow;

use bailiwick_model::module::GateModule;

pub(crate) use crate::base_name::base_name;
use crate::decision::Objection;
use crate::effects::Effects;
use crate::facts::{Enforcement, Facts};
use crate::paths::{Place, join};
use crate::pattern::Patterns;
use crate::policy::Rule;
use crate::shell::{Hidden, HiddenReason, ProgramRun};
use crate::tool::matches;
use crate::word_list::words;
pub(crate) use context::Context;

/// The verdict of a compiled gate.
pub(crate) fn judge(module: GateModule, context: &Context<'_>, rule: &Rule) -> Option<Objection> {
    let name = rule.capability.as_str();
    match module {
        GateModule::PolicyNoGitOps => policy_no_git_ops::judge(context, name),
        GateModule::PolicyGitReadOnly => policy_git_read_only::judge(context, name),
        GateModule::ScopeFilesWhitelist => scope_files_whitelist::judge(context, name),
        GateModule::ScopeFilesDenylist => scope_files_denylist::judge(context, name),
        GateModule::ScopeNoRuleEdits => scope_no_rule_edits::judge(context, name),
        GateModule::SafetyNoDepBump => safety_no_dep_bump::judge(context, name),
        GateModule::SafetyNoMassDelete => safety_no_mass_delete::judge(context, name),
        GateModule::ToolsBashAllowlist => tools_bash_allowlist::judge(context, name),
        GateModule::ToolsDenyTools => tools_deny_tools::judge(context, rule),
    }
}

/// Objections by the names and patterns of a capability.
pub(crate) fn restricted(context: &Context<'_>, rule: &Rule) -> Option<Objection> {
    let denied = |tool: &str| rule.tools_denied.iter().any(|glob| matches(glob, tool));
    if let Some(tool) = context.call.tools.iter().find(|tool| denied(tool.as_str())) {
        return Some(Objection::new(
            &rule.capability,
            format!("the tool {tool} is closed"),
            "use the tools that only read, and put what should change into your report",
        ));
    }
    if rule.patterns.is_empty() {
        return None;
    }
    for text in context.command_lines() {
        match rule.patterns.matches(text) {
            Ok(false) => {}
            Ok(true) => {
                return Some(Objection::new(
                    &rule.capability,
                    format!("`{}` is a command that it forbids", shown(text)),
                    "leave that command out, and say in your report what it should have done",
                ));
            }
            Err(damaged) => {
                return Some(Objection::new(
                    &rule.capability,
                    damaged.to_string(),
                    "nothing can run until the policy is compiled again",
                ));
            }
        }
    }
    match rule.gate.is_some_and(is_enforced_by_mounts) {
        true => hidden_unless_sandboxed(context, &rule.capability, Concern::Programs),
        false => hidden(context, &rule.capability, Concern::Programs),
    }
}

/// Whether a sandbox holds the limit of a gate for every process: one on paths, `.git` among them.
fn is_enforced_by_mounts(module: GateModule) -> bool {
    match module {
        GateModule::PolicyNoGitOps
        | GateModule::PolicyGitReadOnly
        | GateModule::ScopeFilesWhitelist
        | GateModule::ScopeFilesDenylist
        | GateModule::ScopeNoRuleEdits
        | GateModule::SafetyNoDepBump
        | GateModule::SafetyNoMassDelete => true,
        GateModule::ToolsBashAllowlist | GateModule::ToolsDenyTools => false,
    }
}

/// The first command that needs an approval: one that matches, or that cannot be read.
pub(crate) fn commands_needing_approval(
    context: &Context<'_>,
    patterns: &Patterns,
) -> Option<Objection> {
    const RULE: &str = "limit::ask-commands";
    const INSTEAD: &str = "wait for the answer, or continue with what needs no approval";
    for text in context.command_lines() {
        // A damaged table asks, because it is not known whether it matches.
        if patterns.matches(text).unwrap_or(true) {
            let reason = format!("a person has to approve `{}`", shown(text));
            return Some(Objection::new(RULE, reason, INSTEAD));
        }
    }
    hidden(context, RULE, Concern::Programs)
        .map(|hidden| Objection { instead: INSTEAD.into(), ..hidden })
}

/// A command in the forms that a pattern is applied to: as written, by its last name, and as the real program.
pub(crate) fn command_forms(run: &ProgramRun, context: &Context<'_>) -> Vec<String> {
    let Some(program) = named_program(run) else { return Vec::new() };
    let mut rest = String::new();
    for field in run.argv.iter().skip(1) {
        rest.push(' ');
        field.append_to(&mut rest);
    }
    let mut texts = Vec::new();
    for name in names(&program, context) {
        let text = format!("{name}{rest}");
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// The names of a program: as written, without its directory, and what it really is.
pub(crate) fn names<'a>(program: &'a str, context: &Context<'a>) -> Vec<&'a str> {
    let base = base_name(program);
    let mut names = vec![program];
    if base != program {
        names.push(base);
    }
    let facts = &context.facts.programs;
    names.extend(facts.get(program).map(String::as_str));
    let elsewhere = context.effects.programs_by_path.iter().filter(|(named, _)| named == program);
    names.extend(elsewhere.filter_map(|(_, path)| facts.get(path).map(String::as_str)));
    names
}

/// A program as written, or the part that the text determines.
pub(crate) fn named_program(run: &ProgramRun) -> Option<Cow<'_, str>> {
    let known = run.argv.first()?.known_text();
    known.or_else(|| Some(Cow::Owned(format!("…/{}", run.name()?))))
}

/// A text of at most one line and a few words, for a reason.
pub(crate) fn shown(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None if line.len() < text.trim_end().len() => format!("{line}…"),
        None => line.to_owned(),
    }
}

/// Which hidden effects a gate objects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concern {
    /// Which programs run.
    Programs,
    /// Which files are written, by any program.
    Files,
}

/// The same for a limit on paths: if a sandbox enforces it, what the text does not show is left to that.
pub(crate) fn hidden_unless_sandboxed(
    context: &Context<'_>,
    rule: &str,
    concern: Concern,
) -> Option<Objection> {
    match context.facts.enforcement {
        Enforcement::TextOnly => hidden(context, rule, concern),
        Enforcement::Kernel => None,
    }
}

/// Whether a place that no text decides is left to a sandbox.
pub(crate) fn is_left_to_sandbox(context: &Context<'_>, place: &Place) -> bool {
    *place == Place::Unknown && context.facts.enforcement == Enforcement::Kernel
}

/// An objection to what hides what a gate would have to see.
pub(crate) fn hidden(context: &Context<'_>, rule: &str, concern: Concern) -> Option<Objection> {
    let matters = |hidden: &&Hidden| {
        let is_path =
            matches!(hidden.why, HiddenReason::ComputedPath | HiddenReason::ComputedDeletion);
        concern == Concern::Files || !is_path
    };
    let hidden = context.effects.hidden.iter().find(matters)?;
    let text = shown(&hidden.text);
    let (reason, instead) = match hidden.why {
        HiddenReason::OddCharacter => (
            format!("the command has a character that shells read differently ({text})"),
            "write it with plain spaces and line breaks",
        ),
        HiddenReason::Unreadable => (
            format!("the command cannot be read for certain (`{text}`)"),
            "write it more plainly, or as several commands",
        ),
        HiddenReason::TooComplex => {
            (format!("the command is too long or too deep (`{text}`)"), "split it into several")
        }
        HiddenReason::ComputedName => (
            format!("the program is only known when it runs (`{text}`)"),
            "name the program in the command itself",
        ),
        HiddenReason::ComputedText => (
            format!("what would run is only known when it runs (`{text}`)"),
            "write the command out instead of computing it",
        ),
        HiddenReason::ComputedPath | HiddenReason::ComputedDeletion => (
            format!("the file that is written is only known when it runs (`{text}`)"),
            "name the file in the command itself, or use the editing tools",
        ),
        HiddenReason::PipedIntoShell => (
            format!("a shell or interpreter would run what another program prints ({text})"),
            "save it to a file, read it, and run the commands themselves",
        ),
        HiddenReason::Interactive => (
            format!("it would wait for input that the gate cannot see ({text})"),
            "give the program its whole input in the command",
        ),
        HiddenReason::UnknownOption => (
            format!("an option is not known here, so it may hide a program (`{text}`)"),
            "leave the option out, or start the program directly",
        ),
        HiddenReason::RunsText => {
            (format!("it can run text from elsewhere (`{text}`)"), "write the command out plainly")
        }
    };
    Some(Objection::new(rule, reason, instead))
}

/// Programs that a command copies or links, which it may then run under another name.
pub(crate) fn copied_programs(effects: &Effects) -> Vec<String> {
    let copies = effects.runs.iter().filter(|run| {
        let program = named_program(run).unwrap_or_default();
        matches!(base_name(&program), "cp" | "ln" | "install" | "mv" | "cat" | "dd" | "rsync")
    });
    copies
        .flat_map(|run| run.argv.iter().skip(1))
        .filter_map(crate::shell::Field::known)
        .map(|word| word.strip_prefix("if=").map_or(word.clone(), str::to_owned))
        .filter(|word| word.contains('/') && !word.starts_with('-'))
        .collect()
}

/// Directories that a command copies or moves with what is in them, as far as they are named.
pub(crate) fn copied_trees(effects: &Effects, facts: &Facts) -> Vec<String> {
    let copies = effects.runs.iter().filter(|run| {
        let program = named_program(run).unwrap_or_default();
        matches!(base_name(&program), "cp" | "mv" | "rsync" | "scp")
    });
    let operands = copies.flat_map(|run| run.argv.iter().skip(1));
    let operands = operands.filter_map(crate::shell::Field::known);
    operands
        .filter(|word| !word.starts_with('-') && !word.contains(':'))
        .filter_map(|word| match word.starts_with('/') {
            true => Some(word),
            false => facts.directory.as_deref().map(|directory| join(directory, &word)),
        })
        .collect()
}

/// Programs that start no others, or whose effects are analysed.
const FOLLOWED_PROGRAMS: &[&str] = words!(
    "awk basename cat chmod chown cmp comm cp curl cut date dd df diff dirname du \
    egrep env expr false fgrep file find fmt fold gawk grep gunzip gzip head hostname id install \
    join jq less ln ls md5sum mkdir mktemp more mv nice nl nohup od paste patch pr printenv \
    printf ps pwd readlink realpath rev rg rm rmdir rsync sed seq sha256sum sleep sort split \
    stat stdbuf strings sum tac tail tar tee test time timeout touch tr tree true truncate tsort \
    tty uname uniq unlink unzip wc wget which who whoami xargs xxd yes zcat zip git gh sudo \
    setsid flock bash sh dash zsh"
);

/// Whether a program starts no others, or what it starts is analysed.
pub(crate) fn is_followed(name: &str) -> bool {
    FOLLOWED_PROGRAMS.contains(&name)
}

/// Programs and scripts whose effects cannot be read from the command.
pub(crate) fn programs_left_to_sandbox(effects: &Effects) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    let programs = effects.runs.iter().filter(|run| !run.builtin).filter_map(named_program);
    let programs =
        programs.filter(|program| !is_followed(base_name(program)) || program.contains('/'));
    let programs = programs.map(Cow::into_owned);
    for name in programs.chain(effects.scripts_not_in_text.iter().map(ToString::to_string)) {
        if !left.contains(&name) {
            left.push(name);
        }
    }
    left
}

/// The agent's own report may be written, wherever the lists end.
pub(crate) fn is_own_report(context: &Context<'_>, path: &str) -> bool {
    let agent = context.policy.agent.as_deref();
    agent.is_some_and(|agent| path == bailiwick_model::well_known::report_path(agent))
}
