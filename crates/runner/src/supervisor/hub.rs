//! What is known of an attempt, behind one lock; and the one way to end it.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bailiwick_lifecycle::delegation::consent::{Consents, is_shown};
use bailiwick_lifecycle::ports::Consent;
use bailiwick_lifecycle::supervision::budget::Limit;
use bailiwick_lifecycle::supervision::{
    Budget, CliBehaviour, EnforcementBreach, Prices, Spent, Standing, Watch,
};
use bailiwick_model::Event;
use bailiwick_model::attempt::{Allowance, Exhausted, Used};
use bailiwick_model::event::{Answer, EventKind, ExitReason, ReportedBy};
use bailiwick_policy::tool::{Class, Tool};
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use super::writer::Order;
use crate::agents::adapter::Read;
use crate::proxy::ToolCall;

/// How an attempt stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is used, with what earlier attempts have used.
    pub used: Used,
    /// Milliseconds, with those of earlier attempts.
    pub time: u64,
    /// What may be used.
    pub budget: Allowance,
    /// The program's name for the conversation.
    pub session: Option<String>,
    /// The model, as it names itself.
    pub model: String,
}

/// A question that a person has to answer.
pub(super) struct Pending {
    pub(super) about: String,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What is known.
struct State {
    watch: Watch,
    spent: Spent,
    budget: Budget,
    warned: Vec<Limit>,
    told_spent: Vec<Limit>,
    turns: BTreeMap<Option<String>, u64>,
    /// How many requests the model has been asked and has not answered.
    open: u64,
    /// The most that an answer has taken of each thing.
    largest: Option<Used>,
    session: Option<String>,
    model: String,
    last: Instant,
    pending: BTreeMap<String, Pending>,
    asked: u64,
    consents: Consents,
    messages: Vec<String>,
    exhausted: Option<(Exhausted, String)>,
    /// Since when nothing is left but what runs in the background.
    lingers: Option<Instant>,
    /// How many checks it waits for.
    held: u32,
    orders: Option<SyncSender<Order>>,
}

/// A check that runs.
pub(super) struct IdlePause<'a>(&'a Hub);

impl Drop for IdlePause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.held = state.held.saturating_sub(1);
        state.last = Instant::now();
    }
}

/// One attempt, as all its parts see it.
pub(super) struct Hub {
    state: Mutex<State>,
    begun: Instant,
    before: u64,
    prices: Prices,
    announced: watch::Sender<bool>,
    over: watch::Sender<Option<(ExitReason, String, Option<Exhausted>)>>,
    /// Changes when a request that waits for room may look again.
    room: watch::Sender<()>,
    /// Whether it has a gate.
    pub(super) gated: bool,
    /// Whether requests say of a result that it is a failure.
    marks_failures: bool,
    /// Whether the proxy sees what comes back.
    watched: bool,
}

