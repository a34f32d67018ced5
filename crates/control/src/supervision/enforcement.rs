//! Whether the gate holds: every call whose result comes back to the model must have been decided.
//!
//! The model proxy sees what the model asks for and what comes back; the gate sees what it is asked.
//! A result without a decision means that a tool ran unseen, or that a hook has gone silent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

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
    /// What the first line has in which the model is told of a denial: words of the program, which no
    /// tool that ran can print there. Empty where it has none.
    pub denial: &'static str,
    /// Whether it shows the model less of earlier results as a conversation grows.
    pub forgets: bool,
    /// What becomes of calls in an answer that has not come to its end.
    pub unfinished: Unfinished,
    /// Whether it says of every command, patch and call of a server that it runs it, so that one which
    /// nobody decided ran unseen.
    pub tells_commands: bool,
    /// The tool whose input is code that makes calls, and how the names of those begin: the model has
    /// not asked for them by name.
    pub code: Option<(&'static str, &'static str)>,
}

/// What a program does with whole calls of an answer that has not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// It runs them as it runs any other.
    Runs,
    /// It runs none of them where the connection broke off, and all where the answer just stopped.
    RunsUnlessBroken,
    /// It runs some and drops others. Of all that it has run, it says so by the name of the call.
    Tells,
}

/// A limit may not have held.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the call {id} of {tool} came back with a result, and {}", self.why())]
pub struct Lost {
    /// The model's name of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Whether the gate had denied it; otherwise it was never asked.
    pub denied: bool,
}

