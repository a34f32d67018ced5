//! Tracks calls: every call whose result is in a model request must have been decided.
//!
//! The model proxy sees requested calls and their results; the gate sees the questions. A result without a
//! decision means that a tool ran unseen, or that a hook stopped asking.
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
//! behaviour   what agent programs do          calls   what a call is about
//! ```

mod behaviour;
mod calls;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use calls::{PATCH, about, canonical, given, is_name, leads_to, named};

pub use behaviour::{CliBehaviour, EnforcementBreach, Evidence, IncompleteCalls};

/// Counters for one command, across the IDs of its calls.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    decided: u64,
    denied: u64,
    ran: u64,
}

/// Requested calls, decisions and results.
#[derive(Debug, Clone)]
pub struct CallTracker {
    behaviour: CliBehaviour,
    asked: BTreeMap<String, (String, String)>,
    /// Calls without an id from the model: the program assigns one later.
    calls_without_id: Vec<(String, String)>,
    decided: BTreeSet<String>,
    /// Decisions about calls without an ID: the number for each tool and input.
    decisions_without_id: BTreeMap<(String, String), u64>,
    /// The rules that denied calls, by the id of the call.
    denials: BTreeMap<String, String>,
    /// The same for calls without an id.
    denials_without_id: BTreeMap<(String, String), Vec<String>>,
    returned: BTreeSet<String>,
    /// Results that reported to the model that the call did not run.
    reported_not_run: BTreeSet<String>,
    /// The command of each call, by its id.
    about: BTreeMap<String, String>,
    /// Calls of this attempt without a decision or a result: id, tool and input.
    unresolved: Vec<(String, (String, String))>,
    /// Calls that the CLI reports as run, although they were denied or never decided.
    ran: Vec<EnforcementBreach>,
    /// By command: how often it was decided, denied, and reported as run.
    commands: BTreeMap<String, Tally>,
    /// The same by tool and whole input.
    inputs: BTreeMap<(String, String), Tally>,
    /// Patches that were allowed and not yet applied.
    patches: Vec<String>,
    invented_questions: u64,
}

impl CallTracker {
    /// No call yet.
    pub fn new(behaviour: CliBehaviour) -> Self {
        Self {
            behaviour,
            asked: BTreeMap::new(),
            calls_without_id: Vec::new(),
            decided: BTreeSet::new(),
            decisions_without_id: BTreeMap::new(),
            denials: BTreeMap::new(),
            denials_without_id: BTreeMap::new(),
            returned: BTreeSet::new(),
            reported_not_run: BTreeSet::new(),
            about: BTreeMap::new(),
            unresolved: Vec::new(),
            ran: Vec::new(),
            commands: BTreeMap::new(),
            inputs: BTreeMap::new(),
            patches: Vec::new(),
            invented_questions: 0,
        }
    }

    /// All calls so far are of an earlier attempt.
    pub fn clear_unresolved(&mut self) {
        self.unresolved.clear();
    }

    /// The model requests a tool call.
    pub fn on_tool_call(&mut self, id: &str, tool: &str, input: &Value) {
        let call = (tool.to_owned(), canonical(input));
        // The id of an earlier call, but another call: the earlier decision is not for it.
        if self.asked.get(id).is_some_and(|earlier| *earlier != call) {
            self.decided.remove(id);
            self.denials.remove(id);
            self.returned.remove(id);
            self.reported_not_run.remove(id);
            self.about.remove(id);
        }
        self.unresolved.push((id.to_owned(), call.clone()));
        if let Some(about) = about(input) {
            self.about.insert(id.to_owned(), about);
        }
        if id.is_empty() {
            self.calls_without_id.push(call);
        } else {
            self.asked.insert(id.to_owned(), call);
        }
    }

    /// The gate decided a call. Returns whether the decision counts.
    ///
    /// A process in the sandbox can ask about a harmless command under the id of another call: a decision
    /// counts only for the command that the model requested.
    pub fn on_decision(&mut self, id: Option<&str>, tool: &str, input: &Value) -> bool {
        let call = (tool.to_owned(), canonical(input));
        let command = about(input);
        let Some(id) = id else {
            self.count_decision(command, tool, input);
            if let Some(place) = self.unresolved.iter().position(|(_, open)| *open == call) {
                self.unresolved.remove(place);
            }
            *self.decisions_without_id.entry(call).or_default() += 1;
            return true;
        };
        let other = match (self.about.get(id), &command) {
            (Some(asked), Some(decided)) => asked != decided,
            (_, _) => false,
        };
        if other {
            self.invented_questions = self.invented_questions.saturating_add(1);
            return false;
        }
        self.unresolved.retain(|(open, _)| open != id);
        self.decided.insert(id.to_owned());
        self.count_decision(command, tool, input);
        true
    }

