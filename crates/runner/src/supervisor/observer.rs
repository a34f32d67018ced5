//! What the model proxy asks and tells.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiwick_lifecycle::supervision::Standing;
use bailiwick_model::attempt::Exhausted;
use bailiwick_model::event::{EventKind, ReportedBy};

use super::between::PerCallChecks;
use super::callers::AgentProcesses;
use super::hub::{Hub, exhausted_by};
use crate::proxy::{Admission, Answered, Asked, Observer, ToolCall, ToolResult};

/// How long the gate gets to say that it is there, once a model is asked.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long a program gets to end by itself, after its request was refused.
const GRACE: Duration = Duration::from_secs(10);

/// A hub that listens to the proxy.
pub(super) struct ProxyObserver {
    pub(super) hub: Arc<Hub>,
    pub(super) between: Option<Arc<PerCallChecks>>,
    /// Where the key of the model comes from, if that is known.
    pub(super) key_origin: Option<String>,
    /// Whether it was told that the key is refused: programs try again and again.
    pub(super) key_refused: AtomicBool,
    /// Who may ask the model.
    pub(super) callers: Option<Arc<AgentProcesses>>,
}

impl ProxyObserver {
    /// A call has ended: its tree is checked while the model thinks.
    fn look(&self) {
        if let Some(between) = self.between.clone() {
            tokio::spawn(async move { between.look().await });
        }
    }
}

impl Observer for ProxyObserver {
    fn admit<'a>(&'a self, asked: Asked) -> Pin<Box<dyn Future<Output = Admission> + Send + 'a>> {
        Box::pin(async move {
            let hub = &self.hub;
            hub.touch();
            if hub.gated && !hub.announced(HANDSHAKE).await {
                let why = "the gate never said that it is there, so nothing is let through";
                hub.lose(why);
                return Admission::Refuse(why.to_owned());
            }
            let mut ended = false;
            for (place, result) in asked.results.iter().enumerate() {
                let id = named(&asked, place, result);
                let tool = result.tool.as_deref();
                match hub.came_back(&id, tool, &result.output, result.failed) {
                    Ok(false) => {}
                    Ok(true) => {
                        ended = true;
                        let (ok, output) = (!result.failed, result.output.clone());
                        let what = EventKind::ToolResult { id, ok, output };
                        hub.tell(ReportedBy::Proxy, asked.agent.as_deref(), what);
                    }
                    Err(lost) => {
                        hub.lose(&lost.to_string());
                        return Admission::Refuse(lost.to_string());
                    }
                }
            }
            if ended {
                self.look();
            }
            if !hub.priced(&asked.model) {
                let why = format!(
                    "nothing says what {} costs, and the budget is in dollars",
                    asked.model
                );
                hub.exhaust(Exhausted::Price, &why);
                return Admission::Refuse(why);
            }
            admitted(hub).await
        })
    }

    fn called(&self, agent: Option<&str>, call: &ToolCall) {
        // What the program starts for this call, or for a later one, is none of its own.
        if let Some(callers) = &self.callers {
            callers.close();
        }
        self.hub.asked(agent, &call.id, &call.tool, &call.input);
    }

    fn answered(&self, answered: Answered) {
        let agent = answered.agent.as_deref();
        if !answered.complete {
            answered.calls.iter().for_each(|call| self.hub.cut_short(call, answered.broke_off));
        }
        // What a sub-agent says is in no stream of the program.
        if agent.is_some() && !answered.text.is_empty() {
            self.hub.tell(ReportedBy::Proxy, agent, EventKind::Text { text: answered.text });
        }
        self.hub.touch();
        self.hub.answered(agent, &answered.usage);
    }

    fn dismissed(&self) {
        self.hub.dismissed();
    }

    fn key_refused(&self, status: u16) {
        if !self.key_refused.swap(true, Ordering::Relaxed) {
            let message = refused_key(status, self.key_origin.as_deref());
            self.hub.tell(ReportedBy::Proxy, None, EventKind::Error { message });
        }
    }

    fn turned_away(&self, what: &str, why: &str) {
        let message = format!("the proxy turned {what} away: {why}");
        self.hub.tell(ReportedBy::Proxy, None, EventKind::Error { message });
    }

    fn connected(&self, host: &str, allowed: bool) {
        if !allowed {
            let message = format!("a connection to {host} was refused: the task does not name it");
            self.hub.tell(ReportedBy::Proxy, None, EventKind::Error { message });
        }
    }
}