/// What a hub begins with.
pub(super) struct Beginning {
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

impl Hub {
    pub(super) fn new(beginning: Beginning, orders: SyncSender<Order>) -> Self {
        let Beginning {
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
        } = beginning;
        let mut known = Watch::new(behaviour);
        replay_events(&mut known, &earlier);
        known.settle();
        Self {
            state: Mutex::new(State {
                watch: known,
                spent: Spent { used, time },
                budget,
                warned: Vec::new(),
                told_spent: Vec::new(),
                turns: BTreeMap::new(),
                open: 0,
                largest: None,
                session,
                model: String::new(),
                last: Instant::now(),
                pending: BTreeMap::new(),
                asked: 0,
                consents: Consents::default(),
                messages: Vec::new(),
                exhausted: None,
                lingers: None,
                held: 0,
                orders: Some(orders),
            }),
            begun: Instant::now(),
            before: time,
            prices,
            announced: watch::channel(false).0,
            over: watch::channel(None).0,
            room: watch::channel(()).0,
            gated,
            marks_failures,
            watched,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left nothing half done: every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened now.
    pub(super) fn tell(&self, seen_by: ReportedBy, agent: Option<&str>, what: EventKind) {
        let event = Event {
            number: 0,
            at: now(),
            seen_by,
            agent: agent.map(str::to_owned),
            what,
            raw: None,
        };
        self.send(Order::Event(event));
    }

    /// A line of the program was read.
    pub(super) fn read(&self, read: Vec<Read>, line: &str) {
        for (place, one) in read.into_iter().enumerate() {
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
            self.hear(&one.what);
            // The line is kept once, with the first that it says.
            let raw = (place == 0).then_some(line);
            self.send(Order::Event(one.event(now(), raw)));
        }
        self.touch();
    }

    /// What the program says of its calls. One that has run although it was denied, or nobody was asked,
    /// is the end.
    fn hear(&self, what: &EventKind) {
        let mut state = self.state();
        if let EventKind::ToolResult { id, ok, output } = what {
            state.watch.told(id, output, !ok);
        } else if let EventKind::Command { command, .. } = what {
            state.watch.told_command(command);
        } else if let EventKind::ToolCall { tool, input, .. } = what {
            state.watch.told_call(tool, input);
        }
        drop(state);
        if let Some(lost) = self.ran_without_permission() {
            self.lose(&lost.to_string());
        }
    }

    fn send(&self, order: Order) {
        let orders = self.state().orders.clone();
        if let Some(orders) = orders {
            // The writer goes on until nobody sends any more; who prints too fast waits for it.
            let _ = orders.send(order);
        }
    }

    /// A sign of life.
    pub(super) fn touch(&self) {
        self.state().last = Instant::now();
    }

    /// How long nothing was heard; nothing counts while a person is asked, or a check runs.
    pub(super) fn idle(&self) -> Duration {
        let state = self.state();
        let waits = !state.pending.is_empty() || state.held > 0;
        if waits { Duration::ZERO } else { state.last.elapsed() }
    }

    /// A check runs until this is dropped.
    pub(super) fn hold(&self) -> IdlePause<'_> {
        let mut state = self.state();
        state.held = state.held.saturating_add(1);
        drop(state);
        IdlePause(self)
    }

    /// Whether the program has nothing left but what runs in the background.
    pub(super) fn lingers(&self, lingers: bool) {
        let mut state = self.state();
        state.lingers = lingers.then(|| state.lingers.unwrap_or_else(Instant::now));
    }

    /// How long it has had nothing else.
    pub(super) fn lingered(&self) -> Duration {
        self.state().lingers.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// The first reason to end wins.
    pub(super) fn end(&self, ending: ExitReason, detail: &str) {
        self.end_by(ending, detail, None);
    }

    /// The attempt ran out of something.
    pub(super) fn exhaust(&self, exhausted: Exhausted, detail: &str) {
        self.end_by(ExitReason::BudgetExhausted, detail, Some(exhausted));
    }

    fn end_by(&self, ending: ExitReason, detail: &str, exhausted: Option<Exhausted>) {
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            if first {
                *over = Some((ending, detail.to_owned(), exhausted));
            }
            first
        });
        self.room.send_replace(());
    }

    /// A limit may not have held.
    pub(super) fn lose(&self, why: &str) {
        self.end(ExitReason::EnforcementLost, why);
    }

    /// A request or a call was refused because the budget is spent: whatever the program makes of
    /// that, this is why the attempt ends.
    pub(super) fn note_exhaustion(&self, exhausted: Exhausted, why: &str) {
        self.state().exhausted.get_or_insert_with(|| (exhausted, why.to_owned()));
    }

    /// What is spent, if something was refused for it.
    pub(super) fn exhausted(&self) -> Option<(Exhausted, String)> {
        self.state().exhausted.clone()
    }

    /// What the attempt ran out of, if that ended it.
    pub(super) fn ended_by(&self) -> Option<Exhausted> {
        self.over.borrow().as_ref().and_then(|(_, _, exhausted)| *exhausted)
    }

    /// Why it ends, if it does.
    pub(super) fn ending(&self) -> Option<(ExitReason, String)> {
        self.over.borrow().as_ref().map(|(ending, detail, _)| (*ending, detail.clone()))
    }

    /// The gate is there.
    pub(super) fn announce(&self) {
        if !self.announced.send_replace(true) {
            self.tell(ReportedBy::Gate, None, EventKind::Announced);
        }
        self.touch();
    }

    /// Comes back when the gate has said that it is there.
    pub(super) async fn announced(&self, patience: Duration) -> bool {
        let mut announced = self.announced.subscribe();
        let heard = announced.wait_for(|heard| *heard);
        matches!(tokio::time::timeout(patience, heard).await, Ok(Ok(_)))
    }