    /// Counts a decision, for runs that are reported later.
    fn count_decision(&mut self, command: Option<String>, tool: &str, input: &Value) {
        if self.behaviour.reports_commands {
            let call = (tool.to_owned(), canonical(given(input)));
            self.inputs.entry(call).or_default().decided += 1;
            self.patches.extend(command.clone().filter(|text| text.contains(PATCH)));
        }
        self.tally(command, |tally| tally.decided += 1);
    }

    /// The response with this call is incomplete; `broke_off` if the connection broke off. Where the program
    /// drops such calls, this one needs no result; if it is reported as run or its result arrives, it needs a
    /// decision like any other.
    pub fn on_incomplete_response(&mut self, id: &str, tool: &str, input: &Value, broke_off: bool) {
        let lets_go = match self.behaviour.unfinished {
            IncompleteCalls::Runs => false,
            IncompleteCalls::RunsUnlessBroken => broke_off,
            IncompleteCalls::ReportsRun => true,
        };
        let call = (tool.to_owned(), canonical(input));
        let same = |(open, asked): &(String, (String, String))| open == id && *asked == call;
        if let Some(place) = self.unresolved.iter().rposition(same).filter(|_| lets_go) {
            self.unresolved.remove(place);
        }
    }

    fn tally(&mut self, command: Option<String>, count: impl FnOnce(&mut Tally)) {
        if let Some(command) = command {
            count(self.commands.entry(command).or_default());
        }
    }

    /// The call was denied by this rule, and the model must receive the denial. A process in the sandbox may kill
    /// the hook that carries the answer, and some CLIs run the call then.
    pub fn on_denial(&mut self, id: Option<&str>, tool: &str, input: &Value, rule: &str) {
        let command = about(input);
        if self.behaviour.reports_commands {
            let call = (tool.to_owned(), canonical(given(input)));
            self.inputs.entry(call).or_default().denied += 1;
            let denied = self.patches.iter().rposition(|patch| Some(patch) == command.as_ref());
            if let Some(place) = denied {
                self.patches.remove(place);
            }
        }
        self.tally(command, |tally| tally.denied += 1);
        match id {
            Some(id) => drop(self.denials.insert(id.to_owned(), rule.to_owned())),
            None => {
                let call = (tool.to_owned(), canonical(input));
                self.denials_without_id.entry(call).or_default().push(rule.to_owned());
            }
        }
    }

    /// A result of an earlier attempt.
    pub fn add_known_result(&mut self, id: &str) {
        if let Some(call) = self.asked.get(id).cloned() {
            self.consume_decision(&call);
        }
        self.returned.insert(id.to_owned());
    }

    /// A result is in a model request; returns whether it is new, as every request repeats the whole
    /// conversation.
    ///
    /// `failed` is the mark in the request, where its format has one: a result that is marked as successful
    /// was not refused, whatever its text.
    pub fn on_result(
        &mut self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: Option<bool>,
    ) -> Result<bool, EnforcementBreach> {
        if !self.returned.insert(id.to_owned()) {
            return self.on_repeated_result(id, tool, output, failed);
        }
        if self.reports_denial_of(id, output, failed) {
            self.reported_not_run.insert(id.to_owned());
        }
        let asked = self.asked.get(id);
        let tool = asked.map(|(tool, _)| tool.as_str()).or(tool).unwrap_or("an unknown tool");
        let refused = failed != Some(false) && self.was_refused(output);
        let own = |(open, (named, _)): &(String, (String, String))| match open.as_str() {
            "" => named == tool,
            open => open == id,
        };
        if let Some(place) = self.unresolved.iter().position(own) {
            self.unresolved.remove(place);
        }
        if self.behaviour.unhooked.contains(&tool) || refused {
            return Ok(true);
        }
        let tool = tool.to_owned();
        // Without call ids in hooks the model's id is not known here.
        let known = asked.is_some() || !self.behaviour.hooks_have_call_ids;
        let (decided, told) = match (self.behaviour.hooks_have_call_ids, asked.cloned()) {
            (true, _) => {
                let told = |rule: &String| self.reports_denial(rule, output, failed);
                (self.decided.contains(id), self.denials.get(id).is_none_or(told))
            }
            (false, Some(call)) => {
                (self.consume_decision(&call), self.matches_denials(&call, output, failed))
            }
            (false, None) => match self.take_decided_call_without_id(&tool) {
                Some(call) => {
                    (self.consume_decision(&call), self.matches_denials(&call, output, failed))
                }
                None => (false, false),
            },
        };
        match decided && told {
            true => Ok(true),
            false => {
                let evidence =
                    if known { Evidence::ResultReturned } else { Evidence::GateNotAsked };
                Err(EnforcementBreach { id: id.to_owned(), tool, denied: decided, evidence })
            }
        }
    }

