//! Example subjects and facts for the tests of the checks.

use std::collections::BTreeMap;

use bailiwick_model::{AgentId, Source, Task};

use crate::change::{Change, Entry, Mode};
use crate::checks::Subject;
use crate::facts::{Facts, Pass, Texts};
use crate::job::{CommandResult, Job, JobOutcome, Termination};
use crate::verdict::Verdict;

/// A task with these lines after its header.
pub(crate) fn task(rest: &str) -> Task {
    let text = format!("[task]\nrole = \"edit-local\"\n{rest}\n");
    Task::parse(&Source::new("task.toml", text)).expect("a valid task")
}

pub(crate) fn agent() -> AgentId {
    AgentId::parse("ag-1").expect("a valid id")
}

pub(crate) fn subject<'a>(
    task: &'a Task,
    agent: &'a AgentId,
    changes: &'a [Change],
) -> Subject<'a> {
    Subject { agent: Some(agent), task, changes, intermediate_paths: &[] }
}

/// Facts of which nothing was looked up.
pub(crate) fn facts() -> Facts {
    Facts {
        pass: Pass::Worktree,
        changes: Vec::new(),
        texts: BTreeMap::new(),
        commits: None,
        jobs: BTreeMap::new(),
        executed_tests: None,
        repository: None,
        report: None,
        ledger: None,
        measured: Vec::new(),
    }
}

pub(crate) fn entry(mode: Mode) -> Option<Entry> {
    Some(Entry { mode, object: "0".repeat(40) })
}

pub(crate) fn added(path: &str) -> Change {
    Change { before: None, ..changed(path) }
}

pub(crate) fn deleted(path: &str) -> Change {
    Change { after: None, ..changed(path) }
}

pub(crate) fn changed(path: &str) -> Change {
    Change {
        path: path.to_owned(),
        from: None,
        copied: false,
        before: entry(Mode::File),
        after: entry(Mode::File),
    }
}

pub(crate) fn renamed(from: &str, path: &str) -> Change {
    Change { from: Some(from.to_owned()), ..changed(path) }
}

/// A new symbolic link.
pub(crate) fn linked(path: &str) -> Change {
    Change { before: None, after: entry(Mode::Link), ..changed(path) }
}

pub(crate) fn texts(before: Option<&str>, after: Option<&str>) -> Texts {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    Texts { before: bytes(before), after: bytes(after) }
}

/// The result of a command with this exit code.
pub(crate) fn result(line: &str, code: i32, tail: &str) -> CommandResult {
    CommandResult {
        line: line.to_owned(),
        ended: Termination::Exit(code),
        tail: tail.to_owned(),
        took: std::time::Duration::ZERO,
        executed_tests: None,
    }
}

/// Facts with the outcome of one job.
pub(crate) fn after(job: Job, outcome: JobOutcome) -> Facts {
    Facts { jobs: BTreeMap::from([(job, outcome)]), ..facts() }
}

/// The reason of a failure.
pub(crate) fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Fail { reason, .. } => reason.clone(),
        Verdict::Pass { evidence } => panic!("it passed: {evidence}"),
    }
}

/// The detail of a failure.
pub(crate) fn detail(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Fail { detail, .. } => detail.clone().unwrap_or_default(),
        Verdict::Pass { evidence } => panic!("it passed: {evidence}"),
    }
}

/// The evidence of a pass.
pub(crate) fn evidence(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Pass { evidence } => evidence.clone(),
        Verdict::Fail { reason, detail } => panic!("it failed: {reason}: {detail:?}"),
    }
}