    /// The model asks for a tool.
    pub(super) fn asked(
        &self,
        agent: Option<&str>,
        id: &str,
        tool: &str,
        input: &serde_json::Value,
    ) {
        self.state().watch.asked(id, tool, input);
        let what =
            EventKind::ToolCall { id: id.to_owned(), tool: tool.to_owned(), input: input.clone() };
        self.tell(ReportedBy::Proxy, agent, what);
    }

    /// The answer in which the model asked for this has not come to its end.
    pub(super) fn cut_short(&self, call: &ToolCall, broke_off: bool) {
        self.state().watch.cut_short(&call.id, &call.tool, &call.input, broke_off);
    }

    /// A result has come back to the model: new, known, or of a call that nobody decided.
    pub(super) fn came_back(
        &self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: bool,
    ) -> Result<bool, EnforcementBreach> {
        let failed = self.marks_failures.then_some(failed);
        let came = self.state().watch.came_back(id, tool, output, failed);
        if self.gated { came } else { Ok(came.unwrap_or(true)) }
    }

    /// A call was decided; if it was denied, by this rule.
    pub(super) fn decided(
        &self,
        id: Option<&str>,
        tool: &str,
        input: &serde_json::Value,
        denied: Option<&str>,
    ) {
        let mut state = self.state();
        let counts = state.watch.decided(id, tool, input);
        if let Some(rule) = denied.filter(|_| counts) {
            state.watch.denied(id, tool, input, rule);
        }
        let used = &mut state.spent.used;
        used.tool_calls = used.tool_calls.saturating_add(1);
        used.denied = used.denied.saturating_add(u64::from(denied.is_some()));
        drop(state);
        if !counts {
            let message = "a process in the sandbox asked the gate about another command under the id of a \
                           tool call; that decision was ignored";
            let message = message.to_owned();
            self.tell(ReportedBy::Supervisor, None, EventKind::Error { message });
        }
        self.publish_progress();
    }

    /// A call that has run although it was denied or nobody decided it, by the word of the program alone.
    pub(super) fn ran_without_permission(&self) -> Option<EnforcementBreach> {
        self.state().watch.ran_without_permission().filter(|_| self.gated && self.watched)
    }

    /// A call that may have run although nobody decided it; and how many questions were made up.
    pub(super) fn unaccounted(&self) -> (Option<EnforcementBreach>, u64) {
        let state = self.state();
        // Where nobody sees what the model asks for, nothing can be about none of it.
        let made_up = if self.watched { state.watch.made_up() } else { 0 };
        (state.watch.unaccounted().filter(|_| self.gated && self.watched), made_up)
    }

    /// Whether a model may be asked: money can only be counted where its price is known.
    pub(super) fn priced(&self, model: &str) -> bool {
        let state = self.state();
        state.budget.0.micro_usd.is_none() || self.prices.of(model).is_some()
    }

    /// An answer of the model has passed.
    pub(super) fn answered(&self, agent: Option<&str>, usage: &bailiwick_model::event::Usage) {
        let mut state = self.state();
        let money = self.prices.cost(usage);
        state.spent.answered(usage, money.unwrap_or_default());
        state.open = state.open.saturating_sub(1);
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
        self.room.send_replace(());
        // A model may answer under another name than it was asked by.
        if uncounted {
            let why =
                format!("nothing says what {} costs, and the budget is in dollars", usage.model);
            self.exhaust(Exhausted::Price, &why);
        }
        self.tell(ReportedBy::Proxy, agent, EventKind::Turn { turn });
        self.tell(ReportedBy::Proxy, agent, EventKind::Usage(usage.clone()));
        self.publish_progress();
    }

    /// Lets one more request go to the model; false if those that are on their way may take all that is
    /// left. It is on its way until it is answered, or dismissed.
    pub(super) fn reserve_request(&self) -> bool {
        let mut state = self.state();
        let room = state.budget.has_room(&state.spent, state.open, state.largest.as_ref());
        state.open = state.open.saturating_add(u64::from(room));
        room
    }

    /// A request that was let through came to nothing.
    pub(super) fn dismissed(&self) {
        let mut state = self.state();
        state.open = state.open.saturating_sub(1);
        drop(state);
        self.room.send_replace(());
    }

    /// Tells when it is worth looking again: something was answered, given or ended.
    pub(super) fn more_room(&self) -> watch::Receiver<()> {
        self.room.subscribe()
    }

