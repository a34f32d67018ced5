//! The shared state of an attempt behind one lock, and the one way to end the attempt.

mod budget;
mod questions;
mod replay;

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bailiwick_lifecycle::delegation::consent::Consents;
use bailiwick_lifecycle::supervision::budget::BudgetLimit;
use bailiwick_lifecycle::supervision::{
    Budget, CallTracker, CliBehaviour, EnforcementBreach, Prices, Spent,
};
use bailiwick_model::Event;
use bailiwick_model::attempt::{Exhausted, Used};
use bailiwick_model::event::{EventKind, ExitReason, ReportedBy};
use tokio::sync::watch;

use super::progress::Progress;
use super::writer::WriterMessage;
use crate::agents::adapter::ParsedEvent;
use crate::proxy::ToolCall;

pub(super) use budget::exhausted_by;
use questions::ApprovalQuestion;
use replay::replay_events;

/// All that changes while an attempt runs.
struct State {
    calls: CallTracker,
    spent: Spent,
    budget: Budget,
    warned: Vec<BudgetLimit>,
    reported_exhausted: Vec<BudgetLimit>,
    /// Whether the agent was notified that its tokens are nearly used.
    limit_is_known: bool,
    turns: BTreeMap<Option<String>, u64>,
    /// Requests that were sent to the model and have no response yet.
    open_requests: u64,
    /// The largest usage of one response so far.
    largest: Option<Used>,
    session: Option<String>,
    model: String,
    last_activity: Instant,
    open_questions: BTreeMap<String, ApprovalQuestion>,
    question_count: u64,
    consents: Consents,
    messages: Vec<String>,
    exhausted: Option<(Exhausted, String)>,
    /// When the last foreground work ended.
    only_background_since: Option<Instant>,
    /// The number of running checks; the idle timeout is paused meanwhile.
    running_checks: u32,
    writer: Option<SyncSender<WriterMessage>>,
}

/// Pauses the idle timeout while a check runs.
pub(super) struct IdlePause<'a>(&'a AttemptState);

impl Drop for IdlePause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running_checks = state.running_checks.saturating_sub(1);
        state.last_activity = Instant::now();
    }
}

/// One attempt, shared by all parts of the supervisor.
pub(super) struct AttemptState {
    state: Mutex<State>,
    begun: Instant,
    earlier_ms: u64,
    prices: Prices,
    gate_connected: watch::Sender<bool>,
    end_reason: watch::Sender<Option<(ExitReason, String, Option<Exhausted>)>>,
    /// Notifies requests that wait for budget.
    budget_changed: watch::Sender<()>,
    /// Whether the CLI asks a gate.
    pub(super) has_gate: bool,
    /// Whether model requests mark failed tool results.
    api_marks_failures: bool,
    /// Whether the proxy sees tool calls and results.
    proxy_sees_calls: bool,
}

/// The initial attempt state.
pub(super) struct AttemptStateConfig {
    pub(super) behaviour: CliBehaviour,
    pub(super) budget: Budget,
    pub(super) used: Used,
    pub(super) time: u64,
    pub(super) prices: Prices,
    pub(super) earlier: Vec<Event>,
    pub(super) session: Option<String>,
    pub(super) has_gate: bool,
    pub(super) api_marks_failures: bool,
    pub(super) proxy_sees_calls: bool,
}

