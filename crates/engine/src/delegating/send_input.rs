//! `send_input`, `close_agent`, `set_thread_note`: tools for an agent below the caller.

use std::path::Path;
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::{AgentId, Delegate, RunStatus};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::service::DelegationService;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::{background, claiming, system};

/// How long a message waits for its agent to accept it.
const HEARS: Duration = Duration::from_secs(30);
/// How long an agent may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// A part of a message to an agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// `text`
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says
    pub text: String,
}

/// The arguments of `send_input`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendInput {
    /// The agent
    pub id: String,
    /// What it is told; this or items
    #[serde(default)]
    pub message: Option<String>,
    /// The same in parts; this or message
    #[serde(default)]
    pub items: Option<Vec<Item>>,
    /// End what it does now; otherwise it gets this message when its turn has ended
    #[serde(default)]
    pub interrupt: bool,
}

/// The arguments of `close_agent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseAgent {
    /// The agent
    pub id: String,
}

/// The arguments of `set_thread_note`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetThreadNote {
    /// The agent
    pub id: String,
    /// The note; none takes it away
    #[serde(default)]
    pub note: Option<String>,
}

/// A digest that identifies a message.
fn submission(run: &AgentId) -> String {
    format!("{run}-{}", system::now_ms())
}

/// The text of a message, from `message` or from `items`.
pub(super) fn input(message: Option<&str>, items: Option<&[Item]>) -> Result<String, Failure> {
    match (message, items) {
        (Some(_), Some(_)) => {
            Err(Failure::refused("Provide either message or items, but not both"))
        }
        (None, None) => Err(Failure::refused("Provide one of: message or items")),
        (Some(message), None) if message.trim().is_empty() => {
            Err(Failure::refused("Empty message can't be sent to an agent"))
        }
        (Some(message), None) => Ok(message.to_owned()),
        (None, Some([])) => Err(Failure::refused("Items can't be empty")),
        (None, Some(items)) => {
            if let Some(other) = items.iter().find(|item| item.kind != "text") {
                return Err(Failure::refused(format!(
                    "items of type {:?} cannot be sent; use text",
                    other.kind
                )));
            }
            let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
            let text = texts.join("\n\n");
            match text.trim().is_empty() {
                true => Err(Failure::refused("Empty message can't be sent to an agent")),
                false => Ok(text),
            }
        }
    }
}

