//! Follows runs whose agents are running or have just ended.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    ActionType, AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalAction,
    ApprovalPhase, ApprovalReason, Kind, Metadata, Moment, Object, Requester, RunCost, RunPhase,
    Span, SubjectKind,
};

use super::audit_log::{ended, unwritten};
use super::costs::note_cost;
use super::launch::agent_of;
use super::outcome::{EndCode, ExitReason, RunEnd};
use super::run_results::{ResultWriter, TextRedactor};
use super::run_status::When;
use super::subagent_runs::is_child;
use super::{ControlPlane, ReconcileError, Turn};
use crate::ports::{Engine, FleetStore, Launched, LaunchedState, Selection, World, Write};

/// How long a question about a tool call is open where nobody says otherwise.
const TOOL_CALL_TIMEOUT: u64 = 3_600_000;
/// How long an attempt may be about to begin.
const START_TIMEOUT: u64 = 5 * 60 * 1000;
/// The annotation of an attempt that continues a conversation: how many there were before it.
pub(super) const EARLIER: &str = "bailiwick.dev/earlier-attempts";
/// The annotation of an approval that names the question of a supervisor.
pub(super) const QUESTION: &str = "bailiwick.dev/question";

/// Whose questions these are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Questioner<'a> {
    /// This attempt's.
    Attempt(&'a str),
    /// A sub-agent's, which has no attempts of its own here: how often its agent was started.
    Child(u64),
}

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Looks at every run that was started and has not ended.
    pub(super) async fn follow_runs(&self, turn: &mut Turn) {
        for phase in [RunPhase::Running, RunPhase::WaitingForApproval] {
            let selection = Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str());
            let runs = match self.all_typed::<AgentDispatchRun>(selection).await {
                Ok(runs) => runs,
                Err(error) => return turn.note("runs", Err(error)),
            };
            for run in
                runs.into_iter().filter(|run| run.status.started_at.is_some() && !is_child(run))
            {
                let name = run.name().to_owned();
                if run.status.cancel_requested.is_none() && turn.is_backing_off("run", &name) {
                    continue;
                }
                let result = self.follow(run).await;
                turn.tried("run", &name, result);
            }
        }
    }

    async fn follow(&self, run: Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        let Some(name) = run.status.attempts.last() else {
            return self.end(run, RunEnd::failed("it has no attempt")).await;
        };
        let Some(attempt) = self.typed::<AgentDispatchAttempt>(name).await? else {
            let why = format!("its attempt `{name}` is gone");
            return self.end(run, RunEnd::failed(why)).await;
        };
        if attempt.status.completed_at.is_some() {
            // Its agent has ended; what is left is to be written, or waits for people.
            return self.follow_writes(run, &attempt).await;
        }
        let agent = agent_of(&attempt);
        if run.status.cancel_requested.is_some() {
            self.engine.cancel(&agent).await?;
        }
        let state = self.engine.state(&agent).await?;
        // One that continues a conversation is known by what happened in it since: the one who started it
        // may have been killed before that was noted.
        let noted = attempt.status.started_at.is_some();
        let earlier = attempt.metadata.annotations.get(EARLIER);
        let earlier: u64 = earlier.and_then(|count| count.parse().ok()).unwrap_or(0);
        let fresh = agent == attempt.name();
        let begun = |launched: &Launched| fresh || launched.attempts > earlier;
        // What earlier attempts of the conversation came to is not what this one comes to.
        let pending = noted && state.as_ref().is_some_and(|state| !begun(state));
        if pending && run.status.cancel_requested.is_none() {
            let since = attempt.status.started_at.unwrap_or_default();
            if self.world.now() >= since.plus_millis(START_TIMEOUT) {
                let end = EndCode::LaunchFailed.because("the conversation was not taken up");
                return self.not_launched(run, attempt, end).await;
            }
            return Ok(false);
        }
        let Some(launched) = state.filter(begun) else {
            if let Some(why) = run.status.cancel_requested.clone() {
                return self.end(run, RunEnd::cancelled(why)).await;
            }
            return self.begin(run, attempt).await;
        };
        match launched.state {
            LaunchedState::Starting => {
                if let Some(why) = run.status.cancel_requested.clone() {
                    return self.end(run, RunEnd::cancelled(why)).await;
                }
                let since = attempt.status.started_at.or(run.status.started_at);
                let since = since.unwrap_or_default();
                if self.world.now() >= since.plus_millis(START_TIMEOUT) {
                    let words = TextRedactor::of(self.redactor(&run).await?);
                    let detail = words.clean(&launched.detail);
                    let end = EndCode::LaunchFailed.because(format!("it does not begin: {detail}"));
                    // It may begin all the same, and nobody would follow it.
                    self.engine.cancel(&agent).await?;
                    return self.not_launched(run, attempt, end).await;
                }
                // The one who held it may have been killed: a second start does nothing to one that lives.
                match self.launch(&run, &attempt).await {
                    Ok(()) => {}
                    Err(error @ ReconcileError::Store(_)) => return Err(error),
                    Err(error) => {
                        self.engine.cancel(&agent).await?;
                        let end = EndCode::LaunchFailed.because(error.to_string());
                        return self.not_launched(run, attempt, end).await;
                    }
                }
                self.observed(run, attempt, &launched, Vec::new()).await
            }
            LaunchedState::Running | LaunchedState::WaitingForApproval => {
                let agent = agent_of(&attempt);
                let asked = (agent.as_str(), launched.questions.as_slice());
                let asked =
                    self.questions(&run, Questioner::Attempt(attempt.name()), asked).await?;
                self.observed(run, attempt, &launched, asked).await
            }
            LaunchedState::Verified
            | LaunchedState::Rejected
            | LaunchedState::Failed
            | LaunchedState::Stopped
            | LaunchedState::BudgetExhausted
            | LaunchedState::EnforcementLost => self.finish(run, attempt, &launched).await,
        }
    }

    /// Starts the attempt, and notes that it was started.
    async fn begin(
        &self,
        run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
    ) -> Result<bool, ReconcileError> {
        if let Err(error) = self.launch(&run, &attempt).await {
            let end = EndCode::LaunchFailed.because(error.to_string());
            return self.not_launched(run, attempt, end).await;
        }
        attempt.status.started_at = Some(self.world.now());
        attempt.status.agent_mux_run_id = Some(agent_of(&attempt));
        self.store.commit(vec![Write::Status(AnyObject::of(&attempt)?)], self.world.now()).await?;
        Ok(true)
    }

    /// An attempt that could not be started: it and its run end at once.
    pub(super) async fn not_launched(
        &self,
        mut run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
        end: RunEnd,
    ) -> Result<bool, ReconcileError> {
        let now = self.world.now();
        attempt.status.completed_at = Some(now);
        attempt.status.exit_reason = Some(end.to_string());
        run.status.phase = end.phase;
        run.status.completed_at = Some(now);
        run.status.terminal_reason = Some(end.to_string());
        self.with_conditions(&mut run, When::Ending(end.code)).await?;
        let writes = vec![
            Write::Status(AnyObject::of(&attempt)?),
            Write::Status(AnyObject::of(&run)?),
            ended(&run, now),
        ];
        self.store.commit(writes, now).await?;
        Ok(true)
    }

    /// Keeps what was seen, if it differs from what is kept.
    async fn observed(
        &self,
        mut run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
        launched: &Launched,
        mut writes: Vec<Write>,
    ) -> Result<bool, ReconcileError> {
        let (run_before, attempt_before) = (run.status.clone(), attempt.status.clone());
        let before = self.spent_before(&run, &attempt).await?;
        update_from_engine(&mut run, &mut attempt, launched, (before, self.world.now()));
        run.status.phase = match launched.questions.is_empty() {
            true => RunPhase::Running,
            false => RunPhase::WaitingForApproval,
        };
        writes.extend(self.children(&mut run, &mut attempt).await?);
        writes.extend(self.session(&run, launched).await?);
        if run.status != run_before {
            writes.push(Write::Status(AnyObject::of(&run)?));
        }
        if attempt.status != attempt_before {
            writes.push(Write::Status(AnyObject::of(&attempt)?));
        }
        if writes.is_empty() {
            return Ok(false);
        }
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    /// Questions of the agent's gate become approvals; answers go back to it.
    pub(super) async fn questions(
        &self,
        run: &Object<AgentDispatchRun>,
        questioner: Questioner<'_>,
        (agent, questions): (&str, &[(String, String)]),
    ) -> Result<Vec<Write>, ReconcileError> {
        let mut writes = Vec::new();
        for (question, about) in questions {
            // A later attempt counts its questions again: a yes to one of this is none to one of that.
            let (attempt, whose) = match questioner {
                Questioner::Attempt(attempt) => (Some(attempt), attempt.to_owned()),
                Questioner::Child(attempts) => (None, format!("{}\n{attempts}", run.name())),
            };
            let identity = format!("{whose}\n{agent}\n{question}\n{about}");
            let digest = Sha256Hex::of(identity);
            let name = format!("aap-{}", digest.prefix(24));
            match self.typed::<AgentApproval>(&name).await? {
                None => {
                    let spec = AgentApproval {
                        dispatch_run: run.name().to_owned(),
                        attempt: attempt.map(str::to_owned),
                        requested_by: Requester {
                            kind: SubjectKind::AgentStack,
                            name: agent.to_owned(),
                        },
                        dispatched_by: None,
                        attempt_asked_by: None,
                        action: ApprovalAction {
                            kind: ActionType::ToolCall,
                            target: agent.to_owned(),
                            summary: about.clone(),
                        },
                        policy_reasons: vec![ApprovalReason::ToolCall],
                        artifact_refs: Vec::new(),
                        artifact_digest: digest.to_string(),
                        target_state: None,
                        expires_at: self.world.now().plus_millis(approval_timeout(run)),
                    };
                    let mut object = Object::new(metadata_beside(&run.metadata, name), spec);
                    object.metadata.annotations.insert(QUESTION.to_owned(), question.clone());
                    writes.push(Write::Create(AnyObject::of(&object)?));
                }
                Some(known) => match known.status.phase {
                    ApprovalPhase::Pending => {}
                    ApprovalPhase::Approved => {
                        self.engine.answer(agent, question, true).await?;
                    }
                    ApprovalPhase::Rejected | ApprovalPhase::Expired => {
                        self.engine.answer(agent, question, false).await?;
                    }
                },
            }
        }
        Ok(writes)
    }

    /// The agent has ended: what it made is kept with how it ended, at once.
    async fn finish(
        &self,
        mut run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
        launched: &Launched,
    ) -> Result<bool, ReconcileError> {
        let now = self.world.now();
        // Whatever is kept of it, here or further on, is kept without secrets.
        let words = TextRedactor::of(self.redactor(&run).await?);
        let launched = &words.redact_report(launched);
        let before = self.spent_before(&run, &attempt).await?;
        update_from_engine(&mut run, &mut attempt, launched, (before, now));
        attempt.status.completed_at = Some(now);
        attempt.status.exit_reason = Some(ExitReason::of(launched).to_string());
        let mut writes = self.children(&mut run, &mut attempt).await?;
        writes.extend(self.session(&run, launched).await?);
        let results = match &launched.work {
            Some(work) => {
                let (run, attempt) = (&mut run, &mut attempt);
                let writer = ResultWriter { run, attempt, writes: &mut writes };
                Some(writer.store_results(work, &words)?)
            }
            None => None,
        };
        let unmet = match launched.state == LaunchedState::Verified {
            true => self.unmet(&run, &attempt).await?,
            // It is no success anyway, and ends whatever became of its sub-agents.
            false => None,
        };
        let exit = ExitReason::of(launched).to_string();
        let end = match (&run.status.cancel_requested, launched.state) {
            (Some(why), _) => RunEnd::cancelled(why.as_str()),
            (None, LaunchedState::Verified) if let Some(end) = &unmet => end.clone(),
            (None, LaunchedState::Verified) if let Some(results) = &results => {
                match &results.fault {
                    None => RunEnd::new(RunPhase::Succeeded, exit),
                    Some(end) => end.clone(),
                }
            }
            // It holds, and cannot be kept: nothing of it could be shown or written.
            (None, LaunchedState::Verified) => {
                EndCode::PatchMissing.because("its work could not be kept")
            }
            (None, _) => RunEnd::failed(exit),
        };
        if end.phase == RunPhase::Succeeded
            && let (Some(work), Some(results)) = (&launched.work, &results)
        {
            let (run, attempt) = (&mut run, &mut attempt);
            let writer = ResultWriter { run, attempt, writes: &mut writes };
            self.propose(writer, work, results, &words).await?;
        }
        writes.extend(unwritten(&[], &run, now));
        if !run.status.write_backs.is_empty() {
            // It goes on until all of it is written, or is known not to be.
            writes.push(Write::Status(AnyObject::of(&attempt)?));
            writes.push(Write::Status(AnyObject::of(&run)?));
            self.store.commit(writes, now).await?;
            return Ok(true);
        }
        run.status.phase = end.phase;
        run.status.terminal_reason = Some(end.to_string());
        run.status.completed_at = Some(now);
        self.with_conditions(&mut run, When::Ending(end.code)).await?;
        writes.push(ended(&run, now));
        writes.push(Write::Status(AnyObject::of(&attempt)?));
        writes.push(Write::Status(AnyObject::of(&run)?));
        self.store.commit(writes, now).await?;
        Ok(true)
    }
}

/// Beside another object, with another name.
pub(super) fn metadata_beside(metadata: &Metadata, name: String) -> Metadata {
    Metadata { namespace: metadata.namespace.clone(), ..Metadata::named(name) }
}

/// How long a question about a tool call of a run is open.
fn approval_timeout(run: &Object<AgentDispatchRun>) -> u64 {
    run.spec.approval_policy.expires_after.map_or(TOOL_CALL_TIMEOUT, Span::millis)
}

fn update_from_engine(
    run: &mut Object<AgentDispatchRun>,
    attempt: &mut Object<AgentDispatchAttempt>,
    launched: &Launched,
    (before, now): (RunCost, Moment),
) {
    let agent = agent_of(attempt);
    run.status.agent_mux_run_id = Some(agent.clone());
    attempt.status.agent_mux_run_id = Some(agent);
    if launched.session.is_some() {
        run.status.agent_mux_session_id.clone_from(&launched.session);
        attempt.status.agent_mux_session_id.clone_from(&launched.session);
    }
    attempt.status.started_at.get_or_insert(now);
    note_cost(run, attempt, launched.cost, before);
    run.status.event_cursor = format!("{:020}", launched.cursor);
}