    /// A result that was there before. A process in the sandbox can report to the model that a call did not
    /// run; if the program reports otherwise later, the call did run.
    fn on_repeated_result(
        &self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: Option<bool>,
    ) -> Result<bool, EnforcementBreach> {
        let contradicted =
            self.reported_not_run.contains(id) && !self.reports_denial_of(id, output, failed);
        if self.behaviour.truncates_old_results || !contradicted {
            return Ok(false);
        }
        let tool = self.asked.get(id).map(|(tool, _)| tool.as_str()).or(tool);
        let tool = tool.unwrap_or("an unknown tool").to_owned();
        let (id, denied) = (id.to_owned(), self.denials.contains_key(id));
        Err(EnforcementBreach { id, tool, denied, evidence: Evidence::ResultReturned })
    }

    /// Whether the model receives that the call was denied, or refused by the CLI itself.
    fn reports_denial_of(&self, id: &str, output: &str, failed: Option<bool>) -> bool {
        let denied =
            self.denials.get(id).is_some_and(|rule| self.reports_denial(rule, output, failed));
        denied || failed != Some(false) && self.was_refused(output)
    }

    /// Whether this can be the result of a call without an id: the remaining denials must still be
    /// reported.
    fn matches_denials(
        &mut self,
        call: &(String, String),
        output: &str,
        failed: Option<bool>,
    ) -> bool {
        let left = self.decisions_without_id.get(call).copied().unwrap_or_default();
        let Some(denials) = self.denials_without_id.get(call) else { return true };
        let place = denials.iter().position(|rule| self.reports_denial(rule, output, failed));
        let Some(denials) = self.denials_without_id.get_mut(call) else { return true };
        if let Some(place) = place {
            denials.remove(place);
            return true;
        }
        u64::try_from(denials.len()).is_ok_and(|denials| denials <= left)
    }

    /// Whether the output reports a denial by this rule: in the program's wording, and marked as a failure where
    /// the format can do that.
    fn reports_denial(&self, rule: &str, output: &str, failed: Option<bool>) -> bool {
        let first = output.trim_start().lines().next().unwrap_or_default();
        failed != Some(false) && first.contains(self.behaviour.denial) && output.contains(rule)
    }

    /// The program reports the result of a call. If the attempt ends before the next model request, this is the
    /// only evidence that an undecided call has run, in this attempt or an earlier one.
    ///
    /// It is independent evidence, too: a process in the sandbox can send its own model request with a forged
    /// denial, so that the real result counts as known later.
    pub fn on_reported_result(&mut self, id: &str, output: &str, failed: bool) {
        let Some((tool, _)) = self.asked.get(id) else { return };
        let unhooked = self.behaviour.unhooked.contains(&tool.as_str());
        let refused = failed && self.was_refused(output);
        let decided = !self.behaviour.hooks_have_call_ids || self.decided.contains(id);
        let denial = self.denials.get(id).filter(|_| self.behaviour.hooks_have_call_ids);
        let denied = denial.is_some_and(|rule| !self.reports_denial(rule, output, Some(failed)));
        if !(unhooked || refused) && (!decided || denied) {
            let (id, tool) = (id.to_owned(), tool.clone());
            self.ran.push(EnforcementBreach {
                id,
                tool,
                denied,
                evidence: Evidence::ProgramReported,
            });
        }
    }

    /// The CLI reports a command as run, under any ID: even one from code of its model, which the proxy does not
    /// see. A denied command may run only as often as it was allowed.
    pub fn on_reported_command(&mut self, command: &str) {
        let Some(tally) = self.commands.get_mut(command.trim()) else {
            if self.behaviour.reports_commands {
                let (id, tool) = (command.trim().to_owned(), "the shell".to_owned());
                self.ran.push(EnforcementBreach {
                    id,
                    tool,
                    denied: false,
                    evidence: Evidence::ProgramReported,
                });
            }
            return;
        };
        tally.ran = tally.ran.saturating_add(1);
        if tally.denied > 0 && tally.ran > tally.decided.saturating_sub(tally.denied) {
            let (id, tool) = (command.trim().to_owned(), "the shell".to_owned());
            self.ran.push(EnforcementBreach {
                id,
                tool,
                denied: true,
                evidence: Evidence::ProgramReported,
            });
        }
    }

