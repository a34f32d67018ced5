//! Whether the gate holds: every call whose result comes back to the model must have been decided.
//!
//! The model proxy sees what the model asks for and what comes back; the gate sees what it is asked.
//! A result without a decision means that a tool ran unseen, or that a hook has gone silent.
//!
//! ```text
//! habits   what programs do          calls   what a call is about
//! ```

mod behaviour;
mod calls;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use calls::{PATCH, about, canonical, given, is_name, leads_to, named};

pub use behaviour::{CliBehaviour, EnforcementBreach, Evidence, Unfinished};

/// What is known of one command, whatever its calls are named.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    decided: u64,
    denied: u64,
    ran: u64,
}

/// What was asked for, what was decided, and what came back.
#[derive(Debug, Clone)]
pub struct Watch {
    behaviour: CliBehaviour,
    asked: BTreeMap<String, (String, String)>,
    /// Calls that the model gave no name: the program makes one up later.
    nameless: Vec<(String, String)>,
    decided: BTreeSet<String>,
    /// Decisions about calls that have no name: how many for each tool and input.
    unnamed: BTreeMap<(String, String), u64>,
    /// The rules that denied calls, by the name of the call.
    denials: BTreeMap<String, String>,
    /// The same for calls that have no name.
    unnamed_denials: BTreeMap<(String, String), Vec<String>>,
    back: BTreeSet<String>,
    /// Those of which the model was told that they have not run.
    spared: BTreeSet<String>,
    /// What calls are about, by their names.
    about: BTreeMap<String, String>,
    /// Calls of this attempt that were neither decided nor came back: name, tool and input.
    open: Vec<(String, (String, String))>,
    /// Calls that the program itself says it has run, although nobody had decided about them or the
    /// answer was no.
    ran: Vec<EnforcementBreach>,
    /// By command: how often it was decided, denied, and run by the program's own word.
    commands: BTreeMap<String, Tally>,
    /// The same by the tool and the whole input of a call.
    inputs: BTreeMap<(String, String), Tally>,
    /// Patches that were allowed and not yet applied.
    patches: Vec<String>,
    made_up: u64,
}

impl Watch {
    /// Nothing has been asked yet.
    pub fn new(behaviour: CliBehaviour) -> Self {
        Self {
            behaviour,
            asked: BTreeMap::new(),
            nameless: Vec::new(),
            decided: BTreeSet::new(),
            unnamed: BTreeMap::new(),
            denials: BTreeMap::new(),
            unnamed_denials: BTreeMap::new(),
            back: BTreeSet::new(),
            spared: BTreeSet::new(),
            about: BTreeMap::new(),
            open: Vec::new(),
            ran: Vec::new(),
            commands: BTreeMap::new(),
            inputs: BTreeMap::new(),
            patches: Vec::new(),
            made_up: 0,
        }
    }

    /// What was asked for until now was so in an earlier attempt.
    pub fn settle(&mut self) {
        self.open.clear();
    }

    /// The model asks for a tool.
    pub fn asked(&mut self, id: &str, tool: &str, input: &Value) {
        let call = (tool.to_owned(), canonical(input));
        // Under the name of an earlier one, but another call: what was answered then is not for it.
        if self.asked.get(id).is_some_and(|earlier| *earlier != call) {
            self.decided.remove(id);
            self.denials.remove(id);
            self.back.remove(id);
            self.spared.remove(id);
            self.about.remove(id);
        }
        self.open.push((id.to_owned(), call.clone()));
        if let Some(about) = about(input) {
            self.about.insert(id.to_owned(), about);
        }
        if id.is_empty() {
            self.nameless.push(call);
        } else {
            self.asked.insert(id.to_owned(), call);
        }
    }

    /// The gate has answered.
    ///
    /// Whoever is inside can ask about a harmless command under the name of another call: an answer
    /// counts only for the command that the model has asked for. Tells whether it does.
    pub fn decided(&mut self, id: Option<&str>, tool: &str, input: &Value) -> bool {
        let call = (tool.to_owned(), canonical(input));
        let command = about(input);
        let Some(id) = id else {
            self.note(command, tool, input);
            if let Some(place) = self.open.iter().position(|(_, open)| *open == call) {
                self.open.remove(place);
            }
            *self.unnamed.entry(call).or_default() += 1;
            return true;
        };
        let other = match (self.about.get(id), &command) {
            (Some(asked), Some(decided)) => asked != decided,
            (_, _) => false,
        };
        if other {
            self.made_up = self.made_up.saturating_add(1);
            return false;
        }
        self.open.retain(|(open, _)| open != id);
        self.decided.insert(id.to_owned());
        self.note(command, tool, input);
        true
    }

