//! Connects the model proxy with the attempt state.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiwick_lifecycle::supervision::BudgetState;
use bailiwick_model::attempt::Exhausted;
use bailiwick_model::event::{EventKind, ReportedBy};

use super::attempt_state::{AttemptState, exhausted_by};
use super::callers::AgentProcesses;
use super::per_call_checks::PerCallChecks;
use crate::proxy::{Admission, ModelRequest, ModelResponse, Observer, ToolCall, ToolResult};

/// How long the gate may take to announce itself after the first request to the model.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long a CLI may take to exit after a refused request.
const GRACE: Duration = Duration::from_secs(10);

/// Reports the events of the proxy to the attempt state.
pub(super) struct ProxyObserver {
    pub(super) attempt_state: Arc<AttemptState>,
    pub(super) tree_checks: Option<Arc<PerCallChecks>>,
    /// The source of the model's key, if known.
    pub(super) key_origin: Option<String>,
    /// Whether the refused key was reported: programs retry.
    pub(super) key_refused: AtomicBool,
    /// The processes that may ask the model.
    pub(super) callers: Option<Arc<AgentProcesses>>,
}

impl ProxyObserver {
    /// A call has ended: the tree is checked while the model responds.
    fn check_tree(&self) {
        if let Some(tree_checks) = self.tree_checks.clone() {
            tokio::spawn(async move { tree_checks.check_tree().await });
        }
    }
}

impl Observer for ProxyObserver {
    fn admit<'a>(
        &'a self,
        request: ModelRequest,
    ) -> Pin<Box<dyn Future<Output = Admission> + Send + 'a>> {
        Box::pin(async move {
            let attempt_state = &self.attempt_state;
            attempt_state.touch();
            if attempt_state.has_gate && !attempt_state.wait_for_gate(HANDSHAKE).await {
                let why = "the gate did not connect, so no model request is allowed";
                attempt_state.end_for_breach(why);
                return Admission::Refuse(why.to_owned());
            }
            let mut has_new_results = false;
            for (place, result) in request.results.iter().enumerate() {
                let id = named(&request, place, result);
                let tool = result.tool.as_deref();
                match attempt_state.on_result(&id, tool, &result.output, result.failed) {
                    Ok(false) => {}
                    Ok(true) => {
                        has_new_results = true;
                        let (ok, output) = (!result.failed, result.output.clone());
                        let what = EventKind::ToolResult { id, ok, output };
                        attempt_state.record_event(
                            ReportedBy::Proxy,
                            request.agent.as_deref(),
                            what,
                        );
                    }
                    Err(lost) => {
                        attempt_state.end_for_breach(&lost.to_string());
                        return Admission::Refuse(lost.to_string());
                    }
                }
            }
            if has_new_results {
                self.check_tree();
            }
            if !attempt_state.has_known_price(&request.model) {
                let why = format!(
                    "the price of {} is not known, and the budget is in dollars",
                    request.model
                );
                attempt_state.exhaust(Exhausted::Price, &why);
                return Admission::Refuse(why);
            }
            wait_for_budget(attempt_state).await
        })
    }

    fn on_tool_call(&self, agent: Option<&str>, call: &ToolCall) {
        // Processes that start from now on belong to the agent's commands.
        if let Some(callers) = &self.callers {
            callers.close();
        }
        self.attempt_state.on_tool_call(agent, &call.id, &call.tool, &call.input);
    }

    fn on_response(&self, answered: ModelResponse) {
        let agent = answered.agent.as_deref();
        if !answered.complete {
            answered.calls.iter().for_each(|call| {
                self.attempt_state.on_incomplete_response(call, answered.broke_off)
            });
        }
        // The text of a sub-agent is in no stream of the program.
        if agent.is_some() && !answered.text.is_empty() {
            self.attempt_state.record_event(
                ReportedBy::Proxy,
                agent,
                EventKind::Text { text: answered.text },
            );
        }
        self.attempt_state.touch();
        self.attempt_state.on_response(agent, &answered.usage);
    }

    fn release_request(&self) {
        self.attempt_state.release_request();
    }

    fn key_refused(&self, status: u16) {
        if !self.key_refused.swap(true, Ordering::Relaxed) {
            let message = refused_key(status, self.key_origin.as_deref());
            self.attempt_state.record_event(ReportedBy::Proxy, None, EventKind::Error { message });
        }
    }

    fn on_rejected(&self, what: &str, why: &str) {
        let message = format!("the proxy turned {what} away: {why}");
        self.attempt_state.record_event(ReportedBy::Proxy, None, EventKind::Error { message });
    }

    fn on_connect(&self, host: &str, allowed: bool) {
        if !allowed {
            let message = format!("a connection to {host} was refused: the task does not name it");
            self.attempt_state.record_event(ReportedBy::Proxy, None, EventKind::Error { message });
        }
    }
}

