//! Made-up subjects and facts for the tests of the checks.

use std::collections::BTreeMap;

use bailiwick_model::{AgentId, Source, Task};

use crate::change::{Change, Entry, Mode};
use crate::checks::Subject;
use crate::facts::{Facts, Pass, Texts};
use crate::job::{Ended, Job, Outcome, Ran};
use crate::verdict::Verdict;

/// A task with these lines behind its header.
pub(crate) fn task(rest: &str) -> Task {
    let text = format!("[task]\nrole = \"edit-local\"\n{rest}\n");
    Task::parse(&Source::new("task.toml", text)).expect("the task of a test is right")
}

/// The agent of all tests.
pub(crate) fn agent() -> AgentId {
    AgentId::parse("ag-1").expect("a good id")
}

/// A subject with the agent of all tests.
pub(crate) fn subject<'a>(
    task: &'a Task,
    agent: &'a AgentId,
    changes: &'a [Change],
) -> Subject<'a> {
    Subject { agent: Some(agent), task, changes, passing: &[] }
}

/// Facts that nothing is known in.
pub(crate) fn facts() -> Facts {
    Facts {
        pass: Pass::Worktree,
        changes: Vec::new(),
        texts: BTreeMap::new(),
        commits: None,
        jobs: BTreeMap::new(),
        repository: None,
        report: None,
        ledger: None,
        measured: Vec::new(),
    }
}

/// An entry of this kind.
pub(crate) fn entry(mode: Mode) -> Option<Entry> {
    Some(Entry { mode, object: "0".repeat(40) })
}

/// A file that the agent added.
pub(crate) fn added(path: &str) -> Change {
    Change { before: None, ..changed(path) }
}

/// A file that it deleted.
pub(crate) fn deleted(path: &str) -> Change {
    Change { after: None, ..changed(path) }
}

/// A file that it changed.
pub(crate) fn changed(path: &str) -> Change {
    Change {
        path: path.to_owned(),
        from: None,
        copied: false,
        before: entry(Mode::File),
        after: entry(Mode::File),
    }
}

/// A file that it moved.
pub(crate) fn renamed(from: &str, path: &str) -> Change {
    Change { from: Some(from.to_owned()), ..changed(path) }
}

/// A symbolic link that it added.
pub(crate) fn linked(path: &str) -> Change {
    Change { before: None, after: entry(Mode::Link), ..changed(path) }
}

/// The texts of a file.
pub(crate) fn texts(before: Option<&str>, after: Option<&str>) -> Texts {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    Texts { before: bytes(before), after: bytes(after) }
}

/// A program that ended with this code.
pub(crate) fn ran(line: &str, code: i32, tail: &str) -> Ran {
    Ran {
        line: line.to_owned(),
        ended: Ended::Exit(code),
        tail: tail.to_owned(),
        took: std::time::Duration::ZERO,
    }
}

/// Facts with the outcome of one job.
pub(crate) fn after(job: Job, outcome: Outcome) -> Facts {
    Facts { jobs: BTreeMap::from([(job, outcome)]), ..facts() }
}

/// Why it failed.
pub(crate) fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Fail { reason, .. } => reason.clone(),
        Verdict::Pass { evidence } => panic!("it passed: {evidence}"),
    }
}

/// What there is to look at.
pub(crate) fn detail(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Fail { detail, .. } => detail.clone().unwrap_or_default(),
        Verdict::Pass { evidence } => panic!("it passed: {evidence}"),
    }
}

/// Why it passed.
pub(crate) fn evidence(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Pass { evidence } => evidence.clone(),
        Verdict::Fail { reason, detail } => panic!("it failed: {reason}: {detail:?}"),
    }
}