impl DelegationService {
    pub(super) fn send_input(&self, request: &SendInput) -> Result<Value, Failure> {
        let text = input(request.message.as_deref(), request.items.as_deref())?;
        let one = self.below(&request.id)?;
        if one.closed {
            return Err(Failure::refused(format!("`{}` is closed; start another agent", one.run)));
        }
        if request.interrupt && self.at_work(&one.run) {
            self.stop(&one.run, "interrupted by the agent above it")?;
        }
        let directory = RunDirectory::new(&self.context.state, one.run.as_str());
        let message = Request::Message { text: text.clone() };
        let deadline = Instant::now() + HEARS;
        loop {
            match supervisor::ask(&directory, &message) {
                Ok(Some(Reply::Done | Reply::Status(_))) => break,
                Ok(Some(Reply::Refused(why))) => return Err(Failure::refused(why)),
                // The agent starts, or its work is being checked: it does not accept messages.
                Ok(None) | Err(_) if self.is_busy(&self.below(&request.id)?) => {
                    if Instant::now() > deadline {
                        return Err(Failure::refused(format!(
                            "`{}` cannot receive it now; send it again later",
                            one.run
                        )));
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                Ok(None) | Err(_) => {
                    self.take_up(&one.run, &text)?;
                    break;
                }
            }
        }
        Ok(json!({"submission_id": submission(&one.run)}))
    }

    /// Resumes an agent that has ended; its former reservation may belong to others now.
    fn take_up(&self, run: &AgentId, text: &str) -> Result<(), Failure> {
        self.tidy()?;
        let turn = self.turn()?;
        let one = self.below(run.as_str())?;
        if one.closed {
            return Err(Failure::refused(format!("`{run}` is closed; start another agent")));
        }
        if self.is_busy(&one) {
            return Err(Failure::refused(format!(
                "`{run}` is about to begin; say it again in a moment"
            )));
        }
        self.require_raised(&one)?;
        self.require_space()?;
        self.require_parallel_again(&one)?;
        self.require_available(&one)?;
        let pending = self.pending(&one.run, Some(text))?;
        self.change(&one.run, |one| one.pending = true)?;
        self.release_unused()?;
        drop(turn);
        let input = pending.input().map_err(|error| {
            Failure::refused(format!("`{run}` cannot receive the message: {error}"))
        })?;
        let before = self.attempts(run)?.len();
        // With the same login as before.
        let options = RunOptions { login: None, ..self.options.clone() };
        let begun = background::begin(&self.context, &one.run, &options, input)
            .and_then(|log| self.require_delivered(run, before, &log));
        let _turn = self.turn()?;
        self.change(&one.run, |one| one.pending = false)?;
        self.release_unused()?;
        begun
    }

    /// Returns an error if a resumed agent ended before it received the message.
    fn require_delivered(&self, run: &AgentId, before: usize, log: &Path) -> Result<(), Failure> {
        let deadline = Instant::now() + HEARS;
        // An agent that waits for a claim gets the message later.
        while self.attempts(run)?.len() <= before && Instant::now() < deadline {
            if !self.at_work(run) && self.attempts(run)?.len() <= before {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let why = log.lines().rev().find(|line| !line.trim().is_empty());
                return Err(Failure::refused(format!(
                    "`{run}` did not continue: {}",
                    why.unwrap_or_default().trim()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(super) fn close_agent(&self, request: &CloseAgent) -> Result<Value, Failure> {
        let one = self
            .below(&request.id)
            .map_err(|_| Failure::refused("Not permitted to close agents outside your subtree."))?;
        let before = self.in_full(&one, self.status(&one)?)?;
        let all = self.delegates()?;
        // Children before parents: no agent is left without a parent that waits for it.
        let mut down = vec![one.run.clone()];
        let mut at = 0;
        while let Some(parent) = down.get(at).cloned() {
            let below = all.iter().filter(|one| one.parent.as_ref() == Some(&parent));
            down.extend(below.map(|one| one.run.clone()));
            at += 1;
        }
        let (mut released, mut wrong) = (0, Vec::new());
        for run in down.iter().rev() {
            // An agent that cannot be closed does not stop the closing of the others.
            match self.close(run) {
                Ok(claims) => released += claims,
                Err(why) => wrong.push(why.in_one_line()),
            }
        }
        let _turn = self.turn()?;
        self.release_unused()?;
        match (wrong.is_empty(), released) {
            (false, _) => Err(Failure::refused(wrong.join("; "))),
            (true, 0) => Ok(json!({"status": before.json()})),
            (true, claims) => Ok(json!({"status": before.json(), "claims_let_go": claims})),
        }
    }

    /// Closes one agent; returns the number of its claims.
    fn close(&self, run: &AgentId) -> Result<usize, Failure> {
        // Marked as closed first, so that it is not resumed.
        let turn = self.turn()?;
        self.change(run, |one| one.closed = true)?;
        drop(turn);
        if self.at_work(run) {
            self.stop(run, "closed by the agent above it")?;
        }
        self.free(run)
    }

    /// Releases what a closed agent has that does not run; says how many claims it had.
    pub(super) fn free(&self, run: &AgentId) -> Result<usize, Failure> {
        if self.attempts(run)?.is_empty() {
            // It never began and never will: its claims are released.
            let failed = self.context.with_store(async |store| {
                let why = Some("closed before it began");
                Ok(store.change_status(run, RunStatus::Failed, why).await?)
            });
            // It may not be in the ledger at all.
            let _ = failed;
        }
        // Other runs may claim its paths; its work can land as long as none does.
        claiming::expire_claims(&self.context, run)
    }

    pub(super) fn set_thread_note(&self, request: &SetThreadNote) -> Result<Value, Failure> {
        let one = self.below(&request.id)?;
        let note = request.note.clone().filter(|note| !note.trim().is_empty());
        let _turn = self.turn()?;
        self.change(&one.run, |one| one.note.clone_from(&note))?;
        Ok(match note {
            Some(note) => json!({"submission_id": submission(&one.run), "thread_note": note}),
            None => json!({"submission_id": submission(&one.run)}),
        })
    }

    /// Updates the delegation record of an agent. Called with the spawn lock.
    pub(super) fn change(
        &self,
        run: &AgentId,
        change: impl FnOnce(&mut Delegate),
    ) -> Result<Delegate, Failure> {
        let all = self.delegates()?;
        let one = all.into_iter().find(|one| one.run == *run);
        let mut one = one.ok_or_else(|| Failure::refused(format!("there is no agent `{run}`")))?;
        change(&mut one);
        self.store_delegate(&one)?;
        Ok(one)
    }

    /// Ends the running agents that the caller started: nothing waits for them any more.
    pub fn end_below(&self) {
        let all = self.delegates().unwrap_or_default();
        let below = all.iter().rev().filter(|one| one.depth > 0 && self.is_above(one, &all));
        let below: Vec<&Delegate> = below.collect();
        if below.iter().any(|one| one.pending)
            && let Ok(_turn) = self.turn()
        {
            for one in below.iter().filter(|one| one.pending) {
                // The process that is starting it sees this and ends it. If that process was killed, `tidy` finds the
                // agent, because it is still pending.
                let _ = self.change(&one.run, |one| one.closed = true);
            }
        }
        let busy: Vec<&Delegate> = below.into_iter().filter(|one| self.at_work(&one.run)).collect();
        let why = "the agent that started it has ended";
        for one in &busy {
            let directory = RunDirectory::new(&self.context.state, one.run.as_str());
            let _ = supervisor::ask(&directory, &Request::Stop { why: why.to_owned() });
        }
        for one in busy {
            // An agent that cannot be ended now is ended by the next command.
            let _ = self.stop(&one.run, why);
        }
    }

    /// Ends an agent and waits until its supervisor has exited.
    pub(super) fn stop(&self, run: &AgentId, why: &str) -> Result<(), Failure> {
        let directory = RunDirectory::new(&self.context.state, run.as_str());
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        loop {
            // It may just begin, or just end.
            let _ = supervisor::ask(&directory, &Request::Stop { why: why.to_owned() });
            if !self.at_work(run) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Failure::refused(format!("`{run}` did not end in time")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
