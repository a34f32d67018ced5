//! An attempt is followed: what happens is reported until it has ended and the server has all of it.

use std::time::{Duration, Instant};

use bailiwick_fleet::ports::{Engine as _, EngineError, EngineEvent, Launched, LaunchedState};
use bailiwick_fleet::workers::{ProgressAnswer, ProgressReport, ProgressState, sendable_events};

use super::attempts::{Attempts, Dropped, KeptAttempt};
use super::ending::HandedOver;
use super::requests::report_interval;

/// How soon an attempt is looked at again.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How many events one report has.
const MAX_EVENTS: usize = 200;

/// How long an attempt is followed that does not begin, or whose state cannot be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowLimits {
    /// How often an agent that was launched may look as if it was not.
    pub(super) unbegun_looks: u32,
    /// How often in succession the state of an attempt may be unreadable.
    pub(super) unreadable_looks: u32,
    /// How long it is tried to read and pack the work of an agent that has ended.
    pub(super) packing: Duration,
    /// How long requests are repeated that the server refuses because it does not know the credential.
    pub(super) unauthorized: Duration,
}

impl Default for FollowLimits {
    fn default() -> Self {
        Self {
            unbegun_looks: 60,
            unreadable_looks: 1_200,
            packing: Duration::from_secs(900),
            unauthorized: Duration::from_secs(300),
        }
    }
}

impl Attempts {
    /// Reports what happens until the attempt has ended and the server has all of it.
    pub(super) async fn follow(&self, kept: KeptAttempt) -> Result<(), Dropped> {
        let agent = kept.lease.agent.clone();
        let followed = match self.report_to_the_end(&kept).await {
            Ok(last) => self.hand_over(&kept, &last).await,
            Err(dropped) => Err(dropped),
        };
        match followed {
            Ok(HandedOver::Everything) => self.forget(&kept).await,
            Ok(HandedOver::WithoutWork) => drop(std::fs::remove_file(self.file(&agent))),
            Err(Dropped::NotWanted) => {
                self.context.notices.note(format_args!("{agent} is dropped: its lease is lost"));
                self.stop_agent(&agent).await;
                self.forget(&kept).await;
            }
            // The next process of this worker may be able to send what is here.
            Err(Dropped::Unauthorized) => {
                self.context.notices.note(format_args!(
                    "{agent} is stopped, and its files are kept: the credential of this worker is not valid"
                ));
                self.stop_agent(&agent).await;
            }
        }
        followed.map(drop)
    }

