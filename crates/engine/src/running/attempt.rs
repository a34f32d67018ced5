//! One attempt of a locked run: checks whether it may begin, proves the sandbox, and records its end.

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_lifecycle::supervision::Budget;
use bailiwick_model::RunStatus;
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{EventKind, ExitReason, Phase};
use bailiwick_resources::AuditLevel;
use bailiwick_runner::agents::adapter::Conversation;
use bailiwick_runner::supervisor::{
    self, AttemptOutcome, Handle, RunDirectory, SelfTestError, SelfTestResult,
};

use super::next_steps::{next_step_hint, require_not_quarantined};
use super::observer::RunObserver;
use super::{AttemptOptions, LockedRun, Start, assign, first_line, granted, usage};
use crate::failure::Failure;
use crate::options::IfClosed;
use crate::{agent_state, claiming, managed, system};

impl LockedRun {
    /// Runs the agent once, to its end.
    pub fn attempt(
        &mut self,
        start: &Start,
        options: &AttemptOptions,
        observer: &dyn RunObserver,
        on_started: impl FnOnce(&Handle),
    ) -> Result<AttemptOutcome, Failure> {
        self.require_startable(start)?;
        claiming::take_again(&self.subject, &self.id, options.if_closed)?;
        self.require_open(options)?;
        let view = observer.view(&self.directory);
        let prepared = assign::prepare(self, start, options)?;
        if !options.quiet && self.earlier.is_empty() {
            self.note_default_budget(&prepared.budget);
        }
        let server_secrets = prepared.server_secrets.clone();
        let mut attempt = self.begin(&prepared)?;
        // Only after the attempt is stored: the recovery of an interrupted attempt removes these files.
        let files = granted::Files::write(&self.directory, &prepared.files);
        view.phase(Phase::SelfTest);
        let result = files.and_then(|files| {
            let self_test = self.run_self_test(&prepared, &mut attempt)?;
            if self_test == SelfTestResult::Passed {
                self.record_event(EventKind::Phase { phase: Phase::SelfTest })?;
            }
            // The last check before it can be stopped by a request to its supervisor.
            self.require_open(options)?;
            view.phase(Phase::Working);
            attempt.phase = Phase::Working;
            self.database.update(&attempt)?;
            self.record_event(EventKind::Phase { phase: Phase::Working })?;
            let outcome = self.supervise(prepared, &attempt, view, |handle| {
                on_started(&handle);
                observer.started(handle);
            });
            drop(files);
            outcome
        });
        managed::forget(&self.directory.home(), &server_secrets);
        match result {
            Ok(outcome) => {
                self.end(attempt, &outcome)?;
                Ok(outcome)
            }
            Err(failure) => {
                attempt.phase = Phase::Over;
                attempt.ending.get_or_insert(ExitReason::Failed);
                attempt.detail = failure.to_string();
                attempt.ended_at = Some(system::now_ms());
                self.database.update(&attempt)?;
                Err(failure)
            }
        }
    }

    /// Returns an error if the agent cannot be started at all.
    pub(super) fn require_startable(&self, start: &Start) -> Result<(), Failure> {
        let Some(run) = &self.subject.run else {
            return Err(Failure::general(format!("`{}` is not in the ledger", self.id)));
        };
        require_not_quarantined(&self.id, &self.earlier)?;
        // A resumed conversation repeats earlier calls. Their inputs were not recorded, so they cannot be compared.
        let repeats_calls = matches!(start, Start::Resume(_)) && self.session().is_some();
        if repeats_calls && self.audit_level()? < AuditLevel::Inputs {
            return Err(Failure::refused(format!(
                "`{}` cannot be taken up again: its auditLevel is `metadata`, so that nobody could tell which \
                 calls were decided",
                self.id
            ))
            .help("try it again, or write `auditLevel: inputs` or more in its tool profile"));
        }
        // One that is done can receive another message, as long as it has neither landed nor was rejected.
        let continues_done = matches!(start, Start::Resume(_)) && run.status == RunStatus::Done;
        if (run.status != RunStatus::Running && !continues_done) || run.half_spawned {
            let text = format!("`{}` is {}, and cannot be started again", self.id, run.state);
            return Err(Failure::refused(text).help(next_step_hint(run)));
        }
        match (start, self.earlier.last()) {
            (Start::Fresh, Some(_)) => {
                Err(Failure::refused(format!("`{}` has run already", self.id))
                    .help(format!("resume it: bailiwick resume {}", self.id)))
            }
            // It may have been killed between its spawn and its first attempt.
            (Start::Fresh, None) | (Start::Resume(_), Some(_) | None) => Ok(()),
        }
    }

