//! Whether the gate holds: every call whose result comes back to the model must have been decided.
//!
//! The model proxy sees what the model asks for and what comes back; the gate sees what it is asked.
//! A result without a decision means that a tool ran unseen, or that a hook has gone silent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use thiserror::Error;

/// What is known of an agent program, measured on the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// Whether its hooks carry the model's name of the call.
    pub names_calls: bool,
    /// Tools that never reach a hook and touch nothing, or whose parts reach it one by one.
    pub unhooked: &'static [&'static str],
    /// How the program itself refuses a call before any hook: the beginnings of what the model is told.
    pub refusals: &'static [&'static str],
}

/// A limit may not have held.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the call {id} of {tool} came back with a result, and the gate was never asked about it")]
pub struct Lost {
    /// The model's name of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
}

/// What was asked for, what was decided, and what came back.
#[derive(Debug, Clone)]
pub struct Watch {
    habits: Habits,
    asked: BTreeMap<String, (String, String)>,
    decided: BTreeSet<String>,
    /// Decisions about calls that have no name: how many for each tool and input.
    unnamed: BTreeMap<(String, String), u64>,
    back: BTreeSet<String>,
}

impl Watch {
    /// Nothing has been asked yet.
    pub fn new(habits: Habits) -> Self {
        Self {
            habits,
            asked: BTreeMap::new(),
            decided: BTreeSet::new(),
            unnamed: BTreeMap::new(),
            back: BTreeSet::new(),
        }
    }

    /// The model asks for a tool.
    pub fn asked(&mut self, id: &str, tool: &str, input: &Value) {
        self.asked.insert(id.to_owned(), (tool.to_owned(), canonical(input)));
    }

    /// The gate has answered.
    pub fn decided(&mut self, id: Option<&str>, tool: &str, input: &Value) {
        match id {
            Some(id) => drop(self.decided.insert(id.to_owned())),
            None => {
                *self.unnamed.entry((tool.to_owned(), canonical(input))).or_default() += 1;
            }
        }
    }

    /// Results that were there before this attempt began.
    pub fn remember(&mut self, id: &str) {
        self.back.insert(id.to_owned());
    }

    /// A result has come back to the model.
    pub fn came_back(&mut self, id: &str, tool: Option<&str>, output: &str) -> Result<(), Lost> {
        if !self.back.insert(id.to_owned()) {
            return Ok(());
        }
        let asked = self.asked.get(id);
        let tool = asked.map(|(tool, _)| tool.as_str()).or(tool).unwrap_or("an unknown tool");
        if self.habits.unhooked.contains(&tool) || self.was_refused(output) {
            return Ok(());
        }
        let decided = if self.habits.names_calls {
            self.decided.contains(id)
        } else {
            asked.is_some_and(|key| match self.unnamed.get_mut(key) {
                Some(left @ 1..) => {
                    *left -= 1;
                    true
                }
                Some(0) | None => false,
            })
        };
        if decided {
            return Ok(());
        }
        Err(Lost { id: id.to_owned(), tool: tool.to_owned() })
    }

    /// Decisions about calls that the model has not asked for: made up by somebody inside.
    pub fn made_up(&self) -> usize {
        self.decided.iter().filter(|id| !self.asked.contains_key(*id)).count()
    }

    fn was_refused(&self, output: &str) -> bool {
        let output = output.trim_start();
        self.habits.refusals.iter().any(|beginning| output.starts_with(beginning))
    }
}

/// A JSON text that is the same for the same value; objects are kept in the order of their keys.
fn canonical(input: &Value) -> String {
    match input {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, String> =
                fields.iter().map(|(key, value)| (key, canonical(value))).collect();
            format!("{sorted:?}")
        }
        Value::Array(items) => format!("{:?}", items.iter().map(canonical).collect::<Vec<_>>()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => input.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAMED: Habits =
        Habits { names_calls: true, unhooked: &["update_plan"], refusals: &["No such tool"] };

    #[test]
    fn a_result_without_a_decision_is_a_loss() {
        let mut watch = Watch::new(NAMED);
        let input = json!({"command": "ls"});
        watch.asked("a", "Bash", &input);
        watch.asked("b", "Bash", &input);
        watch.decided(Some("a"), "Bash", &input);
        assert_eq!(watch.came_back("a", None, "ok"), Ok(()));
        assert_eq!(watch.came_back("a", None, "ok"), Ok(()), "history is repeated");
        let lost = watch.came_back("b", None, "ok").unwrap_err();
        assert_eq!((lost.id.as_str(), lost.tool.as_str()), ("b", "Bash"));
        assert!(watch.came_back("c", Some("Bash"), "ok").is_err(), "nobody asked for it");
    }

    #[test]
    fn what_the_program_refuses_by_itself_and_what_has_no_hook_is_no_loss() {
        let mut watch = Watch::new(NAMED);
        watch.asked("a", "MultiEdit", &json!({}));
        watch.asked("b", "update_plan", &json!({}));
        assert_eq!(watch.came_back("a", None, "No such tool available: MultiEdit"), Ok(()));
        assert_eq!(watch.came_back("b", None, "done"), Ok(()));
        watch.remember("old");
        assert_eq!(watch.came_back("old", Some("Bash"), "from before"), Ok(()));
    }

    #[test]
    fn calls_without_names_are_matched_one_to_one_by_what_they_are() {
        let habits = Habits { names_calls: false, ..NAMED };
        let mut watch = Watch::new(habits);
        let input = json!({"command": "ls", "dir": 1});
        watch.asked("a", "shell", &input);
        watch.asked("b", "shell", &input);
        watch.decided(None, "shell", &json!({"dir": 1, "command": "ls"}));
        assert_eq!(watch.came_back("a", None, "ok"), Ok(()));
        assert!(watch.came_back("b", None, "ok").is_err(), "one decision is for one call");
        watch.asked("c", "shell", &json!({"command": "rm"}));
        watch.decided(None, "shell", &input);
        assert!(watch.came_back("c", None, "ok").is_err(), "decided was another command");
    }

    #[test]
    fn questions_about_no_call_are_counted() {
        let mut watch = Watch::new(NAMED);
        watch.decided(Some("forged"), "Bash", &json!({}));
        assert_eq!(watch.made_up(), 1);
    }
}
