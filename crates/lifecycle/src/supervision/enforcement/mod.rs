//! Tracks calls: every call whose result is in a model request must have been decided.
//!
//! Comes in: what the model proxy sees (requested calls and their results), what the gate sees (questions and
//! denials), and what the program itself reports. Goes out: the breaches, and a count of invented questions.
//!
//! 1. The model requests a call: it is unresolved.
//! 2. The gate decides it: the decision counts if it is about the requested command.
//! 3. Its result is in the next model request: this consumes the decision. Without one, a tool ran unseen, or a
//!    hook stopped asking. A denial must be in the result.
//! 4. When the program exits, a call that is still unresolved may have run.
//!
//! Which decision belongs to a result depends on the ids that the program gives:
//!
//! ```text
//! call of the model   question of the hook   decision of the result
//! with an id          with the id            the one with this id
//! with an id          without an id          one about the same tool and input; each counts for one result
//! without an id       without an id          one about the first decided call of this tool without an id
//! ```
//!
//! A result needs no decision if its tool has no hook, or if the program itself refused the call. Some programs also
//! report which commands, patches and server calls ran: each report needs a decision, too.
//!
//! ```text
//! results     checks results in model requests        behaviour   what agent programs do
//! reports     checks what the program reports         calls       tool, input and command of a call
//! ```

mod behaviour;
mod calls;
mod reports;
mod results;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use calls::{Call, PATCH, command_of};

pub use behaviour::{CliBehaviour, EnforcementBreach, Evidence, IncompleteCalls};

/// Requested calls, decisions and results.
#[derive(Debug, Clone)]
pub struct CallTracker {
    behaviour: CliBehaviour,
    /// The calls that the model requested, by id.
    requested: BTreeMap<String, Call>,
    /// Calls without an id from the model: the program assigns one later.
    requested_without_id: Vec<Call>,
    /// The command of each requested call, by its id.
    requested_commands: BTreeMap<String, String>,
    /// The ids of decided calls.
    decided: BTreeSet<String>,
    /// Decisions about calls without an id: the number for each tool and input.
    decisions_without_id: BTreeMap<Call, u64>,
    /// The rules that denied calls, by the id of the call.
    denials: BTreeMap<String, String>,
    /// The same for calls without an id.
    denials_without_id: BTreeMap<Call, Vec<String>>,
    /// The ids of calls whose result was in a model request.
    returned: BTreeSet<String>,
    /// Results that reported to the model that the call did not run.
    reported_not_run: BTreeSet<String>,
    /// Calls of this attempt without a decision or a result.
    unresolved: Vec<UnresolvedCall>,
    /// Calls that the program reports as run, although they were denied or never decided.
    reported_breaches: Vec<EnforcementBreach>,
    /// By command: how often it was decided, denied, and reported as run.
    command_tallies: BTreeMap<String, Tally>,
    /// The same by tool and whole input.
    call_tallies: BTreeMap<Call, Tally>,
    /// Patches that were allowed and not yet applied.
    allowed_patches: Vec<String>,
    forged_hook_requests: u64,
}

/// A requested call without a decision or a result. Its id is empty if the model gave it none.
#[derive(Debug, Clone)]
struct UnresolvedCall {
    id: String,
    call: Call,
}

/// Counters for one command, or one tool and input, across the ids of its calls.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    decided: u64,
    denied: u64,
    ran: u64,
}

impl Tally {
    fn allowed(&self) -> u64 {
        self.decided.saturating_sub(self.denied)
    }
}

impl CallTracker {
    /// No call yet.
    pub fn new(behaviour: CliBehaviour) -> Self {
        Self {
            behaviour,
            requested: BTreeMap::new(),
            requested_without_id: Vec::new(),
            requested_commands: BTreeMap::new(),
            decided: BTreeSet::new(),
            decisions_without_id: BTreeMap::new(),
            denials: BTreeMap::new(),
            denials_without_id: BTreeMap::new(),
            returned: BTreeSet::new(),
            reported_not_run: BTreeSet::new(),
            unresolved: Vec::new(),
            reported_breaches: Vec::new(),
            command_tallies: BTreeMap::new(),
            call_tallies: BTreeMap::new(),
            allowed_patches: Vec::new(),
            forged_hook_requests: 0,
        }
    }

    /// All calls so far are of an earlier attempt.
    pub fn clear_unresolved(&mut self) {
        self.unresolved.clear();
    }

    /// The model requests a tool call.
    pub fn on_tool_call(&mut self, id: &str, tool: &str, input: &Value) {
        let call = Call::new(tool, input);
        // The id of an earlier call, but another call: the earlier decision is not for it.
        if self.requested.get(id).is_some_and(|earlier| *earlier != call) {
            self.decided.remove(id);
            self.denials.remove(id);
            self.returned.remove(id);
            self.reported_not_run.remove(id);
            self.requested_commands.remove(id);
        }
        self.unresolved.push(UnresolvedCall { id: id.to_owned(), call: call.clone() });
        if let Some(command) = command_of(input) {
            self.requested_commands.insert(id.to_owned(), command);
        }
        if id.is_empty() {
            self.requested_without_id.push(call);
        } else {
            self.requested.insert(id.to_owned(), call);
        }
    }