impl Lost {
    fn why(&self) -> &'static str {
        if self.denied {
            "the gate had denied it, of which the model was not told"
        } else {
            "the gate was never asked about it"
        }
    }
}

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
    habits: Habits,
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
    ran: Vec<Lost>,
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
    pub fn new(habits: Habits) -> Self {
        Self {
            habits,
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
        if self.habits.tells_commands {
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
        let lets_go = match self.habits.unfinished {
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
        if self.habits.tells_commands {
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
            self.use_up(&call);
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
    ) -> Result<bool, Lost> {
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
        if self.habits.unhooked.contains(&tool) || refused {
            return Ok(true);
        }
        let tool = tool.to_owned();
        let (decided, told) = match (self.habits.names_calls, asked.cloned()) {
            (true, _) => {
                let told = |rule: &String| self.tells(rule, output, failed);
                (self.decided.contains(id), self.denials.get(id).is_none_or(told))
            }
            (false, Some(call)) => (self.use_up(&call), self.was_told(&call, output, failed)),
            (false, None) => match self.nameless_decided(&tool) {
                Some(call) => (self.use_up(&call), self.was_told(&call, output, failed)),
                None => (false, false),
            },
        };
        match decided && told {
            true => Ok(true),
            false => Err(Lost { id: id.to_owned(), tool, denied: decided }),
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
    ) -> Result<bool, Lost> {
        let contradicted = self.spared.contains(id) && !self.says_not_run(id, output, failed);
        if self.habits.forgets || !contradicted {
            return Ok(false);
        }
        let tool = self.asked.get(id).map(|(tool, _)| tool.as_str()).or(tool);
        let tool = tool.unwrap_or("an unknown tool").to_owned();
        Err(Lost { id: id.to_owned(), tool, denied: self.denials.contains_key(id) })
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
        failed != Some(false) && first.contains(self.habits.denial) && output.contains(rule)
    }

    /// The program says what came of a call. Where the attempt ends before the model hears of it, this is
    /// all that is ever known: a call that nobody had decided has run, in this attempt or in one before.
    ///
    /// It is also the word of another witness: whoever is inside can ask the model by himself, and tell
    /// it of a denial in the place of the program, so that what comes back later is taken for known.
    pub fn told(&mut self, id: &str, output: &str, failed: bool) {
        let Some((tool, _)) = self.asked.get(id) else { return };
        let unhooked = self.habits.unhooked.contains(&tool.as_str());
        let refused = failed && self.was_refused(output);
        let decided = !self.habits.names_calls || self.decided.contains(id);
        let denial = self.denials.get(id).filter(|_| self.habits.names_calls);
        let denied = denial.is_some_and(|rule| !self.tells(rule, output, Some(failed)));
        if !(unhooked || refused) && (!decided || denied) {
            self.ran.push(Lost { id: id.to_owned(), tool: tool.clone(), denied });
        }
    }

    /// The program says that it has run a command, under whatever name: also one of the code that its model
    /// writes, of which the proxy sees nothing. Of one that was denied, it may have run no more than were
    /// allowed.
    pub fn told_command(&mut self, command: &str) {
        let Some(tally) = self.commands.get_mut(command.trim()) else {
            if self.habits.tells_commands {
                let (id, tool) = (command.trim().to_owned(), "the shell".to_owned());
                self.ran.push(Lost { id, tool, denied: false });
            }
            return;
        };
        tally.ran = tally.ran.saturating_add(1);
        if tally.denied > 0 && tally.ran > tally.decided.saturating_sub(tally.denied) {
            let (id, tool) = (command.trim().to_owned(), "the shell".to_owned());
            self.ran.push(Lost { id, tool, denied: true });
        }
    }

    /// The program says that it runs a call, under a name of its own. As with commands, what code of its
    /// model calls is seen by nobody else: files are changed by a patch that was allowed, and a server is
    /// called as often as it was allowed.
    pub fn told_call(&mut self, tool: &str, input: &Value) {
        if !self.habits.tells_commands {
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
            self.ran.push(Lost { id, tool: tool.to_owned(), denied });
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
    pub fn ran_unheld(&self) -> Option<Lost> {
        self.ran.first().cloned()
    }

    /// A call of this attempt that nobody decided and whose result never came: it may have run.
    pub fn unaccounted(&self) -> Option<Lost> {
        let open = |(_, (tool, _)): &&(String, (String, String))| {
            !self.habits.unhooked.contains(&tool.as_str())
        };
        let (id, (tool, _)) = self.open.iter().find(open)?;
        Some(Lost { id: id.clone(), tool: tool.clone(), denied: false })
    }

    /// One decision is for one call.
    fn use_up(&mut self, call: &(String, String)) -> bool {
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
        let of_code = self.habits.code.filter(|(tool, _)| wrote(tool)).map(|(_, names)| names);
        let unknown = |id: &&String| {
            !self.asked.contains_key(*id) && !of_code.is_some_and(|names| id.starts_with(names))
        };
        let unknown = self.decided.iter().filter(unknown).count();
        self.made_up.saturating_add(u64::try_from(unknown).unwrap_or(u64::MAX))
    }

    fn was_refused(&self, output: &str) -> bool {
        let output = output.trim_start();
        self.habits.refusals.iter().any(|beginning| output.starts_with(beginning))
    }
}

/// The command that a call runs, where it is one; programs and their hooks call it differently.
fn about(input: &Value) -> Option<String> {
    let text = match input {
        Value::String(text) => Some(text.as_str()),
        Value::Object(fields) => {
            ["command", "cmd"].iter().find_map(|key| fields.get(*key)?.as_str())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    text.map(|text| text.trim().to_owned())
}

/// How a patch begins, alone or inside of a command.
const PATCH: &str = "*** Begin Patch";

/// The files that a patch names.
fn named(patch: &str) -> impl Iterator<Item = &str> {
    const WORDS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    patch.lines().filter_map(|line| WORDS.iter().find_map(|words| line.trim().strip_prefix(words)))
}

/// Whether a name in a patch can be this path: where it is looked for from is not known.
fn leads_to(name: &str, path: &str) -> bool {
    let mut end = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::ParentDir => end = PathBuf::new(),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => end.push(part),
        }
    }
    end.file_name().is_some() && Path::new(path).ends_with(end)
}

/// Whether a model and its hooks can be given a tool by this name. Other characters are replaced, and what
/// is too long is cut.
fn is_name(tool: &str) -> bool {
    const LONGEST: usize = 64;
    let fits = |one: char| one.is_ascii_alphanumeric() || one == '_';
    tool.len() <= LONGEST && tool.chars().all(fits)
}

/// The input of a call: one that has none may say so or not.
fn given(input: &Value) -> &Value {
    static NONE: Value = Value::Null;
    if input.as_object().is_some_and(serde_json::Map::is_empty) { &NONE } else { input }
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

    const NAMED: Habits = Habits {
        names_calls: true,
        unhooked: &["update_plan"],
        refusals: &["No such tool"],
        denial: "",
        forgets: true,
        unfinished: Unfinished::Runs,
        tells_commands: false,
        code: None,
    };

    #[test]
    fn a_result_without_a_decision_is_a_loss() {
        let mut watch = Watch::new(NAMED);
        let input = json!({"command": "ls"});
        watch.asked("a", "Bash", &input);
        watch.asked("b", "Bash", &input);
        watch.decided(Some("a"), "Bash", &input);
        assert_eq!(watch.came_back("a", None, "ok", None), Ok(true));
        assert_eq!(watch.came_back("a", None, "ok", None), Ok(false), "history is repeated");
        let lost = watch.came_back("b", None, "ok", None).unwrap_err();
        assert_eq!((lost.id.as_str(), lost.tool.as_str()), ("b", "Bash"));
        assert!(watch.came_back("c", Some("Bash"), "ok", None).is_err(), "nobody asked for it");
    }

    #[test]
    fn what_the_program_refuses_by_itself_and_what_has_no_hook_is_no_loss() {
        let mut watch = Watch::new(NAMED);
        watch.asked("a", "MultiEdit", &json!({}));
        watch.asked("b", "update_plan", &json!({}));
        assert_eq!(watch.came_back("a", None, "No such tool available: MultiEdit", None), Ok(true));
        assert_eq!(watch.came_back("b", None, "done", None), Ok(true));
        watch.asked("c", "Bash", &json!({}));
        let printed = watch.came_back("c", None, "No such tool available: x", Some(false));
        assert!(printed.is_err(), "it ran, and printed what looks like a refusal");
        watch.remember("old");
        assert_eq!(watch.came_back("old", Some("Bash"), "from before", None), Ok(false));
    }

    #[test]
    fn a_call_that_the_program_says_it_has_run_undecided_is_not_forgotten() {
        let mut watch = Watch::new(NAMED);
        for (id, tool) in [("a", "Bash"), ("b", "Bash"), ("c", "update_plan"), ("d", "Bash")] {
            watch.asked(id, tool, &json!({"command": id}));
        }
        watch.decided(Some("a"), "Bash", &json!({"command": "a"}));
        watch.told("a", "it ran", false);
        watch.told("c", "it ran", false);
        watch.told("d", "No such tool available", true);
        watch.told("item_0", "a name of the program's own", false);
        assert_eq!(watch.ran_unheld(), None);
        watch.told("b", "No such tool, it printed", false);
        watch.settle();
        let lost = watch.ran_unheld().unwrap();
        assert_eq!(
            (lost.id.as_str(), lost.denied),
            ("b", false),
            "an attempt that ends forgives nothing"
        );
    }

    /// Somebody inside tells the model of the denial before the program does, and so spends the one
    /// result that is looked at.
    #[test]
    fn a_denied_call_that_the_program_says_it_has_run_is_a_loss_whoever_told_the_model() {
        let input = json!({"command": "git push"});
        for (output, failed, held) in [
            ("hook: policy::git: no", true, true),
            ("No such tool, says the program", true, true),
            ("pushed", false, false),
            ("policy::git", false, false),
            ("Exit code 1", true, false),
        ] {
            let mut watch = Watch::new(NAMED);
            watch.asked("a", "Bash", &input);
            watch.decided(Some("a"), "Bash", &input);
            watch.denied(Some("a"), "Bash", &input, "policy::git");
            assert_eq!(watch.came_back("a", None, "policy::git: no", Some(true)), Ok(true));
            assert_eq!(watch.came_back("a", None, output, Some(failed)), Ok(false), "known");
            watch.told("a", output, failed);
            assert_eq!(watch.ran_unheld().is_none(), held, "{output}");
            assert!(watch.ran_unheld().is_none_or(|lost| lost.denied), "{output}");
        }
    }

    /// Some calls reach no hook and no stream of the program: what comes back is all that is seen of them.
    #[test]
    fn a_result_that_contradicts_what_the_model_was_told_before_is_a_loss() {
        let input = json!({"command": "git push"});
        for (forgets, first, second, held) in [
            (false, "No such tool: x", "No such tool: x", true),
            (false, "No such tool: x", "pushed", false),
            (false, "hook: policy::git: no", "pushed", false),
            (true, "No such tool: x", "[cleared]", true),
        ] {
            let mut watch = Watch::new(Habits { forgets, ..NAMED });
            watch.asked("a", "Typing", &input);
            if first.contains("policy") {
                watch.decided(Some("a"), "Typing", &input);
                watch.denied(Some("a"), "Typing", &input, "policy::git");
            }
            assert_eq!(watch.came_back("a", None, first, None), Ok(true));
            assert_eq!(watch.came_back("a", None, first, None), Ok(false));
            assert_eq!(watch.came_back("a", None, second, None).is_ok(), held, "{second}");
        }
        // What has run may be shown in another way later.
        let mut watch = Watch::new(Habits { forgets: false, ..NAMED });
        watch.asked("a", "Bash", &input);
        watch.decided(Some("a"), "Bash", &input);
        assert_eq!(watch.came_back("a", None, "pushed, and much more", None), Ok(true));
        assert_eq!(watch.came_back("a", None, "pushed …", None), Ok(false));
    }

    #[test]
    fn a_command_that_nobody_decided_is_a_loss_where_the_program_tells_of_all() {
        let input = json!({"command": "git push"});
        for (tells_commands, lost) in [(true, true), (false, false)] {
            let mut watch = Watch::new(Habits { tells_commands, ..NAMED });
            assert!(watch.decided(Some("inner"), "Bash", &input));
            watch.told_command("git push\n");
            assert_eq!(watch.ran_unheld(), None, "it was decided");
            watch.told_command("git push --force");
            assert_eq!(watch.ran_unheld().is_some_and(|lost| !lost.denied), lost);
        }
    }

    #[test]
    fn files_that_no_allowed_patch_changes_are_a_loss_where_the_program_tells_of_all() {
        let patch = |name: &str| json!({"command": format!("*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch")});
        let changes = |path: &str| json!({"changes": [{"path": path, "kind": "add"}]});
        for (decided, denied, path, held) in [
            (Some("src/a.txt"), false, "/work/src/a.txt", true),
            (Some("./src/a.txt"), false, "/work/src/a.txt", true),
            (Some("../b/src/a.txt"), false, "/b/src/a.txt", true),
            (Some("/work/src/a.txt"), false, "/work/src/a.txt", true),
            (Some("src/a.txt"), true, "/work/src/a.txt", false),
            (Some("src/a.txt"), false, "/work/src/b.txt", false),
            (Some(".."), false, "/work/src/b.txt", false),
            (None, false, "/work/src/a.txt", false),
        ] {
            let mut watch = Watch::new(Habits { tells_commands: true, ..NAMED });
            if let Some(name) = decided {
                watch.decided(Some("exec-1"), "apply_patch", &patch(name));
            }
            if denied {
                watch.denied(Some("exec-1"), "apply_patch", &patch("src/a.txt"), "scope");
            }
            watch.told_call("apply_patch", &changes(path));
            assert_eq!(watch.ran_unheld().is_none(), held, "{decided:?} {path}");
            watch.told_call("apply_patch", &changes(path));
            assert!(watch.ran_unheld().is_some(), "one patch is applied once");
        }
        // The one that names no more is taken first.
        let both = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: b\n+x\n*** End Patch";
        let mut watch = Watch::new(Habits { tells_commands: true, ..NAMED });
        watch.decided(Some("exec-1"), "apply_patch", &json!({"command": both}));
        watch.decided(Some("exec-2"), "apply_patch", &patch("a"));
        watch.told_call("apply_patch", &changes("/work/a"));
        let all = json!({"changes": [{"path": "/work/a"}, {"path": "/work/b"}]});
        watch.told_call("apply_patch", &all);
        assert_eq!(watch.ran_unheld(), None, "both were allowed");
        let mut watch = Watch::new(NAMED);
        watch.told_call("apply_patch", &changes("/work/a"));
        assert_eq!(watch.ran_unheld(), None, "another program does not tell of all");
    }

    #[test]
    fn a_server_is_called_as_often_as_it_was_allowed_and_no_more() {
        for (input, told) in [
            (json!({"text": "hi", "to": 1}), json!({"to": 1, "text": "hi"})),
            (json!({}), Value::Null),
        ] {
            let mut watch = Watch::new(Habits { tells_commands: true, ..NAMED });
            watch.decided(Some("exec-1"), "mcp__notes__say", &input);
            watch.decided(Some("exec-2"), "mcp__notes__say", &input);
            watch.denied(Some("exec-2"), "mcp__notes__say", &input, "tools");
            watch.told_call("mcp__notes__say", &told);
            assert_eq!(watch.ran_unheld(), None, "one was allowed");
            watch.told_call("mcp__notes__say", &told);
            assert!(watch.ran_unheld().unwrap().denied);
        }
        let mut watch = Watch::new(Habits { tells_commands: true, ..NAMED });
        watch.told_call("mcp__notes__say", &json!({"text": "hi"}));
        assert!(!watch.ran_unheld().unwrap().denied, "nobody was asked");
    }

    #[test]
    fn a_server_is_called_by_the_tool_that_was_allowed_and_by_no_other() {
        let input = json!({"id": 1});
        let long = format!("mcp__notes__{}", "x".repeat(60));
        for (decided, told, held) in [
            ("mcp__notes__read", "mcp__notes__read", true),
            ("mcp__notes__read", "mcp__notes__delete", false),
            ("mcp__notes__read", "mcp__other__read", false),
            // The hook has another name for it.
            ("mcp__my_notes__read", "mcp__my-notes__read", true),
            ("mcp__notes__xxx_0123abcd", long.as_str(), true),
        ] {
            let mut watch = Watch::new(Habits { tells_commands: true, ..NAMED });
            watch.decided(Some("exec-1"), decided, &input);
            watch.told_call(told, &input);
            assert_eq!(watch.ran_unheld().is_none(), held, "{decided} {told}");
            watch.told_call(told, &input);
            assert!(watch.ran_unheld().is_some(), "{told}: one was allowed");
        }
        // Where the hook has the same name, that one counts.
        let mut watch = Watch::new(Habits { tells_commands: true, ..NAMED });
        watch.decided(Some("exec-1"), "mcp__my-notes__read", &input);
        watch.denied(Some("exec-1"), "mcp__my-notes__read", &input, "tools");
        watch.decided(Some("exec-2"), "mcp__notes__read", &input);
        watch.told_call("mcp__my-notes__read", &input);
        assert!(watch.ran_unheld().unwrap().denied);
    }

    #[test]
    fn a_command_that_nobody_decided_is_a_loss_before_it_has_ended() {
        let mut watch = Watch::new(Habits { tells_commands: true, ..NAMED });
        watch.decided(Some("exec-1"), "Bash", &json!({"command": "ls"}));
        watch.told_call("exec_command", &json!({"command": "ls"}));
        assert_eq!(watch.ran_unheld(), None);
        watch.told_call("exec_command", &json!({"command": "sleep 1000"}));
        assert!(watch.ran_unheld().is_some());
    }

    #[test]
    fn a_command_that_was_denied_is_run_as_often_as_it_was_allowed_and_no_more() {
        let input = json!({"cmd": "git push "});
        for names_calls in [true, false] {
            let mut watch = Watch::new(Habits { names_calls, ..NAMED });
            watch.told_command("git push");
            assert_eq!(watch.ran_unheld(), None, "nobody has asked");
            let mut name = |number: u32, denied: bool| {
                let name = format!("call-{number}");
                let id = names_calls.then_some(name.as_str());
                watch.asked(&name, "shell", &input);
                assert!(watch.decided(id, "shell", &input));
                if denied {
                    watch.denied(id, "shell", &input, "policy::git");
                }
            };
            name(0, true);
            name(1, false);
            name(2, true);
            watch.told_command("git push");
            watch.told_command("git status");
            assert_eq!(watch.ran_unheld(), None, "one was allowed");
            watch.told_command("git push");
            assert!(watch.ran_unheld().unwrap().denied);
        }
    }

    #[test]
    fn an_answer_is_not_for_another_call_of_the_same_name() {
        let mut watch = Watch::new(NAMED);
        let (list, remove) = (json!({"command": "ls"}), json!({"command": "rm"}));
        watch.asked("a", "Bash", &list);
        watch.decided(Some("a"), "Bash", &list);
        watch.asked("a", "Bash", &list);
        assert_eq!(watch.came_back("a", None, "ok", None), Ok(true), "the same, told again");
        watch.asked("a", "Bash", &remove);
        assert_eq!(watch.unaccounted().unwrap().id, "a");
        assert!(watch.came_back("a", None, "ok", None).is_err(), "rm was never decided");
        watch.asked("b", "Write", &json!({"file_path": "x"}));
        watch.decided(Some("b"), "Write", &json!({"file_path": "x"}));
        watch.asked("b", "Write", &json!({"file_path": "y"}));
        assert!(watch.came_back("b", None, "ok", None).is_err(), "y was never decided");
    }

    #[test]
    fn calls_without_names_are_matched_one_to_one_by_what_they_are() {
        let habits = Habits { names_calls: false, ..NAMED };
        let mut watch = Watch::new(habits);
        let input = json!({"command": "ls", "dir": 1});
        watch.asked("a", "shell", &input);
        watch.asked("b", "shell", &input);
        watch.decided(None, "shell", &json!({"dir": 1, "command": "ls"}));
        assert_eq!(watch.came_back("a", None, "ok", None), Ok(true));
        assert!(watch.came_back("b", None, "ok", None).is_err(), "one decision is for one call");
        watch.asked("c", "shell", &json!({"command": "rm"}));
        watch.decided(None, "shell", &input);
        assert!(watch.came_back("c", None, "ok", None).is_err(), "decided was another command");
    }

    #[test]
    fn calls_that_the_model_gave_no_name_are_found_by_their_tool() {
        let mut watch = Watch::new(Habits { names_calls: false, ..NAMED });
        let (list, remove) = (json!({"command": "ls"}), json!({"command": "rm"}));
        watch.asked("", "shell", &list);
        watch.asked("", "shell", &remove);
        watch.decided(None, "shell", &list);
        assert_eq!(watch.came_back("shell-1", Some("shell"), "ok", None), Ok(true));
        assert!(
            watch.came_back("shell-2", Some("shell"), "ok", None).is_err(),
            "rm was never decided"
        );
    }

    #[test]
    fn a_denial_of_which_the_model_is_not_told_is_a_loss() {
        let mut watch = Watch::new(NAMED);
        let input = json!({"command": "git push"});
        for id in ["a", "b", "c"] {
            watch.asked(id, "Bash", &input);
            watch.decided(Some(id), "Bash", &input);
            watch.denied(Some(id), "Bash", &input, "policy::git");
        }
        assert_eq!(watch.came_back("a", None, "hook: policy::git: no.", None), Ok(true));
        assert!(watch.came_back("b", None, "pushed", None).unwrap_err().denied);
        let printed = watch.came_back("c", None, "policy::git", Some(false));
        assert!(printed.is_err(), "it ran, and printed what looks like a denial");
        let mut watch = Watch::new(Habits { names_calls: false, ..NAMED });
        for id in ["a", "b"] {
            watch.asked(id, "shell", &input);
            watch.decided(None, "shell", &input);
        }
        watch.denied(None, "shell", &input, "policy::git");
        assert_eq!(watch.came_back("a", None, "pushed", None), Ok(true), "one was allowed");
        assert!(watch.came_back("b", None, "pushed", None).unwrap_err().denied);
    }

    #[test]
    fn questions_about_no_call_are_counted() {
        let mut watch = Watch::new(NAMED);
        watch.decided(Some("forged"), "Bash", &json!({}));
        assert_eq!(watch.made_up(), 1);
    }

    #[test]
    fn calls_of_code_that_the_model_wrote_are_not_made_up() {
        let mut watch = Watch::new(Habits { code: Some(("exec", "exec-")), ..NAMED });
        watch.decided(Some("exec-1"), "Bash", &json!({}));
        assert_eq!(watch.made_up(), 1, "nobody has written code");
        watch.asked("a", "exec", &json!("await tools.exec_command({cmd: 'ls'})"));
        assert_eq!(watch.made_up(), 0);
        watch.decided(Some("forged"), "Bash", &json!({}));
        assert_eq!(watch.made_up(), 1);
    }

    #[test]
    fn an_answer_about_another_command_does_not_count() {
        let mut watch = Watch::new(NAMED);
        watch.asked("a", "exec_command", &json!({"cmd": "git push"}));
        assert!(!watch.decided(Some("a"), "Bash", &json!({"command": "echo hi"})));
        assert!(watch.came_back("a", None, "pushed", None).is_err());
        assert_eq!(watch.made_up(), 1);
        watch.asked("b", "exec_command", &json!({"cmd": "ls"}));
        assert!(watch.decided(Some("b"), "Bash", &json!({"command": "ls"})));
        assert_eq!(watch.came_back("b", None, "a b c", None), Ok(true));
    }

    #[test]
    fn a_denial_is_told_in_the_words_of_the_program_and_not_by_the_command() {
        let habits = Habits { denial: "blocked by PreToolUse hook: ", ..NAMED };
        for (output, held) in [
            ("Command blocked by PreToolUse hook: policy::x: no", true),
            ("Chunk ID: 1\nOutput:\nblocked by PreToolUse hook: policy::x", false),
            ("policy::x", false),
        ] {
            let mut watch = Watch::new(habits);
            let input = json!({"cmd": "git push"});
            watch.asked("a", "exec_command", &input);
            watch.decided(Some("a"), "Bash", &json!({"command": "git push"}));
            watch.denied(Some("a"), "Bash", &input, "policy::x");
            assert_eq!(watch.came_back("a", None, output, None).is_ok(), held, "{output}");
        }
    }

    #[test]
    fn a_call_of_an_answer_that_broke_off_is_let_go_where_the_program_does_and_held_if_it_ran() {
        let input = json!({"command": "ls"});
        for (unfinished, broke_off, let_go) in [
            (Unfinished::Runs, true, false),
            (Unfinished::Runs, false, false),
            (Unfinished::RunsUnlessBroken, true, true),
            (Unfinished::RunsUnlessBroken, false, false),
            (Unfinished::Tells, true, true),
            (Unfinished::Tells, false, true),
        ] {
            let mut watch = Watch::new(Habits { unfinished, ..NAMED });
            watch.asked("a", "Bash", &input);
            watch.cut_short("a", "Bash", &input, broke_off);
            assert_eq!(watch.unaccounted().is_none(), let_go, "{unfinished:?}, {broke_off}");
            // Whatever is known of it later counts all the same.
            let mut told = watch.clone();
            told.told("a", "a b c", false);
            assert_eq!(told.ran_unheld().unwrap().id, "a", "{unfinished:?}");
            assert!(watch.came_back("a", None, "a b c", None).is_err(), "{unfinished:?}");
        }
        let mut watch = Watch::new(Habits { unfinished: Unfinished::Tells, ..NAMED });
        watch.asked("a", "Bash", &input);
        watch.asked("a", "Bash", &input);
        watch.cut_short("a", "Bash", &input, true);
        watch.cut_short("a", "Bash", &json!({"command": "rm"}), true);
        assert!(watch.unaccounted().is_some(), "one was cut short, and not the other");
    }

    #[test]
    fn a_call_that_nobody_decided_and_that_never_came_back_is_unaccounted_for() {
        let mut watch = Watch::new(NAMED);
        watch.asked("a", "Bash", &json!({"command": "ls"}));
        watch.asked("b", "Bash", &json!({"command": "rm"}));
        watch.decided(Some("a"), "Bash", &json!({"command": "ls"}));
        assert_eq!(watch.unaccounted().unwrap().id, "b");
        watch.settle();
        assert_eq!(watch.unaccounted(), None, "that was an earlier attempt");
        let mut watch = Watch::new(Habits { names_calls: false, ..NAMED });
        watch.asked("x", "shell", &json!({"command": "ls"}));
        assert!(watch.unaccounted().is_some());
        watch.decided(None, "shell", &json!({"command": "ls"}));
        assert_eq!(watch.unaccounted(), None);
    }
}
