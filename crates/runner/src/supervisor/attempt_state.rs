//! The shared state of an attempt behind one lock, and the one way to end the attempt.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bailiwick_lifecycle::delegation::consent::{Consents, matches_call_text};
use bailiwick_lifecycle::ports::Consent;
use bailiwick_lifecycle::supervision::budget::Limit;
use bailiwick_lifecycle::supervision::{
    Budget, BudgetState, CallTracker, CliBehaviour, EnforcementBreach, Prices, Spent,
};
use bailiwick_model::Event;
use bailiwick_model::attempt::{Allowance, Exhausted, Used};
use bailiwick_model::event::{Answer, EventKind, ExitReason, ReportedBy};
use bailiwick_policy::tool::{Class, Tool};
use tokio::sync::{oneshot, watch};

use super::progress::Progress;
use super::writer::WriterMessage;
use crate::agents::adapter::ParsedEvent;
use crate::proxy::ToolCall;

/// Why an answer of a person was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("there is no question {0}, or it was answered already")]
    NotOpen(String),
    #[error("question {0} is closed")]
    NotAwaited(String),
}

/// A question that a person has to answer.
pub(super) struct Pending {
    pub(super) about: String,
    /// When it is denied without an answer, in milliseconds since 1970.
    pub(super) expires_at: u64,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// All that changes while an attempt runs.
struct State {
    calls: CallTracker,
    spent: Spent,
    budget: Budget,
    warned: Vec<Limit>,
    reported_exhausted: Vec<Limit>,
    /// Whether the agent knows that its tokens are nearly used.
    limit_is_known: bool,
    turns: BTreeMap<Option<String>, u64>,
    /// Requests that were sent to the model and have no response yet.
    open_requests: u64,
    /// The largest usage of one response so far.
    largest: Option<Used>,
    session: Option<String>,
    model: String,
    last_activity: Instant,
    pending: BTreeMap<String, Pending>,
    questions_asked: u64,
    consents: Consents,
    messages: Vec<String>,
    exhausted: Option<(Exhausted, String)>,
    /// Since when only background work is left.
    only_background_since: Option<Instant>,
    /// Checks that run right now; the idle timeout does not count meanwhile.
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
    announced: watch::Sender<bool>,
    end_reason: watch::Sender<Option<(ExitReason, String, Option<Exhausted>)>>,
    /// Notifies requests that wait for budget.
    budget_changed: watch::Sender<()>,
    /// Whether the program asks a gate.
    pub(super) gated: bool,
    /// Whether model requests mark failed tool results.
    marks_failures: bool,
    /// Whether the proxy sees tool calls and results.
    watched: bool,
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
    pub(super) gated: bool,
    pub(super) marks_failures: bool,
    pub(super) watched: bool,
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
            gated,
            marks_failures,
            watched,
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
                pending: BTreeMap::new(),
                questions_asked: 0,
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
            announced: watch::channel(false).0,
            end_reason: watch::channel(None).0,
            budget_changed: watch::channel(()).0,
            gated,
            marks_failures,
            watched,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left nothing half done: every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event with the current time.
    pub(super) fn record_event(&self, seen_by: ReportedBy, agent: Option<&str>, what: EventKind) {
        let event = Event {
            number: 0,
            at: now(),
            seen_by,
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

    /// Time since the last activity; zero while a person is asked or a check runs.
    pub(super) fn idle(&self) -> Duration {
        let state = self.state();
        let waits = !state.pending.is_empty() || state.running_checks > 0;
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

    /// Notes that a request or a call was refused for the budget: this is then why the attempt ends, whatever
    /// the program does next.
    pub(super) fn note_exhaustion(&self, exhausted: Exhausted, why: &str) {
        self.state().exhausted.get_or_insert_with(|| (exhausted, why.to_owned()));
    }

    /// The budget for which something was refused.
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
            // Without a hub, the attempt is over.
            let _ = end_reason.wait_for(Option::is_some).await;
        }
    }

    /// Why the attempt ends, once it does.
    pub(super) fn ending(&self) -> Option<(ExitReason, String)> {
        self.end_reason.borrow().as_ref().map(|(ending, detail, _)| (*ending, detail.clone()))
    }

    /// The gate has announced itself.
    pub(super) fn announce(&self) {
        if !self.announced.send_replace(true) {
            self.record_event(ReportedBy::Gate, None, EventKind::Announced);
        }
        self.touch();
    }

    /// Waits until the gate has announced itself; false after the timeout.
    pub(super) async fn announced(&self, timeout: Duration) -> bool {
        let mut announced = self.announced.subscribe();
        let heard = announced.wait_for(|heard| *heard);
        matches!(tokio::time::timeout(timeout, heard).await, Ok(Ok(_)))
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

    /// A tool result is in a model request. `Ok(false)` if it was there before; an error if the call was
    /// never decided.
    pub(super) fn on_result(
        &self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: bool,
    ) -> Result<bool, EnforcementBreach> {
        let failed = self.marks_failures.then_some(failed);
        let came = self.state().calls.on_result(id, tool, output, failed);
        if self.gated { came } else { Ok(came.unwrap_or(true)) }
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
        self.state().calls.ran_without_permission().filter(|_| self.gated && self.watched)
    }

    /// A call that may have run undecided, and the number of invented questions.
    pub(super) fn unaccounted(&self) -> (Option<EnforcementBreach>, u64) {
        let state = self.state();
        // Without the proxy the calls of the model are unknown.
        let invented_questions = if self.watched { state.calls.invented_questions() } else { 0 };
        (state.calls.unaccounted().filter(|_| self.gated && self.watched), invented_questions)
    }

    /// Whether the price of a model is known where the budget is in money.
    pub(super) fn has_known_price(&self, model: &str) -> bool {
        let state = self.state();
        state.budget.0.micro_usd.is_none() || self.prices.of(model).is_some()
    }

    /// A model response is complete.
    pub(super) fn on_response(&self, agent: Option<&str>, usage: &bailiwick_model::event::Usage) {
        let mut state = self.state();
        let money = self.prices.cost(usage);
        state.spent.answered(usage, money.unwrap_or_default());
        state.open_requests = state.open_requests.saturating_sub(1);
        let largest = state.largest.get_or_insert_default();
        largest.tokens = largest.tokens.max(usage.tokens());
        largest.micro_usd = largest.micro_usd.max(money.unwrap_or_default());
        let uncounted = money.is_none() && state.budget.0.micro_usd.is_some();
        if state.model.is_empty() {
            state.model.clone_from(&usage.model);
        }
        let turn = state.turns.entry(agent.map(str::to_owned)).or_default();
        *turn += 1;
        let turn = *turn;
        drop(state);
        self.budget_changed.send_replace(());
        // A model may respond under another name than the requested one.
        if uncounted {
            let why =
                format!("nothing says what {} costs, and the budget is in dollars", usage.model);
            self.exhaust(Exhausted::Price, &why);
        }
        self.record_event(ReportedBy::Proxy, agent, EventKind::Turn { turn });
        self.record_event(ReportedBy::Proxy, agent, EventKind::Usage(usage.clone()));
        self.publish_progress();
    }

    /// Reserves budget for one more model request; false if the open requests may use up the rest. The
    /// reservation ends with `on_response` or `release_request`.
    pub(super) fn reserve_request(&self) -> bool {
        let mut state = self.state();
        let room = state.budget.has_room(&state.spent, state.open_requests, state.largest.as_ref());
        state.open_requests = state.open_requests.saturating_add(u64::from(room));
        room
    }

    /// Releases the reservation of a request that got no response.
    pub(super) fn release_request(&self) {
        let mut state = self.state();
        state.open_requests = state.open_requests.saturating_sub(1);
        drop(state);
        self.budget_changed.send_replace(());
    }

    /// Notifies when the budget changed: a response, a new budget, or the end.
    pub(super) fn watch_budget(&self) -> watch::Receiver<()> {
        self.budget_changed.subscribe()
    }

    /// The state of the budget; warns once for each limit that is nearly spent.
    pub(super) fn budget_state(&self) -> BudgetState {
        let mut state = self.state();
        state.spent.time = self.time();
        let standing = state.budget.budget_state(&state.spent);
        let news: Vec<Limit> = match &standing {
            BudgetState::Fine => Vec::new(),
            BudgetState::Near(limits) => limits.clone(),
            BudgetState::Exhausted(limit) => vec![*limit],
        };
        let exhausted = matches!(standing, BudgetState::Exhausted(_));
        let news: Vec<EventKind> = news
            .into_iter()
            .filter(|limit| match exhausted {
                true => !state.reported_exhausted.contains(limit),
                false => !state.warned.contains(limit),
            })
            .map(|limit| (limit, state.budget.event(limit, &state.spent)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(limit, what)| {
                match exhausted {
                    true => state.reported_exhausted.push(limit),
                    false => state.warned.push(limit),
                }
                what
            })
            .collect();
        drop(state);
        for what in news {
            self.record_event(ReportedBy::Supervisor, None, what);
        }
        standing
    }

    /// What the agent is told when its tokens are nearly used: once, unless it did not receive it.
    pub(super) fn announce_limit(&self) -> Option<String> {
        let is_near = match self.budget_state() {
            BudgetState::Near(limits) => limits.contains(&Limit::Tokens),
            BudgetState::Fine | BudgetState::Exhausted(_) => false,
        };
        let mut state = self.state();
        if !is_near || std::mem::replace(&mut state.limit_is_known, true) {
            return None;
        }
        let most = state.budget.of_limit(Limit::Tokens).unwrap_or_default();
        let used = state.spent.of_limit(Limit::Tokens);
        Some(format!("{used} of {most} tokens are used"))
    }

    /// The agent did not receive it.
    pub(super) fn forget_limit(&self) {
        self.state().limit_is_known = false;
    }

    fn time(&self) -> u64 {
        let since = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.earlier_ms.saturating_add(since)
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

    /// Replaces the budget.
    pub(super) fn set_budget(&self, budget: Allowance) {
        let mut state = self.state();
        state.budget = Budget(budget);
        state.warned.clear();
        state.reported_exhausted.clear();
        drop(state);
        self.budget_changed.send_replace(());
        self.publish_progress();
    }

    /// Queues a person's message for the agent.
    pub(super) fn message(&self, text: &str) {
        self.state().messages.push(text.to_owned());
        self.record_event(ReportedBy::Person, None, EventKind::Message { text: text.to_owned() });
    }

    /// Takes the messages that the agent has not received.
    pub(super) fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.state().messages)
    }

    /// Asks a person, who has this long; the receiver gets the answer.
    pub(super) fn ask(
        &self,
        about: &str,
        timeout: Duration,
    ) -> (String, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        state.questions_asked += 1;
        let id = state.questions_asked.to_string();
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let expires_at = now().saturating_add(timeout);
        let about = about.to_owned();
        state.pending.insert(id.clone(), Pending { about: about.clone(), expires_at, answer });
        drop(state);
        let what = EventKind::Approval { id: id.clone(), about, answer: None };
        self.record_event(ReportedBy::Supervisor, None, what);
        (id, answered)
    }

    /// Drops a question that was not answered in time.
    pub(super) fn drop_question(&self, id: &str) {
        self.state().pending.remove(id);
        self.touch();
    }

    /// The open questions: id and text.
    pub(super) fn questions(&self) -> Vec<(String, String)> {
        let state = self.state();
        state.pending.iter().map(|(id, one)| (id.clone(), one.about.clone())).collect()
    }

    /// When each open question is denied without an answer, in milliseconds since 1970.
    pub(super) fn question_expiries(&self) -> BTreeMap<String, u64> {
        self.state().pending.iter().map(|(id, one)| (id.clone(), one.expires_at)).collect()
    }

    /// Answers a question; an error if it is not open.
    pub(super) fn answer(&self, id: &str, answer: Answer) -> Result<(), AnswerError> {
        let Some(pending) = self.state().pending.remove(id) else {
            return Err(AnswerError::NotOpen(id.to_owned()));
        };
        let about = pending.about.clone();
        let what = EventKind::Approval { id: id.to_owned(), about, answer: Some(answer) };
        self.record_event(ReportedBy::Person, None, what);
        self.touch();
        pending.answer.send(answer).map_err(|_| AnswerError::NotAwaited(id.to_owned()))
    }

    /// A person approved a call of one of our own tools.
    pub(super) fn consented(&self, tool: &str, input: &serde_json::Value) {
        let mut state = self.state();
        state.consents = std::mem::take(&mut state.consents).with(tool, input, now());
    }

    /// Whether a person approved this call of one of our own tools.
    pub(super) fn consent(&self, tool: &str, arguments: &serde_json::Value) -> Consent {
        let mut state = self.state();
        let (left, given) = std::mem::take(&mut state.consents).used(tool, arguments, now());
        state.consents = left;
        if given { Consent::Given } else { Consent::Absent }
    }

    /// Drops the sender: nothing is written after this.
    pub(super) fn close(&self) {
        self.state().writer = None;
    }
}

/// Replays the calls and decisions of earlier attempts: a program may show the model the result of an
/// earlier call only now.
fn replay_events(known: &mut CallTracker, earlier: &[Event]) {
    let mut open: Vec<(&str, &serde_json::Value)> = Vec::new();
    for event in earlier {
        match (&event.what, event.seen_by) {
            (EventKind::ToolCall { id, tool, input }, ReportedBy::Proxy) => {
                known.on_tool_call(id, tool, input);
                open.push((tool, input));
            }
            (EventKind::Decision { call: Some(call), tool, about, answer, rule, .. }, _) => {
                let input = decided_input(tool, about, *answer);
                let counts = known.on_decision(Some(call), tool, &input);
                if *answer == Answer::Deny && counts {
                    known.on_denial(Some(call), tool, &input, rule.as_deref().unwrap_or_default());
                }
            }
            (EventKind::Decision { call: None, about, answer, rule, .. }, _) => {
                let place = open.iter().position(|(_, input)| is_about(input, about));
                if let Some((tool, input)) = place.map(|place| open.remove(place)) {
                    known.on_decision(None, tool, input);
                    if *answer == Answer::Deny {
                        known.on_denial(None, tool, input, rule.as_deref().unwrap_or_default());
                    }
                }
            }
            (EventKind::ToolResult { id, .. }, ReportedBy::Proxy) => known.add_known_result(id),
            (EventKind::ToolResult { id, ok, output }, ReportedBy::Program) => {
                known.on_reported_result(id, output, !ok)
            }
            (EventKind::Command { command, .. }, ReportedBy::Program) => {
                known.on_reported_command(command)
            }
            (_, _) => {}
        }
    }
}

/// The input that a stored decision was about, as far as it is known. An allowance is for its command
/// only; a denial may be for a call that could not be parsed.
fn decided_input(tool: &str, about: &str, answer: Answer) -> serde_json::Value {
    let shell = Tool::named(tool).is_some_and(|tool| tool.class == Class::Shell);
    match answer {
        Answer::Allow if shell => serde_json::json!({"command": about}),
        Answer::Allow | Answer::Deny => serde_json::Value::Null,
    }
}

/// Whether a stored decision can be about a call with this input.
fn is_about(input: &serde_json::Value, about: &str) -> bool {
    let fields = || input.as_object().into_iter().flatten();
    match about {
        "" => !fields().any(|(name, _)| name == "command"),
        about => {
            fields().any(|(_, field)| field.as_str() == Some(about))
                || matches_call_text(input, about)
        }
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

/// The exhausted budget behind a limit.
pub(super) fn exhausted_by(limit: Limit) -> Exhausted {
    match limit {
        Limit::Tokens => Exhausted::Tokens,
        Limit::Money => Exhausted::Usd,
        Limit::Turns => Exhausted::Turns,
        Limit::Time => Exhausted::Minutes,
        Limit::ToolCalls => Exhausted::ToolCalls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A denial that the program did not report before the attempt ended must still come back as one.
    #[test]
    fn denials_of_earlier_attempts_count() {
        let event =
            |seen_by, what| Event { number: 0, at: 0, seen_by, agent: None, what, raw: None };
        let input = serde_json::json!({"command": "git push"});
        let asked = EventKind::ToolCall { id: "a".to_owned(), tool: "Bash".to_owned(), input };
        let decided = |answer| EventKind::Decision {
            call: Some("a".to_owned()),
            tool: "Bash".to_owned(),
            about: "git push".to_owned(),
            answer,
            rule: Some("policy::x".to_owned()),
            reason: None,
        };
        for (answer, output, held) in [
            (Answer::Deny, "pushed", false),
            (Answer::Deny, "policy::x: no", true),
            (Answer::Allow, "pushed", true),
        ] {
            let behaviour = CliBehaviour {
                hooks_have_call_ids: true,
                unhooked: &[],
                refusals: &[],
                denial: "",
                truncates_old_results: true,
                unfinished: bailiwick_lifecycle::supervision::IncompleteCalls::Runs,
                reports_commands: false,
                code_mode: None,
            };
            let mut known = CallTracker::new(behaviour);
            let earlier =
                [event(ReportedBy::Proxy, asked.clone()), event(ReportedBy::Gate, decided(answer))];
            replay_events(&mut known, &earlier);
            assert_eq!(known.on_result("a", None, output, None).is_ok(), held, "{output}");
        }
    }

    #[test]
    fn questions_are_about_no_call_only_where_calls_are_seen() {
        let (writer, _kept) = std::sync::mpsc::sync_channel(64);
        for (watched, invented_questions) in [(true, 1), (false, 0)] {
            let config = AttemptStateConfig {
                behaviour: crate::agents::adapter::Adapter::behaviour(&crate::agents::ClaudeCode),
                budget: Budget(Allowance::default()),
                used: Used::default(),
                time: 0,
                prices: Prices::new(bailiwick_model::settings::Settings::default().prices),
                earlier: Vec::new(),
                session: None,
                gated: true,
                marks_failures: true,
                watched,
            };
            let attempt_state = AttemptState::new(config, writer.clone());
            attempt_state.on_decision(
                Some("a"),
                "Bash",
                &serde_json::json!({"command": "ls"}),
                None,
            );
            assert_eq!(attempt_state.unaccounted().1, invented_questions);
        }
    }

    /// A process in the sandbox asks about a harmless command under the id of another call.
    #[test]
    fn an_answer_of_an_earlier_attempt_is_for_its_own_command_alone() {
        let event =
            |seen_by, what| Event { number: 0, at: 0, seen_by, agent: None, what, raw: None };
        let asked = |command: &str| EventKind::ToolCall {
            id: "a".to_owned(),
            tool: "Bash".to_owned(),
            input: serde_json::json!({"command": command}),
        };
        let allowed = |about: &str| EventKind::Decision {
            call: Some("a".to_owned()),
            tool: "Bash".to_owned(),
            about: about.to_owned(),
            answer: Answer::Allow,
            rule: None,
            reason: None,
        };
        let behaviour = CliBehaviour {
            hooks_have_call_ids: true,
            unhooked: &[],
            refusals: &[],
            denial: "",
            truncates_old_results: true,
            unfinished: bailiwick_lifecycle::supervision::IncompleteCalls::Runs,
            reports_commands: false,
            code_mode: None,
        };
        for (about, again, held) in [
            ("git push", None, true),
            ("echo hi", None, false),
            ("git push", Some("git push"), true),
            ("git push", Some("git push --force"), false),
        ] {
            let mut known = CallTracker::new(behaviour);
            let earlier = [
                event(ReportedBy::Proxy, asked("git push")),
                event(ReportedBy::Gate, allowed(about)),
            ];
            replay_events(&mut known, &earlier);
            known.clear_unresolved();
            if let Some(command) = again {
                known.on_tool_call("a", "Bash", &serde_json::json!({"command": command}));
            }
            let came = known.on_result("a", None, "pushed", None);
            assert_eq!(came.is_ok(), held, "{about}, {again:?}");
        }
    }
}