    /// A decision counts for what is told to have run later.
    fn note(&mut self, command: Option<String>, tool: &str, input: &Value) {
        if self.behaviour.reports_commands {
            let call = (tool.to_owned(), canonical(given(input)));
            self.inputs.entry(call).or_default().decided += 1;
            self.patches.extend(command.clone().filter(|text| text.contains(PATCH)));
        }
        self.tally(command, |tally| tally.decided += 1);
    }

    /// The answer in which the model asked for this has not come to its end: `broke_off` if the
    /// connection did, too. Where the program lets go of such calls, nothing has to come of this one;
    /// if it is said to have run, or its result comes back, it needs a decision as any other.
    pub fn cut_short(&mut self, id: &str, tool: &str, input: &Value, broke_off: bool) {
        let lets_go = match self.behaviour.unfinished {
            Unfinished::Runs => false,
            Unfinished::RunsUnlessBroken => broke_off,
            Unfinished::Tells => true,
        };
        let call = (tool.to_owned(), canonical(input));
        let same = |(open, asked): &(String, (String, String))| open == id && *asked == call;
        if let Some(place) = self.open.iter().rposition(same).filter(|_| lets_go) {
            self.open.remove(place);
        }
    }

    fn tally(&mut self, command: Option<String>, count: impl FnOnce(&mut Tally)) {
        if let Some(command) = command {
            count(self.commands.entry(command).or_default());
        }
    }

