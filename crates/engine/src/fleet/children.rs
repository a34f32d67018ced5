//! The sub-agents of attempts, as recorded in the ledger.

use bailiwick_fleet::ports::{ChildState, LaunchedChild};
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, Delegate};
use bailiwick_resources::RunCost;
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};

use crate::context::Context;
use crate::delegating::{DelegationService, wait::Status};
use crate::failure::Failure;
use crate::messages;

/// Every run below this one, the oldest first.
pub(super) fn of(context: &Context, agent: &AgentId) -> Result<Vec<LaunchedChild>, Failure> {
    let all = context.with_store(async |store| Ok(store.delegates().await?))?;
    let service = DelegationService {
        caller: Some(agent.clone()),
        ..DelegationService::at_terminal(context)
    };
    let mut below: Vec<&Delegate> = all.iter().filter(|one| service.is_above(one, &all)).collect();
    below.sort_by(|one, other| (one.created_at, &one.run).cmp(&(other.created_at, &other.run)));
    below.into_iter().map(|one| child(&service, one)).collect()
}

fn child(service: &DelegationService, one: &Delegate) -> Result<LaunchedChild, Failure> {
    let context = &service.context;
    let (status, last) = service.seen(one).map_err(Failure::into_failed)?;
    let cursor = context.with_store(async |store| Ok(store.last_event(&one.run).await?))?;
    let used = last.as_ref().map(|last| last.used).unwrap_or_default();
    let (state, detail) = child_state(status, last.as_ref());
    let returned = match &last {
        Some(last) if state == ChildState::Completed => {
            Some(messages::final_message(context, &one.run, last)?)
        }
        Some(_) | None => None,
    };
    let questions = match state {
        ChildState::Running => questions(context, &one.run),
        ChildState::Starting | ChildState::Completed | ChildState::Failed | ChildState::Stopped => {
            Vec::new()
        }
    };
    // Counted after the questions: those of one that was resumed are never taken for earlier ones.
    let attempts = service.attempts(&one.run).map_err(Failure::into_failed)?.len();
    Ok(LaunchedChild {
        agent: one.run.to_string(),
        subagent: one.agent_type.clone(),
        received: one.message.clone(),
        at: one.created_at,
        attempts: u64::try_from(attempts).unwrap_or(u64::MAX),
        questions,
        state,
        returned,
        detail,
        session: last.and_then(|last| last.session),
        cost: RunCost {
            tokens: used.tokens,
            micro_usd: used.micro_usd,
            turns: used.turns,
            tool_calls: used.tool_calls,
            denied: used.denied,
        },
        cursor,
    })
}

fn child_state(status: Status, last: Option<&Attempt>) -> (ChildState, String) {
    match status {
        Status::PendingInit => (ChildState::Starting, String::new()),
        Status::Running => (ChildState::Running, String::new()),
        Status::Completed(words) => (ChildState::Completed, words),
        Status::Errored(why) => match last.and_then(|last| last.ending) {
            Some(ExitReason::Stopped) => (ChildState::Stopped, why),
            Some(
                ExitReason::Completed
                | ExitReason::BudgetExhausted
                | ExitReason::EnforcementLost
                | ExitReason::Denied
                | ExitReason::Failed
                | ExitReason::TimedOut
                | ExitReason::CutOff,
            )
            | None => (ChildState::Failed, why),
        },
        Status::Shutdown => closed(last),
        Status::NotFound => (ChildState::Failed, "it was deleted".to_owned()),
    }
}

/// A child that is closed after it has ended has ended.
fn closed(last: Option<&Attempt>) -> (ChildState, String) {
    match last.map(|last| (last.ending, last.detail.clone())) {
        Some((Some(ExitReason::Completed), words)) => (ChildState::Completed, words),
        Some((_, words)) if !words.is_empty() => (ChildState::Stopped, words),
        Some(_) | None => (ChildState::Stopped, "it was closed".to_owned()),
    }
}

fn questions(context: &Context, run: &AgentId) -> Vec<(String, String)> {
    let directory = RunDirectory::new(&context.state, run.as_str());
    match supervisor::ask(&directory, &Request::Status) {
        Ok(Some(Reply::Status(standing))) => standing.questions,
        Ok(Some(Reply::Done | Reply::Refused(_)) | None) | Err(_) => Vec::new(),
    }
}