impl AttemptState {
    pub(super) fn new(config: AttemptStateConfig, writer: SyncSender<WriterMessage>) -> Self {
        let AttemptStateConfig {
            behaviour,
            budget,
            used,
            time,
            prices,
            earlier,
            session,
            has_gate,
            api_marks_failures,
            proxy_sees_calls,
        } = config;
        let mut known = CallTracker::new(behaviour);
        replay_events(&mut known, &earlier);
        known.clear_unresolved();
        Self {
            state: Mutex::new(State {
                calls: known,
                spent: Spent { used, time },
                budget,
                warned: Vec::new(),
                reported_exhausted: Vec::new(),
                limit_is_known: false,
                turns: BTreeMap::new(),
                open_requests: 0,
                largest: None,
                session,
                model: String::new(),
                last_activity: Instant::now(),
                open_questions: BTreeMap::new(),
                question_count: 0,
                consents: Consents::default(),
                messages: Vec::new(),
                exhausted: None,
                only_background_since: None,
                running_checks: 0,
                writer: Some(writer),
            }),
            begun: Instant::now(),
            earlier_ms: time,
            prices,
            gate_connected: watch::channel(false).0,
            end_reason: watch::channel(None).0,
            budget_changed: watch::channel(()).0,
            has_gate,
            api_marks_failures,
            proxy_sees_calls,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left no partial change: each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event with the current time.
    pub(super) fn record_event(
        &self,
        reported_by: ReportedBy,
        agent: Option<&str>,
        what: EventKind,
    ) {
        let event = Event {
            number: 0,
            at: now(),
            reported_by,
            agent: agent.map(str::to_owned),
            what,
            raw: None,
        };
        self.send(WriterMessage::Event(event));
    }

    /// The program printed a line, which was parsed into these events.
    pub(super) fn on_output_line(&self, parsed: Vec<ParsedEvent>, line: &str) {
        for (place, one) in parsed.into_iter().enumerate() {
            if let EventKind::Session { id, model } = &one.what
                && one.agent.is_none()
                && is_name(id)
            {
                let mut state = self.state();
                state.session = Some(id.clone());
                if let Some(model) = model {
                    state.model.clone_from(model);
                }
            }
            self.update_tracker(&one.what);
            // The raw line is stored once, with its first event.
            let raw = (place == 0).then_some(line);
            self.send(WriterMessage::Event(one.event(now(), raw)));
        }
        self.touch();
    }

    /// Compares what the program reports with the decisions. A call that ran without permission ends the
    /// attempt.
    fn update_tracker(&self, what: &EventKind) {
        let mut state = self.state();
        if let EventKind::ToolResult { id, ok, output } = what {
            state.calls.on_reported_result(id, output, !ok);
        } else if let EventKind::Command { command, .. } = what {
            state.calls.on_reported_command(command);
        } else if let EventKind::ToolCall { tool, input, .. } = what {
            state.calls.on_reported_call(tool, input);
        }
        drop(state);
        if let Some(lost) = self.ran_without_permission() {
            self.end_for_breach(&lost.to_string());
        }
    }

    fn send(&self, message: WriterMessage) {
        let writer = self.state().writer.clone();
        if let Some(writer) = writer {
            // The writer runs until all senders are dropped; a program that prints too fast waits here.
            let _ = writer.send(message);
        }
    }

    /// Resets the idle timer.
    pub(super) fn touch(&self) {
        self.state().last_activity = Instant::now();
    }

    /// Time since the last activity; zero while a question is open or a check runs.
    pub(super) fn idle(&self) -> Duration {
        let state = self.state();
        let waits = !state.open_questions.is_empty() || state.running_checks > 0;
        if waits { Duration::ZERO } else { state.last_activity.elapsed() }
    }

    /// Pauses the idle timeout until the guard is dropped.
    pub(super) fn pause_idle_timeout(&self) -> IdlePause<'_> {
        let mut state = self.state();
        state.running_checks = state.running_checks.saturating_add(1);
        drop(state);
        IdlePause(self)
    }

    /// Sets whether the program has nothing left but background work.
    pub(super) fn set_only_background_work(&self, only_background: bool) {
        let mut state = self.state();
        state.only_background_since =
            only_background.then(|| state.only_background_since.unwrap_or_else(Instant::now));
    }

    /// How long only background work has been left.
    pub(super) fn only_background_for(&self) -> Duration {
        self.state().only_background_since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Ends the attempt; the first reason wins.
    pub(super) fn end(&self, ending: ExitReason, detail: &str) {
        self.end_by(ending, detail, None);
    }

    /// Ends the attempt because a budget is exhausted.
    pub(super) fn exhaust(&self, exhausted: Exhausted, detail: &str) {
        self.end_by(ExitReason::BudgetExhausted, detail, Some(exhausted));
    }

    fn end_by(&self, ending: ExitReason, detail: &str, exhausted: Option<Exhausted>) {
        self.end_reason.send_if_modified(|end_reason| {
            let first = end_reason.is_none();
            if first {
                *end_reason = Some((ending, detail.to_owned(), exhausted));
            }
            first
        });
        self.budget_changed.send_replace(());
    }

    /// Ends the attempt because a limit may not have held.
    pub(super) fn end_for_breach(&self, why: &str) {
        self.end(ExitReason::EnforcementLost, why);
    }

    /// Notes that a request or call was refused because of the budget. The attempt then ends for this reason, no
    /// matter what the program does next.
    pub(super) fn record_exhaustion(&self, exhausted: Exhausted, why: &str) {
        self.state().exhausted.get_or_insert_with(|| (exhausted, why.to_owned()));
    }

    /// The budget because of which something was refused.
    pub(super) fn exhausted(&self) -> Option<(Exhausted, String)> {
        self.state().exhausted.clone()
    }

    /// The budget that ended the attempt.
    pub(super) fn ended_by(&self) -> Option<Exhausted> {
        self.end_reason.borrow().as_ref().and_then(|(_, _, exhausted)| *exhausted)
    }

    /// Returns once there is a reason to end the attempt.
    pub(super) fn wait_for_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut end_reason = self.end_reason.subscribe();
        async move {
            // If the sender is gone, the attempt is over.
            let _ = end_reason.wait_for(Option::is_some).await;
        }
    }

    /// Why the attempt ends, once it does.
    pub(super) fn ending(&self) -> Option<(ExitReason, String)> {
        self.end_reason.borrow().as_ref().map(|(ending, detail, _)| (*ending, detail.clone()))
    }

    /// The gate has connected.
    pub(super) fn gate_has_connected(&self) {
        if !self.gate_connected.send_replace(true) {
            self.record_event(ReportedBy::Gate, None, EventKind::Announced);
        }
        self.touch();
    }

    /// Waits until the gate has connected; false after the timeout.
    pub(super) async fn wait_for_gate(&self, timeout: Duration) -> bool {
        let mut gate_connected = self.gate_connected.subscribe();
        let gate_connected = gate_connected.wait_for(|gate_connected| *gate_connected);
        matches!(tokio::time::timeout(timeout, gate_connected).await, Ok(Ok(_)))
    }

    /// The model requests a tool call.
    pub(super) fn on_tool_call(
        &self,
        agent: Option<&str>,
        id: &str,
        tool: &str,
        input: &serde_json::Value,
    ) {
        self.state().calls.on_tool_call(id, tool, input);
        let what =
            EventKind::ToolCall { id: id.to_owned(), tool: tool.to_owned(), input: input.clone() };
        self.record_event(ReportedBy::Proxy, agent, what);
    }

    /// The response with this call is incomplete.
    pub(super) fn on_incomplete_response(&self, call: &ToolCall, broke_off: bool) {
        self.state().calls.on_incomplete_response(&call.id, &call.tool, &call.input, broke_off);
    }

    /// A model request contains a tool result. `Ok(false)` if an earlier one did, too; an error if the call was
    /// never decided.
    pub(super) fn on_result(
        &self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: bool,
    ) -> Result<bool, EnforcementBreach> {
        let failed = self.api_marks_failures.then_some(failed);
        let is_new = self.state().calls.on_result(id, tool, output, failed);
        if self.has_gate { is_new } else { Ok(is_new.unwrap_or(true)) }
    }

    /// A call was decided; `denied` is the rule that denied it.
    pub(super) fn on_decision(
        &self,
        id: Option<&str>,
        tool: &str,
        input: &serde_json::Value,
        denied: Option<&str>,
    ) {
        let mut state = self.state();
        let counts = state.calls.on_decision(id, tool, input);
        if let Some(rule) = denied.filter(|_| counts) {
            state.calls.on_denial(id, tool, input, rule);
        }
        let used = &mut state.spent.used;
        used.tool_calls = used.tool_calls.saturating_add(1);
        used.denied = used.denied.saturating_add(u64::from(denied.is_some()));
        drop(state);
        if !counts {
            let message = "a process in the sandbox asked the gate about another command under the id of a \
                           tool call; that decision was ignored";
            let message = message.to_owned();
            self.record_event(ReportedBy::Supervisor, None, EventKind::Error { message });
        }
        self.publish_progress();
    }

    /// A call that the program itself reports as run, although it was denied or never decided.
    pub(super) fn ran_without_permission(&self) -> Option<EnforcementBreach> {
        self.state()
            .calls
            .ran_without_permission()
            .filter(|_| self.has_gate && self.proxy_sees_calls)
    }

    /// A call that may have run undecided, and the number of invented questions.
    pub(super) fn unaccounted(&self) -> (Option<EnforcementBreach>, u64) {
        let state = self.state();
        // Without the proxy the calls of the model are unknown.
        let forged_hook_requests =
            if self.proxy_sees_calls { state.calls.forged_hook_requests() } else { 0 };
        (
            state.calls.unaccounted().filter(|_| self.has_gate && self.proxy_sees_calls),
            forged_hook_requests,
        )
    }

    /// Current usage, budget and session.
    pub(super) fn progress(&self) -> Progress {
        let state = self.state();
        Progress {
            used: state.spent.used,
            time: self.time(),
            budget: state.budget.0,
            session: state.session.clone(),
            model: state.model.clone(),
        }
    }

    /// Sends the current progress to the writer.
    pub(super) fn publish_progress(&self) {
        self.send(WriterMessage::Progress(self.progress()));
    }

    /// Drops the sender: nothing is written after this.
    pub(super) fn close(&self) {
        self.state().writer = None;
    }
}

/// Whether an id is safe as an argument: the program prints it.
fn is_name(id: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.starts_with('-') && (1..=128).contains(&id.len()) && id.chars().all(part)
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
#[cfg(test)]
mod tests;
