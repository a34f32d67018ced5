//! The brief: the prompt of an agent.
//!
//! Role fragments in order, then the task's scope, then tools and escalation, then the body.

use std::fmt::Display;

use bailiwick_kit::Bound;
use bailiwick_kit::bind::{SEPARATOR, texts};
use bailiwick_model::attempt::Allowance;
use bailiwick_model::task::{CrateName, TestChanges};
use bailiwick_model::{Problem, Task};

use crate::supervision::Budget;

/// Composes the prompt of a bound task. It depends on the task and its role alone.
pub fn compose(bound: &Bound) -> Result<String, Problem> {
    composed(bound, None)
}

/// Composes the prompt of a run, with the limits that apply besides its task: a default budget, and mounts on which
/// it can change nothing.
pub fn compose_for_run(bound: &Bound, budget: &Allowance) -> Result<String, Problem> {
    composed(bound, Some(budget))
}

fn composed(bound: &Bound, run: Option<&Allowance>) -> Result<String, Problem> {
    require_spawnable(bound)?;
    let parts = texts(&bound.capabilities)
        .chain(scope(&bound.task))
        .chain(limits(bound, run))
        .chain(body(&bound.task));
    let parts: Vec<String> = parts.map(|part| part.trim_end().to_owned()).collect();
    Ok(parts.join(SEPARATOR) + "\n")
}

/// A role that is only documentation cannot be used for an agent.
pub fn require_spawnable(bound: &Bound) -> Result<(), Problem> {
    if bound.role.spawnable {
        return Ok(());
    }
    let place = bound.source.at(bound.task.task.role.span());
    let message = format!(
        "role `{}` is not spawnable (RULE 0.13: git belongs to the orchestrator, not to an agent)",
        bound.role.name
    );
    Err(Problem::error("not-spawnable", place, message)
        .help("`bailiwick roles list` shows the roles that an agent may have"))
}

fn body(task: &Task) -> Option<String> {
    (!task.body.text.trim().is_empty()).then(|| task.body.text.clone())
}

fn code(entries: impl IntoIterator<Item = impl Display>) -> String {
    entries.into_iter().map(|entry| format!("`{entry}`")).collect::<Vec<_>>().join(", ")
}

fn bullets(title: &str, entries: impl IntoIterator<Item = impl Display>) -> Option<String> {
    let lines: Vec<String> = entries.into_iter().map(|entry| format!("\n- `{entry}`")).collect();
    (!lines.is_empty()).then(|| format!("{title}:{}", lines.concat()))
}

fn line(title: &str, value: Option<impl Display>) -> Option<String> {
    value.map(|value| format!("{title}: {value}"))
}

/// The parameters of the task, with a heading; `None` if it sets none.
fn scope(task: &Task) -> Option<String> {
    let verification = &task.verification;
    let crates = |list: &[CrateName]| (!list.is_empty()).then(|| code(list));
    let number = |value: &Option<serde_spanned::Spanned<u32>>| value.as_ref().map(|n| *n.get_ref());
    let fields = task.output.report_fields_required.get();
    let paths = task.scope.files_whitelist.get().iter().map(|pattern| pattern.as_str());
    let denied = task.scope.files_denylist.get().iter().map(|pattern| pattern.as_str());
    let commands = verification.commands.get().iter().map(|command| command.as_str());
    let dependencies = verification.allow_dependency_changes.as_ref();
    let tests = verification.test_changes.as_ref();
    let entries = [
        bullets("**files-whitelist** (you MAY write these, and nothing else)", paths),
        bullets("**files-denylist** (you MUST NOT write these)", denied),
        line("**cargo check MUST pass** for", crates(verification.cargo_check_crates.get())),
        line("**cargo test MUST pass** for", crates(verification.cargo_test_crates.get())),
        line("**minimum test count**", number(&verification.test_count_min)),
        bullets("**these commands MUST exit 0**", commands),
        dependencies
            .filter(|allowed| *allowed.get_ref())
            .map(|_| "**dependency changes** are allowed in this task".to_owned()),
        tests.filter(|changes| *changes.get_ref() == TestChanges::Allowed).map(|_| {
            "**changes of existing tests and their configuration** are allowed in this task"
                .to_owned()
        }),
        line("**most files you may delete**", number(&verification.max_deleted_files)),
        line("**most lines in a file**", number(&verification.max_file_lines)),
        line("**most lines in a function**", number(&verification.max_function_lines)),
        line("**most parameters of a function**", number(&verification.max_parameters)),
        line("**report MUST include fields**", (!fields.is_empty()).then(|| code(fields))),
        bullets(
            "**parameters**",
            task.parameters.iter().map(|(name, value)| format!("{} = {value}", name.get_ref())),
        ),
    ];
    titled("## Your task's scope (resolved from task.toml)", entries.into_iter().flatten())
}

const WHITELIST: &str = "scope::files-whitelist";
/// The note for an agent whose scope has no files.
const NOTHING_WRITABLE: &str = "**you may change no file**: the task's files-whitelist is empty, so that \
                                every write in the worktree fails as on a read-only file system; put what \
                                should change into your report";

fn may_change_nothing(bound: &Bound) -> bool {
    let is_limited = bound.role.capabilities.iter().any(|name| name.to_string() == WHITELIST);
    is_limited && bound.task.scope.files_whitelist.get().is_empty()
}

/// Tools, budget and what to do when denied, with a heading.
fn limits(bound: &Bound, run: Option<&Allowance>) -> Option<String> {
    let role = &bound.role;
    let stated = &bound.task.budget;
    let tools = if role.tools.is_empty() { "none".to_owned() } else { code(&role.tools) };
    let spend = [
        stated.tokens.map(|limit| format!("{limit} tokens")),
        stated.usd.map(|limit| format!("{limit} US dollars")),
        stated.turns.map(|limit| format!("{limit} turns")),
        stated.minutes.map(|limit| format!("{limit} minutes")),
        stated.tool_calls.map(|limit| format!("{limit} tool calls")),
    ];
    let mut spend: Vec<String> = spend.into_iter().flatten().collect();
    if let Some(budget) = run.filter(|_| Budget::is_default(stated)) {
        spend.extend(budget.tokens.map(|limit| format!("{limit} tokens (default)")));
        spend.extend(budget.turns.map(|limit| format!("{limit} turns (default)")));
    }
    let entries = [
        run.filter(|_| may_change_nothing(bound)).map(|_| NOTHING_WRITABLE.to_owned()),
        Some(format!("**tools**: {tools}; anything else is denied")),
        (!role.ask.is_empty())
            .then(|| format!("**a person must approve** each use of {}", code(&role.ask))),
        bullets("**a shell command MUST match** one of", &role.bash_patterns),
        (!spend.is_empty())
            .then(|| format!("**budget**, with all that you start: {}", spend.join(", "))),
        Some(format!("**when a limit stops you** {}", role.escalation.instruction())),
    ];
    let title = format!("## Your limits (resolved from role {})", role.name);
    titled(&title, entries.into_iter().flatten())
}

fn titled(title: &str, entries: impl Iterator<Item = String>) -> Option<String> {
    let entries: Vec<String> = entries.collect();
    (!entries.is_empty()).then(|| format!("{title}\n\n{}", entries.join("\n\n")))
}