/// That a key is refused, and where to look for it.
fn refused_key(status: u16, origin: Option<&str>) -> String {
    let origin = origin.map(|origin| format!("; the key comes from {origin}")).unwrap_or_default();
    format!("the model's endpoint refused the key (status {status}){origin}")
}

/// A result that has no name is known by its place in the conversation, which stays.
fn named(asked: &Asked, place: usize, result: &ToolResult) -> String {
    match result.id.as_str() {
        "" => format!("{}#{place}", asked.agent.as_deref().unwrap_or_default()),
        id => id.to_owned(),
    }
}

/// Whoever could take the run beyond its budget, together with those that have no answer yet, waits for
/// one of those, for as long as the run goes on.
async fn admitted(hub: &Arc<Hub>) -> Admission {
    // From before it is looked, so that nothing is missed.
    let mut room = hub.more_room();
    loop {
        room.mark_unchanged();
        if let Some((ending, detail)) = hub.ending() {
            return Admission::Refuse(format!("the run is over ({ending}): {detail}"));
        }
        match hub.standing() {
            Standing::Fine | Standing::Near(_) if hub.reserve_request() => return Admission::Pass,
            Standing::Fine | Standing::Near(_) => {}
            Standing::Exhausted(limit) => {
                let why = format!("the budget is spent: {}", limit.as_str());
                end_soon(Arc::clone(hub), exhausted_by(limit), why.clone());
                return Admission::Refuse(why);
            }
        }
        // The hub that is asked holds the other end.
        let _ = room.changed().await;
    }
}