/// The message for a refused key, with its origin.
fn refused_key(status: u16, origin: Option<&str>) -> String {
    let origin = origin.map(|origin| format!("; the key comes from {origin}")).unwrap_or_default();
    format!("the model's endpoint refused the key (status {status}){origin}")
}

/// A result without an id is identified by its position in the conversation, which does not change.
fn named(request: &ModelRequest, place: usize, result: &ToolResult) -> String {
    match result.id.as_str() {
        "" => format!("{}#{place}", request.agent.as_deref().unwrap_or_default()),
        id => id.to_owned(),
    }
}

/// Waits while this request and the open ones together may exceed the budget, until the run ends.
async fn wait_for_budget(attempt_state: &Arc<AttemptState>) -> Admission {
    // Subscribed before the first check, so that no change is missed.
    let mut budget = attempt_state.watch_budget();
    loop {
        budget.mark_unchanged();
        if let Some((ending, detail)) = attempt_state.ending() {
            return Admission::Refuse(format!("the run has ended ({ending}): {detail}"));
        }
        match attempt_state.budget_state() {
            BudgetState::Fine | BudgetState::Near(_) if attempt_state.reserve_request() => {
                return Admission::Pass;
            }
            BudgetState::Fine | BudgetState::Near(_) => {}
            BudgetState::Exhausted(limit) => {
                let why = format!("the budget is spent: {}", limit.as_str());
                end_soon(Arc::clone(attempt_state), exhausted_by(limit), why.clone());
                return Admission::Refuse(why);
            }
        }
        // The attempt state holds the sender.
        let _ = budget.changed().await;
    }
}

