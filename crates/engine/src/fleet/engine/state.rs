//! The state of a run, its result and its work.

use bailiwick_fleet::ports::{FinishedWork, Launched, LaunchedState};
use bailiwick_lifecycle::ports::{RunStore as _, StoreError, Work as _};
use bailiwick_model::attempt::{Attempt, Used};
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, LedgerNote, Run, RunStatus};
use bailiwick_resources::RunCost;
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use bailiwick_store::Store;
use tokio::runtime::Handle;

use super::is_supervised;
use crate::context::Context;
use crate::failure::Failure;
use crate::launched_for;
use crate::messages::final_message;
use crate::running::granted;
use crate::verifying::{AgentWork, VerificationReport, WorkOptions};
use crate::work_patch::{Change, change};

/// The current state of a run. Each pass of the controllers calls this for each run, so it uses the open store.
pub(super) fn read_state(
    context: &Context,
    store: &Store,
    id: &AgentId,
) -> Result<Option<Launched>, Failure> {
    // This comes first: once the run is unlocked, its supervisor has written everything.
    let directory = RunDirectory::new(&context.state, id.as_str());
    let is_running = is_supervised(&directory, id)?;
    // If its supervisor was killed, its granted files are still there. They are deleted at once.
    if !is_running
        && directory.granted().exists()
        && let Ok(Some(_start_block)) = directory.block_start()
    {
        granted::forget(&directory).map_err(|error| {
            Failure::general(format!("what {id} was granted cannot be taken away: {error}"))
        })?;
    }
    let (run, attempts, note, cursor) = Handle::current().block_on(async {
        let (run, attempts) = (store.find(id).await?, store.attempts(Some(id)).await?);
        // A running attempt has no verdict yet, and many events.
        let note = match is_running {
            true => None,
            false => {
                store
                    .last_run_note(id, (LedgerNote::Verified, LedgerNote::VerificationFailed))
                    .await?
            }
        };
        Ok::<_, StoreError>((run, attempts, note, store.last_event(id).await?))
    })?;
    let Some(run) = run else { return Ok(None) };
    let mut launched = Launched {
        state: LaunchedState::Starting,
        session: attempts.iter().rev().find_map(|attempt| attempt.session.clone()),
        cost: cost(&attempts),
        attempts: u64::try_from(attempts.len()).unwrap_or(u64::MAX),
        is_claimed: false,
        cursor,
        detail: attempts.last().map(|attempt| attempt.detail.clone()).unwrap_or_default(),
        questions: Vec::new(),
        work: None,
        pod_problem: None,
    };
    if is_running {
        let reply = supervisor::ask(&directory, &Request::Status);
        if let Ok(Some(Reply::Status(status))) = reply {
            launched.questions = status.questions;
        }
        launched.state = match (attempts.last(), launched.questions.is_empty()) {
            (None, _) => LaunchedState::Starting,
            (Some(_), true) => LaunchedState::Running,
            (Some(_), false) => LaunchedState::WaitingForApproval,
        };
        return Ok(Some(launched));
    }
    let Some(last) = attempts.last() else {
        // It is unlocked and was never begun: the process that started it was killed.
        launched.state = match run.status {
            RunStatus::Failed => LaunchedState::Failed,
            RunStatus::Running | RunStatus::Done | RunStatus::Merged | RunStatus::Rejected => {
                LaunchedState::Starting
            }
        };
        launched.detail = run.summary.unwrap_or_default();
        return Ok(Some(launched));
    };
    let verdict = note.filter(|(at, _, _)| *at >= last.started_at);
    let verdict_kind = verdict.as_ref().map(|(_, kind, _)| kind.as_str());
    launched.state = ended_state(last.ending, verdict_kind);
    if let Some((_, _, text)) = verdict {
        let verification: VerificationReport = serde_json::from_str(&text)
            .map_err(|error| Failure::general(format!("the verdict cannot be read: {error}")))?;
        let work = finished_work(context, id, &run, &verification)?;
        let report = work.as_ref().map(|_| final_message(context, id, last)).transpose()?;
        let report = report.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        launched.work = work.map(|work| FinishedWork { report, ..work });
    }
    Ok(Some(launched))
}

/// The state of a run whose last attempt is over, by how it ended and by the kind of its verdict.
fn ended_state(ending: Option<ExitReason>, verdict: Option<&str>) -> LaunchedState {
    match ending {
        Some(ExitReason::Completed) => match verdict {
            Some(kind) if kind == LedgerNote::Verified.as_str() => LaunchedState::Verified,
            Some(_) => LaunchedState::Rejected,
            // It ended, and its supervisor was killed before its work was checked.
            None => LaunchedState::Failed,
        },
        Some(ExitReason::Stopped) => LaunchedState::Stopped,
        Some(ExitReason::BudgetExhausted) => LaunchedState::BudgetExhausted,
        Some(ExitReason::EnforcementLost | ExitReason::Denied) => LaunchedState::EnforcementLost,
        Some(ExitReason::Failed | ExitReason::TimedOut | ExitReason::CutOff) | None => {
            LaunchedState::Failed
        }
    }
}

fn cost(attempts: &[Attempt]) -> RunCost {
    let used = attempts.iter().map(|attempt| attempt.used);
    used.fold(RunCost::default(), |sum, used: Used| RunCost {
        tokens: sum.tokens.saturating_add(used.tokens),
        micro_usd: sum.micro_usd.saturating_add(used.micro_usd),
        turns: sum.turns.saturating_add(used.turns),
        tool_calls: sum.tool_calls.saturating_add(used.tool_calls),
        denied: sum.denied.saturating_add(used.denied),
    })
}

/// The verified commit: the one that the checks saw, even if the worktree has changed.
fn finished_work(
    context: &Context,
    id: &AgentId,
    run: &Run,
    verification: &VerificationReport,
) -> Result<Option<FinishedWork>, Failure> {
    let (Some(commit), Some(tree)) = (&verification.work, &verification.worktree_tree) else {
        return Ok(None);
    };
    // Its worktree may be gone by now, and the working directory of this process does not matter.
    let context = launched_for::context_of(context, id)?;
    let repository = context.require_repository()?;
    let git = repository.git();
    let base = match &run.base {
        Some(base) => base.clone(),
        None => {
            let subject = AgentWork::of_agent(&context, id, &WorkOptions::default())?;
            let base = subject.git_work()?.base();
            base.map_err(|error| Failure::general(error.to_string()))?.tip.into()
        }
    };
    // Nothing of a patch that is too long is proposed; the run ends all the same.
    let Some(Change { patch, history, commits, files }) = change(&git, &base, commit)? else {
        return Ok(None);
    };
    Ok(Some(FinishedWork {
        base,
        commit: commit.clone(),
        tree: tree.clone(),
        files,
        patch,
        history,
        commits,
        merges: verification.merged_tree.is_some(),
        verified: verification.failed.is_empty(),
        verdict: verification.summary(),
        report: None,
    }))
}