    /// The CLI reports a call under its own ID. As with commands, calls from code of its model are visible nowhere
    /// else: files are changed by an allowed patch, and a server is called as often as was allowed.
    pub fn on_reported_call(&mut self, tool: &str, input: &Value) {
        if !self.behaviour.reports_commands {
            return;
        }
        let (held, denied) = match (about(input), input.get("changes").and_then(Value::as_array)) {
            _ if tool.starts_with("mcp__") => self.count_server_call(tool, input),
            (_, Some(changes)) => (self.take_patch(changes), false),
            // A denial is checked when the command has ended.
            (Some(command), None) => (self.commands.contains_key(&command), false),
            (None, None) => (true, false),
        };
        if !held {
            let id = about(input).unwrap_or_else(|| input.to_string());
            let tool = tool.to_owned();
            self.ran.push(EnforcementBreach {
                id,
                tool,
                denied,
                evidence: Evidence::ProgramReported,
            });
        }
    }

    /// Whether a server may be called once more, and whether such a call was denied. Where hooks cannot name
    /// the tool, any call with this input counts for it.
    fn count_server_call(&mut self, tool: &str, input: &Value) -> (bool, bool) {
        let call = (tool.to_owned(), canonical(given(input)));
        let by_name = is_name(tool) || self.inputs.contains_key(&call);
        let mut denied = false;
        for (decided, tally) in &mut self.inputs {
            let same = decided.1 == call.1 && (!by_name || decided.0 == call.0);
            if !same {
                continue;
            }
            denied = denied || tally.denied > 0;
            if tally.ran < tally.decided.saturating_sub(tally.denied) {
                tally.ran = tally.ran.saturating_add(1);
                return (true, denied);
            }
        }
        (false, denied)
    }

    /// Uses up an allowed patch that makes exactly these changes.
    fn take_patch(&mut self, changes: &[Value]) -> bool {
        let path = |change: &Value| change.get("path").and_then(Value::as_str).map(str::to_owned);
        let Some(paths) = changes.iter().map(path).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let makes =
            |patch: &String| paths.iter().all(|path| named(patch).any(|name| leads_to(name, path)));
        // A patch that names more files may be for another change.
        let exactly = |patch: &String| {
            makes(patch) && named(patch).all(|name| paths.iter().any(|path| leads_to(name, path)))
        };
        let patches = &self.patches;
        let place = patches.iter().position(exactly).or_else(|| patches.iter().position(makes));
        place.map(|place| self.patches.remove(place)).is_some()
    }

    /// A call that the program reports as run, although it was denied or never decided.
    pub fn ran_without_permission(&self) -> Option<EnforcementBreach> {
        self.ran.first().cloned()
    }

    /// A call of this attempt without decision and result: it may have run.
    pub fn unaccounted(&self) -> Option<EnforcementBreach> {
        let open = |(_, (tool, _)): &&(String, (String, String))| {
            !self.behaviour.unhooked.contains(&tool.as_str())
        };
        let (id, (tool, _)) = self.unresolved.iter().find(open)?;
        let (id, tool) = (id.clone(), tool.clone());
        Some(EnforcementBreach { id, tool, denied: false, evidence: Evidence::Unaccounted })
    }

    /// Consumes one decision: it is for one call.
    fn consume_decision(&mut self, call: &(String, String)) -> bool {
        match self.decisions_without_id.get_mut(call) {
            Some(left @ 1..) => {
                *left -= 1;
                true
            }
            Some(0) | None => false,
        }
    }

    /// Takes the first decided call of this tool without an id.
    fn take_decided_call_without_id(&mut self, tool: &str) -> Option<(String, String)> {
        let fits = |call: &(String, String), decisions: &BTreeMap<(String, String), u64>| {
            call.0 == tool && decisions.get(call).is_some_and(|left| *left > 0)
        };
        let place =
            self.calls_without_id.iter().position(|call| fits(call, &self.decisions_without_id))?;
        Some(self.calls_without_id.remove(place))
    }

    /// Questions about calls that the model did not request: invented by a process in the sandbox.
    pub fn invented_questions(&self) -> u64 {
        let wrote = |code: &str| self.asked.values().any(|(tool, _)| tool == code);
        let of_code =
            self.behaviour.code_mode.filter(|(tool, _)| wrote(tool)).map(|(_, names)| names);
        let unknown = |id: &&String| {
            !self.asked.contains_key(*id) && !of_code.is_some_and(|names| id.starts_with(names))
        };
        let unknown = self.decided.iter().filter(unknown).count();
        self.invented_questions.saturating_add(u64::try_from(unknown).unwrap_or(u64::MAX))
    }

    fn was_refused(&self, output: &str) -> bool {
        let output = output.trim_start();
        self.behaviour.refusals.iter().any(|beginning| output.starts_with(beginning))
    }
}