/// Gives the CLI time to exit after the refusal, then ends it.
fn end_soon(attempt_state: Arc<AttemptState>, exhausted: Exhausted, why: String) {
    attempt_state.record_exhaustion(exhausted, &why);
    tokio::spawn(async move {
        tokio::time::sleep(GRACE).await;
        attempt_state.exhaust(exhausted, &why);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use bailiwick_lifecycle::supervision::{Budget, CliBehaviour, IncompleteCalls, Prices};
    use bailiwick_model::attempt::{Allowance, Used};
    use bailiwick_model::event::{ExitReason, Usage};
    use futures_util::future::{BoxFuture, poll_immediate};
    use tokio::runtime::Runtime;

    use super::super::attempt_state::AttemptStateConfig;
    use super::super::writer::WriterMessage;
    use super::*;

    fn observer(budget: Allowance, turns: u64) -> (ProxyObserver, Receiver<WriterMessage>) {
        let behaviour = CliBehaviour {
            hooks_have_call_ids: true,
            tools_without_hook: &[],
            own_refusal_prefixes: &[],
            denial_marker: "",
            truncates_old_results: true,
            unfinished: IncompleteCalls::Runs,
            reports_commands: false,
            code_mode: None,
        };
        let config = AttemptStateConfig {
            behaviour,
            budget: Budget(budget),
            used: Used { turns, ..Used::default() },
            time: 0,
            prices: Prices::default(),
            earlier: Vec::new(),
            session: None,
            has_gate: false,
            api_marks_failures: false,
            proxy_sees_calls: true,
        };
        let (writer_sender, events) = sync_channel(10_000);
        let attempt_state = Arc::new(AttemptState::new(config, writer_sender));
        let key_origin = Some("ANTHROPIC_API_KEY".to_owned());
        let key_refused = AtomicBool::default();
        (
            ProxyObserver {
                attempt_state,
                tree_checks: None,
                key_origin,
                key_refused,
                callers: None,
            },
            events,
        )
    }

    #[test]
    fn refused_key_is_reported_once_with_its_source() {
        let (observer, events) = observer(Allowance::default(), 0);
        observer.key_refused(401);
        observer.key_refused(401);
        let reported = events.try_iter().filter_map(|order| match order {
            WriterMessage::Event(event) => Some(event.what),
            WriterMessage::Progress(_) => None,
        });
        let refusal = "the model's endpoint refused the key (status 401)";
        let message = format!("{refusal}; the key comes from ANTHROPIC_API_KEY");
        assert_eq!(reported.collect::<Vec<_>>(), [EventKind::Error { message }]);
        assert_eq!(refused_key(401, None), refusal);
    }

    fn ask(observer: &ProxyObserver) -> BoxFuture<'_, Admission> {
        let model = "m".to_owned();
        observer.admit(ModelRequest { agent: None, model, offers_tools: true, results: Vec::new() })
    }

    /// The requests that still wait, and the results of the others.
    async fn settled(
        waiting: Vec<BoxFuture<'_, Admission>>,
    ) -> (Vec<BoxFuture<'_, Admission>>, Vec<Admission>) {
        let (mut still, mut answers) = (Vec::new(), Vec::new());
        for mut request in waiting {
            match poll_immediate(&mut request).await {
                Some(answer) => answers.push(answer),
                None => still.push(request),
            }
        }
        (still, answers)
    }

    fn response_with(tokens: u64) -> ModelResponse {
        let usage = Usage { input: tokens, ..Usage::default() };
        ModelResponse { usage, complete: true, ..ModelResponse::default() }
    }

    #[test]
    fn concurrent_requests_are_admitted_up_to_the_budget_only() {
        let turns = Allowance { turns: Some(10), ..Allowance::default() };
        let (observer, _events) = observer(turns, 9);
        Runtime::new().unwrap().block_on(async {
            let (waiting, answers) = settled((0..50).map(|_| ask(&observer)).collect()).await;
            assert_eq!((waiting.len(), answers), (49, vec![Admission::Pass]));
            let (waiting, answers) = settled(waiting).await;
            assert_eq!(
                (waiting.len(), answers.len()),
                (49, 0),
                "the admitted request is in progress"
            );
            observer.on_response(response_with(1));
            let (waiting, answers) = settled(waiting).await;
            assert_eq!((waiting.len(), answers.len()), (0, 49));
            let spent = Admission::Refuse("the budget is spent: turns".to_owned());
            assert!(answers.iter().all(|answer| *answer == spent), "{answers:?}");
        });
        assert_eq!(observer.attempt_state.progress().used.turns, 10);
    }

    #[test]
    fn requests_far_below_the_budget_are_admitted_immediately() {
        let tokens = Allowance { tokens: Some(1_000), ..Allowance::default() };
        for (budget, first) in [(Allowance::default(), 30), (tokens, 1)] {
            let (observer, _events) = observer(budget, 0);
            Runtime::new().unwrap().block_on(async {
                // Until the size of a response is known, only one request at a time.
                let (waiting, answers) = settled((0..30).map(|_| ask(&observer)).collect()).await;
                assert_eq!(answers.len(), first, "{budget:?}");
                observer.on_response(response_with(20));
                let (waiting, answers) = settled(waiting).await;
                assert_eq!((waiting.len(), answers.len()), (0, 30 - first), "{budget:?}");
                assert!(answers.iter().all(|answer| *answer == Admission::Pass), "{answers:?}");
            });
        }
        // Near the limit they wait: two of them may use up the rest.
        let (observer, _events) = observer(tokens, 0);
        Runtime::new().unwrap().block_on(async {
            assert_eq!(ask(&observer).await, Admission::Pass);
            observer.on_response(response_with(490));
            let (waiting, answers) = settled((0..5).map(|_| ask(&observer)).collect()).await;
            assert_eq!((waiting.len(), answers.len()), (3, 2));
        });
    }

    #[test]
    fn failed_request_frees_its_slot_and_waiting_ones_learn_the_end() {
        let turns = Allowance { turns: Some(2), ..Allowance::default() };
        let (observer, _events) = observer(turns, 0);
        Runtime::new().unwrap().block_on(async {
            let (waiting, answers) = settled((0..4).map(|_| ask(&observer)).collect()).await;
            assert_eq!((waiting.len(), answers.len()), (2, 2));
            observer.release_request();
            let (waiting, answers) = settled(waiting).await;
            assert_eq!((waiting.len(), answers), (1, vec![Admission::Pass]));
            // A request that is dropped while it waits makes no reservation.
            drop(waiting);
            observer.release_request();
            let (waiting, answers) = settled(vec![ask(&observer), ask(&observer)]).await;
            assert_eq!((waiting.len(), answers), (1, vec![Admission::Pass]));
            observer.attempt_state.end(ExitReason::Stopped, "enough");
            let (waiting, answers) = settled(waiting).await;
            let refusal = Admission::Refuse("the run has ended (stopped): enough".to_owned());
            assert_eq!((waiting.len(), answers), (0, vec![refusal]));
        });
    }
}