    /// Returns an error if the agent's parent no longer waits for it.
    fn require_open(&self, options: &AttemptOptions) -> Result<(), Failure> {
        match options.if_closed {
            IfClosed::Begin => Ok(()),
            IfClosed::Refuse => agent_state::require_open(&self.subject.context, &self.id),
        }
    }

    /// Reports the default budget of a run whose task names none.
    fn note_default_budget(&self, budget: &Allowance) {
        let stated = &self.subject.bound.task.budget;
        if let (true, Some(tokens), Some(turns)) =
            (Budget::is_default(stated), budget.tokens, budget.turns)
        {
            self.subject.context.notices.note(format_args!(
                "the task has no budget, so it may use {tokens} tokens and {turns} turns; change that \
                 under [budget]"
            ));
        }
    }

    fn begin(&self, prepared: &assign::AttemptInputs) -> Result<Attempt, Failure> {
        let assignment = &prepared.assignment;
        let mut attempt = Attempt {
            run: self.id.clone(),
            number: 0,
            cli: prepared.adapter.name().to_owned(),
            version: assignment.version.clone(),
            model: assignment.model.clone().unwrap_or_default(),
            login: assignment.login.as_str().to_owned(),
            sandbox: prepared.enclosure.level.as_str().to_owned(),
            session: match &assignment.session {
                Conversation::Resume(id) => Some(id.clone()),
                Conversation::New(_) => None,
            },
            phase: Phase::SelfTest,
            ending: None,
            detail: String::new(),
            exhausted: None,
            started_at: system::now_ms(),
            ended_at: None,
            used: Used::default(),
            budget: prepared.budget,
        };
        attempt.number = self.database.with(async |store| store.begin_attempt(&attempt).await)?;
        Ok(attempt)
    }

    fn run_self_test(
        &self,
        prepared: &assign::AttemptInputs,
        attempt: &mut Attempt,
    ) -> Result<SelfTestResult, Failure> {
        let self_test_results = self.subject.context.state.join("canaries");
        let scratch = RunDirectory::new(self.directory.path(), "canary");
        supervisor::run_self_test(
            prepared.adapter.as_ref(),
            &prepared.assignment,
            &prepared.enclosure,
            (&self_test_results, &scratch),
            || {},
        )
        .map_err(|error| {
            // A self-test that could not run is no evidence against earlier work, so that work is not lost.
            attempt.ending = Some(match error.why {
                SelfTestError::Lost(_) => ExitReason::EnforcementLost,
                SelfTestError::NotAttempted(_) => ExitReason::Failed,
            });
            Failure::general(error.to_string())
                .help("no agent was started; `bailiwick doctor` checks this machine")
        })
    }

    /// Records how an attempt ended.
    fn end(&mut self, mut attempt: Attempt, outcome: &AttemptOutcome) -> Result<(), Failure> {
        usage::apply(&mut attempt, &outcome.progress, &usage::total(&self.earlier));
        attempt.phase = Phase::Over;
        attempt.ending = Some(outcome.ending);
        attempt.detail.clone_from(&outcome.detail);
        attempt.exhausted = outcome.exhausted;
        attempt.ended_at = Some(system::now_ms());
        self.database.update(&attempt)?;
        let status = match outcome.ending {
            ExitReason::Completed => Some(RunStatus::Done),
            ExitReason::EnforcementLost | ExitReason::Denied => Some(RunStatus::Failed),
            // It can be resumed.
            ExitReason::Failed
            | ExitReason::Stopped
            | ExitReason::TimedOut
            | ExitReason::BudgetExhausted
            | ExitReason::CutOff => None,
        };
        // A message that the agent has not received keeps the run open.
        let is_received = outcome.messages.is_empty() || outcome.ending != ExitReason::Completed;
        let is_open = self.subject.run.as_ref().is_some_and(|run| run.status == RunStatus::Running);
        if let Some(status) = status.filter(|_| is_received && is_open) {
            let summary = format!("{}: {}", outcome.ending, first_line(&outcome.detail));
            self.database
                .with(async |store| store.change_status(&self.id, status, Some(&summary)).await)?;
        }
        self.earlier.push(attempt);
        Ok(())
    }
}