    /// How the budget stands; warns once of what is nearly spent.
    pub(super) fn standing(&self) -> Standing {
        let mut state = self.state();
        state.spent.time = self.time();
        let standing = state.budget.standing(&state.spent);
        let news: Vec<Limit> = match &standing {
            Standing::Fine => Vec::new(),
            Standing::Near(limits) => limits.clone(),
            Standing::Exhausted(limit) => vec![*limit],
        };
        let exhausted = matches!(standing, Standing::Exhausted(_));
        let news: Vec<EventKind> = news
            .into_iter()
            .filter(|limit| match exhausted {
                true => !state.told_spent.contains(limit),
                false => !state.warned.contains(limit),
            })
            .map(|limit| (limit, state.budget.event(limit, &state.spent)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(limit, what)| {
                match exhausted {
                    true => state.told_spent.push(limit),
                    false => state.warned.push(limit),
                }
                what
            })
            .collect();
        drop(state);
        for what in news {
            self.tell(ReportedBy::Supervisor, None, what);
        }
        standing
    }

    fn time(&self) -> u64 {
        let since = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.before.saturating_add(since)
    }

    /// How it stands.
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

    /// Tells how it stands.
    pub(super) fn publish_progress(&self) {
        self.send(Order::Progress(self.progress()));
    }

    /// A person gives more.
    pub(super) fn raise(&self, budget: Allowance) {
        let mut state = self.state();
        state.budget = Budget(budget);
        state.warned.clear();
        state.told_spent.clear();
        drop(state);
        self.room.send_replace(());
        self.publish_progress();
    }

    /// A person says something; it is heard when the program can be told.
    pub(super) fn message(&self, text: &str) {
        self.state().messages.push(text.to_owned());
        self.tell(ReportedBy::Person, None, EventKind::Message { text: text.to_owned() });
    }

    /// What was said and not heard.
    pub(super) fn messages(&self) -> Vec<String> {
        std::mem::take(&mut self.state().messages)
    }

    /// Asks a person.
    pub(super) fn ask(&self, about: &str) -> (String, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        state.asked += 1;
        let id = state.asked.to_string();
        state.pending.insert(id.clone(), Pending { about: about.to_owned(), answer });
        drop(state);
        let what = EventKind::Approval { id: id.clone(), about: about.to_owned(), answer: None };
        self.tell(ReportedBy::Supervisor, None, what);
        (id, answered)
    }

    /// Nobody has answered in time.
    pub(super) fn forget(&self, id: &str) {
        self.state().pending.remove(id);
        self.touch();
    }

    /// What people are asked at this moment.
    pub(super) fn questions(&self) -> Vec<(String, String)> {
        let state = self.state();
        state.pending.iter().map(|(id, one)| (id.clone(), one.about.clone())).collect()
    }

    /// A person answers; an error if nobody asked.
    pub(super) fn answer(&self, id: &str, answer: Answer) -> Result<(), String> {
        let Some(pending) = self.state().pending.remove(id) else {
            return Err(format!("there is no question {id}, or it was answered already"));
        };
        let about = pending.about.clone();
        let what = EventKind::Approval { id: id.to_owned(), about, answer: Some(answer) };
        self.tell(ReportedBy::Person, None, what);
        self.touch();
        pending.answer.send(answer).map_err(|_| format!("question {id} waits no longer"))
    }

    /// A person has let a call of a tool of ours happen.
    pub(super) fn consented(&self, tool: &str, input: &serde_json::Value) {
        let mut state = self.state();
        state.consents = std::mem::take(&mut state.consents).with(tool, input, now());
    }

    /// What a person said of the call of a tool of ours that comes now.
    pub(super) fn consent(&self, tool: &str, arguments: &serde_json::Value) -> Consent {
        let mut state = self.state();
        let (left, given) = std::mem::take(&mut state.consents).used(tool, arguments, now());
        state.consents = left;
        if given { Consent::Given } else { Consent::Absent }
    }

    /// Nothing more is written after this.
    pub(super) fn close(&self) {
        self.state().orders = None;
    }
}

/// What earlier attempts have asked for and decided counts in this one, too. A program that names no
/// calls may show the model what came of one only now.
fn replay_events(known: &mut Watch, earlier: &[Event]) {
    let mut open: Vec<(&str, &serde_json::Value)> = Vec::new();
    for event in earlier {
        match (&event.what, event.seen_by) {
            (EventKind::ToolCall { id, tool, input }, ReportedBy::Proxy) => {
                known.asked(id, tool, input);
                open.push((tool, input));
            }
            (EventKind::Decision { call: Some(call), tool, about, answer, rule, .. }, _) => {
                let input = decided_input(tool, about, *answer);
                let counts = known.decided(Some(call), tool, &input);
                if *answer == Answer::Deny && counts {
                    known.denied(Some(call), tool, &input, rule.as_deref().unwrap_or_default());
                }
            }
            (EventKind::Decision { call: None, about, answer, rule, .. }, _) => {
                let place = open.iter().position(|(_, input)| is_about(input, about));
                if let Some((tool, input)) = place.map(|place| open.remove(place)) {
                    known.decided(None, tool, input);
                    if *answer == Answer::Deny {
                        known.denied(None, tool, input, rule.as_deref().unwrap_or_default());
                    }
                }
            }
            (EventKind::ToolResult { id, .. }, ReportedBy::Proxy) => known.remember(id),
            (EventKind::ToolResult { id, ok, output }, ReportedBy::Program) => {
                known.told(id, output, !ok)
            }
            (EventKind::Command { command, .. }, ReportedBy::Program) => {
                known.told_command(command)
            }
            (_, _) => {}
        }
    }
}

/// The input that a kept decision was about, as far as it is known. An allowance is for its command
/// alone; a denial may have been for a call that could not be read.
fn decided_input(tool: &str, about: &str, answer: Answer) -> serde_json::Value {
    let shell = Tool::named(tool).is_some_and(|tool| tool.class == Class::Shell);
    match answer {
        Answer::Allow if shell => serde_json::json!({"command": about}),
        Answer::Allow | Answer::Deny => serde_json::Value::Null,
    }
}

/// Whether a decision, kept by what it was about, can be one about a call with this input.
fn is_about(input: &serde_json::Value, about: &str) -> bool {
    let fields = || input.as_object().into_iter().flatten();
    match about {
        "" => !fields().any(|(name, _)| name == "command"),
        about => fields().any(|(_, field)| field.as_str() == Some(about)) || is_shown(input, about),
    }
}

/// A conversation's name is taken from what the program prints, and is an argument later.
fn is_name(id: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.starts_with('-') && (1..=128).contains(&id.len()) && id.chars().all(part)
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What an attempt runs out of when this limit is spent.
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

    /// A denial that was not heard before the attempt ended must still come back as one.
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
                forgets: true,
                unfinished: bailiwick_lifecycle::supervision::Unfinished::Runs,
                reports_commands: false,
                code: None,
            };
            let mut known = Watch::new(behaviour);
            let earlier =
                [event(ReportedBy::Proxy, asked.clone()), event(ReportedBy::Gate, decided(answer))];
            replay_events(&mut known, &earlier);
            assert_eq!(known.came_back("a", None, output, None).is_ok(), held, "{output}");
        }
    }

    #[test]
    fn questions_are_about_no_call_only_where_calls_are_seen() {
        let (orders, _kept) = std::sync::mpsc::sync_channel(64);
        for (watched, made_up) in [(true, 1), (false, 0)] {
            let beginning = Beginning {
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
            let hub = Hub::new(beginning, orders.clone());
            hub.decided(Some("a"), "Bash", &serde_json::json!({"command": "ls"}), None);
            assert_eq!(hub.unaccounted().1, made_up);
        }
    }

    /// Whoever is inside asks about a harmless command under the name of another call.
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
            forgets: true,
            unfinished: bailiwick_lifecycle::supervision::Unfinished::Runs,
            reports_commands: false,
            code: None,
        };
        for (about, again, held) in [
            ("git push", None, true),
            ("echo hi", None, false),
            ("git push", Some("git push"), true),
            ("git push", Some("git push --force"), false),
        ] {
            let mut known = Watch::new(behaviour);
            let earlier = [
                event(ReportedBy::Proxy, asked("git push")),
                event(ReportedBy::Gate, allowed(about)),
            ];
            replay_events(&mut known, &earlier);
            known.settle();
            if let Some(command) = again {
                known.asked("a", "Bash", &serde_json::json!({"command": command}));
            }
            let came = known.came_back("a", None, "pushed", None);
            assert_eq!(came.is_ok(), held, "{about}, {again:?}");
        }
    }
}
