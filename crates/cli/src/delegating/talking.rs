//! `send_input`, `close_agent`, `set_thread_note`: speaking to an agent below the caller.

use std::time::{Duration, Instant};

use bailiwick_model::{AgentId, Delegate};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session::{Session, said};
use crate::running::detached;

/// How long an agent gets to be gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// A part of what an agent is told.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// `text`
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says
    pub text: String,
}

/// What is asked of `send_input`.
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
    /// End what it does now; otherwise it hears this when its turn has ended
    #[serde(default)]
    pub interrupt: bool,
}

/// What is asked of `close_agent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseAgent {
    /// The agent
    pub id: String,
}

/// What is asked of `set_thread_note`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetThreadNote {
    /// The agent
    pub id: String,
    /// The note; none takes it away
    #[serde(default)]
    pub note: Option<String>,
}

/// What an agent is told, of the two ways to say it.
pub(super) fn input(message: Option<&str>, items: Option<&[Item]>) -> Result<String, String> {
    match (message, items) {
        (Some(_), Some(_)) => Err("Provide either message or items, but not both".to_owned()),
        (None, None) => Err("Provide one of: message or items".to_owned()),
        (Some(message), None) if message.trim().is_empty() => {
            Err("Empty message can't be sent to an agent".to_owned())
        }
        (Some(message), None) => Ok(message.to_owned()),
        (None, Some([])) => Err("Items can't be empty".to_owned()),
        (None, Some(items)) => {
            if let Some(other) = items.iter().find(|item| item.kind != "text") {
                return Err(format!("items of type {:?} cannot be sent; use text", other.kind));
            }
            let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
            let text = texts.join("\n\n");
            match text.trim().is_empty() {
                true => Err("Empty message can't be sent to an agent".to_owned()),
                false => Ok(text),
            }
        }
    }
}

impl Session {
    pub(super) fn send_input(&self, asked: &SendInput) -> Result<Value, String> {
        let text = input(asked.message.as_deref(), asked.items.as_deref())?;
        let one = self.below(&asked.id)?;
        if one.closed {
            return Err(format!("`{}` is closed; start another agent", one.run));
        }
        let _turn = self.turn()?;
        if asked.interrupt && self.at_work(&one.run) {
            self.stop(&one.run, "interrupted by the agent above it")?;
        }
        let directory = RunDirectory::new(&self.context.state, one.run.as_str());
        let message = Request::Message { text: text.clone() };
        match supervisor::ask(&directory, &message) {
            Ok(Some(Reply::Done | Reply::Standing(_))) => {}
            Ok(Some(Reply::Refused(why))) => return Err(why),
            // It has ended, and is taken up again; what was reserved for it may have gone to others.
            Ok(None) | Err(_) => {
                self.require_rest(&one)?;
                detached::begin(&self.context, &one.run, &self.how, Some(&text)).map_err(said)?;
                self.settle()?;
            }
        }
        Ok(json!({"submission_id": format!("{}-{}", one.run, crate::wire::now_ms())}))
    }

    pub(super) fn close_agent(&self, asked: &CloseAgent) -> Result<Value, String> {
        let one = self
            .below(&asked.id)
            .map_err(|_| "Not permitted to close agents outside your subtree.".to_owned())?;
        let before = self.status(&one)?;
        let _turn = self.turn()?;
        let all = self.delegates()?;
        // Leaves first: nobody is left whom nobody waits for.
        let mut down = vec![one.clone()];
        let mut at = 0;
        while let Some(parent) = down.get(at).map(|one| one.run.clone()) {
            down.extend(all.iter().filter(|one| one.parent.as_ref() == Some(&parent)).cloned());
            at += 1;
        }
        for delegate in down.into_iter().rev() {
            if self.at_work(&delegate.run) {
                self.stop(&delegate.run, "closed by the agent above it")?;
            }
            self.keep(&Delegate { closed: true, ..delegate })?;
        }
        self.settle()?;
        Ok(json!({"status": before.json()}))
    }

    pub(super) fn set_thread_note(&self, asked: &SetThreadNote) -> Result<Value, String> {
        let one = self.below(&asked.id)?;
        let note = asked.note.clone().filter(|note| !note.trim().is_empty());
        self.keep(&Delegate { note: note.clone(), ..one.clone() })?;
        let submission = format!("{}-{}", one.run, crate::wire::now_ms());
        Ok(match note {
            Some(note) => json!({"submission_id": submission, "thread_note": note}),
            None => json!({"submission_id": submission}),
        })
    }

    /// Ends those that the caller started and that are still at work: nobody waits for them any more.
    pub fn end_below(&self) {
        let Ok(_turn) = self.turn() else { return };
        let all = self.delegates().unwrap_or_default();
        for one in all.iter().rev().filter(|one| one.depth > 0 && self.is_above(one, &all)) {
            if self.at_work(&one.run) {
                // What cannot be ended now is found by the next command.
                let _ = self.stop(&one.run, "the agent that started it has ended");
            }
        }
    }

    /// Ends an agent, and waits until it is gone.
    fn stop(&self, run: &AgentId, why: &str) -> Result<(), String> {
        let directory = RunDirectory::new(&self.context.state, run.as_str());
        let late = Instant::now() + PATIENCE;
        loop {
            // It may just begin, or just end.
            let _ = supervisor::ask(&directory, &Request::Stop { why: why.to_owned() });
            if !self.at_work(run) {
                return Ok(());
            }
            if Instant::now() > late {
                return Err(format!("`{run}` did not end in time"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
