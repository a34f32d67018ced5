//! `list_active_agents` and `wait`: the states and results of the agents below the caller.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, Delegate};
use bailiwick_runner::supervisor::RunDirectory;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::service::DelegationService;
use crate::counted::counted;
use crate::failure::Failure;
use crate::{messages, system};

const MIN_WAIT_MS: u64 = 10_000;
pub(super) const MAX_WAIT_MS: u64 = 1_800_000;
const USUAL: u64 = 300_000;
/// The polling interval.
const PAUSE: Duration = Duration::from_millis(100);

/// The arguments of `list_active_agents`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListActiveAgents {
    /// `children` (what is meant if left out), `descendants`, or `all` that you may see
    pub scope: Option<String>,
    /// With parent and depth
    pub include_tree: bool,
    /// With those that are closed
    pub include_closed: bool,
}

/// The arguments of `wait`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The agents; the first that ends is told
    pub ids: Vec<String>,
    /// How long, in milliseconds; 300000 if left out
    #[serde(default)]
    pub timeout_ms: Option<i64>,
}

/// The state of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Not begun.
    PendingInit,
    /// It runs, or its work is being checked.
    Running,
    /// Completed, with this final message.
    Completed(String),
    /// Ended without completing.
    Errored(String),
    /// It was closed.
    Shutdown,
    /// There is no such agent.
    NotFound,
}

impl Status {
    /// The word for it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::PendingInit => "pending_init",
            Self::Running => "running",
            Self::Completed(_) => "completed",
            Self::Errored(_) => "errored",
            Self::Shutdown => "shutdown",
            Self::NotFound => "not_found",
        }
    }

    /// Whether it changes no more by itself.
    pub fn is_final(&self) -> bool {
        match self {
            Self::PendingInit | Self::Running => false,
            Self::Completed(_) | Self::Errored(_) | Self::Shutdown | Self::NotFound => true,
        }
    }

    /// The status as the tools return it.
    pub fn json(&self) -> Value {
        match self {
            Self::Completed(words) | Self::Errored(words) => json!({self.label(): words}),
            Self::PendingInit | Self::Running | Self::Shutdown | Self::NotFound => {
                json!(self.label())
            }
        }
    }
}

#[derive(Debug, Serialize)]
struct Active {
    thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_thread_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_duration_sec: Option<u64>,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<u64>,
    /// Denials that its role has the caller notified of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notifications: Vec<String>,
}

impl DelegationService {
    pub(super) fn list_active_agents(&self, request: &ListActiveAgents) -> Result<Value, Failure> {
        self.tidy()?;
        let all = self.delegates()?;
        let above = |one: &&Delegate| self.is_above(one, &all);
        let chosen: Vec<&Delegate> = match request.scope.as_deref().unwrap_or("children") {
            "children" => {
                all.iter().filter(|one| one.parent == self.caller).filter(above).collect()
            }
            "all" if self.root.is_some() => {
                // Agents of others in the same repository may be listed.
                let here = Some(self.repository()?);
                all.iter().filter(|one| one.repository == here || above(one)).collect()
            }
            // All that an agent may see is below it.
            "descendants" | "all" => all.iter().filter(above).collect(),
            other => {
                return Err(Failure::refused(format!(
                    "unsupported scope \"{other}\"; expected one of: children, descendants, all"
                )));
            }
        };
        let mut agents = Vec::new();
        for one in chosen.into_iter().filter(|one| one.depth > 0) {
            let (status, since) = self.status_since(one)?;
            let closed = matches!(status, Status::Shutdown | Status::NotFound);
            if closed && !request.include_closed {
                continue;
            }
            let last = self.attempts(&one.run)?.pop();
            let named = one.model.clone().filter(|model| !model.is_empty());
            agents.push(Active {
                thread_id: one.run.to_string(),
                thread_note: one.note.clone(),
                parent_thread_id: one
                    .parent
                    .as_ref()
                    .filter(|_| request.include_tree)
                    .map(ToString::to_string),
                depth: request.include_tree.then_some(one.depth),
                agent_type: Some(one.agent_type.clone()).filter(|name| !name.is_empty()),
                agent_name: one.agent_name.clone(),
                status: status.label(),
                status_duration_sec: since
                    .map(|since| system::now_ms().saturating_sub(since) / 1000),
                model: last
                    .map(|last| last.model)
                    .filter(|model| !model.is_empty())
                    .or(named)
                    .unwrap_or_default(),
                reasoning_effort: one.reasoning_effort.clone(),
                updated_at: since,
                notifications: messages::notifications(&self.context, &one.run)?,
            });
        }
        agents.sort_by(|one, other| one.thread_id.cmp(&other.thread_id));
        Ok(json!({"agents": agents}))
    }