/// The program hears the refusal and may end in its own way; if it does not, it is ended.
fn end_soon(hub: Arc<Hub>, exhausted: Exhausted, why: String) {
    hub.note_exhaustion(exhausted, &why);
    tokio::spawn(async move {
        tokio::time::sleep(GRACE).await;
        hub.exhaust(exhausted, &why);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use bailiwick_lifecycle::supervision::{Budget, CliBehaviour, Prices, Unfinished};
    use bailiwick_model::attempt::{Allowance, Used};
    use bailiwick_model::event::{ExitReason, Usage};
    use futures_util::future::{BoxFuture, poll_immediate};
    use tokio::runtime::Runtime;

    use super::super::hub::Beginning;
    use super::super::writer::Order;
    use super::*;

    fn listening(budget: Allowance, turns: u64) -> (ProxyObserver, Receiver<Order>) {
        let behaviour = CliBehaviour {
            hooks_have_call_ids: true,
            unhooked: &[],
            refusals: &[],
            denial: "",
            forgets: true,
            unfinished: Unfinished::Runs,
            reports_commands: false,
            code: None,
        };
        let beginning = Beginning {
            behaviour,
            budget: Budget(budget),
            used: Used { turns, ..Used::default() },
            time: 0,
            prices: Prices::default(),
            earlier: Vec::new(),
            session: None,
            gated: false,
            marks_failures: false,
            watched: true,
        };
        let (orders, kept) = sync_channel(10_000);
        let hub = Arc::new(Hub::new(beginning, orders));
        let key_origin = Some("ANTHROPIC_API_KEY".to_owned());
        let key_refused = AtomicBool::default();
        (ProxyObserver { hub, between: None, key_origin, key_refused, callers: None }, kept)
    }

    #[test]
    fn a_refused_key_is_told_once_with_its_origin() {
        let (listening, kept) = listening(Allowance::default(), 0);
        listening.key_refused(401);
        listening.key_refused(401);
        let told = kept.try_iter().filter_map(|order| match order {
            Order::Event(event) => Some(event.what),
            Order::Progress(_) => None,
        });
        let said = "the model's endpoint refused the key (status 401)";
        let message = format!("{said}; the key comes from ANTHROPIC_API_KEY");
        assert_eq!(told.collect::<Vec<_>>(), [EventKind::Error { message }]);
        assert_eq!(refused_key(401, None), said);
    }

    fn ask(listening: &ProxyObserver) -> BoxFuture<'_, Admission> {
        let model = "m".to_owned();
        listening.admit(Asked { agent: None, model, offers_tools: true, results: Vec::new() })
    }

    /// Those that still wait, and what the others were told.
    async fn told(
        waiting: Vec<BoxFuture<'_, Admission>>,
    ) -> (Vec<BoxFuture<'_, Admission>>, Vec<Admission>) {
        let (mut still, mut answers) = (Vec::new(), Vec::new());
        for mut one in waiting {
            match poll_immediate(&mut one).await {
                Some(answer) => answers.push(answer),
                None => still.push(one),
            }
        }
        (still, answers)
    }

    fn took(tokens: u64) -> Answered {
        let usage = Usage { input: tokens, ..Usage::default() };
        Answered { usage, complete: true, ..Answered::default() }
    }

    #[test]
    fn of_many_requests_at_once_only_what_is_left_goes_to_the_model() {
        let turns = Allowance { turns: Some(10), ..Allowance::default() };
        let (listening, _kept) = listening(turns, 9);
        Runtime::new().unwrap().block_on(async {
            let (waiting, answers) = told((0..50).map(|_| ask(&listening)).collect()).await;
            assert_eq!((waiting.len(), answers), (49, vec![Admission::Pass]));
            let (waiting, answers) = told(waiting).await;
            assert_eq!((waiting.len(), answers.len()), (49, 0), "its answer is on its way");
            listening.answered(took(1));
            let (waiting, answers) = told(waiting).await;
            assert_eq!((waiting.len(), answers.len()), (0, 49));
            let spent = Admission::Refuse("the budget is spent: turns".to_owned());
            assert!(answers.iter().all(|answer| *answer == spent), "{answers:?}");
        });
        assert_eq!(listening.hub.progress().used.turns, 10);
    }

    #[test]
    fn while_the_budget_is_far_requests_go_on_at_once() {
        let tokens = Allowance { tokens: Some(1_000), ..Allowance::default() };
        for (budget, first) in [(Allowance::default(), 30), (tokens, 1)] {
            let (listening, _kept) = listening(budget, 0);
            Runtime::new().unwrap().block_on(async {
                // As long as nobody knows what an answer takes, one at a time.
                let (waiting, answers) = told((0..30).map(|_| ask(&listening)).collect()).await;
                assert_eq!(answers.len(), first, "{budget:?}");
                listening.answered(took(20));
                let (waiting, answers) = told(waiting).await;
                assert_eq!((waiting.len(), answers.len()), (0, 30 - first), "{budget:?}");
                assert!(answers.iter().all(|answer| *answer == Admission::Pass), "{answers:?}");
            });
        }
        // Near its end they wait: two of them may take all that is left.
        let (listening, _kept) = listening(tokens, 0);
        Runtime::new().unwrap().block_on(async {
            assert_eq!(ask(&listening).await, Admission::Pass);
            listening.answered(took(490));
            let (waiting, answers) = told((0..5).map(|_| ask(&listening)).collect()).await;
            assert_eq!((waiting.len(), answers.len()), (3, 2));
        });
    }

    #[test]
    fn what_came_to_nothing_frees_its_place_and_who_waits_hears_of_the_end() {
        let turns = Allowance { turns: Some(2), ..Allowance::default() };
        let (listening, _kept) = listening(turns, 0);
        Runtime::new().unwrap().block_on(async {
            let (waiting, answers) = told((0..4).map(|_| ask(&listening)).collect()).await;
            assert_eq!((waiting.len(), answers.len()), (2, 2));
            listening.dismissed();
            let (waiting, answers) = told(waiting).await;
            assert_eq!((waiting.len(), answers), (1, vec![Admission::Pass]));
            // Nobody who goes away while it waits takes a place.
            drop(waiting);
            listening.dismissed();
            let (waiting, answers) = told(vec![ask(&listening), ask(&listening)]).await;
            assert_eq!((waiting.len(), answers), (1, vec![Admission::Pass]));
            listening.hub.end(ExitReason::Stopped, "enough");
            let (waiting, answers) = told(waiting).await;
            let over = Admission::Refuse("the run is over (stopped): enough".to_owned());
            assert_eq!((waiting.len(), answers), (0, vec![over]));
        });
    }
}
