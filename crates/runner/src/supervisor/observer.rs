//! What the model proxy asks and tells.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_control::supervision::Standing;
use bailiwick_model::event::{Ending, What, Witness};

use super::between::Between;
use super::hub::Hub;
use crate::proxy::{Admission, Answered, Asked, Observer, ToolCall, ToolResult};

/// How long the gate gets to say that it is there, once a model is asked.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long a program gets to end by itself, after its request was refused.
const GRACE: Duration = Duration::from_secs(10);

/// A hub that listens to the proxy.
pub(super) struct Listening {
    pub(super) hub: Arc<Hub>,
    pub(super) between: Option<Arc<Between>>,
}

impl Listening {
    /// A call has ended: its tree is checked while the model thinks.
    fn look(&self) {
        if let Some(between) = self.between.clone() {
            tokio::spawn(async move { between.look().await });
        }
    }
}

impl Observer for Listening {
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
                        let what = What::ToolResult { id, ok, output };
                        hub.tell(Witness::Proxy, asked.agent.as_deref(), what);
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
                hub.end(Ending::BudgetExhausted, &why);
                return Admission::Refuse(why);
            }
            admitted(hub)
        })
    }

    fn called(&self, agent: Option<&str>, call: &ToolCall) {
        self.hub.asked(agent, &call.id, &call.tool, &call.input);
    }

    fn answered(&self, answered: Answered) {
        let agent = answered.agent.as_deref();
        if !answered.complete {
            answered.calls.iter().for_each(|call| self.hub.cut_short(call, answered.broke_off));
        }
        // What a sub-agent says is in no stream of the program.
        if agent.is_some() && !answered.text.is_empty() {
            self.hub.tell(Witness::Proxy, agent, What::Text { text: answered.text });
        }
        self.hub.touch();
        self.hub.answered(agent, &answered.usage);
    }

    fn turned_away(&self, what: &str, why: &str) {
        let message = format!("the proxy turned {what} away: {why}");
        self.hub.tell(Witness::Proxy, None, What::Error { message });
    }

    fn connected(&self, host: &str, allowed: bool) {
        if !allowed {
            let message = format!("a connection to {host} was refused: the task does not name it");
            self.hub.tell(Witness::Proxy, None, What::Error { message });
        }
    }
}

/// A result that has no name is known by its place in the conversation, which stays.
fn named(asked: &Asked, place: usize, result: &ToolResult) -> String {
    match result.id.as_str() {
        "" => format!("{}#{place}", asked.agent.as_deref().unwrap_or_default()),
        id => id.to_owned(),
    }
}

fn admitted(hub: &Arc<Hub>) -> Admission {
    if let Some((ending, detail)) = hub.ending() {
        return Admission::Refuse(format!("the run is over ({ending}): {detail}"));
    }
    match hub.standing() {
        Standing::Fine | Standing::Near(_) => Admission::Pass,
        Standing::Exhausted(limit) => {
            let why = format!("the budget is spent: {}", limit.as_str());
            end_soon(Arc::clone(hub), why.clone());
            Admission::Refuse(why)
        }
    }
}

/// The program hears the refusal and may end in its own way; if it does not, it is ended.
fn end_soon(hub: Arc<Hub>, why: String) {
    hub.note_exhaustion(&why);
    tokio::spawn(async move {
        tokio::time::sleep(GRACE).await;
        hub.end(Ending::BudgetExhausted, &why);
    });
}