    /// Ends at once when the waiting caller is gone.
    pub(super) fn wait(&self, request: &Wait, cancelled: &AtomicBool) -> Result<Value, Failure> {
        if request.ids.is_empty() {
            return Err(Failure::refused("ids must be non-empty"));
        }
        let timeout = match request.timeout_ms {
            None => USUAL,
            Some(1..) => {
                request.timeout_ms.map_or(USUAL, i64::unsigned_abs).clamp(MIN_WAIT_MS, MAX_WAIT_MS)
            }
            Some(_) => return Err(Failure::refused("timeout_ms must be greater than zero")),
        };
        self.tidy()?;
        let waited: Vec<Delegate> =
            request.ids.iter().map(|id| self.below(id)).collect::<Result<_, _>>()?;
        let deadline = Instant::now() + Duration::from_millis(timeout);
        loop {
            let mut ended = BTreeMap::new();
            for one in &waited {
                let status = self.status(one)?;
                if status.is_final() {
                    ended.insert(one.run.clone(), (one, status));
                }
            }
            if cancelled.load(Ordering::Relaxed) {
                return Err(Failure::refused("the call was cancelled"));
            }
            let timed_out = ended.is_empty() && Instant::now() > deadline;
            if ended.is_empty() && !timed_out {
                std::thread::sleep(PAUSE);
                continue;
            }
            let turn = self.turn()?;
            self.release_unused()?;
            drop(turn);
            let mut status = serde_json::Map::new();
            let mut results = serde_json::Map::new();
            for (run, (one, how)) in &ended {
                let how = self.in_full(one, how.clone())?;
                let (how, faults) = self.check_contract(one, how)?;
                status.insert(run.to_string(), how.json());
                let mut result = self.result(one)?;
                if let (Some(faults), Some(result)) = (faults, result.as_object_mut()) {
                    result.insert("contract_faults".to_owned(), json!(faults));
                }
                results.insert(run.to_string(), result);
            }
            let mut answer = json!({"status": status, "results": results, "timed_out": timed_out});
            let notifications = self.notifications(&waited)?;
            if let (false, Some(fields)) = (notifications.is_empty(), answer.as_object_mut()) {
                fields.insert("notifications".to_owned(), Value::Object(notifications));
            }
            return Ok(answer);
        }
    }

    /// What these agents have had the caller notified of, by agent; those that have nothing are left out.
    fn notifications(&self, of: &[Delegate]) -> Result<serde_json::Map<String, Value>, Failure> {
        let mut all = serde_json::Map::new();
        for one in of {
            let texts = messages::notifications(&self.context, &one.run)?;
            if !texts.is_empty() {
                all.insert(one.run.to_string(), json!(texts));
            }
        }
        Ok(all)
    }

    /// What an agent received and returned.
    fn result(&self, one: &Delegate) -> Result<Value, Failure> {
        let run = self.context.with_store(async |store| Ok(store.find(&one.run).await?));
        let Some(run) = run? else { return Ok(Value::Null) };
        let last = self.attempts(&one.run)?.into_iter().reduce(together);
        let whole = |last: &Attempt| messages::final_message(&self.context, &one.run, last);
        let (later, not_heard) = messages::messages_after_task(&self.context, &one.run)?;
        let mut result = json!({
            "received": one.message,
            "received_later": later,
            "returned": last.as_ref().map(whole).transpose()?,
            "ending": last.as_ref().and_then(|last| last.ending).map(ExitReason::as_str),
            "branch": run.branch,
            "state": run.status.as_str(),
            "tokens": last.as_ref().map(|last| last.used.tokens),
            "tool_calls": last.as_ref().map(|last| last.used.tool_calls),
            "denied_calls": last.as_ref().map(|last| last.used.denied),
            "attempts": last.map(|last| last.number),
        });
        if let (false, Some(result)) = (not_heard.is_empty(), result.as_object_mut()) {
            result.insert("not_heard".to_owned(), json!(not_heard));
        }
        Ok(result)
    }

