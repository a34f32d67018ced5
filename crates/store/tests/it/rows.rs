//! Rows for a database, and a runtime for tests.

use std::future::Future;

use bailiwick_lifecycle::ports::NewRun;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::Phase;

pub(crate) fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

/// A run with the required fields only.
pub(crate) fn run(name: &str) -> NewRun {
    NewRun {
        id: id(name),
        branch: format!("agent/{name}"),
        parent: None,
        spec_sha: "0".repeat(64),
        worktree: None,
        dna: None,
        creator: None,
        fork_parent: None,
        half_spawned: false,
        base: None,
        named: None,
    }
}

/// Runs a future on a current-thread runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// An attempt of this run that has started.
pub(crate) fn attempt(run: &str) -> Attempt {
    Attempt {
        run: id(run),
        number: 0,
        cli: "script".to_owned(),
        version: "1".to_owned(),
        model: String::new(),
        login: "api-key".to_owned(),
        sandbox: "full".to_owned(),
        session: None,
        phase: Phase::Preparing,
        ending: None,
        detail: String::new(),
        exhausted: None,
        started_at: 5,
        ended_at: None,
        used: Used::default(),
        budget: Allowance { tokens: Some(9), ..Allowance::default() },
    }
}
