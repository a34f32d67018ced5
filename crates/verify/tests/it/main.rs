//! The checks against real git and real sources.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test helpers panic on failure and read real files"
)]

mod line_delta;
mod sources;

use std::collections::BTreeMap;

use bailiwick_model::module::CheckModule;
use bailiwick_model::{AgentId, CapabilityName, Source, Task};
use bailiwick_verify::facts::{Facts, Pass, Texts};
use bailiwick_verify::{Change, Check, CheckMethod, Entry, Mode, Subject, Verdict, judge};

/// The verdict of a check on one changed file.
fn verdict(module: CheckModule, rest: &str, change: Change, texts: Texts, facts: Facts) -> Verdict {
    let capability = CapabilityName::parse("quality::own").expect("a valid name");
    let check = Check { capability, method: CheckMethod::Module(module) };
    let task = format!("[task]\nrole = \"edit-local\"\n{rest}\n");
    let task = Task::parse(&Source::new("task.toml", task)).unwrap_or_else(|bad| panic!("{bad}"));
    let agent = AgentId::parse("ag-1").expect("a valid id");
    let facts = Facts { texts: BTreeMap::from([(change.path.clone(), texts)]), ..facts };
    judge(
        &check,
        &Subject { agent: Some(&agent), task: &task, changes: &[change], intermediate_paths: &[] },
        &facts,
    )
}

fn no_facts() -> Facts {
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

fn change(path: &str, before: bool) -> Change {
    let entry = Entry { mode: Mode::File, object: "0".repeat(40) };
    Change {
        path: path.to_owned(),
        from: None,
        copied: false,
        before: before.then(|| entry.clone()),
        after: Some(entry),
    }
}