    /// The answer was no, by this rule: the model must be told so. Whoever is inside may end the hook
    /// that carries the answer, and some programs run the call then.
    pub fn denied(&mut self, id: Option<&str>, tool: &str, input: &Value, rule: &str) {
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
                self.unnamed_denials.entry(call).or_default().push(rule.to_owned());
            }
        }
    }

    /// Results that were there before this attempt began.
    pub fn remember(&mut self, id: &str) {
        if let Some(call) = self.asked.get(id).cloned() {
            self.consume_decision(&call);
        }
        self.back.insert(id.to_owned());
    }

    /// A result has come back to the model; tells whether it is new, as every request repeats those
    /// of the whole conversation.
    ///
    /// `failed` is what the request says of it, where its format can say that: whatever is marked as
    /// done was not refused, whatever it printed.
    pub fn came_back(
        &mut self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: Option<bool>,
    ) -> Result<bool, EnforcementBreach> {
        if !self.back.insert(id.to_owned()) {
            return self.came_again(id, tool, output, failed);
        }
        if self.says_not_run(id, output, failed) {
            self.spared.insert(id.to_owned());
        }
        let asked = self.asked.get(id);
        let tool = asked.map(|(tool, _)| tool.as_str()).or(tool).unwrap_or("an unknown tool");
        let refused = failed != Some(false) && self.was_refused(output);
        let own = |(open, (named, _)): &(String, (String, String))| match open.as_str() {
            "" => named == tool,
            open => open == id,
        };
        if let Some(place) = self.open.iter().position(own) {
            self.open.remove(place);
        }
        if self.behaviour.unhooked.contains(&tool) || refused {
            return Ok(true);
        }
        let tool = tool.to_owned();
        // Where calls have no names, the model's own name of it is not known here.
        let known = asked.is_some() || !self.behaviour.hooks_have_call_ids;
        let (decided, told) = match (self.behaviour.hooks_have_call_ids, asked.cloned()) {
            (true, _) => {
                let told = |rule: &String| self.tells(rule, output, failed);
                (self.decided.contains(id), self.denials.get(id).is_none_or(told))
            }
            (false, Some(call)) => {
                (self.consume_decision(&call), self.was_told(&call, output, failed))
            }
            (false, None) => match self.nameless_decided(&tool) {
                Some(call) => (self.consume_decision(&call), self.was_told(&call, output, failed)),
                None => (false, false),
            },
        };
        match decided && told {
            true => Ok(true),
            false => {
                let evidence = if known { Evidence::CameBack } else { Evidence::NeverAsked };
                Err(EnforcementBreach { id: id.to_owned(), tool, denied: decided, evidence })
            }
        }
    }

    /// A result that is known already. Whoever is inside can tell the model by himself that a call has
    /// not run; if the program says otherwise later, the call has run.
    fn came_again(
        &self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: Option<bool>,
    ) -> Result<bool, EnforcementBreach> {
        let contradicted = self.spared.contains(id) && !self.says_not_run(id, output, failed);
        if self.behaviour.forgets || !contradicted {
            return Ok(false);
        }
        let tool = self.asked.get(id).map(|(tool, _)| tool.as_str()).or(tool);
        let tool = tool.unwrap_or("an unknown tool").to_owned();
        let (id, denied) = (id.to_owned(), self.denials.contains_key(id));
        Err(EnforcementBreach { id, tool, denied, evidence: Evidence::CameBack })
    }

    /// Whether the model is told that the call was denied, or refused by the program itself.
    fn says_not_run(&self, id: &str, output: &str, failed: Option<bool>) -> bool {
        let denied = self.denials.get(id).is_some_and(|rule| self.tells(rule, output, failed));
        denied || failed != Some(false) && self.was_refused(output)
    }

    /// Whether this can be what came of a call without a name: as many denials as are left must still
    /// come back.
    fn was_told(&mut self, call: &(String, String), output: &str, failed: Option<bool>) -> bool {
        let left = self.unnamed.get(call).copied().unwrap_or_default();
        let Some(denials) = self.unnamed_denials.get(call) else { return true };
        let place = denials.iter().position(|rule| self.tells(rule, output, failed));
        let Some(denials) = self.unnamed_denials.get_mut(call) else { return true };
        if let Some(place) = place {
            denials.remove(place);
            return true;
        }
        u64::try_from(denials.len()).is_ok_and(|denials| denials <= left)
    }

    /// Whether the model is told of a denial by this rule: in the program's own words, and marked as a
    /// failure where that can be.
    fn tells(&self, rule: &str, output: &str, failed: Option<bool>) -> bool {
        let first = output.trim_start().lines().next().unwrap_or_default();
        failed != Some(false) && first.contains(self.behaviour.denial) && output.contains(rule)
    }

    /// The program says what came of a call. Where the attempt ends before the model hears of it, this is
    /// all that is ever known: a call that nobody had decided has run, in this attempt or in one before.
    ///
    /// It is also the word of another witness: whoever is inside can ask the model by himself, and tell
    /// it of a denial in the place of the program, so that what comes back later is taken for known.
    pub fn told(&mut self, id: &str, output: &str, failed: bool) {
        let Some((tool, _)) = self.asked.get(id) else { return };
        let unhooked = self.behaviour.unhooked.contains(&tool.as_str());
        let refused = failed && self.was_refused(output);
        let decided = !self.behaviour.hooks_have_call_ids || self.decided.contains(id);
        let denial = self.denials.get(id).filter(|_| self.behaviour.hooks_have_call_ids);
        let denied = denial.is_some_and(|rule| !self.tells(rule, output, Some(failed)));
        if !(unhooked || refused) && (!decided || denied) {
            let (id, tool) = (id.to_owned(), tool.clone());
            self.ran.push(EnforcementBreach { id, tool, denied, evidence: Evidence::ProgramSays });
        }
    }

    /// The program says that it has run a command, under whatever name: also one of the code that its model
    /// writes, of which the proxy sees nothing. Of one that was denied, it may have run no more than were
    /// allowed.
    pub fn told_command(&mut self, command: &str) {
        let Some(tally) = self.commands.get_mut(command.trim()) else {
            if self.behaviour.reports_commands {
                let (id, tool) = (command.trim().to_owned(), "the shell".to_owned());
                self.ran.push(EnforcementBreach {
                    id,
                    tool,
                    denied: false,
                    evidence: Evidence::ProgramSays,
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
                evidence: Evidence::ProgramSays,
            });
        }
    }

    /// The program says that it runs a call, under a name of its own. As with commands, what code of its
    /// model calls is seen by nobody else: files are changed by a patch that was allowed, and a server is
    /// called as often as it was allowed.
    pub fn told_call(&mut self, tool: &str, input: &Value) {
        if !self.behaviour.reports_commands {
            return;
        }
        let (held, denied) = match (about(input), input.get("changes").and_then(Value::as_array)) {
            _ if tool.starts_with("mcp__") => self.calls_server(tool, input),
            (_, Some(changes)) => (self.applies(changes), false),
            // Whether it was denied is asked when it has ended.
            (Some(command), None) => (self.commands.contains_key(&command), false),
            (None, None) => (true, false),
        };
        if !held {
            let id = about(input).unwrap_or_else(|| input.to_string());
            let tool = tool.to_owned();
            self.ran.push(EnforcementBreach { id, tool, denied, evidence: Evidence::ProgramSays });
        }
    }

    /// Whether a server may be called so once more, and whether it was denied. Where hooks cannot name the
    /// tool as it is, any call with this input is taken for it.
    fn calls_server(&mut self, tool: &str, input: &Value) -> (bool, bool) {
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

    /// Whether a patch that was allowed makes these changes; it does so once.
    fn applies(&mut self, changes: &[Value]) -> bool {
        let path = |change: &Value| change.get("path").and_then(Value::as_str).map(str::to_owned);
        let Some(paths) = changes.iter().map(path).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let makes =
            |patch: &String| paths.iter().all(|path| named(patch).any(|name| leads_to(name, path)));
        // One that names more may be what another change is made by.
        let exactly = |patch: &String| {
            makes(patch) && named(patch).all(|name| paths.iter().any(|path| leads_to(name, path)))
        };
        let patches = &self.patches;
        let place = patches.iter().position(exactly).or_else(|| patches.iter().position(makes));
        place.map(|place| self.patches.remove(place)).is_some()
    }

    /// A call that the program says it has run, although nobody had decided about it, or had denied it.
    pub fn ran_without_permission(&self) -> Option<EnforcementBreach> {
        self.ran.first().cloned()
    }

    /// A call of this attempt that nobody decided and whose result never came: it may have run.
    pub fn unaccounted(&self) -> Option<EnforcementBreach> {
        let open = |(_, (tool, _)): &&(String, (String, String))| {
            !self.behaviour.unhooked.contains(&tool.as_str())
        };
        let (id, (tool, _)) = self.open.iter().find(open)?;
        let (id, tool) = (id.clone(), tool.clone());
        Some(EnforcementBreach { id, tool, denied: false, evidence: Evidence::Unaccounted })
    }

    /// One decision is for one call.
    fn consume_decision(&mut self, call: &(String, String)) -> bool {
        match self.unnamed.get_mut(call) {
            Some(left @ 1..) => {
                *left -= 1;
                true
            }
            Some(0) | None => false,
        }
    }

    /// The first call of this tool that has no name and was decided.
    fn nameless_decided(&mut self, tool: &str) -> Option<(String, String)> {
        let fits = |call: &(String, String), unnamed: &BTreeMap<(String, String), u64>| {
            call.0 == tool && unnamed.get(call).is_some_and(|left| *left > 0)
        };
        let place = self.nameless.iter().position(|call| fits(call, &self.unnamed))?;
        Some(self.nameless.remove(place))
    }

    /// Questions about calls that the model has not asked for: made up by somebody inside.
    pub fn made_up(&self) -> u64 {
        let wrote = |code: &str| self.asked.values().any(|(tool, _)| tool == code);
        let of_code = self.behaviour.code.filter(|(tool, _)| wrote(tool)).map(|(_, names)| names);
        let unknown = |id: &&String| {
            !self.asked.contains_key(*id) && !of_code.is_some_and(|names| id.starts_with(names))
        };
        let unknown = self.decided.iter().filter(unknown).count();
        self.made_up.saturating_add(u64::try_from(unknown).unwrap_or(u64::MAX))
    }

    fn was_refused(&self, output: &str) -> bool {
        let output = output.trim_start();
        self.behaviour.refusals.iter().any(|beginning| output.starts_with(beginning))
    }
}