    /// Returns the last report, without events.
    async fn report_to_the_end(&self, kept: &KeptAttempt) -> Result<ProgressReport, Dropped> {
        let (agent, interval) = (&kept.lease.agent, report_interval(kept.lease_millis));
        // An empty report says which events the server has.
        let mut answer = self.report(&kept.lease, ProgressReport::default()).await?;
        let (mut last, mut reported_at) = (ProgressReport::default(), Instant::now());
        let (mut unbegun, mut unreadable) = (0, 0);
        loop {
            self.obey(agent, &answer).await;
            let read = match self.engine.state(agent).await {
                Ok(Some(state)) => {
                    unreadable = 0;
                    // Events are read after the state: those of an ended agent are all there.
                    let read = self.engine.events(agent, answer.stored, MAX_EVENTS).await;
                    if is_complete(state.state, &read) && progress(&state) == last {
                        return Ok(last);
                    }
                    if state.state == LaunchedState::Starting && !self.is_running(agent).await {
                        unbegun += 1;
                    }
                    read.map(|events| (progress(&state), sendable_events(events)))
                        .map_err(|error| unread(progress(&state), "events", &error))
                }
                Ok(None) => {
                    unbegun += 1;
                    Ok((last.clone(), Vec::new()))
                }
                Err(error) => {
                    unreadable += 1;
                    Err(unread(last.clone(), "state", &error))
                }
            };
            let (report, events) = read.unwrap_or_else(|report| {
                if report != last {
                    self.context.notices.note(format_args!("{agent}: {}", report.detail));
                }
                (report, Vec::new())
            });
            let FollowLimits { unbegun_looks, unreadable_looks, .. } = self.follow_limits;
            if unbegun > unbegun_looks || unreadable > unreadable_looks {
                let lease = (&kept.lease, kept.lease_millis);
                self.with_lease(lease, &last, self.stop_agent(agent)).await;
                return Ok(last);
            }
            let is_news = report != last || !events.is_empty();
            if is_news || reported_at.elapsed() >= interval {
                answer =
                    self.report(&kept.lease, ProgressReport { events, ..report.clone() }).await?;
                (last, reported_at) = (report, Instant::now());
                if is_news {
                    continue;
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Does what the server wants.
    async fn obey(&self, agent: &str, answer: &ProgressAnswer) {
        for (question, yes) in &answer.answers {
            let _ = self.engine.answer(agent, question, *yes).await;
        }
        if answer.cancel {
            let _ = self.engine.cancel(agent).await;
        }
    }

    /// Stops the agent and waits for its end: only then may this or another worker begin the attempt again. An agent
    /// that cannot be looked at counts as running.
    pub(super) async fn stop_agent(&self, agent: &str) {
        while self.is_running(agent).await {
            let _ = self.engine.cancel(agent).await;
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// The report of an attempt of which something cannot be read now. It is sent later.
fn unread(report: ProgressReport, what: &str, error: &EngineError) -> ProgressReport {
    let detail = format!("its worker cannot read its {what}, and tries again: {error}");
    ProgressReport { detail, ..report }
}

fn is_over(state: LaunchedState) -> bool {
    match state {
        LaunchedState::WaitingForWorker
        | LaunchedState::Starting
        | LaunchedState::Running
        | LaunchedState::WaitingForApproval => false,
        LaunchedState::Verified
        | LaunchedState::Rejected
        | LaunchedState::Failed
        | LaunchedState::Stopped
        | LaunchedState::BudgetExhausted
        | LaunchedState::EnforcementLost => true,
    }
}

/// Whether an attempt has ended and all its events were sent. Events that cannot be read were not.
fn is_complete(state: LaunchedState, unsent: &Result<Vec<EngineEvent>, EngineError>) -> bool {
    is_over(state) && unsent.as_ref().is_ok_and(Vec::is_empty)
}

fn progress(state: &Launched) -> ProgressReport {
    let standing = match state.state {
        LaunchedState::WaitingForWorker | LaunchedState::Starting => ProgressState::Starting,
        LaunchedState::WaitingForApproval => ProgressState::WaitingForApproval,
        LaunchedState::Running
        | LaunchedState::Verified
        | LaunchedState::Rejected
        | LaunchedState::Failed
        | LaunchedState::Stopped
        | LaunchedState::BudgetExhausted
        | LaunchedState::EnforcementLost => ProgressState::Running,
    };
    ProgressReport {
        state: standing,
        session: state.session.clone(),
        cost: state.cost,
        attempts: state.attempts,
        detail: state.detail.clone(),
        questions: state.questions.clone(),
        events: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempt_with_unreadable_events_is_not_complete() {
        let event = EngineEvent {
            number: 1,
            at: 1,
            kind: "text".to_owned(),
            body: serde_json::Value::Null,
        };
        let failure = || Err(EngineError("the disk is away".to_owned()));
        let over = LaunchedState::Verified;
        assert!(is_complete(over, &Ok(Vec::new())), "the control");
        assert!(!is_complete(over, &Ok(vec![event])));
        assert!(!is_complete(over, &failure()));
        assert!(!is_complete(LaunchedState::Running, &Ok(Vec::new())));
    }

    #[test]
    fn unreadable_part_is_reported_and_the_rest_is_unchanged() {
        let before =
            ProgressReport { attempts: 2, detail: "running".to_owned(), ..Default::default() };
        let report = unread(before.clone(), "events", &EngineError("no disk".to_owned()));
        assert_eq!(report.detail, "its worker cannot read its events, and tries again: no disk");
        assert_eq!(ProgressReport { detail: before.detail.clone(), ..report }, before);
    }
}