    /// The state of an agent that has ended, with its whole last message.
    pub(super) fn in_full(&self, one: &Delegate, status: Status) -> Result<Status, Failure> {
        match status {
            Status::Completed(_) | Status::Errored(_) => {
                let last = self.attempts(&one.run)?.pop();
                // It may have been resumed meanwhile.
                let Some(last) = last.filter(|last| last.ending.is_some()) else {
                    return Ok(status);
                };
                let words = messages::final_message(&self.context, &one.run, &last)?;
                Ok(ended(&last, words))
            }
            Status::PendingInit | Status::Running | Status::Shutdown | Status::NotFound => {
                Ok(status)
            }
        }
    }

    pub(crate) fn attempts(&self, run: &AgentId) -> Result<Vec<Attempt>, Failure> {
        self.context.with_store(async |store| Ok(store.attempts(Some(run)).await?))
    }

    /// Every agent that was delegated, and the roots of their trees.
    pub fn known(&self) -> Result<Vec<Delegate>, Failure> {
        self.delegates()
    }

    /// The state of an agent, with its last attempt, which has used what all of them have.
    pub fn seen(&self, one: &Delegate) -> Result<(Status, Option<Attempt>), Failure> {
        Ok((self.status(one)?, self.attempts(&one.run)?.into_iter().reduce(together)))
    }

    /// How long an agent has worked, in milliseconds, in all its attempts.
    pub fn worked(&self, one: &Delegate) -> Result<u64, Failure> {
        let took = |attempt: &Attempt| {
            attempt.ended_at.unwrap_or_else(system::now_ms).saturating_sub(attempt.started_at)
        };
        Ok(self.attempts(&one.run)?.iter().map(took).sum())
    }

    /// The state of an agent.
    pub fn status(&self, one: &Delegate) -> Result<Status, Failure> {
        self.status_since(one).map(|(status, _)| status)
    }

    /// The same, with since when.
    fn status_since(&self, one: &Delegate) -> Result<(Status, Option<u64>), Failure> {
        let known = self.context.with_store(async |store| Ok(store.delegate(&one.run).await?));
        let known = known?;
        let closed = known.as_ref().is_none_or(|known| known.closed);
        if known.is_some_and(|known| known.pending && !known.closed) {
            return Ok((Status::PendingInit, Some(one.created_at)));
        }
        // Checked before the store: a supervisor writes last and then unlocks.
        let is_running = self.at_work(&one.run);
        let last = self.attempts(&one.run)?.pop();
        Ok(match (closed, is_running, last) {
            (true, _, last) => (Status::Shutdown, last.and_then(|last| last.ended_at)),
            (false, true, None) => (Status::PendingInit, Some(one.created_at)),
            (false, true, Some(last)) => (Status::Running, Some(last.started_at)),
            (false, false, None) => {
                let log = RunDirectory::new(&self.context.state, one.run.as_str());
                let log = std::fs::read_to_string(log.path().join("supervisor.log"));
                let log = log.unwrap_or_default();
                let why =
                    log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                (Status::Errored(format!("it never began: {why}")), Some(one.created_at))
            }
            (false, false, Some(last)) => {
                let status = ended(&last, last.detail.clone());
                (status, last.ended_at.or(Some(last.started_at)))
            }
        })
    }
}

/// How an attempt ended, with its final message.
fn ended(last: &Attempt, words: String) -> Status {
    match last.ending {
        Some(ExitReason::Completed) if was_denied_everything(last) => Status::Errored(format!(
            "it made {}, and none was allowed: {words}",
            counted(last.used.tool_calls, "tool call")
        )),
        Some(ExitReason::Completed) => Status::Completed(words),
        Some(ending) => Status::Errored(format!("{}: {words}", ending.as_str())),
        None => Status::Errored("it was cut off".to_owned()),
    }
}

/// Whether an attempt made calls and all were denied: then its result has no basis.
fn was_denied_everything(attempt: &Attempt) -> bool {
    attempt.used.tool_calls > 0 && attempt.used.denied >= attempt.used.tool_calls
}

/// An attempt that has used what the one before it has, too.
fn together(before: Attempt, last: Attempt) -> Attempt {
    Attempt { used: last.used.plus(&before.used), ..last }
}