    /// The gate decided a call. Returns whether the decision counts.
    ///
    /// A process in the sandbox can ask about a harmless command under the id of another call: a decision
    /// counts only for the command that the model requested.
    pub fn on_decision(&mut self, id: Option<&str>, tool: &str, input: &Value) -> bool {
        let command = command_of(input);
        let Some(id) = id else {
            let call = Call::new(tool, input);
            self.count_decision(command, tool, input);
            if let Some(place) = self.unresolved.iter().position(|open| open.call == call) {
                self.unresolved.remove(place);
            }
            *self.decisions_without_id.entry(call).or_default() += 1;
            return true;
        };
        let is_other_command = match (self.requested_commands.get(id), &command) {
            (Some(requested), Some(decided)) => requested != decided,
            (_, _) => false,
        };
        if is_other_command {
            self.forged_hook_requests = self.forged_hook_requests.saturating_add(1);
            return false;
        }
        self.unresolved.retain(|open| open.id != id);
        self.decided.insert(id.to_owned());
        self.count_decision(command, tool, input);
        true
    }

    /// Counts a decision, for runs that are reported later.
    fn count_decision(&mut self, command: Option<String>, tool: &str, input: &Value) {
        if self.behaviour.reports_commands {
            self.call_tallies.entry(Call::normalized(tool, input)).or_default().decided += 1;
            self.allowed_patches.extend(command.clone().filter(|text| text.contains(PATCH)));
        }
        if let Some(command) = command {
            self.command_tallies.entry(command).or_default().decided += 1;
        }
    }

    /// The call was denied by this rule, and the model must receive the denial. A process in the sandbox may kill
    /// the hook that carries the answer, and some CLIs run the call then.
    pub fn on_denial(&mut self, id: Option<&str>, tool: &str, input: &Value, rule: &str) {
        let command = command_of(input);
        if self.behaviour.reports_commands {
            self.call_tallies.entry(Call::normalized(tool, input)).or_default().denied += 1;
            let is_denied = |patch: &String| Some(patch) == command.as_ref();
            if let Some(place) = self.allowed_patches.iter().rposition(is_denied) {
                self.allowed_patches.remove(place);
            }
        }
        if let Some(command) = command {
            self.command_tallies.entry(command).or_default().denied += 1;
        }
        match id {
            Some(id) => drop(self.denials.insert(id.to_owned(), rule.to_owned())),
            None => {
                let call = Call::new(tool, input);
                self.denials_without_id.entry(call).or_default().push(rule.to_owned());
            }
        }
    }

    /// The response with this call is incomplete; `broke_off` if the connection broke off. Where the program
    /// drops such calls, this one needs no result; if it is reported as run or its result arrives, it needs a
    /// decision like any other.
    pub fn on_incomplete_response(&mut self, id: &str, tool: &str, input: &Value, broke_off: bool) {
        let may_drop_call = match self.behaviour.unfinished {
            IncompleteCalls::Runs => false,
            IncompleteCalls::RunsUnlessBroken => broke_off,
            IncompleteCalls::ReportsRun => true,
        };
        let call = Call::new(tool, input);
        let is_same = |open: &UnresolvedCall| open.id == id && open.call == call;
        if let Some(place) = self.unresolved.iter().rposition(is_same).filter(|_| may_drop_call) {
            self.unresolved.remove(place);
        }
    }

    /// A call that the program reports as run, although it was denied or never decided.
    pub fn ran_without_permission(&self) -> Option<EnforcementBreach> {
        self.reported_breaches.first().cloned()
    }

    /// A call of this attempt without decision and result: it may have run.
    pub fn unaccounted(&self) -> Option<EnforcementBreach> {
        let is_hooked = |open: &&UnresolvedCall| !self.is_unhooked(&open.call.tool);
        let open = self.unresolved.iter().find(is_hooked)?;
        let (id, tool) = (open.id.clone(), open.call.tool.clone());
        Some(EnforcementBreach { id, tool, denied: false, evidence: Evidence::Unaccounted })
    }

    /// Questions about calls that the model did not request: invented by a process in the sandbox.
    pub fn forged_hook_requests(&self) -> u64 {
        let requested_tool = |tool: &str| self.requested.values().any(|call| call.tool == tool);
        let code_mode = self.behaviour.code_mode.filter(|(tool, _)| requested_tool(tool));
        let prefix_of_code = code_mode.map(|(_, prefix)| prefix);
        let is_unknown = |id: &&String| {
            !self.requested.contains_key(*id)
                && !prefix_of_code.is_some_and(|prefix| id.starts_with(prefix))
        };
        let unknown = self.decided.iter().filter(is_unknown).count();
        self.forged_hook_requests.saturating_add(u64::try_from(unknown).unwrap_or(u64::MAX))
    }

    /// Whether this tool never reaches a hook.
    fn is_unhooked(&self, tool: &str) -> bool {
        self.behaviour.tools_without_hook.contains(&tool)
    }
}
